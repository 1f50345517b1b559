//! The only place with `unsafe`: system calls without a safe wrapper, and memory that the kernel
//! shares with this process. Each block says why it holds.
//!
//! - [`socket`]: packet sockets and their options;
//! - [`mapping`]: a ring's memory; [`tx_ring`], [`rx_ring`], [`block_ring`]: who owns which part of it when;
//! - [`thread`]: real-time priority.

pub(crate) mod block_ring;
pub(crate) mod mapping;
pub(crate) mod rx_ring;
pub(crate) mod socket;
pub(crate) mod thread;
pub(crate) mod tx_ring;
