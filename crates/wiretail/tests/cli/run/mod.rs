//! Live runs in network namespaces: they need root, and skip visibly without.
//!
//! - [`bed`]: starting a run, reading what it left; [`host`]: what the machine looks like;
//! - [`programs`]: devices that are programs, in all deployments;
//! - [`devices`], [`patterns`], [`accounting`], [`breakdown`]: what is measured, and that every packet is accounted for;
//! - [`kept`]: devices that several trials share; [`energy`]: what it took;
//! - [`traced`]: what the kernel did meanwhile; [`untraceable`]: what is said of such a run that was damaged;
//! - [`ids`]: intrusion prevention systems, where they are installed;
//! - [`searches`]: which rate a device takes;
//! - [`failing`], [`ending`], [`soaks`]: what goes wrong, and what is kept then;
//! - [`cleanliness`], [`errors`]: what stays on the machine, and what is said where a run can't be.
//!
//! Most runs here leave the cores as they are and without real-time priority, so that they may run
//! beside anything else; a limit on late packets or stalls would then be a limit on the machine.

mod accounting;
pub mod bed;
mod breakdown;
mod cleanliness;
mod devices;
mod ending;
mod energy;
mod errors;
mod host;
mod patterns;
mod plans;
mod searches;
mod soaks;
mod traced;

pub use bed::{Turn, can_run, live};
