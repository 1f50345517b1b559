//! Arguments of the parts of a testbed as separate commands: `generate`, `capture`, `forward`.

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, ValueEnum};
use wiretail_dataplane::Direction;
use wiretail_dataplane::port::dpdk::InterfaceDriver;
use wiretail_schema::units::Duration;
use wiretail_schema::units::rate::Rate;
use wiretail_schema::units::sizes::FrameSizes;

use super::count;

/// Prefix of a device in DPDK syntax.
const DEVICE_PREFIX: &str = "dpdk:";

/// An interface or a DPDK device, and its network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the namespace below /run/netns; `None` is the namespace of this process.
    pub namespace: Option<String>,
    /// Name of the interface, or the device in DPDK syntax, with its arguments.
    pub interface: String,
    /// Whether this is a DPDK device.
    pub is_device: bool,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, interface) = match text.split_once('/') {
            // The arguments of a device may contain slashes, too.
            Some((namespace, interface)) if !namespace.starts_with(DEVICE_PREFIX) => {
                (Some(namespace.to_owned()), interface)
            }
            _ => (None, text),
        };
        if let Some(device) = interface.strip_prefix(DEVICE_PREFIX)
            && namespace.as_deref() != Some("")
        {
            if device.is_empty() {
                return Err("expected a device after dpdk:, such as dpdk:0000:01:00.0 or \
                            dpdk:net_memif0,role=client"
                    .to_owned());
            }
            return Ok(Self { namespace, interface: device.to_owned(), is_device: true });
        }
        if interface.is_empty() || interface.contains('/') || namespace.as_deref() == Some("") {
            return Err("expected [NAMESPACE/]INTERFACE, such as eth0 or dut/eth0".to_owned());
        }
        Ok(Self { namespace, interface: interface.to_owned(), is_device: false })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(if self.is_device { DEVICE_PREFIX } else { "" })?;
        f.write_str(&self.interface)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapPlace {
    /// Name of the tap's interface in the capture file.
    pub name: String,
    pub place: Place,
    pub direction: Direction,
}

impl FromStr for TapPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected [NAME=][NAMESPACE/]INTERFACE[:in|:out], such as eth0, pre=dut/eth0 or pre=gen/eth0:out"
                .to_owned()
        };
        let (name, rest) = match text.split_once('=') {
            // The arguments of a device may contain equals signs, too.
            Some((name, rest)) if !name.contains(DEVICE_PREFIX) => (Some(name), rest),
            _ => (None, text),
        };
        let (rest, direction) = match rest.rsplit_once(':') {
            Some((rest, "in")) => (rest, Direction::In),
            Some((rest, "out")) => (rest, Direction::Out),
            _ => (rest, Direction::In),
        };
        let place: Place = rest.parse().map_err(|_| expected())?;
        let name = name.unwrap_or(&place.interface).to_owned();
        if name.is_empty() { Err(expected()) } else { Ok(Self { name, place, direction }) }
    }
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("end").args(["packets", "duration", "replay"]).required(true).multiple(true),
    after_help = "\
Examples:
  wiretail generate veth0 --rate 10kpps --duration 10s
  wiretail generate gen/eth0 --rate 1Mpps --packets 10M --size imix-csit --cpu 2 --fifo 50
  wiretail generate eth0 --rate 100kpps --pattern on-off --on 10ms --off 90ms --duration 1min
  wiretail generate eth0 --rate 50kpps --burst 32 --packets 1M --size 7x60,4x566,1x1514
  wiretail generate eth0 --replay recorded.pcap.zst --rate 20kpps    # gaps scaled to this rate

Each packet is UDP over IPv4 and carries a signature that `wiretail analyze` and the MoonSniff tools
recognize: a 4-byte number and 0x55, then stream, number in the stream, intended departure.

