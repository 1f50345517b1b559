//! DPDK, as far as Wiretail uses it: ports, a run-to-completion forwarder, sending and receiving.
//!
//! The loops are C (`c/loops.c`), because DPDK's receive and send are inlined functions of its headers; C sees
//! plain structures only (`c/wiretail_dpdk.h`). `present` wraps them: who may call what when is said by
//! types here. Without the feature `dpdk` nothing is built or linked, the same types are there, and
//! [`Eal::start`] says what to install. DPDK's drivers are plugins, which it loads at run time.
//!
//! This crate knows no network namespaces: whoever opens a port says how to get to where it is ([`Inside`]).

use std::io;

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(feature = "dpdk")]
#[allow(unsafe_code)]
mod present;

#[cfg(not(feature = "dpdk"))]
pub use absent::{Eal, Forwarder, Port, Watcher};
#[cfg(feature = "dpdk")]
pub use present::{Eal, Forwarder, Port, Watcher};

/// Most packets of a burst.
pub const BATCH_MAX: usize = 64;

/// Carries out what has to happen where a device is, such as in a network namespace. The error is why it could
/// not get there.
pub type Inside = Box<dyn Fn(&mut (dyn FnMut() + Send)) -> io::Result<()> + Send + Sync>;

/// What of DPDK can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The feature is off.
    #[error("built without DPDK; `wiretail setup dpdk`, then build with `--features dpdk`")]
    NotBuilt,
    /// DPDK starts once a process.
    #[error("DPDK was started in this process before, and it can't be a second time; start another process")]
    StartedBefore,
    /// The environment abstraction layer does not start.
    #[error(
        "DPDK does not start: {source}; what it said is above. Its arguments were {arguments}; it needs root, and \
         memory (huge pages, or --no-huge)"
    )]
    Start {
        /// As given to it.
        arguments: String,
        /// What it said.
        source: io::Error,
    },
    /// A port that can't be opened.
    #[error(
        "{device}: {step} failed: {source}; is it a device of a driver that DPDK has loaded, free, and with what \
         it needs (an interface that exists; a PCI device bound to vfio-pci)?"
    )]
    Port {
        /// As given.
        device: String,
        /// What was tried.
        step: String,
        /// What the driver said.
        source: io::Error,
    },
    /// A value out of its range.
    #[error("{what} is {found}; expected {expected}")]
    Range {
        /// Which value.
        what: &'static str,
        /// As given.
        found: usize,
        /// What would have been right.
        expected: &'static str,
    },
}

/// How a port is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Ask for reception stamps of the network card, where its driver offers them.
    pub timestamps: bool,
    /// How long to wait for the link, in ms; 0 for devices without a wire.
    pub link_wait_ms: u32,
}

/// How a forwarder treats packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwarderConfig {
    /// Most packets that are processed and sent together, 1 to [`BATCH_MAX`]; some drivers of network cards need 4 or
    /// more.
    pub batch: usize,
    /// What each packet of a batch costs before the batch is sent, in ns: what a network function would compute.
    pub work_ns: u64,
    /// Packets are taken over when no further one has come for so long, in ns, as from a network card whose
    /// receive timer starts again with each packet (Intel 82574 datasheet, RDTR); 0: at once.
    pub quiet_ns: u64,
}

/// What a port's driver counted since it was opened. Not every driver counts everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortCounts {
    /// Packets that the device dropped for want of room in its queue (imissed).
    pub missed: u64,
    /// Packets that were dropped for want of a buffer (rx_nombuf).
    pub no_buffer: u64,
    /// Packets that were received broken (ierrors).
    pub rx_errors: u64,
    /// Packets that the driver took for sending and did not send (oerrors).
    pub tx_errors: u64,
}

/// What became of the packets of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Packets that were received.
    pub received: u64,
    /// Packets that the sending port took.
    pub taken: u64,
    /// Packets that it did not take, which were dropped.
    pub refused: u64,
    /// Looks that found packets: each was sent on together.
    pub bursts: u64,
    /// The most packets that one look found.
    pub burst_max: u64,
}

/// A received packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its first segment: the whole packet, up to 2 KiB.
    pub data: &'a [u8],
    /// Length of the whole packet in bytes.
    pub wire_len: u32,
    /// The network card's stamp in ticks of its own clock, where it made one.
    pub ticks: Option<u64>,
}
