//! Finds the IP header of a frame and the headers and payload after it.
//!
//! There are two paths. [`udp4`] recognizes the most common frame in measurements (untagged Ethernet, IPv4
//! without options, UDP) at fixed offsets with one comparison each. [`parse`] handles all other frames. Both
//! clip to the IP length, so that Ethernet padding is never part of the payload.
//!
//! Sources: IEEE 802.1Q; RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP), RFC 9293 (TCP);
//! <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>,
//! <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html>.

use crate::read::{Frame, LinkType};

/// IP protocol numbers (IANA).
pub(crate) mod protocol {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const ICMP6: u8 = 58;
    pub(crate) const SCTP: u8 = 132;
    pub(crate) const UDP_LITE: u8 = 136;
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Length of Ethernet, IPv4 (no options) and UDP headers.
pub(crate) const UDP4_HEADERS: usize = 42;

/// Maximum number of VLAN tags that are skipped. Networks use at most two; more than this limit indicates
/// invalid data.
const TAGS_MAX: usize = 8;
/// Maximum number of IPv6 extension headers that are skipped.
const EXTENSIONS_MAX: usize = 16;

/// Returns the headers and payload of a common kind of frame: untagged Ethernet, IPv4 without options or
/// fragmentation, and UDP.
#[inline(always)]
pub(crate) fn udp4<'a>(frame: &Frame<'a>) -> Option<(&'a [u8; UDP4_HEADERS], &'a [u8])> {
    if frame.link != LinkType::Ethernet {
        return None;
    }
    let (headers, rest) = frame.data.split_first_chunk::<UDP4_HEADERS>()?;
    let kind = u32::from_be_bytes([headers[12], headers[13], headers[14], headers[23]]);
    let fragment = u16::from_be_bytes([headers[20], headers[21]]) & 0x3fff;
    let ip_len = usize::from(u16::from_be_bytes([headers[16], headers[17]]));
    if kind != 0x0800_4511 || fragment != 0 || ip_len < 28 {
        return None;
    }
    Some((headers, &rest[..rest.len().min(ip_len - 28)]))
}

/// An IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ip<'a> {
    /// Source and destination address: 8 or 32 bytes together.
    pub(crate) addresses: &'a [u8],
    /// Protocol after the IP header and its extensions.
    pub(crate) protocol: u8,
    /// Identification of the datagram. In IPv6, only the fragment header contains it; it is 0 for packets
    /// without such a header.
    pub(crate) identification: u32,
    /// IPv4: the total length; IPv6: the payload length.
    pub(crate) len: u16,
    /// Fragment offset in units of 8 bytes, shifted left by one, plus 1 if more fragments follow.
    pub(crate) fragment: u16,
    /// Captured bytes after the IP headers, without padding.
    pub(crate) body: &'a [u8],
    /// Length of the body on the wire.
    pub(crate) body_len: u32,
}

/// The transport header and its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport<'a> {
    /// The whole header; empty for unknown protocols.
    pub(crate) header: &'a [u8],
    /// Captured part of the payload.
    pub(crate) payload: &'a [u8],
    /// Length of the payload on the wire.
    pub(crate) payload_len: u32,
}

impl Ip<'_> {
    pub(crate) fn is_v4(&self) -> bool {
        self.addresses.len() == 8
    }

    /// Whether the transport header is in an earlier fragment.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment >> 1 != 0
    }
}

impl<'a> Ip<'a> {
    /// The transport header; `None` for later fragments and if the captured frame ends within the header.
    pub(crate) fn transport(&self) -> Option<Transport<'a>> {
        if self.is_later_fragment() {
            return None;
        }
        let header_len = match self.protocol {
            protocol::TCP => usize::from(*self.body.get(12)? >> 4) * 4,
            protocol::UDP | protocol::UDP_LITE | protocol::ICMP | protocol::ICMP6 => 8,
            protocol::SCTP => 12,
            _ => 0,
        };
        if self.protocol == protocol::TCP && header_len < 20 {
            return None;
        }
        let (header, payload) = self.body.split_at_checked(header_len)?;
        Some(Transport { header, payload, payload_len: self.body_len.saturating_sub(header_len as u32) })
    }

    /// Source and destination port, if the protocol has ports.
    pub(crate) fn ports(&self) -> Option<[u8; 4]> {
        match self.protocol {
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
                if self.is_later_fragment() {
                    return None;
                }
                self.body.first_chunk::<4>().copied()
            }
            _ => None,
        }
    }
}

