//! Changing the host and undoing it.
//!
//! - `step`: the steps and the plan, as data; `apply` carries one out and undoes it;
//! - `journal`: write down, then do; undo in reverse; `leftovers`: what dead runs left behind;
//! - `claim`: one run at a time on a core; `configuration`: configuration files; `hugepages`: reserving huge pages.

pub mod apply;
pub mod claim;
pub mod configuration;
pub mod hugepages;
pub mod journal;
pub mod leftovers;
