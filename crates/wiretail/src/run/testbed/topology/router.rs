//! The kernel's own router as a device: what its namespaces need so that it passes the load generator's packets on,
//! and nothing else is on the wire.
//!
//! ```text
//! 198.18.0.0/16        169.254.0.0/30         169.254.1.0/30        198.19.0.0/16
//! load generator ══ .1 ═════════ .2 router 1 .1 ═════════ .2 sink (or router 2) ══
//! ```
//!
//! Each link has a network of its own, from which routers have their addresses; load generator and sink have none, they
//! are only told of to the router beside them. What is for the sink's network goes to the next one towards it, what
//! is for the load generator's to the next one back, each at an Ethernet address that is known from the
//! beginning: nobody ever asks for one (ARP).
//!
//! A router takes what is sent to its own Ethernet address, so the load generator sends to the first router's
//! ([`Topology::first_hops`]). It rewrites both Ethernet addresses, and the time to live with its checksum; the
//! load generator's signature, by which packets are known again, is behind all that.

use std::net::Ipv4Addr;

use wiretail_host::{MacAddress, Plan, Step};

use super::{NETWORK_GENERATOR, NETWORK_LEN, NETWORK_SINK};
use crate::run::testbed::topology::{LinkEnd, Topology};

/// Bits of a link's network: four addresses, of which two are usable.
const LINK_LEN: u8 = 30;

/// One of the two sides of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Its link to there.
    pub link: String,
    /// Its own address on the link.
    pub own: Ipv4Addr,
    /// Address of the next node on the link, in the same network of four.
    pub next: Ipv4Addr,
    /// The next node's Ethernet address on the link.
    pub mac: MacAddress,
    /// What is to be sent there: a network, and the bits of its network part.
    pub behind: (Ipv4Addr, u8),
}

/// The steps that make a router of a namespace whose links are up. They go with the namespace.
pub fn plan(namespace: &str, sides: &[Side; 2]) -> Plan {
    let mut plan = Plan::new();
    let mut sysctl = |name: &str, value: &str| {
        let (namespace, name) = (namespace.to_owned(), format!("net/ipv4/{name}"));
        plan.push(Step::SetSysctl { namespace, name, value: value.to_owned() });
    };
    // The larger value of all and of the link's own holds: whether a packet came from where the answer would go
    // is not looked up. A namespace may have inherited that it is.
    sysctl("conf/all/rp_filter", "0");
    for side in sides {
        sysctl(&format!("conf/{}/rp_filter", side.link), "0");
    }
    // Packets never leave where they came from: there are no ICMP redirects to switch off.
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

/// The sides of the router at a node, towards the load generator and towards the sink.
pub fn sides(topology: &Topology, node: usize) -> [Side; 2] {
    let mac = |node, link: &str| topology.mac(&LinkEnd { node, link: link.to_owned() });
    // The link behind a node has its number, and the node's side of it the first address.
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
    fn routers_in_a_row_know_each_other() {
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
  6. tell r1:in that 169.254.0.1 is at 02:00:00:00:03:01
  7. route 198.18.0.0/16 by r1:in to 169.254.0.1
  8. add address 169.254.1.1/30 to r1:out
  9. tell r1:out that 169.254.1.2 is at 02:00:00:00:01:02
 10. route 198.19.0.0/16 by r1:out to 169.254.1.2
";
        assert_eq!(plan("r1", &first).to_string(), expected);
    }
}
