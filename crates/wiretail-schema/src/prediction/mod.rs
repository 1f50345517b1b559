//! Predictions of a device's behavior under other loads.
//!
//! - [`capacity`]: the highest rate, from a formula. [`deployments`] parses its inputs.
//! - [`sampling`]: a simulation of the packets that meet interrupts.
//! - [`interrupt`]: the text notation of an interrupt, used by both.
//! - [`tail`]: extrapolation from the highest measured delays to delays not yet measured.
//! - [`queueing`]: a simulation of the path. [`calibration`](queueing::calibration) documents how its model
//!   was obtained and how accurate it was.

pub mod capacity;
pub mod deployments;
pub mod interrupt;
pub mod queueing;
pub mod sampling;
pub mod tail;
