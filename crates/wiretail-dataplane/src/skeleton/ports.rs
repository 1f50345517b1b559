//! The ports of a forwarder's directions. All directions have the same type of port, so that the loops need
//! no dynamic dispatch per packet.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

use super::{Delay, SkeletonPlan};
use crate::error::{DataplaneError, plan};
use crate::port::af_packet::{PacketTx, TxPlan, open_rx, port_error};
use crate::port::af_xdp::{self, Halves, XdpMode, XdpRx, XdpTx};
use crate::port::{PortKind, PortSpec};
use crate::skeleton::faults::FaultSchedule;
use crate::skeleton::path::ForwardingPath;
use crate::sys::rx_ring::RxRing;

/// All directions of a forwarder.
#[derive(Debug)]
pub(super) enum ForwardingPaths {
    Packet(Vec<ForwardingPath<RxRing, PacketTx>>),
    Xdp(Vec<ForwardingPath<XdpRx, XdpTx>>),
}

/// A direction, given by its ports.
type Spec<'a> = (PortSpec<'a>, PortSpec<'a>);

impl ForwardingPaths {
    /// Opens all ports. With AF_XDP, also returns the modes of the receiving ports.
    pub(super) fn open(
        specs: &[Spec<'_>],
        plan: &SkeletonPlan,
    ) -> Result<(Self, Vec<(String, XdpMode)>), DataplaneError> {
        match plan.port {
            PortKind::Packet(tx) => Ok((Self::Packet(open_packet(specs, tx, plan.ring_slots)?), Vec::new())),
            PortKind::Xdp => {
                let forwarding_paths = open_xdp(specs, plan.ring_slots.next_power_of_two())?;
                let modes = specs
                    .iter()
                    .zip(&forwarding_paths)
                    .map(|((from, _), (rx, _))| (from.interface.to_owned(), rx.mode()));
                let modes = modes.collect();
                Ok((
                    Self::Xdp(
                        forwarding_paths.into_iter().map(|(rx, tx)| ForwardingPath::new(rx, tx)).collect(),
                    ),
                    modes,
                ))
            }
        }
    }

    /// Sets the delays or faults of the first direction.
    pub(super) fn interfere_first(&mut self, delay: Option<Delay>, faults: FaultSchedule) {
        match self {
            Self::Packet(forwarding_paths) => forwarding_paths[0].interfere(delay, faults),
            Self::Xdp(forwarding_paths) => forwarding_paths[0].interfere(delay, faults),
        }
    }
}

fn open_packet(
    specs: &[Spec<'_>],
    tx: TxPlan,
    slots: usize,
) -> Result<Vec<ForwardingPath<RxRing, PacketTx>>, DataplaneError> {
    // Open the sending ports first: opening a receiving port makes packets arrive.
    let senders =
        specs.iter().map(|(_, to)| PacketTx::open(to, tx)).collect::<Result<Vec<_>, DataplaneError>>()?;
    let forwarding_paths = specs.iter().zip(senders);
    forwarding_paths.map(|((from, _), tx)| Ok(ForwardingPath::new(open_rx(from, slots)?, tx))).collect()
}

/// An AF_XDP interface. Its queue has one socket; the halves can belong to different directions.
struct XdpPort<'a> {
    /// Inode of the namespace, and name of the interface.
    key: (u64, &'a str),
    spec: PortSpec<'a>,
    halves: Halves,
}

fn open_xdp(specs: &[Spec<'_>], slots: usize) -> Result<Vec<(XdpRx, XdpTx)>, DataplaneError> {
    let mut ports: Vec<XdpPort<'_>> = Vec::new();
    let mut places = Vec::new();
    for (from, to) in specs {
        let (rx, tx) = (place_of(from, &mut ports)?, place_of(to, &mut ports)?);
        if ports[rx].halves.rx_slots.replace(slots).is_some() {
            return Err(twice("receives", from));
        }
        if std::mem::replace(&mut ports[tx].halves.tx, true) {
            return Err(twice("sends", to));
        }
        places.push((rx, tx));
    }
    let opened = ports.iter().map(|port| af_xdp::open(&port.spec, port.halves));
    let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
    let mut halves = |(rx, tx): (usize, usize)| opened[rx].0.take().zip(opened[tx].1.take());
    Ok(places.into_iter().map(|place| halves(place).expect("each half was asked for once")).collect())
}

fn twice(does: &str, port: &PortSpec<'_>) -> DataplaneError {
    let what = format!("number of AF_XDP directions in which {} {does}", port.interface);
    plan(what, 2, "1: a queue of an interface has one AF_XDP socket")
}

/// Index of the port in `ports`, to which it is added if it is new.
fn place_of<'a>(spec: &PortSpec<'a>, ports: &mut Vec<XdpPort<'a>>) -> Result<usize, DataplaneError> {
    let next = "check that /proc is mounted";
    let namespace = namespace_of(spec);
    let namespace = namespace.map_err(port_error(spec.interface, "reading the network namespace", next))?;
    let key = (namespace.ino(), spec.interface);
    Ok(ports.iter().position(|port| port.key == key).unwrap_or_else(|| {
        ports.push(XdpPort { key, spec: *spec, halves: Halves::default() });
        ports.len() - 1
    }))
}

fn namespace_of(spec: &PortSpec<'_>) -> io::Result<Metadata> {
    match spec.netns {
        Some(netns) => File::from(netns.try_clone_to_owned()?).metadata(),
        None => std::fs::metadata("/proc/thread-self/ns/net"),
    }
}
