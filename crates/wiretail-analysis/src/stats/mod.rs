//! Statistics that the other modules share, one definition of each.
//!
//! - [`counts`]: the exact multiset of delays;
//! - [`quantile`]: percentiles and their confidence intervals.

pub mod counts;
pub mod quantile;
