//! Why packets were late.
//!
//! - [`attribution`]: from a kernel trace of the device's core, packet by packet;
//! - [`interrupts`]: without a trace, which interrupt counters rose when packets were late;
//! - [`periodicity`]: without a trace, what recurs, by which clock or packet count;
//! - [`ground_truth`]: the causes that were injected on purpose, against which attribution is judged.

pub mod attribution;
pub mod ground_truth;
pub mod interrupts;
pub mod periodicity;
