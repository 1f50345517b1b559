//! Generic netlink requests of a testbed: turning GRO on or off (family "ethtool"), and checking whether a
//! link accepts frames redirected by XDP (family "netdev").
//!
//! Message layouts: Documentation/networking/ethtool-netlink.rst and Documentation/netlink/specs/netdev.yaml
//! of the kernel. The number of a family is looked up by its name.

use std::io;

use libc::{CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL};

use super::message::{ACK, Message, attributes, u16_at, u64_at};
use super::socket::Socket;

// linux/ethtool_netlink.h and linux/netdev.h.
pub(super) const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
pub(super) const FEATURES_ACTIVE: u16 = 4;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;
/// Name of the feature in the kernel (`netdev_features_strings`); `ethtool` uses a longer one.
const GRO: &str = "rx-gro";

const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_NDO_XMIT`: the link currently accepts redirected frames.
const XDP_NDO_XMIT: u64 = 4;

/// These families require this flag on attributes that contain nested attributes.
const NESTED: u16 = libc::NLA_F_NESTED as u16;
/// `struct genlmsghdr`: command, version, two reserved bytes.
const HEADER_LEN: usize = 4;

/// Whether a link in the calling thread's namespace accepts frames that XDP redirects to it. `None` if the
/// kernel cannot report this (before 6.3). One end of a veth pair accepts them only if the other end has GRO
/// enabled or an XDP program attached.
///
/// # Errors
/// Returns an error if the link does not exist or a netlink call fails.
pub fn takes_redirected_frames(link: &str) -> io::Result<Option<bool>> {
    let index = super::Netlink::open()?.index(link)?;
    GenericNetlink::open()?.takes_redirected(index)
}

#[derive(Debug)]
pub(crate) struct GenericNetlink(Socket);

impl GenericNetlink {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn open() -> io::Result<Self> {
        Socket::open(Some(rustix::net::netlink::GENERIC)).map(Self)
    }

    /// Whether generic receive offload of a link is on.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, and `NotFound` if the kernel has no ethtool netlink
    /// family.
    pub(crate) fn gro(&mut self, link: &str) -> io::Result<bool> {
        let mut on = false;
        self.ethtool(FEATURES_GET, link, |kind, value| {
            if kind == FEATURES_ACTIVE {
                on = set_bits(value).any(|name| name == GRO);
            }
        })?;
        Ok(on)
    }

    /// Turns generic receive offload of a link on or off.
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist, and `Other` if its driver does not support the change.
    pub(crate) fn set_gro(&mut self, link: &str, on: bool) -> io::Result<()> {
        let mut request = self.request("ethtool", FEATURES_SET)?;
        device(&mut request, link);
        request.nest(FEATURES_WANTED | NESTED, |set| {
            set.nest(BITSET_BITS | NESTED, |bits| {
                bits.nest(BITS_BIT | NESTED, |bit| {
                    bit.name(BIT_NAME, GRO);
                    if on {
                        bit.attribute(BIT_VALUE, &[]);
                    }
                });
            });
        });
        self.objects(request, |_, _| ())?;
        // The kernel does not report an unsupported change as an error.
        if self.gro(link)? == on {
            Ok(())
        } else {
            Err(io::Error::other("its driver does not support changing it"))
        }
    }

    /// Whether a link accepts frames redirected by XDP. `None` if the kernel cannot report this (before 6.3).
    ///
    /// # Errors
    /// Returns `ENODEV` if the link does not exist.
    pub(crate) fn takes_redirected(&mut self, index: u32) -> io::Result<Option<bool>> {
        let mut request = match self.request("netdev", DEV_GET) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            request => request?,
        };
        request.attribute(DEV_IFINDEX, &index.to_ne_bytes());
        let mut takes = None;
        self.objects(request, |kind, value| {
            if kind == DEV_XDP_FEATURES {
                takes = u64_at(value, 0).map(|features| features & XDP_NDO_XMIT != 0);
            }
        })?;
        Ok(takes)
    }

    /// Sends an ethtool request about a link. Calls `each` for every attribute in the reply.
    pub(super) fn ethtool(
        &mut self,
        command: u8,
        link: &str,
        each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let mut request = self.request("ethtool", command)?;
        device(&mut request, link);
        self.objects(request, each)
    }

    fn request(&mut self, family: &str, command: u8) -> io::Result<Message> {
        let mut question = Message::new(GENL_ID_CTRL as u16, ACK, &[CTRL_CMD_GETFAMILY as u8, 1, 0, 0]);
        question.name(CTRL_ATTR_FAMILY_NAME as u16, family);
        let mut number = None;
        self.objects(question, |kind, value| {
            if kind == CTRL_ATTR_FAMILY_ID as u16 {
                number = u16_at(value, 0);
            }
        })?;
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        Ok(Message::new(number, ACK, &[command, 1, 0, 0]))
    }

    /// Sends a request. Calls `each` for every attribute in the reply.
    fn objects(&mut self, request: Message, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.0.exchange(request, |_, body| {
            attributes(body.get(HEADER_LEN..).unwrap_or_default())
                .for_each(|(kind, value)| each(kind, value));
        })
    }
}

fn device(request: &mut Message, link: &str) {
    request.nest(FEATURES_HEADER | NESTED, |header| {
        header.name(HEADER_DEV_NAME, link);
    });
}

/// Names of the set bits in a bit set without a mask.
pub(super) fn set_bits(value: &[u8]) -> impl Iterator<Item = String> {
    let bits = attributes(value).filter(|(kind, _)| *kind == BITSET_BITS);
    let names = bits.flat_map(|(_, bits)| attributes(bits)).flat_map(|(_, bit)| attributes(bit));
    names.filter(|(kind, _)| *kind == BIT_NAME).map(|(_, name)| super::text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_gro_without_privileges() {
        let mut netlink = GenericNetlink::open().expect("a socket");
        match netlink.gro("lo") {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
        }
        // The loopback does not accept redirected frames.
        assert_ne!(netlink.takes_redirected(1).expect("an answer"), Some(true));
        assert!(netlink.gro("no-such-link").is_err());
        assert!(netlink.takes_redirected(1).is_ok(), "usable after an error");
    }
}
