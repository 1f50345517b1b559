//! What is measured of each packet, tallied in one streaming pass with bounded memory.
//!
//! - [`tap`]: each tap by itself: rate, gaps, timestamp quality;
//! - [`measurement`]: the matcher's outcomes, handed to every tally below;
//! - [`reordering`], [`variation`] (IPDV, RFC 3550 jitter), [`worst`], [`intervals`]: one metric a file;
//! - [`energy`]: joules from a meter's readings.

pub mod energy;
pub mod intervals;
pub mod measurement;
pub mod reordering;
pub mod tap;
pub mod variation;
pub mod worst;
