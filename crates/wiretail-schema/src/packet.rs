//! What the analysis knows of a packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A packet as one tap saw it: 24 bytes, so that a batch of some thousands stays in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When the tap saw it, in ns since the capture clock's epoch.
    pub ts_ns: i64,
    /// Which packet it is: the same number at both taps, chosen by the [`KeyRule`]. Rules that read
    /// more than eight bytes hash them to 64 bits; two of 20 million packets share a hash by
    /// chance with a probability of 1 in 90,000, and only if they are in flight together.
    pub key: u64,
    /// Which flow it belongs to: an index into the flow table of its tap.
    pub flow: u32,
    /// Length on the wire in bytes, without the frame check sequence.
    pub wire_len: u32,
}

/// How a packet is recognised at both taps (`--key`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRule {
    /// The 4-byte identifier that MoonSniff's load generator writes behind the UDP header, followed by 0x55.
    Moonsniff,
    /// The stream and the packet's number in it, 64 bits that do not come again, as Wiretail's load
    /// generator writes them; in frames too short for these, MoonSniff's identifier.
    Signature,
    /// What routers, NAT, VLAN tagging and TTL leave alone: IP protocol, identification, transport
    /// length and sequence fields, payload. Not addresses, ports, checksums, TTL, link layer.
    Invariant,
    /// The transport payload alone.
    Payload,
    /// The IPv4 identification with protocol and total length.
    IpId,
    /// The frame's bytes `start..end`; with `zero_checksums` the IPv4 header checksum and the TCP
    /// or UDP checksum of an untagged IPv4 frame without options count as zero.
    Bytes {
        /// First byte, from the start of the frame.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Whether checksums count as zero.
        zero_checksums: bool,
    },
    /// `len` bytes at offset `offset` behind the transport header, at most eight: a number that the load generator counts.
    Offset {
        /// First byte, from the start of the transport payload.
        offset: usize,
        /// How many bytes, 1 to 8.
        len: usize,
    },
}

/// What tells one flow from another in the per-flow breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowRule {
    /// Addresses, ports and protocol.
    FiveTuple,
    /// The stream id behind the signature of Wiretail's load generator.
    Stream,
    /// One flow for all.
    None,
}
