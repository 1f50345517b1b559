//! Predictions: behavior under another load, and delays beyond the measured ones.
//!
//! - [`capacity`]: the highest rate, by a formula;
//! - [`sampling`]: packets that coincide with interrupts;
//! - [`queueing`]: a simulation of the path, calibrated by measured trials;
//! - [`tail`]: extreme values, from the highest delays measured.

pub mod capacity;
pub mod queueing;
pub mod sampling;
pub mod tail;
