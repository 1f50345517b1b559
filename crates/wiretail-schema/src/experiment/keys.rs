//! Table of all keys of an experiment file. The types of a trial, the parser, its error messages, the
//! documentation and the JSON Schema are generated from it. A new key is a new row; [`keys!`] documents the
//! syntax.

use super::table::{Row, keys};
use super::value::{FileName, Goals, RuleSet, ShellCommand};
use crate::host::plan::Rules;
use crate::host::sysctl::Sysctls;
use crate::search::{Method, Over};
use crate::units::Duration;
use crate::units::rate::{Percent, Rate};
use crate::units::sizes::FrameSizes;

/// A key of an experiment file.
pub type KeyRow = Row<Settings>;

keys! {
    top {
        /// Title of the experiment, in one line.
        "title" title: one String = required;
        /// Seed of all random numbers.
        "seed" seed: one u64 = required;
    }

    table dut: DutKeys {
        /// Device under test; see [Devices](run.md#devices).
        "kind" kind: list DutKind {
            Wire = "wire", Bridge = "bridge", Skeleton = "skeleton", Command = "command",
            XdpRedirect = "xdp-redirect", LinuxRouter = "linux-router", DpdkTestpmd = "dpdk-testpmd",
            DpdkL2fwd = "dpdk-l2fwd", Suricata = "suricata", Snort3 = "snort3", Ovs = "ovs",
        } = required;
        /// Number of devices in a chain, each followed by a tap.
        "hops" hops: list u32(1..=16) = "1", only where dut.kind not [DutKind::Wire];
        /// Connection between the devices: wires, or a virtual switch that every packet crosses before and
        /// after each device.
        "switch" switch: list SwitchKind {
            None = "none", Bridge = "bridge", Ovs = "ovs", OvsDpdk = "ovs-dpdk",
        } = "none", only where dut.kind not [DutKind::Wire];
        /// Environment of the device: a network namespace of this host, a container, or a virtual machine.
        "deployment" deployment: list Deployment {
            Bare = "bare", Container = "container", Vm = "vm",
        } = "bare", only where dut.kind not [DutKind::Wire];
        /// Container runtime.
        "container" container: list ContainerRuntime {
            Lxc = "lxc", Runc = "runc",
        } = "runc", only where dut.deployment is [Deployment::Container];
        /// Kernel of the virtual machine: Debian's cloud kernel, its standard kernel, or its real-time
        /// kernel.
        "kernel" kernel: list GuestKernel {
            Cloud = "cloud", Standard = "standard", Rt = "rt",
        } = "cloud", only where dut.deployment is [Deployment::Vm];
        /// Boot parameters of the virtual machine: none, or those that isolate its second core.
        "boot" boot: list GuestBoot {
            Plain = "plain", Tuned = "tuned",
        } = "tuned", only where dut.deployment is [Deployment::Vm];
        /// How packets enter the virtual machine: through a TAP interface, or through memory shared with Open
        /// vSwitch (dut.switch = "ovs-dpdk").
        "network" network: list GuestNetwork {
            Tap = "tap", VhostUser = "vhost-user",
        } = "tap", only where dut.deployment is [Deployment::Vm];
        /// Type of the sockets between which the skeleton forwards: AF_PACKET or AF_XDP.
        "socket" socket: list SkeletonSocket {
            Packet = "packet", Xdp = "xdp",
        } = "packet", only where dut.kind is [DutKind::Skeleton];
        /// Maximum number of packets taken and sent together.
        "batch" batch: list u32(1..=64) = "1",
            only where dut.kind is [DutKind::Skeleton, DutKind::DpdkL2fwd, DutKind::DpdkTestpmd];
        /// CPU time spent on each packet of a batch before the batch is sent, to emulate the work of a
        /// network function.
        "work" work: list Duration = "0 s", only where dut.kind is [DutKind::Skeleton, DutKind::DpdkL2fwd];
        /// The device receives the waiting packets only when no packet has arrived for this time, like a NIC
        /// that restarts its receive timer with each packet.
        "coalesce" coalesce: list Duration = "0 s", only where dut.kind is [DutKind::DpdkL2fwd];
        /// DPDK driver for the links.
        "pmd" pmd: list PollModeDriver {
            AfPacket = "af_packet", AfXdp = "af_xdp",
        } = "af_packet", only where dut.kind is [DutKind::DpdkL2fwd, DutKind::DpdkTestpmd];
        /// Handling of Ethernet addresses by testpmd.
        "forward-mode" forward_mode: list ForwardMode {
            Io = "io", Mac = "mac", Macswap = "macswap",
        } = "io", only where dut.kind is [DutKind::DpdkTestpmd];
        /// How Open vSwitch moves packets: with kernel sockets or with DPDK.
        "datapath" datapath: list OvsDatapath {
            Userspace = "userspace", Dpdk = "dpdk",
        } = "userspace", only where dut.kind is [DutKind::Ovs];
        /// How Suricata or Snort receives and sends packets.
        "capture" capture: list IdsCapture {
            AfPacket = "af-packet", Dpdk = "dpdk",
        } = "af-packet", only where dut.kind is [DutKind::Suricata, DutKind::Snort3];
        /// Filter rules: none, packaged (Suricata's own event rules), emerging (a cached Emerging Threats
        /// set), or a file, relative to the experiment file.
        "rules" rules: list RuleSet = "none", only where dut.kind is [DutKind::Suricata, DutKind::Snort3];
        /// Whether the skeleton sends each packet immediately or a whole batch together.
        "release" release: list SkeletonRelease {
            Immediate = "immediate", Batch = "batch",
        } = "immediate", only where dut.kind is [DutKind::Skeleton];
        /// What the skeleton's thread does while there is no packet: it polls, or it sleeps until the kernel
        /// wakes it, so that other tasks can use its core.
        "wait" wait: list SkeletonWait {
            Spin = "spin", Block = "block",
        } = "spin", only where dut.kind is [DutKind::Skeleton];
        /// Delay that the skeleton adds to some packets.
        "delay" delay: list Duration = "0 s", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton delays every Nth packet; N = 0 delays none.
        "delay-every" delay_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton drops 1 in N packets, chosen by the seed; N = 0 drops none.
        "drop-every" drop_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton sends 1 in N packets twice, chosen by the seed; N = 0 duplicates none.
        "duplicate-every" duplicate_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// The skeleton sends 1 in N packets after its successor, chosen by the seed; N = 0 swaps none.
        "swap-every" swap_every: list u64 = "0", only where dut.kind is [DutKind::Skeleton];
        /// Interference injected into the skeleton at known times; see [injected
        /// interference](run.md#injected-interference). With all, the kinds alternate.
        "interference" interference: list InterferenceChoice {
            None = "none", Shootdown = "shootdown", Timer = "timer", Hog = "hog",
            PageFaults = "page-faults", Softirq = "softirq", Ipi = "ipi", Pause = "pause", All = "all",
        } = "none", only where dut.kind is [DutKind::Skeleton];
        /// Time from one injected interference to the next. The time is exact for a single kind. With all, it
        /// varies at random by up to a quarter, depending on the seed.
        "interference-every" interference_every: list Duration = "10 ms",
            only where dut.interference not [InterferenceChoice::None];
        /// Command line that sh runs in the device's namespace: a program, or several commands that end with
        /// `exec PROGRAM`. The program forwards between the links `in` and `out`.
        "command" command: list String = required, only where dut.kind is [DutKind::Command];
        /// Text that the program prints when it is ready. If the text is empty, the program is ready when a
        /// packet crosses it.
        "ready" ready: one String = "", only where dut.kind is [DutKind::Command];
        /// Maximum time until a device forwards packets.
        "ready-timeout" ready_timeout: one Duration = "10 s";
    }

    table traffic: TrafficKeys {
        /// Offered load in each direction. For on-off traffic, the rate during the on phase; for a search
        /// over rates, the highest rate tried.
        "rate" rate: list Rate = required;
        /// Departure times of packets: evenly spaced, with exponential gaps, evenly spaced with silent phases
        /// in between, or as recorded.
        "pattern" pattern: list TrafficPattern {
            Constant = "constant", Poisson = "poisson", OnOff = "on-off", Replay = "replay",
        } = "constant";
        /// Number of packets sent back to back. The bursts are evenly spaced.
        "burst" burst: list u32(1..=65_535) = "1", only where traffic.pattern is [TrafficPattern::Constant];
        /// Length of the on phase of on-off traffic.
        "on" on: list Duration = "10 ms", only where traffic.pattern is [TrafficPattern::OnOff];
        /// Length of the off phase of on-off traffic.
        "off" off: list Duration = "10 ms", only where traffic.pattern is [TrafficPattern::OnOff];
        /// Capture with the packets to send. Recorded gaps are scaled so that the mean rate is traffic.rate.
        /// The path is relative to the experiment file.
        "replay" replay: list FileName = required, only where traffic.pattern is [TrafficPattern::Replay];
        /// Frame size without the frame check sequence: a single size, or a mix.
        "size" size: list FrameSizes = "100 B", only where traffic.pattern not [TrafficPattern::Replay];
        /// Number of flows per stream, distinguished by their source port.
        "flows" flows: list u16(1..=60_000) = "1";
        /// Number of streams, sent in turn and distinguished by the signature.
        "streams" streams: list u16(1..=256) = "1";
        /// Whether traffic crosses the device from in to out only, or in both directions at once.
        "directions" directions: list Directions { OneWay = "one-way", Both = "both" } = "one-way";
        /// 1 in N packets, chosen by the seed, carries a text after its signature; N = 0 marks none.
        "mark-every" mark_every: list u64 = "0";
        /// Text that marked packets carry, for a device that filters by it.
        "mark" mark: list String = "WIRETAIL-MARK";
        /// Destination UDP port of the packets.
        "port" port: one u16(1..=65_535) = "53";
        /// Socket of the load generator: one system call per packet, a ring, or AF_XDP.
        "socket" socket: one GeneratorSocket {
            Packet = "packet", PacketRing = "packet-ring", Xdp = "xdp",
        } = "packet";
        /// How the load generator waits for a departure: by polling the clock, or by sleeping. A generator
        /// that sleeps wakes about 10 to 60 us late, but leaves the core to other tasks.
        "pacing" pacing: list GeneratorPacing { Spin = "spin", Sleep = "sleep" } = "spin";
        /// Reaction of the load generator to a stall: catch-up sends all packets that became due at once, skip
        /// omits packets that missed their departure, and shift delays all further packets; see [late
        /// departures](traffic.md#late-departures).
        "late-policy" late_policy: list LatePolicy {
            CatchUp = "catch-up", Skip = "skip", Shift = "shift",
        } = "catch-up";
        /// A packet is late if it departs more than this time after its planned departure.
        "late-limit" late_limit: one Duration = "100 us";
    }

    table trial: TrialKeys {
        /// Sending time of each trial, without pauses.
        "duration" duration: list Duration = "2 s";
        /// Pauses of 100 ms in trials longer than 700 ms, in which no packet is due and Wiretail's own polling
        /// threads sleep: none, always, or only if such a thread would otherwise starve ordinary tasks on its
        /// core (auto); see [pauses](run.md#pauses).
        "pauses" pauses: one PausesChoice { Auto = "auto", Always = "always", None = "none" } = "auto";
        /// Initial part of each trial that is excluded.
        "warm-up" warm_up: one Duration = "200 ms";
        /// Number of times that each trial is executed.
        "repeats" repeats: one u64(1..=u64::MAX) = "1";
        /// Whether each trial starts its own device, or trials that differ only in their traffic share a
        /// device that is started once.
        "device" device: one DeviceLifetime { Fresh = "fresh", Kept = "kept" } = "fresh";
        /// Maximum number of retries of a trial that fails or is invalid; 0 for none.
        "retries" retries: one u64 = "1";
        /// Highest share of late packets in a valid trial. Also the highest share of the schedule that the load
        /// generator may skip or shift without a stall, because the rate is too high for it.
        "late-share" late_share: one Percent = "1 %";
        /// Highest share of a trial's duration that may be lost to stalls of a millisecond or more. If more
        /// is lost, the trial is invalid.
        "stall-share" stall_share: one Percent = "1 %";
        /// Position of a device's ingress tap. auto is the point where packets arrive, if they are visible
        /// there. sender is always the point where packets leave for the device, which makes all kinds of
        /// devices comparable.
        "ingress" ingress: one IngressTap { Auto = "auto", Sender = "sender" } = "auto";
        /// What is kept of a trial: every packet, or histograms and the worst packets of each second. auto
        /// keeps every packet if the trial sends at most 20 million.
        "capture" capture: one PacketCapture { Auto = "auto", Full = "full", None = "none" } = "auto";
    }

    table host: HostKeys {
        /// Whether load generator and device run with real-time priority (SCHED_FIFO).
        "fifo" fifo: list bool = "true";
        /// Other load while packets are sent: none; noisy, a task on the housekeeping core that thrashes
        /// caches and causes interrupts; or cpu-load, one task per core that computes wherever the scheduler
        /// permits.
        "neighbour" neighbour: list Neighbour {
            Quiet = "quiet", Noisy = "noisy", CpuLoad = "cpu-load",
        } = "quiet";
        /// What idle cores do: sleep, as configured on the machine, or poll, so that no core has to wake up.
        "idle" idle: list CoreIdle { Sleep = "sleep", Poll = "poll" } = "sleep";
        /// Whether other tasks, kernel workers and interrupts are moved off the packets' cores during a
        /// trial. With a profile, only tasks are moved.
        "isolate" isolate: list bool = "true";
        /// Profile of kernel settings applied during a trial; see [tuning](tuning.md). wiretail host prove
        /// measures the effect of each setting.
        "profile" profile: list ProfileChoice {
            None = "none", Regular = "regular", EnergySaving = "energysaving", Optimized = "optimized",
        } = "none";
        /// Settings of the profile to apply, selected by audit rules: for example all, or thp, workqueue, or
        /// all but thp.
        "settings" settings: list Rules = "all", only where host.profile not [ProfileChoice::None];
        /// Kernel settings (sysctl) during a trial, as NAME = VALUE, separated by commas. none leaves them as
        /// they are; see [changes of your own](run.md#changes-of-your-own).
        "sysctl" sysctl: list Sysctls = "none";
        /// Command that sh runs on this host, as root, before a device starts; none runs no command. Its
        /// background processes are ended with the trial.
        "before" before: list ShellCommand = "none";
        /// Command that sh runs on this host, as root, after a device has ended, also if the trial fails or
        /// is interrupted; none runs no command.
        "after" after: list ShellCommand = "none";
        /// Working directory of host.before and host.after. If empty, it is the directory of the experiment file.
        "directory" directory: one FileName = "";
    }

    table trace: TraceKeys {
        /// Whether to record a kernel trace of the device's core and to explain the worst packets with it.
        "record" record: list bool = "false";
        /// Whether each traced trial is followed by an untraced control trial, from which the report computes
        /// the overhead of tracing.
        "control" control: one bool = "true", only where trace.record is [true];
        /// Whether to record the stacks of threads that interrupt the device's core. A stack names the system
        /// call. Recording it costs the thread 2 to 12 us.
        "stacks" stacks: one bool = "true", only where trace.record is [true];
        /// Size of the trace buffer per watched core, in MiB. Increase it if events are missing.
        "buffer" buffer: one u32(1..=1024) = "16", only where trace.record is [true];
        /// Whether the trace includes page faults on the device's core.
        "page-faults" page_faults: one bool = "false", only where trace.record is [true];
    }

    table search: SearchKeys {
        /// Search method: multiple loss ratio search (RFC 9971), binary search with loss verification (ETSI
        /// GS NFV-TST 009), or all rates in ascending order.
        "method" method: list Method = "mlrsearch";
        /// Goals, separated by commas: ndr (no loss), pdr 0.5% (at most this loss), 100us@99.9% (at least
        /// this share of packets within this time).
        "goals" goals: one Goals = "ndr";
        /// Kind of load that is varied: the rate, or the number of packets sent back to back (RFC 2544, 26.4;
        /// RFC 9004). Bursts have at most traffic.burst packets, at a mean rate of traffic.rate.
        "over" over: one Over = "rate";
        /// Lowest rate that a search tries. The highest is traffic.rate. A search over bursts starts with one
        /// packet.
        "lowest" lowest: one Rate = "1 kpps";
        /// Maximum distance between the rate found and the next higher rate that misses the goal.
        "width" width: one Percent = "1 %";
        /// Largest share by which a device may take longer to send the packets than they took to arrive.
        /// Beyond it, a trial misses every goal, because only the device's ring prevented losses.
        "stretch" stretch: one Percent = "0.5 %";
        /// Sending time of the first trials of a search. The last trials send for trial.duration.
        "first-duration" first_duration: one Duration = "500 ms",
            only where search.method is [Method::Mlrsearch];
        /// Number of full trials that decide whether a rate meets a goal.
        "trials" trials: one u64(1..=u64::MAX) = "1", only where search.method is [Method::Mlrsearch];
        /// Share of the full trials at a rate that may miss the goal.
        "exceed" exceed: one Percent = "0 %", only where search.method is [Method::Mlrsearch];
        /// How often a trial that missed the goal is repeated. One trial that meets the goal is enough.
        "verify" verify: one u64 = "1", only where search.method is [Method::Binary];
    }

    table energy: EnergyKeys {
        /// Energy meter: the processor's counters (RAPL), a command that prints watts, or none; auto uses
        /// RAPL if it is readable.
        "source" source: one EnergyChoice {
            Auto = "auto", Rapl = "rapl", Command = "command", None = "none",
        } = "auto";
        /// Command line, run by sh on this host. It prints one number per line: the power in watts. A command
        /// that ends is run again after each interval.
        "command" command: one String = required, only where energy.source is [EnergyChoice::Command];
        /// Time from one start of the energy command to the next.
        "interval" interval: one Duration = "1 s", only where energy.source is [EnergyChoice::Command];
        /// How long the idle host is measured before the device starts; 0 skips this measurement.
        "idle" idle: one Duration = "0 s", only where energy.source not [EnergyChoice::None];
        /// How long the device is measured while it runs and waits, before the first packet is sent; 0 skips
        /// this measurement.
        "available" available: one Duration = "0 s", only where energy.source not [EnergyChoice::None];
    }
}
