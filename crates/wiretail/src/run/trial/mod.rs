//! One trial, from the first packet to its validity.
//!
//! - [`session`] starts a device, measures it in one or more trials, and stops it;
//! - [`execution`] executes one trial of a session, with its generator, devices and counters;
//! - [`recorder`] and [`store`] read the taps' timestamps and store them; [`soak`] stores one record per
//!   second instead of packets;
//! - [`tracing`], [`energy`] and [`interrupts`] take further measurements during a trial;
//! - [`pauses`] decides whether a long trial pauses, so that ordinary tasks do not starve;
//! - [`validity`] checks whether the numbers describe the device.

pub mod attempt;
pub mod energy;
pub mod execution;
pub mod interrupts;
pub mod pauses;
pub mod progress;
pub mod record;
pub mod recorder;
pub mod session;
pub mod soak;
pub mod store;
pub mod tracing;
pub mod validity;
