//! Route netlink requests of a testbed. Encoding is in [`message`].
//!
//! A socket belongs permanently to the network namespace of the thread that opened it. Open it with
//! [`Namespace::inside`](crate::Namespace::inside); any thread can then use it.

mod ethtool;
pub mod generic;
pub mod message;
mod socket;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{
    AF_INET, AF_INET6, IFA_ADDRESS, IFA_F_NODAD, IFA_FLAGS, IFA_LOCAL, IFLA_ADDRESS, IFLA_IFNAME,
    IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_INFO_SLAVE_DATA, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU,
    IFLA_NET_NS_FD, IFLA_OPERSTATE, IFLA_STATS64, NDA_DST, NDA_LLADDR, NUD_PERMANENT, RT_SCOPE_UNIVERSE,
    RT_TABLE_MAIN, RTA_DST, RTA_GATEWAY, RTA_OIF, RTM_DELADDR, RTM_DELLINK, RTM_DELNEIGH, RTM_DELROUTE,
    RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWROUTE, RTN_UNICAST, RTPROT_STATIC,
};

use self::message::{ACK, CREATE, DUMP, Message, attributes, u32_at, u64_at};
use self::socket::Socket;
use crate::network::mac::MacAddress;

// From linux/if_link.h; missing in `libc`.
const IFLA_BRPORT_STATE: u16 = 1;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;

const IFF_UP: u32 = 1;
/// Operational states according to RFC 2863. "Unknown" is the state of links without a carrier, such as the
/// loopback. It is also the initial state of veths and bridges, which change to up or down once the kernel
/// has checked them.
const OPERSTATE_UNKNOWN: u8 = 0;
const OPERSTATE_UP: u8 = 6;
/// The bridge forwards packets from and to this port.
const BR_STATE_FORWARDING: u8 = 3;
/// Size of `struct ifinfomsg` in bytes.
const IFINFO_LEN: usize = 16;

/// A network link as listed by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// At most 15 bytes, unique in its namespace.
    pub name: String,
    /// Interface index; never 0.
    pub index: u32,
    /// Whether the link is administratively up. A veth also needs its peer up to carry packets.
    pub up: bool,
    /// Whether the link passes packets: it is up, has a carrier and, if it is a bridge port, is forwarding.
    /// After both ends of a veth are set up, this takes up to a second.
    pub ready: bool,
    /// `veth`, `bridge`, …; empty for hardware and loopback.
    pub kind: String,
    /// Index of the bridge that this link is a port of.
    pub master: Option<u32>,
    /// Its Ethernet address, if it has one.
    pub mac: Option<MacAddress>,
    /// MTU: maximum packet size in bytes, without the Ethernet header.
    pub mtu: u32,
    pub traffic: LinkTraffic,
}

/// Packet counters of a link since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkTraffic {
    pub received: u64,
    pub sent: u64,
    /// Packets dropped on receive.
    pub dropped_in: u64,
    /// Packets dropped on send.
    pub dropped_out: u64,
}

/// A route netlink socket. Its public methods only read: changes are made by [`Step`](crate::Step)s.
#[derive(Debug)]
pub struct Netlink(Socket);

