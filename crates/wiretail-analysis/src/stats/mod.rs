//! Statistics that the other modules share, one definition of each.
//!
//! - [`counts`]: the exact multiset of delays;
//! - [`quantile`]: percentiles of a multiset, their confidence intervals, bounds of shares;
//! - [`list`]: percentiles, median and median absolute deviation of lists;
//! - [`random`]: the random numbers of a seed and what is drawn of them.
//!
//! A percentile is of nearest rank everywhere (Hyndman and Fan, The American Statistician 50, 1996, definition 1), and the
//! median is the percentile of a half: each is a value that was measured, so two numbers of one report never differ by definition.
//! [`Share::rank`](wiretail_schema::units::Share::rank) is the one place that computes the rank. Two formats keep the definitions of
//! others: the published pipeline's `percentile_disc` ([`crate::published`]) and HdrHistogram's `.hgrm`.

pub mod counts;
mod exponential;
pub mod list;
pub mod quantile;
pub mod random;
