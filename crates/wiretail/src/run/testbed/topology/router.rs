//! Configures the namespaces of the kernel's router as a device. A router then forwards the load generator's
//! packets, and no other packets appear on the wire.
//!
//! ```text
//! 198.18.0.0/16        169.254.0.0/30         169.254.1.0/30        198.19.0.0/16
//! load generator ══ .1 ═════════ .2 router 1 .1 ═════════ .2 sink (or router 2) ══
//! ```
//!
//! Each link has its own network, from which the routers get their addresses. The load generator and the sink
//! have no IP addresses, because the adjacent router has static neighbour entries for them. Packets for the
//! sink's network are sent to the next node towards the sink. Packets for the load generator's network are
//! sent to the next node towards the load generator. All Ethernet addresses are configured statically, so no
//! ARP request is ever sent.
//!
//! A router accepts frames for its own Ethernet address, so the load generator sends to the first router's
//! address ([`Topology::first_hops`]). The router rewrites both Ethernet addresses, and the time to live with
//! its checksum. The load generator's signature, which identifies packets, follows after these fields.

use std::net::Ipv4Addr;

use wiretail_host::{MacAddress, Plan, Step};

use super::{NETWORK_GENERATOR, NETWORK_LEN, NETWORK_SINK};
use crate::run::testbed::topology::{LinkEnd, Topology};

/// Prefix length of a link's network. The network has four addresses, of which two are usable.
const LINK_LEN: u8 = 30;

/// One of the two sides of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub link: String,
    /// The router's own address on the link.
    pub own: Ipv4Addr,
    /// Address of the next node on the link, in the same network of four addresses.
    pub next: Ipv4Addr,
    /// The next node's Ethernet address on the link.
    pub mac: MacAddress,
    /// The network that is reached through this side, and its prefix length.
    pub behind: (Ipv4Addr, u8),
}

/// Returns the steps that turn a namespace with active links into a router. They are reverted when the
/// namespace is removed.
pub fn plan(namespace: &str, sides: &[Side; 2]) -> Plan {
    let mut plan = Plan::new();
    let mut sysctl = |name: &str, value: &str| {
        let (namespace, name) = (namespace.to_owned(), format!("net/ipv4/{name}"));
        plan.push(Step::SetSysctl { namespace, name, value: value.to_owned() });
    };
    // Disables the reverse path filter. The kernel applies the larger of the values for `all` and for the
    // link, and a namespace may inherit either value.
    sysctl("conf/all/rp_filter", "0");
    for side in sides {
        sysctl(&format!("conf/{}/rp_filter", side.link), "0");
    }
    // ICMP redirects need not be disabled, because packets never leave on the link on which they arrived.
    sysctl("ip_forward", "1");
    let place = || Some(namespace.to_owned());
    for side in sides {
        let link = || side.link.clone();
        let (own, next) = (side.own.into(), side.next.into());
        plan.push(Step::AddAddress { namespace: place(), link: link(), address: own, prefix_len: LINK_LEN });
        plan.push(Step::AddNeighbour { namespace: place(), link: link(), address: next, mac: side.mac });
        let (destination, prefix_len) = (side.behind.0.into(), side.behind.1);
        plan.push(Step::AddRoute {
            namespace: place(),
            link: link(),
            destination,
            prefix_len,
            gateway: next,
        });
    }
    plan
}

/// Returns the two sides of a node's router: first the side towards the load generator, then the side towards
/// the sink.
pub fn sides(topology: &Topology, node: usize) -> [Side; 2] {
    let mac = |node, link: &str| topology.mac(&LinkEnd { node, link: link.to_owned() });
    // A node's `out` link has the node's number, and the node has the first address on it.
    let address = |link: usize, host| Ipv4Addr::new(169, 254, link as u8, host);
    [
        Side {
            link: "in".to_owned(),
            own: address(node - 1, 2),
            next: address(node - 1, 1),
            mac: mac(node - 1, "out"),
            behind: (NETWORK_GENERATOR, NETWORK_LEN),
        },
        Side {
            link: "out".to_owned(),
            own: address(node, 1),
            next: address(node, 2),
            mac: mac(node + 1, "in"),
            behind: (NETWORK_SINK, NETWORK_LEN),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testbed::topology::{Guests, MAC_GENERATOR, MAC_SINK, Middle, Switch};

    #[test]
    fn adjacent_routers_know_each_other() {
        let topology = Topology {
            middle: Middle::Router,
            devices: 2,
            switch: Switch::None,
            guests: Guests::None,
            both_directions: true,
            tap_senders: false,
        };
        let [first, second] = [1, 2].map(|node| sides(&topology, node));
        assert_eq!([&first[0].mac, &second[1].mac], [&MAC_GENERATOR, &MAC_SINK]);
        assert_eq!((first[1].own, first[1].next), (second[0].next, second[0].own));
        let mac = |node, link: &str| topology.mac(&LinkEnd { node, link: link.to_owned() });
        assert_eq!([first[1].mac, second[0].mac], [mac(2, "in"), mac(1, "out")]);
        assert_eq!(topology.first_hops(), [mac(1, "in"), mac(2, "out")]);
        let expected = "  1. set r1:net/ipv4/conf/all/rp_filter to 0
  2. set r1:net/ipv4/conf/in/rp_filter to 0
  3. set r1:net/ipv4/conf/out/rp_filter to 0
  4. set r1:net/ipv4/ip_forward to 1
  5. add address 169.254.0.2/30 to r1:in
  6. add neighbor 169.254.0.1 at 02:00:00:00:03:01 to r1:in
  7. route 198.18.0.0/16 via 169.254.0.1 on r1:in
  8. add address 169.254.1.1/30 to r1:out
  9. add neighbor 169.254.1.2 at 02:00:00:00:01:02 to r1:out
 10. route 198.19.0.0/16 via 169.254.1.2 on r1:out
";
        assert_eq!(plan("r1", &first).to_string(), expected);
    }
}
