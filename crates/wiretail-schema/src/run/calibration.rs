//! Calibration of the measurement by trials with known delays or known faults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Comparison of an injected delay with the measured one. The device delays every n-th packet by a known
/// time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Delay added by the device, in ns.
    pub injected_ns: u64,
    /// Interval between delayed packets, in packets.
    pub every: u64,
    /// Number of delayed packets that arrived, outside of stalls and of the warm-up.
    pub delayed: u64,
    /// Number of packets that were not delayed, under the same conditions.
    pub others: u64,
    /// Median of the delayed packets minus median of the others, in ns.
    pub recovered_ns: i64,
    /// Number of delayed packets among the `delayed` highest delays.
    pub found: u64,
    /// Packets excluded because a stall was recorded while they were in the device.
    pub in_stalls: u64,
}

impl Calibration {
    /// Returns the recovered delay minus the injected one, in ns.
    pub fn error_ns(&self) -> i64 {
        self.recovered_ns - self.injected_ns as i64
    }

    /// Returns whether the error is within 1 us + 1 % of the injected delay, and every delayed packet was
    /// found.
    pub fn holds(&self) -> bool {
        self.delayed > 0
            && self.found == self.delayed
            && self.error_ns().unsigned_abs() <= 1_000 + self.injected_ns / 100
    }
}

/// Comparison of faults that the device makes on purpose with the measured faults. The device drops, duplicates
/// and swaps packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounting {
    /// Packets sent to the device, as seen by the ingress tap.
    pub packets: u64,
    /// Packets that the device did not send: dropped on purpose, dropped because a ring was full, or refused
    /// by the kernel.
    pub dropped: u64,
    /// Measured number of lost packets.
    pub lost: u64,
    /// Packets that the device sent twice.
    pub duplicated: u64,
    /// Measured number of additional copies at the egress tap.
    pub duplicates: u64,
    /// Packets that the device sent after their successor.
    pub swapped: u64,
    /// Measured number of reordered packets (RFC 4737): one per swapped pair.
    pub reordered: u64,
}

impl Accounting {
    /// Returns whether the measured numbers equal the device's own counts exactly.
    pub fn holds(&self) -> bool {
        (self.dropped, self.duplicated, self.swapped) == (self.lost, self.duplicates, self.reordered)
    }
}

/// Test of a device that drops packets containing a certain text. The counts show which packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filtering {
    /// Interval between marked packets, in packets.
    pub every: u64,
    /// Packets at the ingress tap, without the warm-up.
    pub packets: u64,
    /// Packets that carried the text.
    pub marked: u64,
    /// Packets with the text that were lost.
    pub marked_lost: u64,
    /// Packets without the text that were lost.
    pub others_lost: u64,
}

impl Filtering {
    /// Returns whether exactly the marked packets were lost.
    pub fn holds(&self) -> bool {
        self.marked > 0 && self.marked_lost == self.marked && self.others_lost == 0
    }
}
