//! Taps on the wires of a device under test, into memory that holds a whole trial.
//!
//! The kernel stamps each packet where it enters the stack (`netif_rx`, CLOCK_REALTIME) and copies its
//! first bytes into a ring of TPACKET_V3. Nobody reads while the trial runs, so there is no reader whose
//! core, cache or wake-ups could disturb it; [`Timestamper::drain`] does afterwards. For longer trials
//! [`Timestamper::collect`] takes along what is there, now and then. Ports of DPDK's are tapped by [`dpdk`].

pub mod dpdk;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libc::sock_filter;

use crate::error::{DataplaneError, plan};
use crate::placement::in_namespace;
use crate::port::af_packet::{open_socket, port_error};
use crate::sys::block_ring::{BLOCK_LEN, BlockRing, Timestamped, packets_a_block};
use crate::sys::socket::PacketSocket;

/// Bytes of a frame that are kept unless asked otherwise: the load generator's whole signature ends at
/// byte 65, and up to 70 take no more room than 64.
pub const SNAPLEN: u16 = 70;

/// After this long the kernel hands over a block that is not full, in ms, unless asked otherwise.
pub const BLOCK_TIMEOUT_MS: u32 = 100;

/// Which packets of an interface a tap sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Those that come in, for whatever address.
    In,
    /// Those that go out, stamped as they are handed to the driver. Frames sent past the queueing
    /// discipline ([`TxPlan`](crate::port::af_packet::TxPlan)) do not pass here.
    Out,
}

/// Where to tap.
#[derive(Debug, Clone, Copy)]
pub struct TapSpec<'a> {
    /// Network namespace of the interface; None is that of the calling thread.
    pub netns: Option<BorrowedFd<'a>>,
    /// Name of the interface in there.
    pub interface: &'a str,
    /// Which packets.
    pub direction: Direction,
    /// The caller's number for this tap.
    pub tap: u16,
}

/// Who makes the stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampSource {
    /// The kernel, where a packet enters the stack: CLOCK_REALTIME.
    KernelSoftware,
    /// The network card, on reception: its own clock.
    Hardware,
    /// A loop that polls, when it finds the packet: CLOCK_REALTIME, one reading for all that it finds at once.
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

    /// The flag that the kernel sets on a packet stamped this way.
    fn flag(self) -> u32 {
        match self {
            Self::KernelSoftware => libc::TP_STATUS_TS_SOFTWARE,
            Self::Hardware => libc::TP_STATUS_TS_RAW_HARDWARE,
            // Not the kernel's; refused by `open`.
            Self::Poll => 0,
        }
    }
}

/// How much a tap has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlan {
    /// Packets that each tap will see at most before they are read.
    pub packets: u64,
    /// How long that takes, in ns.
    pub duration_ns: u64,
    /// Bytes of each frame that are kept.
    pub snaplen: u16,
    /// Who is to make the stamps.
    pub source: TimestampSource,
    /// After this long the kernel hands over a block that is not full, in ms: [`BLOCK_TIMEOUT_MS`], or less
    /// for a reader that wants to know soon.
    pub timeout_ms: u32,
}

impl RingPlan {
    /// By then a packet is handed over that was seen before: the timeout counts from its second tick.
    pub fn handed_over_after(&self) -> Duration {
        Duration::from_millis(5 * u64::from(self.timeout_ms))
    }

    /// Memory that each tap takes, in bytes. The kernel takes it when the tap is opened.
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_LEN as u64
    }

    fn blocks(&self) -> u64 {
        let full = self.packets.div_ceil(packets_a_block(self.snaplen.into()) as u64);
        // Each timeout may close a block early; two in work.
        full + self.duration_ns / (u64::from(self.timeout_ms.max(1)) * 1_000_000) + 2
    }
}

