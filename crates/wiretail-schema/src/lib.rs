//! What Wiretail writes down: units, packet records, results, figures. No I/O.
//!
//! - [`units`]: durations, rates, percentiles, budgets, frame sizes, sets of cores: parsed from text with their unit,
//!   never from a bare number;
//! - [`packet`]: a packet record: timestamp, key, flow, length;
//! - [`experiment`]: what is measured, under which load, how often; [`run`]: what was done, and whether it is valid;
//! - [`summary`]: the results of an analysis, and the figures' data; [`causes`]: why packets were late;
//! - [`prediction`] and [`search`]: other loads; [`host`]: a host's record, audit, plan, ablation;
//! - [`random`]: the random numbers of a seed.
//!
//! Every crate of the workspace depends on this one, and this one on none of them.

// The documentation of items becomes the descriptions in the JSON Schemas.
#![warn(missing_docs)]

pub mod causes;
pub mod experiment;
pub mod host;
pub mod packet;
pub mod prediction;
pub mod random;
pub mod run;
pub mod search;
pub mod summary;
pub mod units;
