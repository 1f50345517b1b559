//! Applying and undoing changes of the host.
//!
//! - `apply`: applies and undoes single steps;
//! - `journal`: records each step before it is applied, and undoes them in reverse; `leftovers`: changes of
//!   dead runs;
//! - `claim`: exclusive use of a core; `configuration`: configuration files; `hugepages`: reserving huge
//!   pages.

pub mod apply;
pub mod claim;
pub mod configuration;
pub mod hugepages;
pub mod journal;
pub mod leftovers;
