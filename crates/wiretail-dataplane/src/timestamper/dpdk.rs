//! Taps on DPDK ports: all received packets, recorded into memory by a busy-polling loop.
//!
//! Hardware timestamps are used if requested and supported by the NIC's driver. Their ticks are converted to
//! CLOCK_REALTIME with readings of both clocks at the start and the end. Otherwise, each poll that finds
//! packets reads CLOCK_REALTIME once, and all packets of the poll get this timestamp. Such a timestamp is
//! late by up to one iteration of the loop, and packets that one poll finds together show no gaps.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{TapReport, TimestampSource};
use crate::clock::realtime_ns;
use crate::error::{DataplaneError, plan};
use crate::port::dpdk::{self, Eal, Port};

/// Maximum number of packets per poll.
const BATCH: usize = 32;

/// Number of readings of both clocks. The most precise one is used.
const READINGS: usize = 64;

/// Open taps on DPDK ports.
#[derive(Debug)]
pub struct PortTaps {
    taps: Vec<PortTap>,
    snaplen: usize,
}

#[derive(Debug)]
struct PortTap {
    port: Port,
    name: String,
    source: TimestampSource,
    begin: Option<Reading>,
    packets: Vec<Kept>,
    bytes: Vec<u8>,
    full: u64,
}

/// A packet in memory. Its bytes follow those of the previous packet.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// CLOCK_REALTIME in ns, or ticks of the NIC's clock.
    timestamp: u64,
    wire_len: u32,
    len: u16,
    by_nic: bool,
}

/// Values of both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    ticks: u64,
    realtime_ns: u64,
}

impl Reading {
    fn of(port: &Port) -> Option<Self> {
        let sandwich = |_| {
            let before = realtime_ns();
            let ticks = port.clock_ticks()?;
            let after = realtime_ns();
            let width = after.saturating_sub(before);
            Some((width, Self { ticks, realtime_ns: before + width / 2 }))
        };
        let tightest = (0..READINGS).filter_map(sandwich).min_by_key(|(width, _)| *width);
        tightest.map(|(_, reading)| reading)
    }

    /// Converts ticks to real time by linear interpolation between two readings. `None` if the clock did not
    /// advance.
    fn convert(self, end: Self, ticks: u64) -> Option<i64> {
        let span = i128::from(end.ticks) - i128::from(self.ticks);
        let since = i128::from(ticks) - i128::from(self.ticks);
        let ns = i128::from(end.realtime_ns) - i128::from(self.realtime_ns);
        (span > 0).then(|| (i128::from(self.realtime_ns) + since * ns / span) as i64)
    }
}

