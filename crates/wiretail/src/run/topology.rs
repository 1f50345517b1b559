//! The testbed of a trial as data: which nodes stand in a row, how each device joins its two links, where
//! the taps are, and which tap's packets are looked for at which other.
//!
//! ```text
//! wire       gen ═══════════════════════════════════════ sink
//! one hop    gen ══════ in ▏dut1▕ out ═══════════════════ sink
//! two hops   gen ══════ in ▏dut1▕ out ═══ in ▏dut2▕ out ═══ sink
//! ```
//!
//! Each node is a network namespace, each double line a veth pair: a node's link towards the load
//! generator is called `in`, the other one `out`.

use wiretail_dataplane::timestamper::Direction;
use wiretail_host::{MacAddress, Plan, Step, VethEnd};
use wiretail_schema::experiment::Trial;

/// Ethernet address of the load generator's link, so that no address resolution is on the wire. It is none
/// that `synth` writes: a bridge does not send a packet back to where it learnt the packet's address.
pub const MAC_GENERATOR: MacAddress = MacAddress([0x02, 0, 0, 0, 3, 1]);
/// Ethernet address of the sink's link.
pub const MAC_SINK: MacAddress = MacAddress([0x02, 0, 0, 0, 3, 2]);

/// What stands between the load generator and the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middle {
    /// Nothing: one veth pair.
    Nothing,
    /// Linux bridges.
    Bridge,
    /// Nodes with two links, for a program to forward between.
    Ports,
}

/// A row of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    /// What the devices are.
    pub middle: Middle,
    /// How many stand in a row; 0 for a wire.
    pub devices: usize,
    /// Whether traffic also goes from the sink to the load generator.
    pub both_ways: bool,
    /// Whether ingress is tapped where packets leave for the device, not where they arrive: sockets of
    /// AF_XDP take packets before a tap at the device's end can see them.
    pub tap_senders: bool,
}

/// Where a tap is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapPlace {
    /// Its name: "pre", "post", "hop1", "back-pre", "back-post".
    pub name: String,
    /// The node it is in.
    pub node: usize,
    /// The node's link.
    pub link: &'static str,
    /// Which packets it sees.
    pub direction: Direction,
}

/// From one tap to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// "forward", "back", "hop1".
    pub name: String,
    /// Place of the ingress tap in [`Topology::taps`].
    pub pre: usize,
    /// Place of the egress tap.
    pub post: usize,
}

impl Topology {
    /// That of a trial.
    pub fn of(trial: &Trial) -> Self {
        let middle = match trial.get("dut", "kind").text.as_str() {
            "wire" => Middle::Nothing,
            "bridge" => Middle::Bridge,
            _ => Middle::Ports,
        };
        let is = |table, name, value: &str| trial.get(table, name).text == value;
        let xdp = is("dut", "kind", "skeleton") && is("dut", "socket", "xdp");
        Self {
            middle,
            devices: if middle == Middle::Nothing { 0 } else { trial.get("dut", "hops").number as usize },
            both_ways: is("traffic", "directions", "both"),
            tap_senders: middle == Middle::Nothing || xdp,
        }
    }

    /// Names of the nodes from the load generator to the sink, each starting with `prefix`.
    pub fn nodes(&self, prefix: &str) -> Vec<String> {
        let devices = (1..=self.devices).map(|number| format!("{prefix}-dut{number}"));
        let first = std::iter::once(format!("{prefix}-gen"));
        first.chain(devices).chain([format!("{prefix}-sink")]).collect()
    }

    /// The steps that make it.
    pub fn plan(&self, prefix: &str) -> Plan {
        let nodes = self.nodes(prefix);
        let mut plan = Plan::new();
        for name in &nodes {
            plan.push(Step::AddNamespace { name: name.clone() });
            plan.push(Step::DisableIpv6 { namespace: name.clone() });
        }
        let last = nodes.len() - 1;
        let end = |node: usize, link: &str| VethEnd {
            namespace: Some(nodes[node].clone()),
            link: link.to_owned(),
            mac: Some(match (node, link) {
                (0, _) => MAC_GENERATOR,
                (node, _) if node == last => MAC_SINK,
                (node, "in") => MacAddress([0x02, 0, 0, 0, 1, node as u8]),
                (node, _) => MacAddress([0x02, 0, 0, 0, 2, node as u8]),
            }),
        };
        for left in 0..last {
            plan.push(Step::AddVeth { a: end(left, "out"), b: end(left + 1, "in") });
        }
        for (node, name) in nodes.iter().enumerate() {
            if self.middle == Middle::Bridge && (1..last).contains(&node) {
                let ports = vec!["in".to_owned(), "out".to_owned()];
                let bridge = "bridge".to_owned();
                plan.push(Step::AddBridge { namespace: Some(name.clone()), name: bridge.clone(), ports });
                plan.push(Step::SetUp { namespace: Some(name.clone()), link: bridge });
            }
            let links = [("in", node > 0), ("out", node < last)];
            for (link, _) in links.into_iter().filter(|(_, there)| *there) {
                plan.push(Step::SetUp { namespace: Some(name.clone()), link: link.to_owned() });
            }
        }
        plan
    }

