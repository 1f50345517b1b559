//! Every key of an experiment file: the one table that the types of a trial, parsing, its errors, the
//! documentation and the JSON Schema come from. A new key is a new row; [`keys!`] shows how one is written.

use super::table::{Row, keys};
use super::value::{FileName, Goals, RuleSet};
use crate::host::plan::Rules;
use crate::search::{Method, Over};
use crate::units::Duration;
use crate::units::rate::{Percent, Rate};
use crate::units::sizes::FrameSizes;

/// A key of an experiment file.
pub type KeyRow = Row<Settings>;

keys! {
    top {
        /// What the experiment shows, in a line.
        "title" title: one String = required;
        /// Seed of everything random.
        "seed" seed: one u64 = required;
    }

    table dut: DutKeys {
        /// The device under test; see [Devices](run.md#devices).
        "kind" kind: list DutKind {
            Wire = "wire", Bridge = "bridge", Skeleton = "skeleton", Command = "command",
            XdpRedirect = "xdp-redirect", LinuxRouter = "linux-router", DpdkTestpmd = "dpdk-testpmd",
            DpdkL2fwd = "dpdk-l2fwd", Suricata = "suricata", Snort3 = "snort3", Ovs = "ovs",
        } = required;
        /// Devices one behind the other, each with a tap behind it.
        "hops" hops: list u32(1..=16) = "1", only where dut.kind not [DutKind::Wire];
        /// What joins the devices: wires, or a virtual switch that every packet crosses before and behind
        /// each of them.
        "switch" switch: list SwitchKind {
            None = "none", Bridge = "bridge", Ovs = "ovs", OvsDpdk = "ovs-dpdk",
        } = "none", only where dut.kind not [DutKind::Wire];
        /// Where the device runs: in a network namespace of this host, in a container, or in a virtual
        /// machine.
        "deployment" deployment: list Deployment {
            Bare = "bare", Container = "container", Vm = "vm",
        } = "bare", only where dut.kind not [DutKind::Wire];
        /// What runs the container.
        "container" container: list ContainerRuntime {
            Lxc = "lxc", Runc = "runc",
        } = "runc", only where dut.deployment is [Deployment::Container];
        /// Kernel of the virtual machine: Debian's for clouds, its standard one, or its real-time one.
        "kernel" kernel: list GuestKernel {
            Cloud = "cloud", Standard = "standard", Rt = "rt",
        } = "cloud", only where dut.deployment is [Deployment::Vm];
        /// Boot parameters of the virtual machine: none, or those that isolate its second core.
        "boot" boot: list GuestBoot {
            Plain = "plain", Tuned = "tuned",
        } = "tuned", only where dut.deployment is [Deployment::Vm];
        /// How packets enter the virtual machine: by a TAP interface, or by memory shared with dut.switch =
        /// "ovs-dpdk".
        "network" network: list GuestNetwork {
            Tap = "tap", VhostUser = "vhost-user",
        } = "tap", only where dut.deployment is [Deployment::Vm];
        /// Sockets that the skeleton forwards between: AF_PACKET or AF_XDP.
        "socket" socket: list SkeletonSocket {
            Packet = "packet", Xdp = "xdp",
        } = "packet", only where dut.kind is [DutKind::Skeleton];
        /// Packets that are taken and sent together.
        "batch" batch: list u32(1..=64) = "1",
            only where dut.kind is [DutKind::Skeleton, DutKind::DpdkL2fwd, DutKind::DpdkTestpmd];
        /// What each packet of a batch costs before the batch is sent, as a network function would compute
        /// for it.
        "work" work: list Duration = "0 s", only where dut.kind is [DutKind::Skeleton, DutKind::DpdkL2fwd];
        /// Packets are taken over when none has come for this time, as from a network card whose receive
        /// timer starts again with each packet.
        "coalesce" coalesce: list Duration = "0 s", only where dut.kind is [DutKind::DpdkL2fwd];
        /// Driver by which DPDK uses the links.
        "pmd" pmd: list PollModeDriver {
            AfPacket = "af_packet", AfXdp = "af_xdp",
        } = "af_packet", only where dut.kind is [DutKind::DpdkL2fwd, DutKind::DpdkTestpmd];
        /// What testpmd does with Ethernet addresses.
        "forward-mode" forward_mode: list ForwardMode {
            Io = "io", Mac = "mac", Macswap = "macswap",
        } = "io", only where dut.kind is [DutKind::DpdkTestpmd];
        /// How Open vSwitch moves packets: by sockets of the kernel, or by DPDK.
        "datapath" datapath: list OvsDatapath {
            Userspace = "userspace", Dpdk = "dpdk",
        } = "userspace", only where dut.kind is [DutKind::Ovs];
        /// How Suricata or Snort takes and sends packets.
        "capture" capture: list IdsCapture {
            AfPacket = "af-packet", Dpdk = "dpdk",
        } = "af-packet", only where dut.kind is [DutKind::Suricata, DutKind::Snort3];
        /// Rules that it filters by: none, packaged (Suricata's own event rules), emerging (a cached Emerging
        /// Threats set), or a file, relative to the experiment's.
        "rules" rules: list RuleSet = "none", only where dut.kind is [DutKind::Suricata, DutKind::Snort3];
        /// Whether the skeleton sends each packet at once or a batch together.
        "release" release: list SkeletonRelease {
            Immediate = "immediate", Batch = "batch",
        } = "immediate", only where dut.kind is [DutKind::Skeleton];
        /// What the skeleton's thread does while there is no packet: looks again at once, or sleeps until the
        /// kernel wakes it, so that others can use its core.
        "wait" wait: list SkeletonWait {
            Spin = "spin", Block = "block",
        } = "spin", only where dut.kind is [DutKind::Skeleton];
        /// Delay that the skeleton adds to some packets.
        "delay" delay: list Duration = "0 s", only where dut.kind is [DutKind::Skeleton];
        /// Every how many packets it does so; 0 for never.
        "delay-every" delay_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton drops one packet in so many, drawn by the seed; 0 for none.
        "drop-every" drop_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton sends one packet in so many twice, drawn by the seed; 0 for none.
        "duplicate-every" duplicate_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton sends one packet in so many behind its successor, drawn by the seed; 0 for none.
        "swap-every" swap_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// What disturbs the skeleton on purpose, at known times: see [Planted
        /// disturbances](run.md#planted-disturbances). With all, the kinds take turns.
        "interference" interference: list InterferenceChoice {
            None = "none", Shootdown = "shootdown", Timer = "timer", Hog = "hog",
            PageFaults = "page-faults", Softirq = "softirq", Ipi = "ipi", Pause = "pause", All = "all",
        } = "none", only where dut.kind is [DutKind::Skeleton];
        /// From one of them to the next: exactly so for a single kind, up to a quarter more or less, drawn by
        /// the seed, for all.
        "interference-every" interference_every: list Duration = "10 ms",
            only where dut.interference not [InterferenceChoice::None];
        /// Command line of the program, run by sh in the device's namespace: it forwards between the links
        /// `in` and `out`.
        "command" command: list String = required, only where dut.kind is [DutKind::Command];
        /// Text that the program prints when it is ready; without, it is ready when a packet crosses it.
        "ready" ready: one String = "", only where dut.kind is [DutKind::Command];
        /// How long a device may take until it forwards.
        "ready-timeout" ready_timeout: one Duration = "10 s";
    }

    table traffic: TrafficKeys {
        /// Offered load in each direction; of on-off traffic, while it is on; of a search over rates, the
        /// highest it tries.
        "rate" rate: list Rate = required;
        /// When packets depart: evenly spaced, with exponential gaps, evenly in turns with silence, or as
        /// recorded.
        "pattern" pattern: list TrafficPattern {
            Constant = "constant", Poisson = "poisson", OnOff = "on-off", Replay = "replay",
        } = "constant";
        /// Packets sent back to back; the bursts are evenly spaced.
        "burst" burst: list u32(1..=65_535) = "1", only where traffic.pattern is [TrafficPattern::Constant];
        /// How long on-off traffic is on.
        "on" on: list Duration = "10 ms", only where traffic.pattern is [TrafficPattern::OnOff];
        /// How long on-off traffic is off.
        "off" off: list Duration = "10 ms", only where traffic.pattern is [TrafficPattern::OnOff];
        /// Capture whose packets are sent as recorded, at a mean of the rate; relative to the experiment's
        /// file.
        "replay" replay: list FileName = required, only where traffic.pattern is [TrafficPattern::Replay];
        /// Frame size without the frame check sequence: one for all, or a mix.
        "size" size: list FrameSizes = "100 B", only where traffic.pattern not [TrafficPattern::Replay];
        /// Flows of a stream, told apart by their source port.
        "flows" flows: list u16(1..=60_000) = "1";
        /// Streams, taking turns, told apart by the signature.
        "streams" streams: list u16(1..=256) = "1";
        /// Whether traffic crosses the device from in to out, or both ways at once.
        "directions" directions: list Directions { OneWay = "one-way", Both = "both" } = "one-way";
        /// One packet in so many, drawn by the seed, carries a text behind its signature; 0 for none.
        "mark-every" mark_every: list u64 = "0";
        /// That text, for a device that filters by it.
        "mark" mark: list String = "WIRETAIL-MARK";
        /// UDP port that packets are sent to.
        "port" port: one u16(1..=65_535) = "53";
        /// Socket of the load generator: a call a packet, a ring, or AF_XDP.
        "socket" socket: one GeneratorSocket {
            Packet = "packet", PacketRing = "packet-ring", Xdp = "xdp",
        } = "packet";
        /// How the load generator waits for a departure: by reading the clock, or asleep, some 10 to 60 us
        /// late, so that others can use its core.
        "pacing" pacing: list GeneratorPacing { Spin = "spin", Sleep = "sleep" } = "spin";
        /// A packet that departs later than this is late.
        "late-limit" late_limit: one Duration = "100 us";
    }

    table trial: TrialKeys {
        /// How long each trial sends.
        "duration" duration: list Duration = "2 s";
        /// First part of each trial that is left out.
        "warm-up" warm_up: one Duration = "200 ms";
        /// How often each trial is done.
        "repeats" repeats: one u64(1..=u64::MAX) = "1";
        /// Whether each trial has a device of its own, or trials that differ in their traffic alone share one
        /// that is started once.
        "device" device: one DeviceLifetime { Fresh = "fresh", Kept = "kept" } = "fresh";
        /// How often a trial that fails or is invalid is repeated; 0 for not at all.
        "retries" retries: one u64 = "1";
        /// More late packets than this make a trial invalid.
        "late-share" late_share: one Percent = "1 %";
        /// A trial is invalid when stalls of a millisecond and more take a larger share of it than this.
        "stall-share" stall_share: one Percent = "1 %";
        /// Where a device's ingress is tapped: where packets arrive if they can be seen there, or always
        /// where they leave for it, so that all kinds of devices compare.
        "ingress" ingress: one IngressTap { Auto = "auto", Sender = "sender" } = "auto";
        /// Whether every packet is kept, or histograms and the worst packets of each second; auto keeps up to
        /// 20 million.
        "capture" capture: one PacketCapture { Auto = "auto", Full = "full", None = "none" } = "auto";
    }

    table host: HostKeys {
        /// Whether generator and device run with real-time priority (SCHED_FIFO).
        "fifo" fifo: list bool = "true";
        /// Others while packets are sent: nobody; one that wears out caches and causes interrupts, on the
        /// housekeeping core; or a crowd that computes wherever it is let, one for each core.
        "neighbour" neighbour: list Neighbour {
            Quiet = "quiet", Noisy = "noisy", CpuLoad = "cpu-load",
        } = "quiet";
        /// What cores do while nobody wants them: sleep, as the machine is set up, or poll, so that nobody
        /// has to wake up.
        "idle" idle: list CoreIdle { Sleep = "sleep", Poll = "poll" } = "sleep";
        /// Whether other tasks, kernel workers and interrupts are moved off the packets' cores during a
        /// trial; with a profile it is the tasks only.
        "isolate" isolate: list bool = "true";
        /// Profile whose settings of the running kernel are set during a trial: see [tuning](tuning.md). What
        /// each of them is worth says wiretail host prove.
        "profile" profile: list ProfileChoice {
            None = "none", Regular = "regular", EnergySaving = "energysaving", Optimized = "optimized",
        } = "none";
        /// Which of the profile's settings, by the rules of the audit that ask for them: all, or thp,
        /// workqueue, or all but thp.
        "settings" settings: list Rules = "all", only where host.profile not [ProfileChoice::None];
    }

    table trace: TraceKeys {
        /// Whether the kernel's trace of the device's core is recorded, and the worst packets are explained
        /// by it.
        "record" record: list bool = "false";
        /// Whether each traced trial has an untraced twin behind it, by which the report says what tracing
        /// costs.
        "control" control: one bool = "true", only where trace.record is [true];
        /// Whether the stacks of those who interrupt the device's core are recorded, which name their system
        /// call and cost them 2 to 12 us.
        "stacks" stacks: one bool = "true", only where trace.record is [true];
        /// MiB of the trace's buffer for a watched core; more where events are missing.
        "buffer" buffer: one u32(1..=1024) = "16", only where trace.record is [true];
        /// Whether page faults on the device's core are recorded, too.
        "page-faults" page_faults: one bool = "false", only where trace.record is [true];
    }

    table search: SearchKeys {
        /// How a search chooses the rates that it tries: multiple loss ratio search (RFC 9971), binary search
        /// with loss verification (ETSI GS NFV-TST 009), or one after the other.
        "method" method: list Method = "mlrsearch";
        /// What is sought, with commas between: ndr (no loss), pdr 0.5% (at most so much), 100us@99.9% (so
        /// large a share within that time).
        "goals" goals: one Goals = "ndr";
        /// What is searched: the rate, or how many packets may come back to back, at most traffic.burst, at a
        /// mean of traffic.rate (RFC 2544, 26.4; RFC 9004).
        "over" over: one Over = "rate";
        /// Lowest rate that a search tries; the highest is traffic.rate. A search over bursts begins with one
        /// packet.
        "lowest" lowest: one Rate = "1 kpps";
        /// How far apart the rate that is found and the next one that misses the goal may be.
        "width" width: one Percent = "1 %";
        /// A trial in which packets leave for so much longer than they come misses every goal: what was not
        /// lost filled the device's ring.
        "stretch" stretch: one Percent = "0.5 %";
        /// How long the first trials of a search send; the last ones send for trial.duration.
        "first-duration" first_duration: one Duration = "500 ms",
            only where search.method is [Method::Mlrsearch];
        /// Full trials that a decision on a rate rests on.
        "trials" trials: one u64(1..=u64::MAX) = "1", only where search.method is [Method::Mlrsearch];
        /// Share of them that may miss the goal.
        "exceed" exceed: one Percent = "0 %", only where search.method is [Method::Mlrsearch];
        /// How often a trial that missed the goal is repeated; one that meets it is enough.
        "verify" verify: one u64 = "1", only where search.method is [Method::Binary];
    }

    table energy: EnergyKeys {
        /// What measures energy: the processor's counters (RAPL), a command that prints watts, or nothing;
        /// auto takes RAPL where it can be read.
        "source" source: one EnergyChoice {
            Auto = "auto", Rapl = "rapl", Command = "command", None = "none",
        } = "auto";
        /// Command line, run by sh on this host, that prints a number, the watts, on each line: one that ends
        /// is run again every interval.
        "command" command: one String = required, only where energy.source is [EnergyChoice::Command];
        /// From one start of that command to the next.
        "interval" interval: one Duration = "1 s", only where energy.source is [EnergyChoice::Command];
        /// How long the idle host is measured before the device starts; 0 for not at all.
        "idle" idle: one Duration = "0 s", only where energy.source not [EnergyChoice::None];
        /// How long the device is measured while it runs and waits, before the first packet; 0 for not at
        /// all.
        "available" available: one Duration = "0 s", only where energy.source not [EnergyChoice::None];
    }
}