impl PortTaps {
    /// Opens devices, each given by its display name, namespace and device string. Each tap gets `room` bytes
    /// of memory and stores `snaplen` bytes per packet.
    ///
    /// # Errors
    /// Returns an error if a port cannot be opened, or if hardware timestamps are requested but not supported
    /// by the driver or its clock cannot be read.
    pub fn open(
        eal: Eal,
        places: &[(String, Option<BorrowedFd<'_>>, String)],
        source: TimestampSource,
        snaplen: u16,
        room: usize,
    ) -> Result<Self, DataplaneError> {
        let open = |(name, netns, device): &(String, Option<BorrowedFd<'_>>, String)| {
            let by_nic = source == TimestampSource::Hardware;
            let port = dpdk::open(eal, *netns, device, by_nic)?;
            let begin = Reading::of(&port).filter(|_| port.has_timestamps());
            if by_nic && begin.is_none() {
                return Err(DataplaneError::Timestamps {
                    interface: name.clone(),
                    expected: "hardware timestamps",
                    found: format!(
                        "DPDK's driver {} does not support them or has no readable clock",
                        port.driver()
                    ),
                    next: "use --timestamps software, or a NIC whose driver has RTE_ETH_RX_OFFLOAD_TIMESTAMP",
                });
            }
            let packets = room / (usize::from(snaplen) + size_of::<Kept>());
            Ok(PortTap {
                port,
                name: name.clone(),
                source,
                begin,
                packets: touched(packets, Kept { timestamp: 1, wire_len: 0, len: 0, by_nic: false }),
                bytes: touched(packets * usize::from(snaplen), 1),
                full: 0,
            })
        };
        if source == TimestampSource::KernelSoftware {
            return Err(plan(
                "timestamp source",
                source.name(),
                "polling or hardware timestamps, because DPDK bypasses the kernel",
            ));
        }
        let taps = places.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { taps, snaplen: snaplen.into() })
    }

    /// Records until `stop` is set, in the calling thread, which busy-waits. `seen` must have one counter per
    /// tap.
    pub fn record(&mut self, stop: &AtomicBool, seen: &[AtomicU64]) {
        while !stop.load(Ordering::Relaxed) {
            for (tap, seen) in self.taps.iter_mut().zip(seen) {
                let count = tap.poll(self.snaplen);
                if count > 0 {
                    // A plain addition suffices: there is only one writer.
                    seen.store(seen.load(Ordering::Relaxed) + count as u64, Ordering::Relaxed);
                }
            }
        }
    }

    /// Passes all recorded packets to `sink`, as [`Timestamper::drain`](super::Timestamper::drain) does.
    pub fn drain(self, sink: &mut impl FnMut(u16, i64, u32, &[u8])) -> Vec<TapReport> {
        let taps = self.taps.into_iter().enumerate();
        taps.map(|(number, tap)| tap.drain(number as u16, sink)).collect()
    }
}

/// Allocates memory and touches it, so that the loop causes no page faults.
fn touched<T: Clone>(count: usize, value: T) -> Vec<T> {
    let mut memory = vec![value; count];
    memory.clear();
    memory
}

impl PortTap {
    fn poll(&mut self, snaplen: usize) -> usize {
        let Self { port, packets, bytes, full, .. } = self;
        let mut now = None;
        port.receive(BATCH, &mut |packet| {
            if packets.len() == packets.capacity() {
                *full += 1;
                return;
            }
            let kept = &packet.data[..packet.data.len().min(snaplen)];
            bytes.extend_from_slice(kept);
            let timestamp = packet.ticks.unwrap_or_else(|| *now.get_or_insert_with(realtime_ns));
            let (len, by_nic) = (kept.len() as u16, packet.ticks.is_some());
            packets.push(Kept { timestamp, wire_len: packet.wire_len, len, by_nic });
        })
    }

    fn drain(self, tap: u16, sink: &mut impl FnMut(u16, i64, u32, &[u8])) -> TapReport {
        let end = Reading::of(&self.port);
        let mut report = TapReport {
            tap,
            interface: self.name,
            source: self.source,
            packets: self.packets.len() as u64,
            drops: self.full,
            missing: 0,
            other_timestamps: 0,
        };
        let counts = self.port.counts();
        report.drops += counts.missed + counts.no_buffer;
        let mut at = 0;
        for packet in &self.packets {
            let by_nic = self.begin.zip(end).filter(|_| packet.by_nic);
            let converted = by_nic.and_then(|(begin, end)| begin.convert(end, packet.timestamp));
            report.other_timestamps +=
                u64::from(self.source == TimestampSource::Hardware && converted.is_none());
            let next = at + usize::from(packet.len);
            let timestamp = converted.unwrap_or(packet.timestamp as i64);
            sink(tap, timestamp, packet.wire_len, &self.bytes[at..next]);
            at = next;
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_ticks_by_linear_interpolation() {
        // A clock of 80 MHz: 12.5 ns per tick.
        let begin = Reading { ticks: 1 << 60, realtime_ns: 1_700_000_000_000_000_000 };
        let end = Reading { ticks: begin.ticks + 80_000_000, realtime_ns: begin.realtime_ns + 1_000_000_000 };
        let at = |ticks| begin.convert(end, ticks);
        assert_eq!(at(begin.ticks), Some(begin.realtime_ns as i64));
        assert_eq!(at(begin.ticks + 8), Some(begin.realtime_ns as i64 + 100));
        assert_eq!(at(begin.ticks - 8), Some(begin.realtime_ns as i64 - 100));
        assert_eq!(at(end.ticks + 80), Some(end.realtime_ns as i64 + 1000));
        assert_eq!(begin.convert(begin, 5), None);
    }
}
