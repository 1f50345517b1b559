//! Live runs in network namespaces. They need root, and print `SKIPPED` without it.
//!
//! - [`bed`]: starts runs and reads their results; [`host`]: state of the machine;
//! - [`programs`]: devices that are programs, in all deployments;
//! - [`devices`], [`patterns`], [`accounting`], [`breakdown`]: measured values, and a complete account of all
//!   packets;
//! - [`kept`]: devices shared by several trials; [`energy`]: energy of trials;
//! - [`traced`]: kernel traces; [`untraceable`]: error messages for damaged traced runs;
//! - [`ids`]: intrusion prevention systems, if installed;
//! - [`searches`]: searches for the highest rate of a device;
//! - [`failing`], [`ending`], [`soaks`]: failures, and the data kept after them;
//! - [`cleanliness`], [`errors`]: changes left on the machine, and error messages of runs that can't start.
//!
//! Most runs here neither isolate cores nor use real-time priority, so that they can run concurrently with
//! other programs. A limit on late packets or stalls would then test the machine.

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
