//! The parts of a testbed as commands of their own: `generate`, `capture`, `forward`.

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

/// What makes a place a device as DPDK writes it.
const DEVICE_PREFIX: &str = "dpdk:";

/// An interface or a device of DPDK's, and the network namespace that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the namespace below /run/netns; None: the one of this process.
    pub namespace: Option<String>,
    /// Name of the interface, or the device as DPDK writes it, with its arguments.
    pub interface: String,
    /// Whether it is a device of DPDK's.
    pub is_device: bool,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, interface) = match text.split_once('/') {
            // A device's arguments may have slashes, too.
            Some((namespace, interface)) if !namespace.starts_with(DEVICE_PREFIX) => {
                (Some(namespace.to_owned()), interface)
            }
            _ => (None, text),
        };
        if let Some(device) = interface.strip_prefix(DEVICE_PREFIX)
            && namespace.as_deref() != Some("")
        {
            if device.is_empty() {
                return Err("expected a device behind dpdk:, such as dpdk:0000:01:00.0 or \
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

/// A tap: where, which packets, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapPlace {
    /// Name of the interface in the file.
    pub name: String,
    /// Where.
    pub place: Place,
    /// Which packets.
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
            // A device's arguments have such signs, too.
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
  wiretail generate eth0 --replay recorded.pcap.zst --rate 20kpps    # its gaps, scaled to this mean rate

Each packet is UDP over IPv4 and carries a signature that `wiretail analyze` and the tools around
MoonSniff know it by: a 4-byte number and 0x55, then stream, number in the stream, intended departure.

Exit code: 0 done, or ended by SIGINT or SIGTERM; 1 more than 1 % of the packets were late, or some could
not be sent; 2 error."
)]
pub struct GenerateArgs {
    /// Where the packets leave: [NAMESPACE/]INTERFACE, a namespace by its name in `ip netns`; or
    /// [NAMESPACE/]dpdk:DEVICE with --socket dpdk
    #[arg(value_name = "PORT")]
    pub port: Place,
    /// Packets a second: 10kpps, 1Mpps, 500pps; on average for poisson and bursts, while it is on for
    /// on-off
    #[arg(long, value_name = "RATE", value_parser = rate, required_unless_present = "replay")]
    pub rate: Option<u64>,
    /// End after so many packets, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", value_parser = count)]
    pub packets: Option<NonZeroU64>,
    /// End after this time
    #[arg(long, value_name = "DURATION", conflicts_with = "packets")]
    pub duration: Option<Duration>,
    /// When packets depart
    #[arg(long, value_enum, default_value_t = PatternChoice::Constant, conflicts_with = "replay")]
    pub pattern: PatternChoice,
    /// For --pattern on-off: how long it sends
    #[arg(long, value_name = "DURATION", requires = "off")]
    pub on: Option<Duration>,
    /// For --pattern on-off: how long it is silent
    #[arg(long, value_name = "DURATION", requires = "on")]
    pub off: Option<Duration>,
    /// Packets that depart back to back, the bursts evenly spaced
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
    /// Frame size: 100B, imix-csit, imix-trex, or a mix such as 7x60,4x566,1x1514
    ///
    /// Sizes are without the frame check sequence of 4 bytes. imix-csit is 7 frames of 60, 4 of 566 and
    /// 1 of 1514 bytes; imix-trex is 28 of 60, 16 of 590 and 4 of 1514 bytes.
    #[arg(long, value_name = "SIZE", default_value = "100B")]
    pub size: FrameSizes,
    /// Flows of each stream, told apart by their source port (from 1024 on), taking turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u16,
    /// Streams, told apart by their number in the signature (`wiretail analyze --flows stream`), taking
    /// turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub streams: u16,
    /// Send the frames of a capture as they are, with the gaps that they were recorded at
    ///
    /// pcap, pcapng, mscap or ERF, plain or compressed, of Ethernet and with whole frames of up to 1518
    /// bytes; all of it is held in memory, up to 1 GiB of frames. With --rate all gaps are scaled so that
    /// the mean rate is that one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["on", "off", "burst", "size", "flows", "streams"])]
    pub replay: Option<PathBuf>,
    /// Destination Ethernet address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", value_parser = mac)]
    pub mac_to: [u8; 6],
    /// Source Ethernet address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = mac)]
    pub mac_from: [u8; 6],
    /// Destination address
    #[arg(long, value_name = "IP", default_value = "10.0.0.2")]
    pub ip_to: Ipv4Addr,
    /// Source address
    #[arg(long, value_name = "IP", default_value = "10.0.0.1")]
    pub ip_from: Ipv4Addr,
    /// Destination port
    #[arg(long = "port", value_name = "PORT", default_value_t = 53)]
    pub port_to: u16,
    /// How frames are handed to the kernel
    #[arg(long, value_enum, default_value_t = GenerateSocket::Packet)]
    pub socket: GenerateSocket,
    /// Send through the queueing discipline, where `capture INTERFACE:out` sees the packets; without it
    /// they go straight to the driver
    #[arg(long)]
    pub qdisc: bool,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A packet that departs more than this after its time is late
    #[arg(long, value_name = "DURATION", default_value = "100us")]
    pub late_limit: Duration,
    /// Number of the first packet: the packets of two generators in one capture must differ
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first_id: u32,
    /// Print what was done as JSON
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

A capture of up to 512 MiB (--packets, and --duration or at most 30 s) stays in memory until it ends: no
reader is in the way of a short trial. A longer one, or one with --stream, is read every 20 ms and written
as it goes; 64 MiB a tap bridge a second in which the disk is busy, at 400 kpps.

Exit code: 0 done, or ended by SIGINT or SIGTERM, nothing lost; 1 packets are missing in the capture;
2 error.")]
pub struct CaptureArgs {
    /// Taps: [NAME=][NAMESPACE/]INTERFACE[:in|:out]; :in unless said otherwise, NAME is the interface's
    #[arg(required = true, value_name = "TAP")]
    pub taps: Vec<TapPlace>,
    /// The capture: pcapng with an interface a tap, compressed with zstd if the name ends with .zst
    #[arg(long, value_name = "FILE")]
    pub write: PathBuf,
    /// End when a tap has seen so many packets; of each tap no more are written
    #[arg(long, value_name = "N", value_parser = count)]
    pub packets: Option<NonZeroU64>,
    /// End after this time
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Duration>,
    /// Bytes of each frame that are kept; the load generator's signature needs 65
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = wiretail_dataplane::timestamper::SNAPLEN,
        value_parser = clap::value_parser!(u16).range(1..=2048)
    )]
    pub snaplen: u16,
    /// Who makes the stamps (with --socket dpdk, software is the polling loop); others are never put in their
    /// place
    #[arg(long, value_enum, default_value_t = TimestampChoice::Software)]
    pub timestamps: TimestampChoice,
    /// Read and write while the capture runs, however short it is
    #[arg(long)]
    pub stream: bool,
    /// How frames are received
    #[arg(long, value_enum, default_value_t = CaptureSocket::Packet)]
    pub socket: CaptureSocket,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    /// Of the loop that polls, with --socket dpdk; packet sockets have none
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Print what was done as JSON
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

It busy-polls (but for xdp-redirect), so it takes a whole core. Switch segmentation offload off at the senders
(`ethtool -K INTERFACE tso off gso off gro off`): frames longer than 2 KiB are not forwarded.

`forwarding from IN to OUT` on standard error says that packets are received from then on. On SIGUSR1 it
prints the counts so far as one line of JSON on standard output, and goes on.

Exit code: 0 ended by SIGINT or SIGTERM; 2 error.")]
pub struct ForwardArgs {
    /// Where packets come from: [NAMESPACE/]INTERFACE, or [NAMESPACE/]dpdk:DEVICE with --socket dpdk
    #[arg(value_name = "IN")]
    pub input: Place,
    /// Where they leave
    #[arg(value_name = "OUT")]
    pub output: Place,
    /// Back as well, from OUT to IN
    #[arg(long)]
    pub both_directions: bool,
    /// Most packets that are taken together, 1 to 64; it never waits for a batch to fill
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch: usize,
    /// When the packets of a batch leave; with --socket dpdk always together
    #[arg(long, value_enum, default_value_t = ReleaseChoice::Immediate)]
    pub release: ReleaseChoice,
    /// Hold some packets back for this time
    #[arg(long, value_name = "DURATION")]
    pub delay: Option<Duration>,
    /// With --delay: one of so many of the load generator's packets is held back; 1: all of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "delay",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub delay_every: u64,
    /// With --socket dpdk: compute for this time for each packet of a batch, before the batch is sent
    #[arg(long, value_name = "DURATION")]
    pub work: Option<Duration>,
    /// With --socket dpdk: take packets over when none has come for this time, as from a card's receive timer
    #[arg(long, value_name = "DURATION")]
    pub coalesce: Option<Duration>,
    /// How frames are received and sent
    #[arg(long, value_enum, default_value_t = ForwardSocket::Packet)]
    pub socket: ForwardSocket,
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
}

// Where a loop that busy-waits runs.
#[derive(Debug, Args)]
pub struct ThreadArgs {
    /// Run on this core only
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Real-time priority (SCHED_FIFO), 1 to 99; starves everything else on its core
    #[arg(long, value_name = "PRIORITY")]
    pub fifo: Option<u8>,
}

/// When packets depart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternChoice {
    /// Evenly spaced (with --burst: bursts evenly spaced)
    Constant,
    /// Independent, exponentially distributed gaps
    Poisson,
    /// Evenly spaced for --on, silence for --off, and again
    OnOff,
}

