//! The testbed of a trial as data: its nodes, links and taps, and the pairs of taps whose packets are
//! compared.
//!
//! ```text
//! wire       gen ═══════════════════════════════════════ sink
//! one hop    gen ══════ in ▏dut1▕ out ═══════════════════ sink
//! two hops   gen ══════ in ▏dut1▕ out ═══ in ▏dut2▕ out ═══ sink
//! switched   gen ══ in ▏switch▕ out ═════════════════════ sink
//!                to1 ║      ║ from1
//!                 in ▏ dut1 ▕ out
//! ```
//!
//! Each node is a network namespace, and each double line is a veth pair. A node's link towards the load
//! generator is called `in`, and its link towards the sink is called `out`. A guest (virtual machine) has no
//! veth pair. Its link either ends at a TAP interface, whose packets the hypervisor reads, or is memory that
//! the guest shares with the switch. The kernel does not see shared memory as a link, so it cannot be tapped.

use std::net::Ipv4Addr;

use wiretail_dataplane::timestamper::Direction;
use wiretail_host::{MacAddress, Plan, Step, VethEnd};
use wiretail_schema::experiment::{
    Deployment, Directions, DutKind, GuestNetwork, IngressTap, PollModeDriver, SkeletonSocket, SwitchKind,
    Trial,
};

/// The load generator's network. RFC 2544 (see RFC 6890) reserves these addresses for benchmarks.
pub const NETWORK_GENERATOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// The sink's network.
pub const NETWORK_SINK: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Prefix length of both networks.
pub const NETWORK_LEN: u8 = 16;
/// Ethernet address of the load generator's link; it is fixed so that no address resolution appears on the
/// wire. It differs from the addresses that `synth` writes, because a bridge does not forward a packet to the
/// port where it learned the packet's address.
pub const MAC_GENERATOR: MacAddress = MacAddress([0x02, 0, 0, 0, 3, 1]);
/// Ethernet address of the sink's link.
pub const MAC_SINK: MacAddress = MacAddress([0x02, 0, 0, 0, 3, 2]);

/// The kind of devices between the load generator and the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middle {
    /// No device: one veth pair.
    Nothing,
    Bridge,
    Router,
    /// Nodes with two links. A program configures the kernel to forward packets between the links, on the
    /// sender's core.
    Kernel {
        /// Whether the program uses XDP. A veth delivers redirected frames only if its peer polls, and the
        /// peer polls only if GRO is enabled.
        by_xdp: bool,
    },
    /// Nodes with two links, between which a program forwards.
    Ports,
}

/// What connects the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// No switch: the nodes form a chain of direct links.
    None,
    /// A node with a Linux bridge for each pair of links.
    Bridge,
    Ovs,
}

/// Whether the devices are virtual machines, and the type of their links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    /// The devices are not virtual machines.
    None,
    Taps,
    /// Memory shared with the switch (vhost-user).
    SharedMemory,
}

/// The nodes of a trial and their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    pub middle: Middle,
    /// Number of devices; 0 for a wire.
    pub devices: usize,
    pub switch: Switch,
    pub guests: Guests,
    /// Whether traffic also flows from the sink to the load generator.
    pub both_directions: bool,
    /// Whether a device's ingress tap is at the sender's end of the link. AF_XDP sockets and XDP programs
    /// take packets before a tap at the device's end can see them.
    pub tap_senders: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEnd {
    pub node: usize,
    /// Name of the link in its node.
    pub link: String,
}

/// Location of a tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapPlace {
    /// "pre", "post", "hop1", "vnf1-in", "back-pre", "back-post".
    pub name: String,
    pub node: usize,
    pub link: String,
    /// Whether the tap sees arriving or departing packets.
    pub direction: Direction,
    /// The device that the packets enter.
    pub enters: Option<usize>,
    /// The device that the packets have left.
    pub leaves: Option<usize>,
}

/// The path from one tap to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// "forward", "back", "hop1", "vnf1", "back-vnf1".
    pub name: String,
    /// Index of the ingress tap in [`Topology::taps`].
    pub pre: usize,
    /// Index of the egress tap in [`Topology::taps`].
    pub post: usize,
}

impl Segment {
    /// Returns whether the segment covers the whole path of a direction.
    pub fn is_whole(&self) -> bool {
        ["forward", "back"].contains(&self.name.as_str())
    }
}

