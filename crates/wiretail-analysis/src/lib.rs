//! Pure functions from packet records to numbers.
//!
//! Invariant: this crate reads no file, clock or environment variable, prints nothing and starts no thread. Times,
//! seeds and sizes are arguments; results are data of `wiretail-schema`.
//!
//! A capture pair passes [`matching`], [`metrics`], [`summary`]; a soak passes [`soak`], which matches while packets
//! arrive and writes a record a second. [`comparison`] sets results side by side. [`causes`] explains late packets,
//! [`prediction`] and [`search`] answer for other loads, [`host`] judges and plans settings. [`stats`] holds the
//! statistics that all of them share.
//!
//! [`published`] stands apart: the semantics of the published PostgreSQL pipeline, for results that equal its output
//! byte for byte.

pub mod causes;
pub mod comparison;
pub mod host;
pub mod matching;
pub mod metrics;
pub mod prediction;
pub mod published;
pub mod search;
pub mod soak;
pub mod stats;
pub mod summary;
