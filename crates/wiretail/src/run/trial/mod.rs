//! One trial, from the first packet to its validity.
//!
//! - [`session`]: a device that is started, measured by one or several trials, and stopped;
//! - [`execution`]: one trial in a session: generator, devices, counters;
//! - [`recorder`] and [`store`]: timestamps of the taps and their storage; [`soak`]: one record per second
//!   instead of packets;
//! - [`tracing`], [`energy`], [`interrupts`]: measurements besides the packets;
//! - [`validity`]: whether the numbers describe the device.

pub mod attempt;
pub mod energy;
pub mod execution;
pub mod interrupts;
pub mod progress;
pub mod record;
pub mod recorder;
pub mod session;
pub mod soak;
pub mod store;
pub mod tracing;
pub mod validity;