/// Returns the ethertype of a frame (after its VLAN tags) and the data after it. For links without an
/// ethertype, it returns the ethertype of the IP version.
pub(crate) fn network<'a>(frame: &Frame<'a>) -> Option<(u16, &'a [u8])> {
    let data = frame.data;
    match frame.link {
        LinkType::Ethernet => untag(be16(data, 12)?, &data[14..]),
        LinkType::Sll => untag(be16(data, 14)?, &data[16..]),
        LinkType::Sll2 => untag(be16(data, 0)?, data.get(20..)?),
        LinkType::RawIp => ip_version(data),
        LinkType::Loopback => ip_version(data.get(4..)?),
        LinkType::MoonsniffId => None,
    }
}

fn ip_version(data: &[u8]) -> Option<(u16, &[u8])> {
    match data.first()? >> 4 {
        4 => Some((ETHERTYPE_IPV4, data)),
        6 => Some((ETHERTYPE_IPV6, data)),
        _ => None,
    }
}

/// Skips 802.1Q, 802.1ad and pre-standard QinQ tags.
fn untag(mut ethertype: u16, mut data: &[u8]) -> Option<(u16, &[u8])> {
    for _ in 0..TAGS_MAX {
        match ethertype {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                ethertype = be16(data, 2)?;
                data = &data[4..];
            }
            _ => return Some((ethertype, data)),
        }
    }
    None
}

/// Returns the IP packet of a frame; `None` for other protocols and for truncated or invalid headers.
pub(crate) fn parse<'a>(frame: &Frame<'a>) -> Option<Ip<'a>> {
    match network(frame)? {
        (ETHERTYPE_IPV4, data) => ipv4(data),
        (ETHERTYPE_IPV6, data) => ipv6(data),
        _ => None,
    }
}

fn ipv4(data: &[u8]) -> Option<Ip<'_>> {
    let header = data.first_chunk::<20>()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let len = u16::from_be_bytes([header[2], header[3]]);
    let body = data.get(header_len..)?;
    // In captures on a sending host, the length is zero if the NIC segments the packet (TSO). All captured
    // bytes then belong to the packet.
    let body_len = match usize::from(len) {
        0 => body.len(),
        len => len.checked_sub(header_len)?,
    };
    let flags = u16::from_be_bytes([header[6], header[7]]);
    Some(Ip {
        addresses: &data[12..20],
        protocol: header[9],
        identification: u32::from(u16::from_be_bytes([header[4], header[5]])),
        len,
        fragment: (flags & 0x1fff) << 1 | (flags >> 13 & 1),
        body: &body[..body.len().min(body_len)],
        body_len: body_len as u32,
    })
}

