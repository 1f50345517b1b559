//! One trial, from the first packet to the verdict on its validity.
//!
//! - [`session`]: a device that is started, measured by one trial or several, and stopped;
//! - [`execution`]: one trial in it: recorders, generator, device, counters;
//! - [`recorder`] and [`store`]: what becomes of the stamped packets; [`soak`]: a record a second instead of packets;
//! - [`tracing`], [`energy`], [`interrupts`]: what is measured beside the packets;
//! - [`validity`]: whether the numbers mean anything.

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
