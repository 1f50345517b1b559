//! The only place with `unsafe`: system calls without a safe wrapper, and memory that the kernel
//! shares with this process. Each block says why it holds.
//!
//! - [`socket`]: packet sockets and their options; [`xsk_socket`]: those of AF_XDP; [`bpf`]: loading and
//!   attaching programs and their maps; [`bpf_code`]: writing programs;
//! - [`mapping`]: a ring's memory; [`tx_ring`], [`rx_ring`], [`block_ring`] of packet sockets, [`xsk_ring`],
//!   [`xsk_rx`], [`xsk_tx`] of AF_XDP: who owns which part of it when;
//! - [`pages`]: memory that is not there yet; [`thread`]: real-time priority.

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
