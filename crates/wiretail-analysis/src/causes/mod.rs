//! Causes of late packets.
//!
//! - [`attribution`]: per packet, from a kernel trace of the device's core;
//! - [`interrupts`]: without a trace, which interrupt counters rose while packets were late;
//! - [`periodicity`]: without a trace, which patterns recur, by which clock or packet count;
//! - [`ground_truth`]: injected causes, against which attribution is judged.

pub mod attribution;
pub mod ground_truth;
pub mod interrupts;
pub mod periodicity;
