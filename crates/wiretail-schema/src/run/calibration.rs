//! What a trial with known delays or known faults says about the measurement itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device delayed every so many packets by a known time: what of it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The delay that the device added, in ns.
    pub injected_ns: u64,
    /// Every how many packets.
    pub every: u64,
    /// Packets that were delayed and arrived, outside of stalls and of the warm-up.
    pub delayed: u64,
    /// Those that were not delayed, under the same conditions.
    pub others: u64,
    /// Difference of the medians of both, in ns.
    pub recovered_ns: i64,
    /// Of the delayed ones, those among as many highest delays.
    pub found: u64,
    /// Packets that were left out, because a named stall fell into their way.
    pub in_stalls: u64,
}

impl Calibration {
    /// How far the recovered delay is from the injected one, in ns.
    pub fn error_ns(&self) -> i64 {
        self.recovered_ns - self.injected_ns as i64
    }

    /// Whether the error is within 1 us + 1 % of the injected delay, and every delayed packet was found.
    pub fn holds(&self) -> bool {
        self.delayed > 0
            && self.found == self.delayed
            && self.error_ns().unsigned_abs() <= 1_000 + self.injected_ns / 100
    }
}

/// A device dropped, duplicated and swapped packets on purpose: what it did, and what of it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounting {
    /// Packets sent to the device, as seen at the ingress tap.
    pub packets: u64,
    /// Packets that the device did not send: dropped on purpose, for want of room, or refused by the kernel.
    pub dropped: u64,
    /// Packets that were lost, as measured.
    pub lost: u64,
    /// Packets that the device sent twice.
    pub duplicated: u64,
    /// Further copies at the egress tap, as measured.
    pub duplicates: u64,
    /// Packets that the device sent behind their successor.
    pub swapped: u64,
    /// Reordered packets (RFC 4737), as measured: of two that are swapped, one.
    pub reordered: u64,
}

impl Accounting {
    /// Whether the measurement equals what the device did, packet for packet.
    pub fn holds(&self) -> bool {
        (self.dropped, self.duplicated, self.swapped) == (self.lost, self.duplicates, self.reordered)
    }
}

/// A device filtered by a text that some packets carry: which packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filtering {
    /// One packet in so many was marked.
    pub every: u64,
    /// Packets at the ingress tap, those of the warm-up left out.
    pub packets: u64,
    /// Those of them that carried the text.
    pub marked: u64,
    /// Of these, those that were lost.
    pub marked_lost: u64,
    /// Packets that were lost without carrying it.
    pub others_lost: u64,
}

impl Filtering {
    /// Whether exactly the marked packets were lost.
    pub fn holds(&self) -> bool {
        self.marked > 0 && self.marked_lost == self.marked && self.others_lost == 0
    }
}
