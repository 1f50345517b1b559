//! Packet records, and the rules that identify packets and flows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A packet as seen by one tap. Takes 24 bytes, so that a batch of a few thousand records fits in the CPU
/// cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Timestamp, in ns since the epoch of the capture clock.
    pub ts_ns: i64,
    /// Identifies the packet. Both taps compute the same key from the [`KeyRule`]. Rules that read more than
    /// eight bytes hash them to 64 bits. The probability that two of 20 million packets share a hash by chance
    /// is 1 in 90,000. This matters only if both are in flight at once.
    pub key: u64,
    /// Flow of the packet, as an index into the flow table of its tap.
    pub flow: u32,
    /// Length on the wire in bytes, without the frame check sequence.
    pub wire_len: u32,
}

/// How to recognize a packet at both taps (`--key`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRule {
    /// The 4-byte identifier that MoonSniff's load generator writes after the UDP header, followed by 0x55.
    Moonsniff,
    /// Stream ID and sequence number as written by Wiretail's load generator: 64 bits that never repeat. Frames
    /// too short for these 64 bits are identified by MoonSniff's identifier instead.
    Signature,
    /// Fields that routers, NAT, VLAN tagging and TTL changes preserve: IP protocol, identification,
    /// transport length and sequence fields, payload. Excludes addresses, ports, checksums, TTL and link
    /// layer.
    Invariant,
    /// Only the transport payload.
    Payload,
    /// The IPv4 identification together with protocol and total length.
    IpId,
    /// Bytes `start..end` of the frame. With `zero_checksums`, the IPv4 header checksum and the TCP or UDP
    /// checksum of an untagged IPv4 frame without options are read as zero.
    Bytes {
        /// First byte, from the start of the frame.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Whether checksums are read as zero.
        zero_checksums: bool,
    },
    /// Up to eight bytes (`len`) at `offset` after the transport header: a counter written by the load
    /// generator.
    Offset {
        /// First byte, from the start of the transport payload.
        offset: usize,
        /// Number of bytes, 1 to 8.
        len: usize,
    },
}

/// Assigns packets to flows for the per-flow breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowRule {
    /// Addresses, ports and protocol.
    FiveTuple,
    /// The stream ID after the signature of Wiretail's load generator.
    Stream,
    /// All packets belong to a single flow.
    None,
}
