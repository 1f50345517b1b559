//! placeholder
pub mod counts;
pub mod intervals;
pub mod matching;
pub mod published;
pub mod quantile;
pub mod reordering;
pub mod tap;
pub mod variation;
pub mod worst;
