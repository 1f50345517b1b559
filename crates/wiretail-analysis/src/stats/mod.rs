//! Statistics shared by the other modules, with one definition each.
//!
//! - [`counts`]: exact multiset of delays;
//! - [`quantile`]: percentiles of a multiset, their confidence intervals, and bounds of shares;
//! - [`dispersion`]: how much counts of dependent packets vary;
//! - [`list`]: percentiles, median and median absolute deviation of lists;
//! - [`random`]: seeded random numbers and distributions;
//! - [`ranks`]: exact rank tests of trials, and predictions for the next ones;
//! - [`steadiness`]: changes of the level within a series.
//!
//! Percentiles use the nearest rank everywhere (Hyndman and Fan, The American Statistician 50, 1996,
//! definition 1), and the median is the 50th percentile. Each is a measured value. Numbers in a report never
//! differ only because of different definitions. [`Share::rank`](wiretail_schema::units::Share::rank) is the
//! only place that computes the rank. Two formats keep their own definitions: the published pipeline's
//! `percentile_disc` ([`crate::published`]) and HdrHistogram's `.hgrm`.

pub mod counts;
pub mod dispersion;
mod exponential;
pub mod list;
pub mod quantile;
pub mod random;
pub mod ranks;
pub mod steadiness;