impl Topology {
    /// Derives the topology of a trial.
    pub fn of(trial: &Trial) -> Self {
        let dut = &trial.dut;
        let guests = match (dut.deployment, dut.network) {
            (Deployment::Bare | Deployment::Container, _) => Guests::None,
            (Deployment::Vm, GuestNetwork::VhostUser) => Guests::SharedMemory,
            (Deployment::Vm, GuestNetwork::Tap) => Guests::Taps,
        };
        let middle = match dut.kind {
            DutKind::Wire => Middle::Nothing,
            _ if guests != Guests::None => Middle::Ports,
            DutKind::Bridge if dut.deployment == Deployment::Bare => Middle::Bridge,
            DutKind::Bridge => Middle::Kernel { by_xdp: false },
            DutKind::LinuxRouter => Middle::Router,
            DutKind::XdpRedirect => Middle::Kernel { by_xdp: true },
            DutKind::Skeleton | DutKind::Command | DutKind::DpdkTestpmd | DutKind::DpdkL2fwd => Middle::Ports,
            DutKind::Suricata | DutKind::Snort3 | DutKind::Ovs => Middle::Ports,
        };
        let switch = match dut.switch {
            SwitchKind::Bridge => Switch::Bridge,
            SwitchKind::Ovs | SwitchKind::OvsDpdk => Switch::Ovs,
            SwitchKind::None => Switch::None,
        };
        let xdp = match dut.kind {
            DutKind::XdpRedirect => true,
            DutKind::Skeleton => dut.socket == SkeletonSocket::Xdp,
            DutKind::DpdkTestpmd | DutKind::DpdkL2fwd => dut.pmd == PollModeDriver::AfXdp,
            DutKind::Wire | DutKind::Bridge | DutKind::LinuxRouter | DutKind::Command => false,
            DutKind::Suricata | DutKind::Snort3 | DutKind::Ovs => false,
        };
        let wire = middle == Middle::Nothing;
        Self {
            middle,
            devices: if wire { 0 } else { dut.hops as usize },
            switch: if wire { Switch::None } else { switch },
            guests,
            both_directions: trial.traffic.directions == Directions::Both,
            tap_senders: wire || guests != Guests::None || xdp || trial.trial.ingress == IngressTap::Sender,
        }
    }

    /// Index of the sink among the nodes.
    pub fn sink(&self) -> usize {
        self.devices + 1
    }

    /// Index of the switch among the nodes; `None` without a switch.
    pub fn switch_node(&self) -> Option<usize> {
        (self.switch != Switch::None).then_some(self.devices + 2)
    }

    /// Names of the nodes, each starting with `prefix`: load generator, devices, sink, switch.
    pub fn nodes(&self, prefix: &str) -> Vec<String> {
        let devices = (1..=self.devices).map(|number| format!("{prefix}-dut{number}"));
        let first = std::iter::once(format!("{prefix}-gen"));
        let switch = self.switch_node().map(|_| format!("{prefix}-switch"));
        first.chain(devices).chain([format!("{prefix}-sink")]).chain(switch).collect()
    }

    /// The links in the order in which packets cross them. The end on the load generator's side comes first.
    pub fn links(&self) -> Vec<(LinkEnd, LinkEnd)> {
        let end = |node: usize, link: &str| LinkEnd { node, link: link.to_owned() };
        let sink = self.sink();
        let Some(switch) = self.switch_node() else {
            return (0..sink).map(|left| (end(left, "out"), end(left + 1, "in"))).collect();
        };
        let mut links = vec![(end(0, "out"), end(switch, "in"))];
        for device in 1..=self.devices {
            links.push((end(switch, &format!("to{device}")), end(device, "in")));
            links.push((end(device, "out"), end(switch, &format!("from{device}"))));
        }
        links.push((end(switch, "out"), end(sink, "in")));
        links
    }