Exit code: 0 success, or ended by SIGINT or SIGTERM; 1 more than 1 % of the packets were late, the
rate was out of reach, or some packets could not be sent; 2 error."
)]
pub struct GenerateArgs {
    /// Output: [NAMESPACE/]INTERFACE, with a namespace name from `ip netns`; or [NAMESPACE/]dpdk:DEVICE with
    /// --socket dpdk
    #[arg(value_name = "PORT")]
    pub port: Place,
    /// Packet rate: 10kpps, 1Mpps, 500pps; the mean rate for poisson and bursts, the rate of an on-period for
    /// on-off
    #[arg(long, value_name = "RATE", value_parser = rate, required_unless_present = "replay")]
    pub rate: Option<u64>,
    /// End after this number of packets, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", value_parser = count)]
    pub packets: Option<NonZeroU64>,
    /// End after this time
    #[arg(long, value_name = "DURATION", conflicts_with = "packets")]
    pub duration: Option<Duration>,
    /// Departure pattern
    #[arg(long, value_enum, default_value_t = PatternChoice::Constant, conflicts_with = "replay")]
    pub pattern: PatternChoice,
    /// For --pattern on-off: duration of the on-period
    #[arg(long, value_name = "DURATION", requires = "off")]
    pub on: Option<Duration>,
    /// For --pattern on-off: duration of the off-period
    #[arg(long, value_name = "DURATION", requires = "on")]
    pub off: Option<Duration>,
    /// Packets per burst, sent back to back; bursts are evenly spaced
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
    /// Frame size: 100B, imix-csit, imix-trex, or a mix such as 7x60,4x566,1x1514
    ///
    /// Sizes exclude the frame check sequence of 4 bytes. imix-csit is 7 frames of 60, 4 of 566 and 1 of 1514
    /// bytes; imix-trex is 28 of 60, 16 of 590 and 4 of 1514 bytes.
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    pub size: FrameSizes,
    /// Flows per stream, distinguished by source port (from 1024), in round-robin order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u16,
    /// Streams, distinguished by their number in the signature (`wiretail analyze --flows stream`), in
    /// round-robin order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub streams: u16,
    /// Send the frames of a capture unchanged, with their recorded gaps
    ///
    /// Reads pcap, pcapng, mscap or ERF, plain or compressed. The file must contain complete Ethernet frames
    /// of up to 1518 bytes. The whole capture is held in memory, up to 1 GiB of frames. With --rate, all gaps
    /// are scaled to this mean rate.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["on", "off", "burst", "size", "flows", "streams"])]
    pub replay: Option<PathBuf>,
    /// Destination Ethernet address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", value_parser = mac)]
    pub mac_to: [u8; 6],
    /// Source Ethernet address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = mac)]
    pub mac_from: [u8; 6],
    /// Destination IP address
    #[arg(long, value_name = "IP", default_value = "10.0.0.2")]
    pub ip_to: Ipv4Addr,
    /// Source IP address
    #[arg(long, value_name = "IP", default_value = "10.0.0.1")]
    pub ip_from: Ipv4Addr,
    /// Destination UDP port
    #[arg(long = "port", value_name = "PORT", default_value_t = 53)]
    pub port_to: u16,
    /// How frames are passed to the kernel
    #[arg(long, value_enum, default_value_t = GenerateSocket::Packet)]
    pub socket: GenerateSocket,
    /// Send through the queueing discipline and not directly to the driver, so that `capture INTERFACE:out`
    /// sees the packets
    #[arg(long)]
    pub qdisc: bool,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// What to do with packets that became due while the generator was stalled
    #[arg(long, value_enum, default_value_t = LatePolicyChoice::CatchUp)]
    pub late_policy: LatePolicyChoice,
    /// Count a packet as late if it departs more than this after its intended time
    #[arg(long, value_name = "DURATION", default_value = "100us")]
    pub late_limit: Duration,
    /// Number of the first packet; two generators in one capture need disjoint numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first_id: u32,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail capture eth0 --write eth0.pcapng                          # until Ctrl-C
  wiretail capture pre=dut/in post=sink/in --write both.pcapng.zst --duration 10s
  wiretail analyze both.pcapng.zst --pre-interface pre --post-interface post
  wiretail capture pre=gen/eth0:out post=dut/eth1 --write short.pcapng --packets 100k

A capture of up to 512 MiB (--packets, and --duration or at most 30 s) stays in memory until it
ends, so that no reader disturbs a short trial. A longer one, or one with --stream, is read every 20
ms and written continuously; 64 MiB per tap cover one second of a busy disk at 400 kpps.

Exit code: 0 nothing lost, also if ended by SIGINT or SIGTERM; 1 packets are missing in the capture;
2 error.")]
pub struct CaptureArgs {
    /// Taps: [NAME=][NAMESPACE/]INTERFACE[:in|:out]; the direction defaults to :in, NAME to the interface's
    /// name
    #[arg(required = true, value_name = "TAP")]
    pub taps: Vec<TapPlace>,
    /// Capture file to write: pcapng with one interface per tap, compressed with zstd if the name ends with
    /// .zst
    #[arg(long, value_name = "FILE")]
    pub write: PathBuf,
    /// End when a tap has seen this number of packets; no more than this number is written per tap
    #[arg(long, value_name = "N", value_parser = count)]
    pub packets: Option<NonZeroU64>,
    /// End after this time
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Duration>,
    /// Number of bytes of each frame to keep; the load generator's signature needs 65
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = wiretail_dataplane::timestamper::SNAPLEN,
        value_parser = clap::value_parser!(u16).range(1..=2048)
    )]
    pub snaplen: u16,
    /// Source of the timestamps (with --socket dpdk, software is the polling loop); never replaced by another
    /// source
    #[arg(long, value_enum, default_value_t = TimestampChoice::Software)]
    pub timestamps: TimestampChoice,
    /// Read and write during the capture, even if it is short
    #[arg(long)]
    pub stream: bool,
    /// How frames are received
    #[arg(long, value_enum, default_value_t = CaptureSocket::Packet)]
    pub socket: CaptureSocket,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    /// Core and priority of the polling loop, with --socket dpdk; packet sockets have no such loop.
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail forward dut/in dut/out                                    # until Ctrl-C
  wiretail forward eth1 eth2 --both-directions --batch 32 --release batch --cpu 3 --fifo 50
  wiretail forward dut/in dut/out --delay 10us --delay-every 1000    # to calibrate a measurement
  wiretail forward dut/in dut/out --socket xdp-redirect              # the kernel itself, by XDP
  wiretail forward dut/in dut/out --socket dpdk --batch 4            # DPDK's net_af_packet on both
  wiretail forward dpdk:0000:01:00.0 dpdk:0000:01:00.1 --socket dpdk --cpu 3 --both-directions