    /// The taps: first those of the forward way from ingress to egress, then those of the way back.
    pub fn taps(&self) -> Vec<TapPlace> {
        let last = self.devices + 1;
        let tap =
            |name: &str, node, link, direction| TapPlace { name: name.to_owned(), node, link, direction };
        let mut taps = vec![if self.tap_senders {
            tap("pre", 0, "out", Direction::Out)
        } else {
            tap("pre", 1, "in", Direction::In)
        }];
        if !self.tap_senders {
            let between = 2..last;
            taps.extend(between.map(|node| tap(&format!("hop{}", node - 1), node, "in", Direction::In)));
        }
        taps.push(tap("post", last, "in", Direction::In));
        if self.both_ways {
            taps.push(if self.tap_senders {
                tap("back-pre", last, "in", Direction::Out)
            } else {
                tap("back-pre", last - 1, "out", Direction::In)
            });
            taps.push(tap("back-post", 0, "out", Direction::In));
        }
        taps
    }

    /// What is to be evaluated: the whole way forward first.
    pub fn segments(&self) -> Vec<Segment> {
        let taps = self.taps();
        let place = |name: &str| taps.iter().position(|tap| tap.name == name);
        let segment = |name: &str, pre: Option<usize>, post: Option<usize>| {
            Some(Segment { name: name.to_owned(), pre: pre?, post: post? })
        };
        let post = place("post");
        let mut segments = vec![segment("forward", Some(0), post)];
        segments.push(segment("back", place("back-pre"), place("back-post")));
        if let Some(hops) = post.filter(|hops| *hops > 1) {
            segments
                .extend((0..hops).map(|hop| segment(&format!("hop{}", hop + 1), Some(hop), Some(hop + 1))));
        }
        segments.into_iter().flatten().collect()
    }
}

impl TapPlace {
    /// Where it is, in words.
    pub fn describe(&self, topology: &Topology) -> String {
        let node = match self.node {
            0 => "load generator".to_owned(),
            node if node > topology.devices => "sink".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(middle: Middle, devices: usize) -> Topology {
        Topology { middle, devices, both_ways: false, tap_senders: middle == Middle::Nothing }
    }

    fn places(topology: &Topology) -> Vec<String> {
        topology.taps().iter().map(|tap| format!("{}: {}", tap.name, tap.describe(topology))).collect()
    }

    fn segments(topology: &Topology) -> Vec<(String, usize, usize)> {
        topology.segments().into_iter().map(|segment| (segment.name, segment.pre, segment.post)).collect()
    }

    #[test]
    fn a_wire_is_tapped_at_both_ends() {
        let wire = topology(Middle::Nothing, 0);
        let expected = ["pre: out of the load generator, leaving", "post: in of the sink, arriving"];
        assert_eq!(places(&wire), expected);
        assert_eq!(
            wire.plan("wt").steps().iter().filter(|step| matches!(step, Step::AddVeth { .. })).count(),
            1
        );
    }

    #[test]
    fn hops_are_tapped_between() {
        let chain = topology(Middle::Bridge, 2);
        let expected = [
            "pre: in of the device 1, arriving",
            "hop1: in of the device 2, arriving",
            "post: in of the sink, arriving",
        ];
        assert_eq!(places(&chain), expected);
        let expected = [("forward", 0, 2), ("hop1", 0, 1), ("hop2", 1, 2)];
        assert_eq!(segments(&chain), expected.map(|(name, pre, post)| (name.to_owned(), pre, post)));
    }

    #[test]
    fn both_ways_are_two_segments() {
        let both = Topology { both_ways: true, ..topology(Middle::Ports, 1) };
        let expected = [("forward", 0, 1), ("back", 2, 3)];
        assert_eq!(segments(&both), expected.map(|(name, pre, post)| (name.to_owned(), pre, post)));
        let senders = Topology { tap_senders: true, ..both };
        let expected = [
            "pre: out of the load generator, leaving",
            "post: in of the sink, arriving",
            "back-pre: in of the sink, leaving",
            "back-post: out of the load generator, arriving",
        ];
        assert_eq!(places(&senders), expected);
    }
}