fn ipv6(data: &[u8]) -> Option<Ip<'_>> {
    let header = data.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let len = u16::from_be_bytes([header[4], header[5]]);
    let mut body = &data[40..];
    // Zero means a jumbogram (RFC 2675) or a packet that the NIC segments. All captured bytes then belong to
    // the packet.
    let mut body_len = if len == 0 { body.len() } else { usize::from(len) };
    body = &body[..body.len().min(body_len)];
    let mut ip = Ip {
        addresses: &data[8..40],
        protocol: header[6],
        identification: 0,
        len,
        fragment: 0,
        body,
        body_len: 0,
    };
    for _ in 0..EXTENSIONS_MAX {
        let extension_len = match ip.protocol {
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(*ip.body.get(1)?) + 1) * 8,
            // Authentication header: in units of 4 bytes.
            51 => (usize::from(*ip.body.get(1)?) + 2) * 4,
            44 => 8,
            _ => break,
        };
        let (extension, rest) = ip.body.split_at_checked(extension_len)?;
        if ip.protocol == 44 {
            let offset = u16::from_be_bytes([extension[2], extension[3]]);
            ip.fragment = (offset >> 3) << 1 | (offset & 1);
            ip.identification = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
        }
        ip.protocol = extension[0];
        ip.body = rest;
        body_len -= extension_len;
        if ip.is_later_fragment() {
            break;
        }
    }
    ip.body_len = body_len as u32;
    Some(ip)
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{frame, ipv6_udp, tagged, udp4 as udp4_frame};

    #[test]
    fn every_link_type_yields_the_same_packet() {
        let ethernet = udp4_frame(7, 60);
        let ip = &ethernet[14..];
        let expected = parse(&frame(LinkType::Ethernet, &ethernet)).unwrap();
        assert_eq!(expected.ports(), Some([3, 232, 7, 208]));
        assert_eq!(expected.transport().unwrap().payload_len, 18);
        let sll = [&[0; 14][..], &[8, 0], ip].concat();
        let sll2 = [&[8, 0][..], &[0; 18], ip].concat();
        let cases = [
            (LinkType::Ethernet, tagged(&ethernet, &[0x8100])),
            (LinkType::Ethernet, tagged(&ethernet, &[0x88a8, 0x8100])),
            (LinkType::Sll, sll.clone()),
            (LinkType::Sll, [&sll[..14], &[0x81, 0, 0, 5, 8, 0], ip].concat()),
            (LinkType::Sll2, sll2),
            (LinkType::RawIp, ip.to_vec()),
            (LinkType::Loopback, [&[2, 0, 0, 0], ip].concat()),
        ];
        for (link, data) in cases {
            assert_eq!(parse(&frame(link, &data)), Some(expected), "{link:?}");
        }
        assert_eq!(parse(&frame(LinkType::MoonsniffId, ip)), None);
    }

    #[test]
    fn skips_padding_and_options() {
        let mut padded = udp4_frame(7, 50);
        let whole = padded.clone();
        padded.resize(60, 0xee);
        assert_eq!(parse(&frame(LinkType::Ethernet, &padded)), parse(&frame(LinkType::Ethernet, &whole)));
        assert_eq!(udp4(&frame(LinkType::Ethernet, &padded)).unwrap().1, &whole[42..]);

        let mut options = whole.clone();
        options[14] = 0x46;
        options[17] += 4;
        options.splice(34..34, [1, 1, 1, 1]);
        let options = frame(LinkType::Ethernet, &options);
        assert!(udp4(&options).is_none());
        assert_eq!(parse(&options).unwrap().transport().unwrap().payload, &whole[42..]);
    }

    #[test]
    fn only_first_fragments_have_a_transport_header() {
        let mut first = udp4_frame(7, 60);
        first[20] = 0x20;
        assert!(udp4(&frame(LinkType::Ethernet, &first)).is_none());
        let ip = parse(&frame(LinkType::Ethernet, &first)).unwrap();
        assert_eq!((ip.fragment, ip.transport().is_some()), (1, true));
        let mut later = first;
        later[20..22].copy_from_slice(&[0x00, 0x05]);
        let ip = parse(&frame(LinkType::Ethernet, &later)).unwrap();
        assert_eq!((ip.fragment, ip.transport(), ip.ports()), (10, None, None));
        assert_eq!(ip.body_len, 26);
    }

    #[test]
    fn skips_ipv6_extension_headers() {
        let plain = ipv6_udp(&[], 17);
        let expected = parse(&frame(LinkType::RawIp, &plain)).unwrap();
        assert_eq!(expected.transport().unwrap().payload, b"payload");
        // Hop-by-hop options of 8 bytes, destination options of 16, a first fragment.
        let hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let mut destination = [0; 16];
        destination[..2].copy_from_slice(&[44, 1]);
        let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
        let data = ipv6_udp(&[&hop[..], &destination, &fragment].concat(), 0);
        let ip = parse(&frame(LinkType::RawIp, &data)).unwrap();
        assert_eq!(ip.transport(), expected.transport());
        assert_eq!((ip.identification, ip.fragment), (9, 1));
        let later = ipv6_udp(&[17, 0, 0, 8, 0, 0, 0, 9], 44);
        assert_eq!(parse(&frame(LinkType::RawIp, &later)).unwrap().transport(), None);
        // A chain that points beyond the packet.
        assert_eq!(parse(&frame(LinkType::RawIp, &ipv6_udp(&[60, 255, 0, 0, 0, 0, 0, 0], 0))), None);
    }

    proptest! {
        /// The fast path returns the same result as the general path.
        #[test]
        fn fast_and_general_path_agree(
            mut data in prop::collection::vec(any::<u8>(), 0..100),
            is_udp4 in prop::collection::vec(prop::bool::weighted(0.95), 5),
        ) {
            let fixed: [(usize, &[u8]); 5] = [(12, &[8, 0]), (14, &[0x45]), (16, &[0]), (20, &[0x40, 0]), (23, &[17])];
            for ((at, bytes), is_set) in fixed.into_iter().zip(is_udp4) {
                if is_set && data.len() >= at + bytes.len() {
                    data[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            let frame = frame(LinkType::Ethernet, &data);
            if let Some((headers, payload)) = udp4(&frame) {
                let ip = parse(&frame).unwrap();
                prop_assert_eq!(ip.addresses, &headers[26..34]);
                prop_assert_eq!(&ip.ports().unwrap(), &headers[34..38]);
                prop_assert_eq!(ip.protocol, protocol::UDP);
                prop_assert_eq!(ip.transport().unwrap().payload, payload);
            }
        }
    }
}
