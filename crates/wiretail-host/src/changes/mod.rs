//! Applying and undoing changes of the host.
//!
//! - `apply`: applies and undoes single steps;
//! - `journal`: records each step before it is applied, and undoes all steps in reverse order;
//! - `leftovers`: finds and undoes changes left by dead runs;
//! - `claim`: gives a run exclusive use of a core;
//! - `commands`: runs commands of the user, and ends their processes;
//! - `configuration`: installs configuration files;
//! - `hugepages`: reserves huge pages.

pub mod apply;
pub mod claim;
pub mod commands;
pub mod configuration;
pub mod hugepages;
pub mod journal;
pub mod leftovers;
