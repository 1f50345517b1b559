//! Assigns frames to flows.
//!
//! There are two levels. Common frames are looked up in a direct-mapped cache, whose hash is a single
//! multiplication. The cache is effective because captures usually alternate between a few flows. A map holds
//! all flows, including those that are not in the cache.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use wiretail_schema::packet::FlowRule;

use crate::key::SIGNATURE;
use crate::layers::{self, UDP4_HEADERS, protocol};
use crate::read::Frame;

/// Default maximum number of flows that are counted separately. All further flows are counted together.
pub const FLOWS_MAX: usize = 4096;

/// Number of slots in the cache. Only slots in use occupy the processor's cache.
const SLOTS: usize = 4096;

/// Flag in [`V4`] for a flow that has ports.
const HAS_PORTS: u32 = 0x100;

/// Identity of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FlowKey {
    V4 {
        addresses: [u8; 8],
        ports: Option<[u8; 4]>,
        protocol: u8,
    },
    V6 {
        addresses: Box<[u8; 32]>,
        ports: Option<[u8; 4]>,
        protocol: u8,
    },
    Stream(u16),
    Ethertype(u16),
    /// Frames that the rule does not cover.
    Unknown,
}

/// Identity of an IPv4 flow, as compared by the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct V4 {
    addresses: u64,
    ports: u32,
    /// The protocol. Bit 8 is set if there are ports.
    protocol: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    flow: V4,
    /// Flow index plus one; 0 marks an empty slot.
    index: u32,
}

/// Assigns an index to every flow, from 0 in order of appearance.
#[derive(Debug, Clone)]
pub struct FlowTable {
    rule: FlowRule,
    limit: usize,
    slots: Vec<Slot>,
    flows: HashMap<FlowKey, u32>,
    names: Vec<String>,
    unknown: Option<u32>,
    overflown: bool,
}

impl FlowTable {
    /// Creates a table of at most [`FLOWS_MAX`] flows.
    pub fn new(rule: FlowRule) -> Self {
        Self::with_limit(rule, FLOWS_MAX)
    }

    /// Creates a table of at most `limit` flows (at least one). All further flows share one more entry, named
    /// "others".
    pub fn with_limit(rule: FlowRule, limit: usize) -> Self {
        let limit = limit.clamp(1, u32::MAX as usize - 2);
        let names = if rule == FlowRule::None { vec!["all".to_owned()] } else { Vec::new() };
        let slots = if rule == FlowRule::FiveTuple { vec![Slot::default(); SLOTS] } else { Vec::new() };
        Self { rule, limit, slots, flows: HashMap::new(), names, unknown: None, overflown: false }
    }

    /// The rule that distinguishes flows.
    pub fn rule(&self) -> FlowRule {
        self.rule
    }

    /// Names of the flows, by index: "10.0.0.16:1024 > 192.168.1.2:53 udp", "stream 3".
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Index of the flow "others"; `None` while every flow has its own entry.
    pub fn others(&self) -> Option<u32> {
        self.overflown.then_some(self.limit as u32)
    }

    /// Returns the index of the frame's flow.
    #[inline]
    pub fn index(&mut self, frame: &Frame<'_>) -> u32 {
        match self.rule {
            FlowRule::FiveTuple => self.five_tuple(frame),
            FlowRule::Stream => self.stream(frame),
            FlowRule::None => 0,
        }
    }

    #[inline(always)]
    pub(crate) fn five_tuple(&mut self, frame: &Frame<'_>) -> u32 {
        match layers::udp4(frame) {
            Some((headers, _)) => self.udp4(headers),
            None => self.five_tuple_elsewhere(frame),
        }
    }

    /// Returns the flow index of a frame parsed by [`layers::udp4`].
    #[inline(always)]
    pub(crate) fn udp4(&mut self, headers: &[u8; UDP4_HEADERS]) -> u32 {
        self.cached(V4 {
            addresses: u64::from_le_bytes(array(&headers[26..34])),
            ports: u32::from_le_bytes(array(&headers[34..38])),
            protocol: u32::from(protocol::UDP) | HAS_PORTS,
        })
    }

