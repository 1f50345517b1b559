//! What another load would do, and which delays are still to come.
//!
//! - [`capacity`]: the highest rate, by a formula;
//! - [`sampling`]: which packets meet interrupts;
//! - [`queueing`]: a simulation of the path, calibrated by measured trials;
//! - [`tail`]: extreme values, from the highest delays measured.

pub mod capacity;
pub mod queueing;
pub mod sampling;
pub mod tail;
