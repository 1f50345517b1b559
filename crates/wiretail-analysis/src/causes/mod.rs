//! Causes of late packets.
//!
//! - [`attribution`]: per packet, from a kernel trace of the device's core;
//! - [`interrupts`]: without a trace, which interrupt counters rose while packets were late;
//! - [`periodicity`]: without a trace, regular patterns among late packets, and the clock or packet count
//!   they follow;
//! - [`ground_truth`]: comparison of the attribution with injected causes.

pub mod attribution;
pub mod ground_truth;
pub mod interrupts;
pub mod periodicity;
