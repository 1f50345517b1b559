//! DPDK ports: NICs that bypass the kernel, and DPDK's virtual devices on other interfaces. The loops are in
//! `wiretail-dpdk-sys` and run to completion: packets received by one poll are sent immediately.
//!
//! Requires the feature `dpdk`. Without it, [`Eal::start`] returns an error that describes how to enable it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

pub use wiretail_dpdk_sys::{
    DirectionCounts, DpdkError, Eal, Forwarder, ForwarderConfig, Packet, Port, PortCounts, PortOptions,
    Watcher,
};

use super::TxPort;
use crate::error::DataplaneError;
use crate::placement::in_namespace;

/// How long a sender waits while the queue is full, in ns.
const PATIENCE_NS: u64 = 1_000_000;

/// Time limit for the link of a NIC, in ms.
const LINK_WAIT_MS: u32 = 9_000;

/// Number of slots of a net_af_packet ring, 2 KiB each. The ring holds the packets of a 40 ms stall at 100
/// kpps. With the driver's default of 512 slots, the ring overflows after 5 ms, and the driver does not count
/// the lost packets.
const PACKET_SLOTS: usize = 4096;

/// DPDK drivers for kernel interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceDriver {
    /// net_af_packet: packet sockets, for all kinds of interfaces.
    AfPacket,
    /// net_af_xdp: interfaces with a single receive queue.
    AfXdp,
}

impl InterfaceDriver {
    /// The device string of an interface, in DPDK's syntax. `number` must be unique within the process.
    pub fn device(self, number: usize, interface: &str) -> String {
        match self {
            Self::AfPacket => {
                format!("net_af_packet{number},iface={interface},framecnt={PACKET_SLOTS}")
            }
            // Disables busy-polling of the socket, which virtual interfaces do not support.
            Self::AfXdp => format!("net_af_xdp{number},iface={interface},busy_budget=0"),
        }
    }
}

/// Whether a device is a PCI address such as 0000:01:00.0 or 01:00.0, with or without arguments.
pub fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or_default();
    let Some((rest, function)) = address.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(parts.len(), 2 | 3) && parts.into_iter().all(hex) && hex(function)
}

/// Opens a device whose interface is in this namespace; `None` means the namespace of the calling thread.
///
/// # Errors
/// Returns an error if the device does not exist, has no driver, or its driver reports an error.
pub fn open(
    eal: Eal,
    netns: Option<BorrowedFd<'_>>,
    device: &str,
    timestamps: bool,
) -> Result<Port, DataplaneError> {
    let owned = netns.map(|netns| netns.try_clone_to_owned()).transpose();
    let owned = owned.map_err(super::af_packet::port_error(
        device,
        "duplicating the namespace descriptor",
        "check the limit on open files (`ulimit -n`)",
    ))?;
    let link_wait_ms = if is_pci(device) { LINK_WAIT_MS } else { 0 };
    let inside = move |work: &mut (dyn FnMut() + Send)| {
        in_namespace(owned.as_ref().map(AsFd::as_fd), work).map_err(io::Error::other)
    };
    Ok(Port::open(eal, device, PortOptions { timestamps, link_wait_ms }, Box::new(inside))?)
}

/// A DPDK port for sending.
#[derive(Debug)]
pub struct DpdkTx {
    port: Port,
    last_error: Option<i32>,
}

impl DpdkTx {
    pub fn new(port: Port) -> Self {
        Self { port, last_error: None }
    }
}

impl TxPort for DpdkTx {
    #[inline]
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        let (taken, error) = self.port.send(frames, PATIENCE_NS);
        self.last_error = error.or(self.last_error);
        taken
    }

    fn last_error(&self) -> Option<i32> {
        self.last_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_pci_addresses_from_virtual_devices() {
        for pci in ["0000:01:00.0", "01:00.0", "0000:af:1f.7,arg=1"] {
            assert!(is_pci(pci), "{pci}");
        }
        for other in ["net_af_packet0,iface=eth0.1", "net_ring0", "a.b", "", "net_memif0,socket=/a:b:c.0"] {
            assert!(!is_pci(other), "{other}");
        }
    }

    #[test]
    fn formats_device_strings() {
        assert_eq!(InterfaceDriver::AfPacket.device(1, "eth0"), "net_af_packet1,iface=eth0,framecnt=4096");
        assert!(InterfaceDriver::AfXdp.device(0, "eth0").starts_with("net_af_xdp0,iface=eth0,"));
    }

    #[cfg(not(feature = "dpdk"))]
    #[test]
    fn build_without_dpdk_reports_how_to_enable_it() {
        let message = Eal::start(&[]).unwrap_err().to_string();
        assert!(message.contains("wiretail setup dpdk") && message.contains("--features dpdk"), "{message}");
    }
}
