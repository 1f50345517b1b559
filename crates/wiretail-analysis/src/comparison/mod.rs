//! Comparison of trials.
//!
//! - [`groups`]: differences between groups of trials;
//! - [`ranking`]: devices in order of their delay;
//! - [`overload`]: the rate at which a device no longer keeps up;
//! - [`overhead`]: the overhead of tracing.

pub mod groups;
pub mod overhead;
pub mod overload;
pub mod ranking;
