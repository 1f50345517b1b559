//! Per-packet metrics, tallied in one streaming pass with bounded memory.
//!
//! - [`tap`]: rate, gaps and timestamp quality of each tap;
//! - [`measurement`]: the matcher's outcomes, passed to every tally below;
//! - [`batches`]: delays per batch of packets, to estimate how packets depend on each other;
//! - [`reordering`], [`variation`] (IPDV, RFC 3550 jitter), [`worst`], [`intervals`]: one metric per file;
//! - [`energy`]: joules from a meter's readings.

pub mod batches;
pub mod energy;
pub mod intervals;
pub mod measurement;
pub mod reordering;
pub mod tap;
pub mod variation;
pub mod worst;