/// One end of a veth pair for [`Netlink::add_veth`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct VethEnd<'a> {
    pub name: &'a str,
    /// Its Ethernet address; `None` lets the kernel choose one.
    pub mac: Option<MacAddress>,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns the error of the system call, for example if no descriptors are left or netlink is missing.
    pub fn open() -> io::Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        Socket::open(None).map(Netlink)
    }

    /// Creates a veth pair: `a` in this socket's namespace, `b` in `b_namespace`. Each end is created
    /// directly in its final namespace.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if a name is in use, or the error from the kernel.
    pub(crate) fn add_veth(
        &mut self,
        a: VethEnd<'_>,
        b: VethEnd<'_>,
        b_namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut request = Message::new(RTM_NEWLINK, ACK | CREATE, &[0; IFINFO_LEN]);
        name_and_mac(&mut request, a);
        request.nest(IFLA_LINKINFO, |info| {
            info.attribute(IFLA_INFO_KIND, b"veth").nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |peer| {
                    peer.raw(&[0; IFINFO_LEN]);
                    name_and_mac(peer, b);
                    peer.attribute(IFLA_NET_NS_FD, &b_namespace.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.command(request)
    }

    /// Creates a bridge without spanning tree and multicast snooping. The bridge sends no packets of its own
    /// and forwards packets as soon as its ports are up.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if the name is in use, or the error from the kernel.
    pub(crate) fn add_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut request = Message::new(RTM_NEWLINK, ACK | CREATE, &[0; IFINFO_LEN]);
        request.name(IFLA_IFNAME, name).nest(IFLA_LINKINFO, |info| {
            info.attribute(IFLA_INFO_KIND, b"bridge").nest(IFLA_INFO_DATA, |data| {
                data.attribute(IFLA_BR_MCAST_SNOOPING, &[0]);
            });
        });
        self.command(request)
    }

    /// Adds `port` to the bridge `bridge`.
    ///
    /// # Errors
    /// Returns `ENODEV` if a link does not exist, or the error from the kernel.
    pub(crate) fn set_master(&mut self, port: &str, bridge: &str) -> io::Result<()> {
        let master = self.index(bridge)?;
        self.change(port, IFLA_MASTER, &master.to_ne_bytes())
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, or the error from the kernel.
    pub(crate) fn set_up(&mut self, link: &str, up: bool) -> io::Result<()> {
        let index = self.index(link)?;
        let flags = if up { IFF_UP } else { 0 };
        self.command(Message::new(RTM_NEWLINK, ACK, &ifinfo(index, flags, IFF_UP)))
    }

    /// Sets the MTU of a link, in bytes without the Ethernet header.
    ///
    /// # Errors
    /// Returns `EINVAL` if the link does not support this MTU, or the error from the kernel.
    pub(crate) fn set_mtu(&mut self, link: &str, mtu: u32) -> io::Result<()> {
        self.change(link, IFLA_MTU, &mtu.to_ne_bytes())
    }

    /// Sets the Ethernet address of a link.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, or the error from the kernel.
    pub(crate) fn set_mac(&mut self, link: &str, mac: MacAddress) -> io::Result<()> {
        self.change(link, IFLA_ADDRESS, &mac.0)
    }

    fn change(&mut self, link: &str, attribute: u16, value: &[u8]) -> io::Result<()> {
        let mut request = Message::new(RTM_NEWLINK, ACK, &ifinfo(self.index(link)?, 0, 0));
        request.attribute(attribute, value);
        self.command(request)
    }

    /// Removes a link; for a veth pair, removes both ends.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, or the error from the kernel.
    pub(crate) fn delete(&mut self, link: &str) -> io::Result<()> {
        let index = self.index(link)?;
        self.command(Message::new(RTM_DELLINK, ACK, &ifinfo(index, 0, 0)))
    }

    /// Adds an address to a link. It is usable immediately.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if the link has the address, or the error from the kernel.
    pub(crate) fn add_address(&mut self, link: &str, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let request = self.address(RTM_NEWADDR, ACK | CREATE, link, address, prefix_len)?;
        self.command(request)
    }

    /// Removes an address from a link.
    ///
    /// # Errors
    /// Returns `EADDRNOTAVAIL` if the link does not have the address, or the error from the kernel.
    pub(crate) fn delete_address(&mut self, link: &str, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let request = self.address(RTM_DELADDR, ACK, link, address, prefix_len)?;
        self.command(request)
    }

    fn address(&mut self, kind: u16, flags: u16, link: &str, ip: IpAddr, len: u8) -> io::Result<Message> {
        let (family, bytes) = family_and_bytes(ip);
        // struct ifaddrmsg
        let fixed = [&[family, len, 0, 0], &self.index(link)?.to_ne_bytes()[..]].concat();
        let mut request = Message::new(kind, flags, &fixed);
        request.attribute(IFA_LOCAL, &bytes).attribute(IFA_ADDRESS, &bytes);
        if ip.is_ipv6() {
            // Skips duplicate address detection, so that the address is usable immediately.
            request.attribute(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
        }
        Ok(request)
    }

    /// Adds a permanent neighbor entry, so that no address resolution takes place.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if there is an entry, or the error from the kernel.
    pub(crate) fn add_neighbour(&mut self, link: &str, address: IpAddr, mac: MacAddress) -> io::Result<()> {
        let mut request = self.neighbour(RTM_NEWNEIGH, ACK | CREATE, link, address)?;
        request.attribute(NDA_LLADDR, &mac.0);
        self.command(request)
    }

    /// Removes a neighbor entry.
    ///
    /// # Errors
    /// Returns `NotFound` if there is no entry, or the error from the kernel.
    pub(crate) fn delete_neighbour(&mut self, link: &str, address: IpAddr) -> io::Result<()> {
        let request = self.neighbour(RTM_DELNEIGH, ACK, link, address)?;
        self.command(request)
    }

    fn neighbour(&mut self, kind: u16, flags: u16, link: &str, ip: IpAddr) -> io::Result<Message> {
        let (family, bytes) = family_and_bytes(ip);
        let index = self.index(link)?.to_ne_bytes();
        // struct ndmsg
        let fixed = [&[family, 0, 0, 0], &index[..], &NUD_PERMANENT.to_ne_bytes(), &[0, 0]].concat();
        let mut request = Message::new(kind, flags, &fixed);
        request.attribute(NDA_DST, &bytes);
        Ok(request)
    }

    /// Adds a route to a destination prefix through a gateway reachable over the link.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if there is such a route, `ENETUNREACH` if the link has no address in the
    /// gateway's subnet, or the error from the kernel.
    pub(crate) fn add_route(
        &mut self,
        link: &str,
        destination: (IpAddr, u8),
        gateway: IpAddr,
    ) -> io::Result<()> {
        let request = self.route(RTM_NEWROUTE, ACK | CREATE, link, destination, gateway)?;
        self.command(request)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// Returns `ESRCH` if there is no such route, or the error from the kernel.
    pub(crate) fn delete_route(
        &mut self,
        link: &str,
        destination: (IpAddr, u8),
        gateway: IpAddr,
    ) -> io::Result<()> {
        let request = self.route(RTM_DELROUTE, ACK, link, destination, gateway)?;
        self.command(request)
    }

    fn route(
        &mut self,
        kind: u16,
        flags: u16,
        link: &str,
        (destination, len): (IpAddr, u8),
        gateway: IpAddr,
    ) -> io::Result<Message> {
        let (family, bytes) = family_and_bytes(destination);
        // struct rtmsg
        let fixed =
            [[family, len, 0, 0], [RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_UNICAST], [0; 4]];
        let mut request = Message::new(kind, flags, fixed.as_flattened());
        request
            .attribute(RTA_DST, &bytes)
            .attribute(RTA_OIF, &self.index(link)?.to_ne_bytes())
            .attribute(RTA_GATEWAY, &family_and_bytes(gateway).1);
        Ok(request)
    }

    /// Lists all links of the namespace.
    ///
    /// # Errors
    /// Returns the error from the kernel.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let request = Message::new(RTM_GETLINK, DUMP, &[0; IFINFO_LEN]);
        let mut links = Vec::new();
        self.exchange(request, |body| links.extend(parse_link(body)))?;
        Ok(links)
    }

    fn index(&mut self, name: &str) -> io::Result<u32> {
        let mut request = Message::new(RTM_GETLINK, ACK, &[0; IFINFO_LEN]);
        request.name(IFLA_IFNAME, name);
        let mut index = None;
        self.exchange(request, |body| index = u32_at(body, 4))?;
        index.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn command(&mut self, request: Message) -> io::Result<()> {
        self.exchange(request, |_| ())
    }

    /// Sends a request. Calls `each` for every link in the reply, up to its end.
    fn exchange(&mut self, request: Message, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.exchange(request, |kind, body| {
            if kind == RTM_NEWLINK {
                each(body);
            }
        })
    }
}

fn name_and_mac(message: &mut Message, end: VethEnd<'_>) {
    message.name(IFLA_IFNAME, end.name);
    if let Some(mac) = end.mac {
        message.attribute(IFLA_ADDRESS, &mac.0);
    }
}

/// `struct ifinfomsg`: family, padding, type, index, flags, mask of flags to change.
fn ifinfo(index: u32, flags: u32, change: u32) -> [u8; IFINFO_LEN] {
    let mut bytes = [0; IFINFO_LEN];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6 as u8, v6.octets().to_vec()),
    }
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let mut link = Link {
        name: String::new(),
        index: u32_at(body, 4)?,
        up: u32_at(body, 8)? & IFF_UP != 0,
        ready: false,
        kind: String::new(),
        master: None,
        mac: None,
        mtu: 0,
        traffic: LinkTraffic::default(),
    };
    let (mut operstate, mut forwards) = (OPERSTATE_UNKNOWN, true);
    for (kind, value) in attributes(body.get(IFINFO_LEN..)?) {
        match kind {
            IFLA_IFNAME => link.name = text(value),
            IFLA_STATS64 => link.traffic = parse_traffic(value).unwrap_or_default(),
            IFLA_MASTER => link.master = u32_at(value, 0),
            IFLA_ADDRESS => link.mac = value.try_into().ok().map(MacAddress),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_OPERSTATE => operstate = *value.first()?,
            IFLA_LINKINFO => {
                let info = |which| attributes(value).find(|(kind, _)| *kind == which).map(|(_, value)| value);
                link.kind = info(IFLA_INFO_KIND).map(text).unwrap_or_default();
                let port = info(IFLA_INFO_SLAVE_DATA).unwrap_or_default();
                let state = attributes(port).find(|(kind, _)| *kind == IFLA_BRPORT_STATE);
                forwards = state.is_none_or(|(_, state)| state == [BR_STATE_FORWARDING]);
            }
            _ => {}
        }
    }
    let unknown_is_up = !matches!(link.kind.as_str(), "veth" | "bridge");
    let carrier = operstate == OPERSTATE_UP || (operstate == OPERSTATE_UNKNOWN && unknown_is_up);
    link.ready = link.up && carrier && forwards;
    Some(link)
}

/// `struct rtnl_link_stats64`: packets received and sent, bytes received and sent, errors on receive and
/// send, drops on receive and send.
fn parse_traffic(value: &[u8]) -> Option<LinkTraffic> {
    let at = |place: usize| u64_at(value, place * 8);
    Some(LinkTraffic { received: at(0)?, sent: at(1)?, dropped_in: at(6)?, dropped_out: at(7)? })
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_link_message() {
        let mut message = Message::new(RTM_NEWLINK, 0, &ifinfo(7, IFF_UP | 0x1000, 0));
        message
            .name(IFLA_IFNAME, "in0")
            .attribute(IFLA_MTU, &1500_u32.to_ne_bytes())
            .attribute(IFLA_MASTER, &3_u32.to_ne_bytes())
            .attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9])
            .attribute(IFLA_OPERSTATE, &[OPERSTATE_UP])
            .nest(IFLA_LINKINFO, |info| {
                info.name(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_SLAVE_DATA, |port| {
                    // The listening state.
                    port.attribute(IFLA_BRPORT_STATE, &[1]);
                });
            });
        let bytes = message.finish(1);
        let link = parse_link(&bytes[message::HEADER_LEN..]).expect("a link");
        let expected = Link {
            name: "in0".into(),
            index: 7,
            up: true,
            ready: false,
            kind: "veth".into(),
            master: Some(3),
            mac: Some(MacAddress([2, 0, 0, 0, 0, 9])),
            mtu: 1500,
            traffic: LinkTraffic::default(),
        };
        assert_eq!(link, expected);
    }

    #[test]
    fn lists_links_without_privileges() {
        let links = Netlink::open().and_then(|mut netlink| netlink.links()).expect("a list of links");
        assert!(links.iter().any(|link| link.name == "lo" && link.index == 1), "{links:?}");
    }

    #[test]
    fn rejects_unknown_link() {
        let mut netlink = Netlink::open().expect("a socket");
        assert!(netlink.set_up("no-such-link", true).is_err());
        assert!(netlink.links().is_ok(), "usable after an error");
    }
}