/// How a load generator hands frames to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GenerateSocket {
    /// A packet socket, a system call a frame or a burst
    Packet,
    /// A packet socket with a sending ring
    PacketRing,
    /// An AF_XDP socket, straight to the driver: taps on this interface do not see the packets
    Xdp,
    /// DPDK, in a build with it
    Dpdk,
}

/// How a tap receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CaptureSocket {
    /// A packet socket
    Packet,
    /// A port of DPDK's, in a build with it: a loop polls, and takes a whole core; into memory only
    ///
    /// Stamps are the network card's (--timestamps hardware, where the driver has them) or the loop's, one for all
    /// packets that it finds at once.
    Dpdk,
}

/// How a forwarder receives and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForwardSocket {
    /// Packet sockets
    Packet,
    /// AF_XDP sockets, past the kernel's stack; interfaces of one receiving queue
    ///
    /// Taps on IN see nothing come in then: capture the sender's end (`PEER:out`, and `generate --qdisc`).
    Xdp,
    /// None: the kernel itself forwards, by an XDP program on IN (and with --both-directions on OUT)
    ///
    /// Natively where the driver can. Taps on IN see nothing come in then, as with xdp. If OUT is a veth, its
    /// other end needs `ethtool -K PEER gro on`; it is told if not. --batch, --release, --delay, --cpu and --fifo
    /// have no meaning here.
    XdpRedirect,
    /// DPDK, in a build with it: what one look takes, up to --batch, is sent at once, together
    Dpdk,
}

// How DPDK is used.
#[derive(Debug, Args)]
pub struct DpdkArgs {
    /// With --socket dpdk: DPDK's driver for an interface
    #[arg(long, value_enum, value_name = "DRIVER", default_value_t = PmdChoice::AfPacket)]
    pub pmd: PmdChoice,
    /// With --socket dpdk: more arguments for DPDK's start, such as '-m 512 --iova-mode va'
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub eal: Option<String>,
}

/// DPDK's driver for an interface of the kernel's.
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
    /// The driver.
    pub fn driver(self) -> InterfaceDriver {
        match self {
            Self::AfPacket => InterfaceDriver::AfPacket,
            Self::AfXdp => InterfaceDriver::AfXdp,
        }
    }
}

/// When the packets of a batch leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReleaseChoice {
    /// Each at once
    Immediate,
    /// All together, when all have been taken
    Batch,
}

/// Who makes the stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimestampChoice {
    /// The kernel, where a packet enters the stack
    Software,
    /// The network card, on reception
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
    fn places_are_distinguished() {
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
    fn devices_of_dpdk_are_places() {
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
    fn taps_have_a_name_and_a_direction() {
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