Except with xdp-redirect, the forwarder busy-polls and takes a whole core. Disable segmentation
offload at the senders (`ethtool -K INTERFACE tso off gso off gro off`): frames longer than 2 KiB
are not forwarded.

Once packets are received, the line `forwarding from IN to OUT` appears on standard error. On
SIGUSR1, the counts so far are printed as one line of JSON on standard output; forwarding continues.

Exit code: 0 ended by SIGINT or SIGTERM; 2 error.")]
pub struct ForwardArgs {
    /// Input: [NAMESPACE/]INTERFACE, or [NAMESPACE/]dpdk:DEVICE with --socket dpdk
    #[arg(value_name = "IN")]
    pub input: Place,
    /// Output, in the same syntax
    #[arg(value_name = "OUT")]
    pub output: Place,
    /// Also forward from OUT to IN
    #[arg(long)]
    pub both_directions: bool,
    /// Largest batch, 1 to 64; the forwarder never waits for a batch to fill
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch: usize,
    /// When the packets of a batch leave; always together with --socket dpdk
    #[arg(long, value_enum, default_value_t = ReleaseChoice::Immediate)]
    pub release: ReleaseChoice,
    /// Delay some packets by this time
    #[arg(long, value_name = "DURATION")]
    pub delay: Option<Duration>,
    /// With --delay: delay one in N packets of the load generator; 1 delays all of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "delay",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub delay_every: u64,
    /// With --socket dpdk: compute for this time for each packet of a batch, before the batch is sent
    #[arg(long, value_name = "DURATION")]
    pub work: Option<Duration>,
    /// With --socket dpdk: take packets once none has arrived for this time, like the receive timer of a NIC
    #[arg(long, value_name = "DURATION")]
    pub coalesce: Option<Duration>,
    /// How frames are received and sent
    #[arg(long, value_enum, default_value_t = ForwardSocket::Packet)]
    pub socket: ForwardSocket,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

// Core and priority of a busy-waiting loop.
#[derive(Debug, Args)]
pub struct ThreadArgs {
    /// Pin to this core
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Real-time priority (SCHED_FIFO), 1 to 99; starves everything else on its core
    #[arg(long, value_name = "PRIORITY")]
    pub fifo: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternChoice {
    /// Evenly spaced packets (with --burst: evenly spaced bursts)
    Constant,
    /// Independent, exponentially distributed gaps
    Poisson,
    /// Evenly spaced packets for --on, silence for --off, repeated
    OnOff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LatePolicyChoice {
    /// Send them at once, back to back
    CatchUp,
    /// Omit those that would depart more than half a gap late (at least 2 us)
    Skip,
    /// Delay them and all later packets, so that the gaps are kept
    Shift,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GenerateSocket {
    /// A packet socket, with one system call per frame or burst
    Packet,
    /// A packet socket with a transmit ring
    PacketRing,
    /// An AF_XDP socket, directly to the driver: taps on this interface do not see the packets
    Xdp,
    /// DPDK, if compiled in
    Dpdk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CaptureSocket {
    /// A packet socket
    Packet,
    /// A DPDK port, if compiled in: a loop that polls and takes a whole core; captures to memory only
    ///
    /// Timestamps come from the NIC (--timestamps hardware, if the driver supports it) or from the loop, one
    /// for all packets of a poll.
    Dpdk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForwardSocket {
    /// Packet sockets
    Packet,
    /// AF_XDP sockets, which bypass the kernel's stack; for interfaces with one receive queue
    ///
    /// Taps on IN do not see incoming packets: capture at the sender's end (`PEER:out`, and `generate
    /// --qdisc`).
    Xdp,
    /// The kernel forwards, by an XDP program on IN (and with --both-directions on OUT)
    ///
    /// In native mode if the driver supports it. Taps on IN do not see incoming packets, as with xdp. If OUT
    /// is a veth, its peer needs `ethtool -K PEER gro on`; a message reports if it is off. --batch,
    /// --release, --delay, --cpu and --fifo have no effect.
    XdpRedirect,
    /// DPDK, if compiled in: the packets of a poll, up to --batch, are sent together
    Dpdk,
}

// DPDK options.
#[derive(Debug, Args)]
pub struct DpdkArgs {
    /// With --socket dpdk: DPDK driver for an interface
    #[arg(long, value_enum, value_name = "DRIVER", default_value_t = PmdChoice::AfPacket)]
    pub pmd: PmdChoice,
    /// With --socket dpdk: additional EAL arguments, such as '-m 512 --iova-mode va'
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub eal: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PmdChoice {
    /// net_af_packet: packet sockets
    #[value(name = "af_packet")]
    AfPacket,
    /// net_af_xdp: AF_XDP sockets
    #[value(name = "af_xdp")]
    AfXdp,
}

impl PmdChoice {
    /// Returns the driver of the dataplane.
    pub fn driver(self) -> InterfaceDriver {
        match self {
            Self::AfPacket => InterfaceDriver::AfPacket,
            Self::AfXdp => InterfaceDriver::AfXdp,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReleaseChoice {
    /// Each packet immediately
    Immediate,
    /// All packets together, after all have been received
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimestampChoice {
    /// The kernel, where a packet enters the stack
    Software,
    /// The NIC, on reception
    Hardware,
}

fn rate(text: &str) -> Result<u64, String> {
    text.parse::<Rate>().map(|rate| rate.pps).map_err(|error| format!("expected {}", error.expected))
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let address = text.parse::<wiretail_host::MacAddress>();
    address.map(|address| address.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_interface_with_namespace() {
        let place = |text: &str| text.parse::<Place>();
        let inside =
            Place { namespace: Some("dut".to_owned()), interface: "eth0".to_owned(), is_device: false };
        assert_eq!(place("dut/eth0"), Ok(inside.clone()));
        assert_eq!(inside.to_string(), "dut/eth0");
        assert_eq!(place("eth0").unwrap().to_string(), "eth0");
        for wrong in ["", "/", "dut/", "/eth0", "a/b/c"] {
            assert!(place(wrong).unwrap_err().contains("dut/eth0"), "{wrong}");
        }
    }

    #[test]
    fn parses_dpdk_devices() {
        for (text, namespace, device) in [
            ("dpdk:0000:01:00.0", None, "0000:01:00.0"),
            ("dpdk:net_memif0,socket=/run/a.sock", None, "net_memif0,socket=/run/a.sock"),
            ("dut/dpdk:net_af_packet0,iface=in", Some("dut"), "net_af_packet0,iface=in"),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(
                (place.namespace.as_deref(), &*place.interface, place.is_device),
                (namespace, device, true)
            );
            assert_eq!(place.to_string(), text);
        }
        assert!("dpdk:".parse::<Place>().unwrap_err().contains("dpdk:0000:01:00.0"));
    }

    #[test]
    fn parses_tap_name_and_direction() {
        let tap = |text: &str| text.parse::<TapPlace>();
        let full = tap("pre=gen/eth0:out").unwrap();
        assert_eq!((full.name.as_str(), full.direction), ("pre", Direction::Out));
        assert_eq!(full.place.to_string(), "gen/eth0");
        let short = tap("eth0").unwrap();
        assert_eq!((short.name.as_str(), short.direction), ("eth0", Direction::In));
        let device = tap("sink/dpdk:net_af_packet0,iface=in").unwrap();
        assert_eq!((&*device.name, device.place.is_device), ("net_af_packet0,iface=in", true));
        assert_eq!(tap("post=dpdk:0000:01:00.0").unwrap().place.interface, "0000:01:00.0");
        assert_eq!(tap("dut/eth0:1:in").unwrap().place.interface, "eth0:1");
        for wrong in ["", "=eth0", "pre=", ":in", "pre=dut/:out"] {
            assert!(tap(wrong).is_err(), "{wrong}");
        }
    }
}
