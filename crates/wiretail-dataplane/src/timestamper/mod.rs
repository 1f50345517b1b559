//! Taps on the wires of a device under test. They record into memory that holds a whole trial.
//!
//! When a packet enters the network stack, the kernel takes its timestamp (`netif_rx`, CLOCK_REALTIME) and
//! copies its first bytes into a TPACKET_V3 ring. The ring is not read during the trial, because a reader's
//! core, caches and wake-ups could disturb it; [`Timestamper::drain`] reads it afterwards. For longer trials,
//! [`Timestamper::collect`] periodically reads all complete blocks. [`dpdk`] provides taps on DPDK ports.

pub mod dpdk;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libc::sock_filter;

use crate::error::{DataplaneError, plan};
use crate::placement::in_namespace;
use crate::port::af_packet::{open_socket, port_error};
use crate::sys::block_ring::{BLOCK_LEN, BlockRing, Timestamped, packets_a_block};
use crate::sys::socket::PacketSocket;

/// Default number of bytes to store per frame. The load generator's signature ends at byte 65. Storing 70
/// bytes needs no more memory than storing 64.
pub const SNAPLEN: u16 = 70;

/// Default timeout, in ms, after which the kernel passes on a block that is not full.
pub const BLOCK_TIMEOUT_MS: u32 = 100;

/// The packets of an interface that a tap sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Incoming packets, for any destination address.
    In,
    /// Outgoing packets, timestamped when they are passed to the driver. Frames that bypass the queueing
    /// discipline ([`TxPlan`](crate::port::af_packet::TxPlan)) are not seen.
    Out,
}

/// Location of a tap.
#[derive(Debug, Clone, Copy)]
pub struct TapSpec<'a> {
    /// Network namespace of the interface; `None` means the namespace of the calling thread.
    pub netns: Option<BorrowedFd<'a>>,
    /// Name of the interface in that namespace.
    pub interface: &'a str,
    pub direction: Direction,
    /// Tap number, chosen by the caller.
    pub tap: u16,
}

/// The source of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampSource {
    /// The kernel, where a packet enters the network stack: CLOCK_REALTIME.
    KernelSoftware,
    /// The NIC, on reception: its own clock.
    Hardware,
    /// A polling loop, when it finds the packet: CLOCK_REALTIME, read once for all packets of a poll.
    Poll,
}

impl TimestampSource {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelSoftware => "kernel software",
            Self::Hardware => "hardware",
            Self::Poll => "poll software",
        }
    }

    /// The flag that the kernel sets on packets with such timestamps.
    fn flag(self) -> u32 {
        match self {
            Self::KernelSoftware => libc::TP_STATUS_TS_SOFTWARE,
            Self::Hardware => libc::TP_STATUS_TS_RAW_HARDWARE,
            // Not a kernel timestamp; `open` rejects it.
            Self::Poll => 0,
        }
    }
}

/// Required capacity of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlan {
    /// Maximum number of packets that each tap sees before they are read.
    pub packets: u64,
    /// Maximum time until the packets are read, in ns.
    pub duration_ns: u64,
    /// Number of bytes to store per frame.
    pub snaplen: u16,
    /// The requested source of timestamps.
    pub source: TimestampSource,
    /// Timeout, in ms, after which the kernel passes on a block that is not full: [`BLOCK_TIMEOUT_MS`], or
    /// less for a reader that needs packets sooner.
    pub timeout_ms: u32,
}

impl RingPlan {
    /// Time until a packet is certain to be available to the reader. It is longer than the timeout, because
    /// the kernel closes a block only at the second expiry of its timer.
    pub fn handed_over_after(&self) -> Duration {
        Duration::from_millis(5 * u64::from(self.timeout_ms))
    }

    /// Memory of each tap in bytes. The kernel allocates it when the tap is opened.
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_LEN as u64
    }

    fn blocks(&self) -> u64 {
        let full = self.packets.div_ceil(packets_a_block(self.snaplen.into()) as u64);
        // Each timeout may close a block early. Two further blocks are in use.
        full + self.duration_ns / (u64::from(self.timeout_ms.max(1)) * 1_000_000) + 2
    }
}

/// Result of a tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapReport {
    /// Tap number, chosen by the caller.
    pub tap: u16,
    /// Name of the interface.
    pub interface: String,
    /// The source of timestamps.
    pub source: TimestampSource,
    /// Packets that were passed to the caller.
    pub packets: u64,
    /// Packets dropped because the ring was full: lost by the capture, not by the device under test.
    pub drops: u64,
    /// Packets that the kernel counted but did not pass on in time. A trial is invalid if there are any.
    pub missing: u64,
    /// Packets whose timestamp is from another source; they are included in `packets`. Either the kernel took
    /// the timestamp where it copied the packet, about 100 ns later, or the NIC took none. They are passed on
    /// nevertheless, but a trial with hardware timestamps must not use them.
    pub other_timestamps: u64,
}

