//! The DPDK functions that Wiretail needs: ports, a run-to-completion forwarder, sending and receiving.
//!
//! The loops are written in C (`c/loops.c`), because DPDK implements receive and send as inlined functions in
//! its headers. The C interface (`c/wiretail_dpdk.h`) uses only plain structures. The module `present` wraps
//! it in types that enforce which thread may call which function. DPDK loads its drivers as plugins at run
//! time.
//!
//! Without the feature `dpdk`, no C code is built or linked. The same types exist, but [`Eal::start`] returns
//! an error that names what to install.
//!
//! This crate does not handle network namespaces. To open a port, the caller passes a function that enters
//! the port's namespace ([`Inside`]).

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

/// Maximum number of packets per burst.
pub const BATCH_MAX: usize = 64;

/// Runs a function in the environment of a device, such as a network namespace. Returns an error if that
/// environment cannot be entered.
pub type Inside = Box<dyn Fn(&mut (dyn FnMut() + Send)) -> io::Result<()> + Send + Sync>;

/// DPDK errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The feature `dpdk` is disabled.
    #[error("built without DPDK; run `wiretail setup dpdk`, then build with `--features dpdk`")]
    NotBuilt,
    /// DPDK was already started in this process.
    #[error("DPDK can be started only once per process; start another process")]
    StartedBefore,
    /// The environment abstraction layer failed to start.
    #[error(
        "DPDK failed to start: {source}; the messages of DPDK are above. Its arguments were {arguments}. DPDK needs \
         root and memory (huge pages, or --no-huge)"
    )]
    Start {
        /// The arguments passed to DPDK.
        arguments: String,
        /// The error that DPDK returned.
        source: io::Error,
    },
    /// A port could not be opened.
    #[error(
        "{device}: {step} failed: {source}; check that DPDK has a driver for it, that no other program uses \
         it, and that it is available (an existing interface, or a PCI device bound to vfio-pci)"
    )]
    Port {
        device: String,
        /// The failed step.
        step: String,
        /// The error that the driver returned.
        source: io::Error,
    },
    /// A value is out of range.
    #[error("{what} is {found}; expected {expected}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// The invalid value.
        found: usize,
        /// Description of valid values.
        expected: &'static str,
    },
}

/// Settings for opening a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Whether to request receive timestamps of the NIC if its driver supports them.
    pub timestamps: bool,
    /// Time to wait for the link, in ms; 0 for devices without a physical link.
    pub link_wait_ms: u32,
}

/// Forwarder configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwarderConfig {
    /// Maximum number of packets that are processed and sent together, 1 to [`BATCH_MAX`]. Some NIC drivers
    /// need 4 or more.
    pub batch: usize,
    /// Simulated processing time per packet, in ns. As in a network function, a batch is sent after all of
    /// its packets have been processed.
    pub work_ns: u64,
    /// Quiet time in ns. Packets are taken after no packet has arrived for this time, as with a NIC whose
    /// receive timer restarts with each packet (Intel 82574 datasheet, RDTR). If 0, packets are taken
    /// immediately.
    pub quiet_ns: u64,
}

/// Driver counters since the port was opened. Not every driver supports all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortCounts {
    /// Packets that the NIC dropped because its queue was full (imissed).
    pub missed: u64,
    /// Packets dropped because there was no free buffer (rx_nombuf).
    pub no_buffer: u64,
    /// Packets received with errors (ierrors).
    pub rx_errors: u64,
    /// Packets that the driver accepted but could not send (oerrors).
    pub tx_errors: u64,
}

/// Packet counts of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    pub received: u64,
    /// Packets accepted by the sending port.
    pub taken: u64,
    /// Packets dropped because the sending port rejected them.
    pub refused: u64,
    /// Number of polls that found packets. All packets found by one poll are sent together.
    pub bursts: u64,
    /// Maximum number of packets found by one poll.
    pub burst_max: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Data of the first segment. It holds the whole packet if the packet has at most 2 KiB.
    pub data: &'a [u8],
    /// Length of the whole packet in bytes.
    pub wire_len: u32,
    /// Hardware timestamp in ticks of the NIC's clock, if there is one.
    pub ticks: Option<u64>,
}
