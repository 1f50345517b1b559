//! Implements the parts of a testbed as separate commands: `generate`, `forward` and `capture`.
//!
//! [`live`] contains the shared parts: signals, placement, namespaces. [`recording`] reads frames to replay,
//! and [`dpdk`] opens DPDK ports.

pub mod capture;
pub mod dpdk;
pub mod forward;
pub mod generate;
pub mod live;
pub mod recording;
