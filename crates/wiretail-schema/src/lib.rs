//! Data types shared by all Wiretail crates: units, packet records, results and figures. No I/O.
//!
//! - [`units`]: durations, rates, percentiles, budgets, frame sizes and sets of cores. They are parsed from
//!   text with a unit, never from a bare number.
//! - [`packet`]: a packet record: timestamp, key, flow and length.
//! - [`experiment`]: the experiment file: devices, loads, repeats. [`run`]: the trials that were executed,
//!   and their validity.
//! - [`summary`]: the results of an analysis and the data of its figures. [`causes`]: explanations of late
//!   packets.
//! - [`comparison`]: differences between groups of trials.
//! - [`prediction`] and [`search`]: results for other loads. [`host`]: a host's record, audit, plan and
//!   ablation.
//! - [`random`]: a seeded random number generator.
//!
//! Every other crate of the workspace depends on this one. This crate depends on no other workspace crate.

// Doc comments of items become the descriptions in the JSON Schemas.
#![warn(missing_docs)]

pub mod causes;
pub mod comparison;
pub mod experiment;
pub mod host;
pub mod packet;
pub mod prediction;
pub mod random;
pub mod run;
pub mod search;
pub mod summary;
pub mod units;