/// What a tap recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapReport {
    /// The caller's number.
    pub tap: u16,
    /// Name of the interface.
    pub interface: String,
    /// Who made the stamps.
    pub source: TimestampSource,
    /// Packets that were handed to the caller.
    pub packets: u64,
    /// Packets that found the ring full: lost in the capture, not in the device under test.
    pub drops: u64,
    /// Packets that the kernel counted but did not hand over in time; anything but 0 makes a trial invalid.
    pub missing: u64,
    /// Packets of `packets` that carry a stamp of another source: the kernel stamped them where it copied
    /// them, some 100 ns later, or the network card did not stamp them. They are handed over all the
    /// same; a trial of hardware stamps must not use them.
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
    /// Opens all taps; from then on they record.
    ///
    /// Of several packet sockets on an interface the kernel serves the last one opened first.
    ///
    /// # Errors
    /// No such interface, no CAP_NET_RAW, no memory for the rings; hardware stamps that the interface
    /// does not make, or of outgoing packets.
    pub fn open(taps: &[TapSpec<'_>], ring: &RingPlan) -> Result<Self, DataplaneError> {
        if !(1..=2048).contains(&ring.snaplen) {
            return Err(plan("snaplen", ring.snaplen, "1 to 2048 bytes"));
        }
        let taps = taps.iter().map(|spec| Tap::open(spec, ring)).collect::<Result<Vec<_>, _>>()?;
        for tap in &taps {
            let next = "is the interface up?";
            tap.ring.start().map_err(port_error(&tap.report.interface, "starting a tap", next))?;
        }
        Ok(Self { taps, patience: ring.handed_over_after() })
    }

    /// Hands over what is complete by now, without waiting: tap, stamp in ns, length on the wire in bytes
    /// (without frame check sequence), first bytes of the frame. In order for each tap, tap after tap.
    pub fn collect(&mut self, sink: &mut impl FnMut(u16, i64, u32, &[u8])) {
        for tap in &mut self.taps {
            while tap.read_block(sink) {}
            tap.count();
        }
    }

    /// Packets that the taps have seen so far, tap by tap, without reading any: the busiest of them tells
    /// whether a capture of so many packets is at its end.
    pub fn seen(&mut self) -> Vec<u64> {
        let count = |tap: &mut Tap| {
            tap.count();
            tap.seen_by_kernel
        };
        self.taps.iter_mut().map(count).collect()
    }

    /// Ends recording while traffic goes on: what comes from now on is neither recorded nor counted. What
    /// was recorded is still there for [`Timestamper::drain`].
    ///
    /// # Errors
    /// The system refuses a filter.
    pub fn stop(&self) -> Result<(), DataplaneError> {
        let next = "packets of after the end may be recorded, or counted as missing";
        for tap in &self.taps {
            let refused = port_error(&tap.report.interface, "ending a tap", next);
            tap.ring.attach_filter(&mut [NOTHING]).map_err(refused)?;
        }
        Ok(())
    }

    /// What each tap has recorded so far, by the counts of the last [`Timestamper::collect`]: `missing` are
    /// packets that are still in a block that is not complete.
    pub fn reports(&self) -> Vec<TapReport> {
        self.taps.iter().map(Tap::report).collect()
    }

    /// Hands over all that was recorded (as [`Timestamper::collect`] does) and says what it rests on; what comes later is
    /// counted anew. To be called when traffic has stopped; takes up to half a second for the last packets.
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
            let next = "does this kernel have CONFIG_PACKET and socket filters?";
            let step = |step| port_error(interface, step, next);
            let mut program = filter(spec.direction, plan.snaplen);
            socket.attach_filter(&mut program).map_err(step("a socket filter"))?;
            match plan.source {
                TimestampSource::KernelSoftware => {
                    socket.timestamp_in_software().map_err(step("SO_TIMESTAMPING"))?;
                }
                TimestampSource::Hardware => ask_for_hardware(&socket, spec)?,
                TimestampSource::Poll => {
                    let expected = "kernel software or hardware";
                    return Err(crate::error::plan("source of stamps", plan.source.name(), expected));
                }
            }
            if spec.direction == Direction::In {
                socket.promiscuous().map_err(step("promiscuous reception"))?;
            }
            let memory = "the kernel has no room for the tap's memory; record fewer packets, \
                          or collect them during the trial";
            let blocks = usize::try_from(plan.blocks()).unwrap_or(usize::MAX);
            if blocks > i32::MAX as usize / (BLOCK_LEN / 2048) {
                let too_large = std::io::Error::from_raw_os_error(libc::ENOMEM);
                return Err(port_error(interface, "a tap's ring", memory)(too_large));
            }
            BlockRing::new(socket, blocks, plan.timeout_ms).map_err(port_error(
                interface,
                "a tap's ring",
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

    /// Hands over the next block, if it is complete.
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

    /// Adds what the kernel counted since the last time.
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
        let found = "a tap gets none for outgoing packets".to_owned();
        return Err(refused(found, "tap the receiving end of the wire"));
    }
    let on = socket.enable_hardware_timestamps(spec.interface).and_then(|()| socket.timestamp_in_hardware());
    on.map_err(|error| {
        let next = "`ethtool -T INTERFACE` shows what it can do; ask for kernel software timestamps instead";
        refused(format!("it refuses to stamp every received packet ({error})"), next)
    })
}

/// Classic BPF: no packet at all.
const NOTHING: sock_filter = sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };

/// Classic BPF: packets of one direction, `snaplen` bytes of each.
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
    fn memory_follows_the_packets() {
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
    fn a_missing_interface_is_named() {
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