    #[inline(always)]
    fn cached(&mut self, flow: V4) -> u32 {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the factor.
        let mixed = flow.addresses ^ u64::from(flow.ports).rotate_left(32) ^ u64::from(flow.protocol);
        let at = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % SLOTS;
        let slot = self.slots[at];
        if slot.flow == flow && slot.index != 0 {
            return slot.index - 1;
        }
        self.miss(flow, at)
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, flow: V4, at: usize) -> u32 {
        let index = self.find(&FlowKey::V4 {
            addresses: flow.addresses.to_le_bytes(),
            ports: (flow.protocol & HAS_PORTS != 0).then_some(flow.ports.to_le_bytes()),
            protocol: flow.protocol as u8,
        });
        self.slots[at] = Slot { flow, index: index + 1 };
        index
    }

    #[inline(never)]
    fn five_tuple_elsewhere(&mut self, frame: &Frame<'_>) -> u32 {
        let Some(ip) = layers::parse(frame) else {
            return match layers::network(frame) {
                Some((ethertype, _)) if frame.link.has_ethertype() => {
                    self.find(&FlowKey::Ethertype(ethertype))
                }
                _ => self.unknown(),
            };
        };
        let ports = ip.ports();
        match <[u8; 8]>::try_from(ip.addresses) {
            Ok(addresses) => self.cached(V4 {
                addresses: u64::from_le_bytes(addresses),
                ports: u32::from_le_bytes(ports.unwrap_or_default()),
                protocol: u32::from(ip.protocol) | if ports.is_some() { HAS_PORTS } else { 0 },
            }),
            Err(_) => {
                let addresses = Box::new(array(ip.addresses));
                self.find(&FlowKey::V6 { addresses, ports, protocol: ip.protocol })
            }
        }
    }

    /// The flow for frames whose flow cannot be determined. In formats that only record identifiers, all
    /// frames belong to it.
    fn unknown(&mut self) -> u32 {
        if let Some(index) = self.unknown {
            return index;
        }
        let index = self.find(&FlowKey::Unknown);
        self.unknown = Some(index);
        index
    }

    fn stream(&mut self, frame: &Frame<'_>) -> u32 {
        let id = match layers::udp4(frame) {
            Some((_, payload)) => stream_id(payload),
            None => layers::parse(frame).and_then(|ip| stream_id(ip.transport()?.payload)),
        };
        match id {
            Some(id) => self.find(&FlowKey::Stream(id)),
            None => self.unknown(),
        }
    }

