//! Pure functions from packet records to numbers.
//!
//! Invariant: this crate reads no file, clock or environment variable, prints nothing and starts no thread. Times,
//! seeds and sizes are arguments; results are data of `wiretail-schema`.
//!
//! A capture pair passes through [`matching`], [`metrics`] and [`summary`]. A soak passes through [`soak`],
//! which matches while packets arrive and yields one record per half second. [`comparison`] compares results.
//! [`causes`] explains late packets. [`prediction`] and [`search`] extrapolate to other loads. [`host`] audits
//! settings and plans changes. [`stats`] holds the statistics that the other modules share.
//!
//! [`published`] is independent of the rest. It implements the semantics of the published PostgreSQL
//! pipeline, so that results equal its output byte for byte.

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