/// Open taps.
#[derive(Debug)]
pub struct Timestamper {
    taps: Vec<Tap>,
    patience: Duration,
}

#[derive(Debug)]
struct Tap {
    ring: BlockRing,
    seen_by_kernel: u64,
    report: TapReport,
}

impl Timestamper {
    /// Opens all taps. They record from then on.
    ///
    /// If an interface has several packet sockets, the kernel serves the most recently opened one first.
    ///
    /// # Errors
    /// Returns an error if an interface does not exist, CAP_NET_RAW is missing, or there is no memory for the
    /// rings. Also returns an error if hardware timestamps are requested for an interface that does not
    /// support them, or for outgoing packets.
    pub fn open(taps: &[TapSpec<'_>], ring: &RingPlan) -> Result<Self, DataplaneError> {
        if !(1..=2048).contains(&ring.snaplen) {
            return Err(plan("snaplen", ring.snaplen, "1 to 2048 bytes"));
        }
        let taps = taps.iter().map(|spec| Tap::open(spec, ring)).collect::<Result<Vec<_>, _>>()?;
        for tap in &taps {
            let next = "check that the interface is up";
            tap.ring.start().map_err(port_error(&tap.report.interface, "starting a tap", next))?;
        }
        Ok(Self { taps, patience: ring.handed_over_after() })
    }

    /// Passes the packets of all complete blocks to `sink`, without waiting. The arguments of `sink` are the
    /// tap, the timestamp in ns, the length on the wire in bytes (without frame check sequence), and the
    /// first bytes of the frame. Packets are in order within each tap, one tap after the other.
    pub fn collect(&mut self, sink: &mut impl FnMut(u16, i64, u32, &[u8])) {
        for tap in &mut self.taps {
            while tap.read_block(sink) {}
            tap.count();
        }
    }

    /// Number of packets that each tap has seen, without reading them. The busiest tap shows whether a
    /// capture of a fixed number of packets is complete.
    pub fn seen(&mut self) -> Vec<u64> {
        let count = |tap: &mut Tap| {
            tap.count();
            tap.seen_by_kernel
        };
        self.taps.iter_mut().map(count).collect()
    }

    /// Stops recording while traffic continues: packets from now on are neither recorded nor counted. The
    /// recorded packets remain available for [`Timestamper::drain`].
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a filter.
    pub fn stop(&self) -> Result<(), DataplaneError> {
        let next = "packets after the end may be recorded, or counted as missing";
        for tap in &self.taps {
            let refused = port_error(&tap.report.interface, "ending a tap", next);
            tap.ring.attach_filter(&mut [NOTHING]).map_err(refused)?;
        }
        Ok(())
    }

    /// Reports of all taps as of the last [`Timestamper::collect`]. Their `missing` counts packets in
    /// incomplete blocks.
    pub fn reports(&self) -> Vec<TapReport> {
        self.taps.iter().map(Tap::report).collect()
    }

    /// Passes all recorded packets to `sink`, as [`Timestamper::collect`] does, and returns the reports. The
    /// counters are then reset to 0. Must be called after traffic has stopped; waits up to half a second for
    /// the last packets.
    pub fn drain(&mut self, sink: &mut impl FnMut(u16, i64, u32, &[u8])) -> Vec<TapReport> {
        let end = Instant::now() + self.patience;
        loop {
            self.collect(sink);
            let complete = self.taps.iter().all(|tap| tap.missing() == 0);
            if complete || Instant::now() >= end {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let reports = self.reports();
        self.taps.iter_mut().for_each(Tap::restart);
        reports
    }
}

impl Tap {
    fn open(spec: &TapSpec<'_>, plan: &RingPlan) -> Result<Self, DataplaneError> {
        let interface = spec.interface;
        let open = || {
            let socket = open_socket(interface)?;
            let next = "check that the kernel has CONFIG_PACKET and socket filters";
            let step = |step| port_error(interface, step, next);
            let mut program = filter(spec.direction, plan.snaplen);
            socket.attach_filter(&mut program).map_err(step("attaching a socket filter"))?;
            match plan.source {
                TimestampSource::KernelSoftware => {
                    socket.timestamp_in_software().map_err(step("SO_TIMESTAMPING"))?;
                }
                TimestampSource::Hardware => ask_for_hardware(&socket, spec)?,
                TimestampSource::Poll => {
                    let expected = "kernel software or hardware timestamps";
                    return Err(crate::error::plan("timestamp source", plan.source.name(), expected));
                }
            }
            if spec.direction == Direction::In {
                socket.promiscuous().map_err(step("promiscuous reception"))?;
            }
            let memory = "the kernel cannot allocate the tap's memory; record fewer packets, \
                          or collect them during the trial";
            let blocks = usize::try_from(plan.blocks()).unwrap_or(usize::MAX);
            if blocks > i32::MAX as usize / (BLOCK_LEN / 2048) {
                let too_large = std::io::Error::from_raw_os_error(libc::ENOMEM);
                return Err(port_error(interface, "creating a tap's ring", memory)(too_large));
            }
            BlockRing::new(socket, blocks, plan.timeout_ms).map_err(port_error(
                interface,
                "creating a tap's ring",
                memory,
            ))
        };
        let report = TapReport {
            tap: spec.tap,
            interface: interface.to_owned(),
            source: plan.source,
            packets: 0,
            drops: 0,
            missing: 0,
            other_timestamps: 0,
        };
        Ok(Self { ring: in_namespace(spec.netns, open)??, seen_by_kernel: 0, report })
    }

    /// Passes on the next block if it is complete.
    fn read_block(&mut self, sink: &mut impl FnMut(u16, i64, u32, &[u8])) -> bool {
        let (tap, flag, mut others) = (self.report.tap, self.report.source.flag(), 0);
        let read = self.ring.read_block(&mut |packet: Timestamped<'_>| {
            others += u64::from(packet.status & flag == 0);
            sink(tap, packet.ts_ns, packet.wire_len, packet.frame);
        });
        self.report.packets += read.unwrap_or(0);
        self.report.other_timestamps += others;
        read.is_some()
    }

    /// Adds the kernel counters since the last call.
    fn count(&mut self) {
        if let Ok(counts) = self.ring.statistics() {
            self.seen_by_kernel += counts.packets;
            self.report.drops += counts.drops;
        }
    }

    fn report(&self) -> TapReport {
        TapReport { missing: self.missing(), ..self.report.clone() }
    }

    fn restart(&mut self) {
        self.seen_by_kernel = 0;
        (self.report.packets, self.report.drops, self.report.other_timestamps) = (0, 0, 0);
    }

    fn missing(&self) -> u64 {
        self.seen_by_kernel.saturating_sub(self.report.drops + self.report.packets)
    }
}

fn ask_for_hardware(socket: &PacketSocket, spec: &TapSpec<'_>) -> Result<(), DataplaneError> {
    let refused = |found: String, next| DataplaneError::Timestamps {
        interface: spec.interface.to_owned(),
        expected: "hardware timestamps",
        found,
        next,
    };
    if spec.direction == Direction::Out {
        let found = "they are not available for outgoing packets".to_owned();
        return Err(refused(found, "tap the receiving end of the wire"));
    }
    let on = socket.enable_hardware_timestamps(spec.interface).and_then(|()| socket.timestamp_in_hardware());
    on.map_err(|error| {
        let next =
            "`ethtool -T INTERFACE` shows its capabilities; request kernel software timestamps instead";
        refused(format!("it cannot timestamp every received packet ({error})"), next)
    })
}

/// A classic BPF filter that rejects all packets.
const NOTHING: sock_filter = sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };

/// A classic BPF filter that accepts `snaplen` bytes of each packet in one direction.
fn filter(direction: Direction, snaplen: u16) -> [sock_filter; 4] {
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let (out, other) = match direction {
        Direction::In => (1, 0),
        Direction::Out => (0, 1),
    };
    [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, packet_type),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            out,
            other,
            u32::from(libc::PACKET_OUTGOING),
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(snaplen)),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_proportional_to_packets() {
        let plan = RingPlan {
            packets: 1_000_000,
            duration_ns: 10_000_000_000,
            snaplen: SNAPLEN,
            source: TimestampSource::KernelSoftware,
            timeout_ms: BLOCK_TIMEOUT_MS,
        };
        let mib = plan.bytes() >> 20;
        assert!((145..175).contains(&mib), "{mib} MiB");
        assert_eq!(packets_a_block(64), packets_a_block(70));
    }

    #[test]
    fn error_names_missing_interface() {
        let spec = TapSpec { netns: None, interface: "nosuch0", direction: Direction::In, tap: 0 };
        let plan = RingPlan {
            packets: 1,
            duration_ns: 0,
            snaplen: 64,
            source: TimestampSource::KernelSoftware,
            timeout_ms: BLOCK_TIMEOUT_MS,
        };
        let error = Timestamper::open(&[spec], &plan).unwrap_err().to_string();
        assert!(error.contains("nosuch0: no such interface") && error.contains("ip link"), "{error}");
    }
}
