//! All `unsafe` code of this crate: system calls without a safe wrapper, and memory shared with the kernel.
//! Each block has a justification.
//!
//! - [`socket`]: packet sockets and their options; [`xsk_socket`]: AF_XDP sockets;
//! - [`bpf`]: loading and attaching programs and their maps; [`bpf_code`]: assembling programs;
//! - [`mapping`]: the memory of rings; [`tx_ring`], [`rx_ring`], [`block_ring`]: rings of packet sockets;
//!   [`xsk_ring`], [`xsk_rx`], [`xsk_tx`]: rings of AF_XDP;
//! - [`pages`]: memory that is not yet populated; [`thread`]: real-time priority.

pub(crate) mod block_ring;
pub(crate) mod bpf;
pub(crate) mod bpf_code;
pub(crate) mod mapping;
pub(crate) mod pages;
pub(crate) mod rx_ring;
pub(crate) mod socket;
pub(crate) mod thread;
pub(crate) mod tx_ring;
pub(crate) mod xsk_ring;
pub(crate) mod xsk_rx;
pub(crate) mod xsk_socket;
pub(crate) mod xsk_tx;
