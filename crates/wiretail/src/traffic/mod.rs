//! The parts of a testbed, each a verb of its own: `generate`, `forward`, `capture`.
//!
//! [`live`] is what they share: signals, roles, namespaces; [`recording`] reads frames to replay; [`dpdk`] its ports.

pub mod capture;
pub mod dpdk;
pub mod forward;
pub mod generate;
pub mod live;
pub mod recording;