    fn find(&mut self, key: &FlowKey) -> u32 {
        if let Some(&index) = self.flows.get(key) {
            return index;
        }
        if self.flows.len() >= self.limit {
            if !self.overflown {
                self.overflown = true;
                self.names.push("others".to_owned());
            }
            return self.limit as u32;
        }
        let index = self.flows.len() as u32;
        self.flows.insert(key.clone(), index);
        self.names.push(key.name());
        index
    }
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// Reads the stream id of Wiretail's load generator: a little-endian u16 after the packet's id (4 bytes) and
/// 0x55.
fn stream_id(payload: &[u8]) -> Option<u16> {
    match payload.first_chunk::<7>()? {
        [_, _, _, _, SIGNATURE, low, high] => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}

impl FlowKey {
    fn name(&self) -> String {
        match self {
            Self::V4 { addresses, ports, protocol } => {
                let (from, to) = addresses.split_at(4);
                let address = |bytes: &[u8]| Ipv4Addr::from(array::<4>(bytes)).to_string();
                pair_name(&address(from), &address(to), *ports, *protocol)
            }
            Self::V6 { addresses, ports, protocol } => {
                let (from, to) = addresses.split_at(16);
                let address = |bytes: &[u8]| match ports {
                    Some(_) => format!("[{}]", Ipv6Addr::from(array::<16>(bytes))),
                    None => Ipv6Addr::from(array::<16>(bytes)).to_string(),
                };
                pair_name(&address(from), &address(to), *ports, *protocol)
            }
            Self::Stream(id) => format!("stream {id}"),
            Self::Ethertype(ethertype) => format!("ethertype 0x{ethertype:04x}"),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

fn pair_name(from: &str, to: &str, ports: Option<[u8; 4]>, protocol: u8) -> String {
    let protocol = match protocol {
        protocol::ICMP => "icmp",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::ICMP6 => "icmp6",
        protocol::SCTP => "sctp",
        protocol::UDP_LITE => "udplite",
        other => &format!("protocol {other}"),
    };
    match ports {
        Some([a, b, c, d]) => {
            let (from_port, to_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            format!("{from}:{from_port} > {to}:{to_port} {protocol}")
        }
        None => format!("{from} > {to} {protocol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::LinkType;
    use crate::test_support::{frame, ipv6_udp, tcp4, udp4};

    fn index(table: &mut FlowTable, data: &[u8]) -> u32 {
        table.index(&frame(LinkType::Ethernet, data))
    }

    /// A frame of the flow with this source port.
    fn from_port(port: u16) -> Vec<u8> {
        let mut data = udp4(1, 60);
        data[34..36].copy_from_slice(&port.to_be_bytes());
        data
    }

    #[test]
    fn flows_are_numbered_in_order_of_appearance_and_named() {
        let mut table = FlowTable::new(FlowRule::FiveTuple);
        let six = ipv6_udp(&[], 17);
        let mut arp = udp4(1, 60);
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut icmp = udp4(1, 60);
        icmp[23] = 1;
        let mut other = icmp.clone();
        other[23] = 47;
        for (at, data) in [udp4(1, 60), tcp4(1, 0, b""), arp, icmp, other].iter().enumerate() {
            assert_eq!(index(&mut table, data), at as u32);
            assert_eq!(index(&mut table, data), at as u32);
        }
        assert_eq!(table.index(&frame(LinkType::RawIp, &six)), 5);
        assert_eq!(table.index(&frame(LinkType::MoonsniffId, &[1, 2, 3, 4])), 6);
        let expected = [
            "10.0.0.1:1000 > 10.0.0.2:2000 udp",
            "10.0.0.1:1000 > 10.0.0.2:2000 tcp",
            "ethertype 0x0806",
            "10.0.0.1 > 10.0.0.2 icmp",
            "10.0.0.1 > 10.0.0.2 protocol 47",
            "[2001:db8::1]:1000 > [2001:db8::2]:2000 udp",
            "unknown",
        ];
        assert_eq!(table.names(), expected);
        assert_eq!(table.others(), None);
    }

    #[test]
    fn the_cache_and_the_map_agree() {
        let mut table = FlowTable::new(FlowRule::FiveTuple);
        for _ in 0..3 {
            for port in 0..4000 {
                assert_eq!(index(&mut table, &from_port(port)), u32::from(port));
            }
        }
        // The same five-tuple, in a frame that takes the slow path.
        let tagged = crate::test_support::tagged(&from_port(17), &[0x8100]);
        assert_eq!(index(&mut table, &tagged), 17);
    }

    #[test]
    fn flows_beyond_the_limit_share_one_entry() {
        let mut table = FlowTable::with_limit(FlowRule::FiveTuple, 3);
        let indices: Vec<_> = (0..6).map(|port| index(&mut table, &from_port(port))).collect();
        assert_eq!(indices, [0, 1, 2, 3, 3, 3]);
        assert_eq!(index(&mut table, &from_port(1)), 1);
        assert_eq!(table.names().len(), 4);
        assert_eq!(table.names()[3], "others");
        assert_eq!(table.others(), Some(3));
    }

    #[test]
    fn streams_are_read_after_the_signature() {
        let mut table = FlowTable::new(FlowRule::Stream);
        let mut data = udp4(1, 80);
        data[47..49].copy_from_slice(&258u16.to_le_bytes());
        assert_eq!(index(&mut table, &data), 0);
        data[46] = 0;
        assert_eq!(index(&mut table, &data), 1);
        assert_eq!(table.names(), ["stream 258", "unknown"]);
        let mut none = FlowTable::new(FlowRule::None);
        assert_eq!((index(&mut none, &data), none.names()), (0, &["all".to_owned()][..]));
    }
}