    /// The pairs of links that the switch connects, in both directions; empty without a switch.
    pub fn patches(&self) -> Vec<(String, String)> {
        let Some(switch) = self.switch_node() else { return Vec::new() };
        let links = self.links();
        let ends: Vec<String> = links
            .into_iter()
            .flat_map(|(left, right)| [left, right])
            .filter(|end| end.node == switch)
            .map(|end| end.link)
            .collect();
        ends.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    /// Returns whether a node is a virtual machine.
    pub fn is_guest(&self, node: usize) -> bool {
        self.guests != Guests::None && (1..=self.devices).contains(&node)
    }

    /// Returns whether a link is memory shared between a guest and the switch, which the kernel cannot tap.
    pub fn is_shared(&self, (left, right): &(LinkEnd, LinkEnd)) -> bool {
        self.guests == Guests::SharedMemory && (self.is_guest(left.node) || self.is_guest(right.node))
    }

    /// The switch's ends of the shared-memory links.
    pub fn shared(&self) -> Vec<String> {
        let links = self.links().into_iter().filter(|link| self.is_shared(link));
        let ends = links.flat_map(|(left, right)| [left, right]).filter(|end| !self.is_guest(end.node));
        ends.map(|end| end.link).collect()
    }

    /// Returns the steps that build the topology.
    pub fn plan(&self, prefix: &str) -> Plan {
        let nodes = self.nodes(prefix);
        let mut plan = Plan::new();
        for name in &nodes {
            plan.push(Step::AddNamespace { name: name.clone() });
            plan.push(Step::DisableIpv6 { namespace: name.clone() });
        }
        let links = self.links();
        for (left, right) in links.iter().filter(|link| !self.is_shared(link)) {
            let tap = |end: &LinkEnd| {
                let VethEnd { namespace, link, mac } = self.veth(&nodes, end);
                Step::AddTap { namespace, link, mac }
            };
            plan.push(match (self.is_guest(left.node), self.is_guest(right.node)) {
                (false, false) => Step::AddVeth { a: self.veth(&nodes, left), b: self.veth(&nodes, right) },
                (true, _) => tap(right),
                (false, true) => tap(left),
            });
        }
        let mut bridges = Vec::new();
        if self.middle == Middle::Bridge {
            let pair = ("in".to_owned(), "out".to_owned());
            bridges.extend((1..=self.devices).map(|node| (node, "bridge".to_owned(), pair.clone())));
        }
        if let Some(node) = self.switch_node().filter(|_| self.switch == Switch::Bridge) {
            let patches = self.patches().into_iter().enumerate();
            bridges.extend(patches.map(|(number, pair)| (node, format!("bridge{}", number + 1), pair)));
        }
        for (node, name, (left, right)) in bridges {
            let namespace = Some(nodes[node].clone());
            let ports = vec![left, right];
            plan.push(Step::AddBridge { namespace: namespace.clone(), name: name.clone(), ports });
            plan.push(Step::SetUp { namespace, link: name });
        }
        if self.middle == (Middle::Kernel { by_xdp: true }) {
            let is_device = |node: usize| (1..=self.devices).contains(&node);
            let peers = links.iter().flat_map(|(left, right)| [(left, right), (right, left)]);
            for (peer, _) in peers.filter(|(_, end)| is_device(end.node)) {
                let namespace = Some(nodes[peer.node].clone());
                plan.push(Step::SetGro { namespace, link: peer.link.clone(), on: true });
            }
        }
        let links = links.into_iter().filter(|link| !self.is_shared(link));
        let ends = links.flat_map(|(left, right)| [left, right]);
        for end in ends.filter(|end| !self.is_guest(end.node)) {
            plan.push(Step::SetUp { namespace: Some(nodes[end.node].clone()), link: end.link });
        }
        if self.middle == Middle::Router {
            let routers =
                (1..=self.devices).map(|node| router::plan(&nodes[node], &router::sides(self, node)));
            plan.extend(routers.flat_map(|router| router.steps().to_vec()));
        }
        plan
    }

    /// Destination Ethernet addresses, forward and back. A router accepts only frames for its own address.
    /// All other devices forward frames that are addressed to the far end.
    pub fn first_hops(&self) -> [MacAddress; 2] {
        let mac = |node, link: &str| self.mac(&LinkEnd { node, link: link.to_owned() });
        match self.middle {
            Middle::Router => [mac(1, "in"), mac(self.devices, "out")],
            _ => [MAC_SINK, MAC_GENERATOR],
        }
    }

    fn veth(&self, nodes: &[String], end: &LinkEnd) -> VethEnd {
        let (namespace, link) = (Some(nodes[end.node].clone()), end.link.clone());
        VethEnd { namespace, link, mac: Some(self.mac(end)) }
    }

    /// The links of a device, each with its other end. The link towards the load generator comes first.
    pub fn links_of(&self, node: usize) -> Vec<(LinkEnd, LinkEnd)> {
        let ends = self.links().into_iter();
        let own = ends.filter_map(|(left, right)| match node {
            _ if right.node == node => Some((right, left)),
            _ if left.node == node => Some((left, right)),
            _ => None,
        });
        own.collect()
    }

    /// Ethernet address of a node's end of a link.
    pub fn mac(&self, end: &LinkEnd) -> MacAddress {
        match (end.node, end.link.as_str()) {
            (0, _) => MAC_GENERATOR,
            (node, _) if node == self.sink() => MAC_SINK,
            (node, "in") => MacAddress([0x02, 0, 0, 0, 1, node as u8]),
            (node, "out") => MacAddress([0x02, 0, 0, 0, 2, node as u8]),
            (_, to) if to.starts_with("to") => MacAddress([0x02, 0, 0, 0, 4, number_of(to)]),
            (_, from) => MacAddress([0x02, 0, 0, 0, 5, number_of(from)]),
        }
    }

    /// Returns the taps from ingress to egress: first the forward direction, then the reverse direction.
    pub fn taps(&self) -> Vec<TapPlace> {
        let mut taps = self.taps_along(&self.links(), "");
        if self.both_directions {
            let back = self.links().into_iter().rev().map(|(left, right)| (right, left));
            taps.extend(self.taps_along(&back.collect::<Vec<_>>(), "back-"));
        }
        taps
    }

    /// Returns the taps along `links`. Packets cross the links in this order, each from its first to its
    /// second end.
    fn taps_along(&self, links: &[(LinkEnd, LinkEnd)], prefix: &str) -> Vec<TapPlace> {
        let device = |node: usize| (1..=self.devices).contains(&node).then_some(node);
        let last = links.len() - 1;
        let mut taps = Vec::new();
        for (place, link) in links.iter().enumerate().filter(|(_, link)| !self.is_shared(link)) {
            let (from, to) = link;
            let (leaves, enters) = (device(from.node), device(to.node));
            let name = match (place, leaves, enters) {
                (0, ..) => "pre".to_owned(),
                (place, ..) if place == last => "post".to_owned(),
                // Between two devices in a chain, the egress tap of the first device is the ingress tap of
                // the second. There is no tap between them in the reverse direction, or if devices take
                // packets before a tap sees them.
                (_, Some(_), Some(_)) if self.tap_senders || !prefix.is_empty() => continue,
                (_, Some(node), Some(_)) => format!("hop{node}"),
                (_, None, Some(node)) => format!("vnf{node}-in"),
                (_, Some(node), None) => format!("vnf{node}-out"),
                (_, None, None) => continue,
            };
            // If a device takes packets before a tap can see them, the tap is at the sender's end.
            let hidden = self.devices == 0 || self.tap_senders && enters.is_some();
            let (end, direction) = if hidden { (from, Direction::Out) } else { (to, Direction::In) };
            let (node, link) = (end.node, end.link.clone());
            taps.push(TapPlace { name: format!("{prefix}{name}"), node, link, direction, enters, leaves });
        }
        // A wire has one link, with a tap at either end.
        if last == 0 {
            let (node, link) = (links[0].1.node, links[0].1.link.clone());
            let name = format!("{prefix}post");
            taps.push(TapPlace { name, node, link, direction: Direction::In, enters: None, leaves: None });
        }
        taps
    }

    /// Returns the segments to evaluate: the whole forward path first, then the reverse path, then each
    /// device.
    pub fn segments(&self) -> Vec<Segment> {
        let taps = self.taps();
        let place = |name: &str| taps.iter().position(|tap| tap.name == name);
        let segment = |name: String, pre: Option<usize>, post: Option<usize>| {
            Some(Segment { name, pre: pre?, post: post? })
        };
        let post = place("post");
        let mut segments = vec![segment("forward".to_owned(), Some(0), post)];
        segments.push(segment("back".to_owned(), place("back-pre"), place("back-post")));
        if self.switch != Switch::None {
            for prefix in ["", "back-"] {
                for device in 1..=self.devices {
                    let tap = |end: &str| place(&format!("{prefix}vnf{device}-{end}"));
                    segments.push(segment(format!("{prefix}vnf{device}"), tap("in"), tap("out")));
                }
            }
        } else if let Some(hops) = post.filter(|hops| *hops > 1) {
            segments
                .extend((0..hops).map(|hop| segment(format!("hop{}", hop + 1), Some(hop), Some(hop + 1))));
        }
        segments.into_iter().flatten().collect()
    }
}

/// Parses the number at the end of a link's name.
fn number_of(link: &str) -> u8 {
    link.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

impl TapPlace {
    /// Describes the tap's location for display.
    pub fn describe(&self, topology: &Topology) -> String {
        let node = match self.node {
            0 => "load generator".to_owned(),
            node if node == topology.sink() => "sink".to_owned(),
            node if Some(node) == topology.switch_node() => "switch".to_owned(),
            _ if topology.devices == 1 => "device under test".to_owned(),
            node => format!("device {node}"),
        };
        let what = match self.direction {
            Direction::In => "arriving",
            Direction::Out => "leaving",
        };
        format!("{} of the {node}, {what}", self.link)
    }
}

pub mod router;
#[cfg(test)]
mod tests;
