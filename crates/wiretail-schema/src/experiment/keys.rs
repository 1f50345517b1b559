//! Every key of an experiment file: the one table that parsing, its errors, the documentation and the
//! JSON Schema come from.

/// What kind of value a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number of at least this much.
    Count(u64),
    /// Packets a second: "10 kpps".
    Rate,
    /// A span of time: "2 s".
    Duration,
    /// Bytes of a frame on the wire, without the frame check sequence, or a mix of sizes: "100 B".
    Size,
    /// A share in percent: "1 %".
    Percent,
}

impl Kind {
    /// What is expected, with an example.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Count(least) => format!("a whole number of {least} or more"),
            Self::Rate => "a rate in quotes, with its unit, such as \"10 kpps\"".to_owned(),
            Self::Duration => "a duration in quotes, with its unit, such as \"2 s\"".to_owned(),
            Self::Size => "a frame size in quotes, such as \"100 B\", \"imix-csit\", \"imix-trex\" or \"7x60,4x566,1x1514\"".to_owned(),
            Self::Percent => "a share in quotes, with its unit, such as \"1 %\"".to_owned(),
        }
    }
}

/// What a key must meet to have an effect: another key with one of these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Table of the other key.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}

/// A key of an experiment file.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// The table it stands in; empty for the top.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its value where the file has none; None where the file must have one.
    pub default: Option<&'static str>,
    /// Whether it may hold a list.
    pub factor: bool,
    /// Where it has an effect; None: everywhere.
    pub needs: Option<Needs>,
    /// What it means.
    pub about: &'static str,
}

impl KeyRow {
    /// Its name with its table: "traffic.rate".
    pub fn full_name(&self) -> String {
        if self.table.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.table, self.name) }
    }

    /// The largest value it may have; None where there is no limit but that of its kind.
    pub fn most(&self) -> Option<u64> {
        match (self.table, self.name) {
            ("dut", "batch") => Some(64),
            ("dut", "hops") => Some(16),
            ("traffic", "flows") => Some(60_000),
            ("traffic", "streams") => Some(256),
            ("trace", "buffer") => Some(1024),
            ("traffic", "port" | "burst") => Some(65_535),
            _ => None,
        }
    }

    /// Whether it is `dut.kind`, which names every trial.
    pub(super) fn is_dut(&self) -> bool {
        (self.table, self.name) == ("dut", "kind")
    }

    /// Whether it is `trace.record`, by which a traced trial and its twin differ.
    pub(super) fn is_record(&self) -> bool {
        (self.table, self.name) == ("trace", "record")
    }

    /// The same key with an effect only where `dut.kind` is one of these.
    const fn of_dut(mut self, values: &'static [&'static str]) -> Self {
        self.needs = Some(Needs { table: "dut", name: "kind", values });
        self
    }

    /// The same key with an effect only where `dut.deployment` is one of these.
    const fn of_deployment(mut self, values: &'static [&'static str]) -> Self {
        self.needs = Some(Needs { table: "dut", name: "deployment", values });
        self
    }

    /// The same key with an effect only where something disturbs the device.
    const fn of_interference(mut self) -> Self {
        const KINDS: &[&str] =
            &["shootdown", "timer", "hog", "page-faults", "softirq", "ipi", "pause", "all"];
        self.needs = Some(Needs { table: "dut", name: "interference", values: KINDS });
        self
    }

    /// The same key with an effect only where the trial sets a profile.
    const fn of_profile(mut self) -> Self {
        const PROFILES: &[&str] = &["regular", "energysaving", "optimized"];
        self.needs = Some(Needs { table: "host", name: "profile", values: PROFILES });
        self
    }

    /// The same key with an effect only where `trace.record` says yes.
    const fn of_trace(mut self) -> Self {
        self.needs = Some(Needs { table: "trace", name: "record", values: &["yes"] });
        self
    }

    /// The same key with an effect only where `search.method` is this.
    const fn of_method(mut self, values: &'static [&'static str]) -> Self {
        self.needs = Some(Needs { table: "search", name: "method", values });
        self
    }

    /// The same key with an effect only where `energy.source` is one of these.
    const fn of_energy(mut self, values: &'static [&'static str]) -> Self {
        self.needs = Some(Needs { table: "energy", name: "source", values });
        self
    }

    /// The same key with an effect only where `traffic.pattern` is one of these.
    const fn of_pattern(mut self, values: &'static [&'static str]) -> Self {
        self.needs = Some(Needs { table: "traffic", name: "pattern", values });
        self
    }
}

/// A key that holds one value.
const fn one(
    table: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> KeyRow {
    KeyRow { table, name, kind, default, factor: false, needs: None, about }
}

/// A key that may hold a list.
const fn many(
    table: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> KeyRow {
    KeyRow { table, name, kind, default, factor: true, needs: None, about }
}

const SKELETON: &[&str] = &["skeleton"];
const COMMAND: &[&str] = &["command"];
const METERED: &[&str] = &["auto", "rapl", "command"];
/// Everything but the wire.
const DEVICES: &[&str] = &[
    "bridge",
    "skeleton",
    "command",
    "xdp-redirect",
    "linux-router",
    "dpdk-testpmd",
    "dpdk-l2fwd",
    "suricata",
    "snort3",
    "ovs",
];
const YES_NO: Kind = Kind::Choice(&["yes", "no"]);

/// Every key there is. The order is that of the trials: the last factor changes fastest.
pub const KEYS: &[KeyRow] = &[
    one("", "title", Kind::Text, None, "What the experiment shows, in a line."),
    one("", "seed", Kind::Count(0), None, "Seed of everything random."),
    many(
        "dut",
        "kind",
        Kind::Choice(&[
            "wire",
            "bridge",
            "skeleton",
            "command",
            "xdp-redirect",
            "linux-router",
            "dpdk-testpmd",
            "dpdk-l2fwd",
            "suricata",
            "snort3",
            "ovs",
        ]),
        None,
        "The device under test; see [Devices](run.md#devices).",
    ),
    many("dut", "hops", Kind::Count(1), Some("1"), "Devices one behind the other, each with a tap behind it.").of_dut(DEVICES),
    many(
        "dut",
        "switch",
        Kind::Choice(&["none", "bridge", "ovs", "ovs-dpdk"]),
        Some("none"),
        "What joins the devices: wires, or a virtual switch that every packet crosses before and behind each of them.",
    )
    .of_dut(DEVICES),
    many(
        "dut",
        "deployment",
        Kind::Choice(&["bare", "container", "vm"]),
        Some("bare"),
        "Where the device runs: in a network namespace of this host, in a container, or in a virtual machine.",
    )
    .of_dut(DEVICES),
    many(
        "dut",
        "container",
        Kind::Choice(&["lxc", "runc"]),
        Some("runc"),
        "What runs the container.",
    )
    .of_deployment(&["container"]),
    many(
        "dut",
        "kernel",
        Kind::Choice(&["cloud", "standard", "rt"]),
        Some("cloud"),
        "Kernel of the virtual machine: Debian's for clouds, its standard one, or its real-time one.",
    )
    .of_deployment(&["vm"]),
    many(
        "dut",
        "boot",
        Kind::Choice(&["plain", "tuned"]),
        Some("tuned"),
        "Boot parameters of the virtual machine: none, or those that isolate its second core.",
    )
    .of_deployment(&["vm"]),
    many(
        "dut",
        "network",
        Kind::Choice(&["tap", "vhost-user"]),
        Some("tap"),
        "How packets enter the virtual machine: by a TAP interface, or by memory shared with dut.switch = \"ovs-dpdk\".",
    )
    .of_deployment(&["vm"]),
    many(
        "dut",
        "socket",
        Kind::Choice(&["packet", "xdp"]),
        Some("packet"),
        "Sockets that the skeleton forwards between: AF_PACKET or AF_XDP.",
    )
    .of_dut(SKELETON),
    many("dut", "batch", Kind::Count(1), Some("1"), "Packets that are taken and sent together, up to 64.")
        .of_dut(&["skeleton", "dpdk-l2fwd", "dpdk-testpmd"]),
    many(
        "dut",
        "work",
        Kind::Duration,
        Some("0 s"),
        "What each packet of a batch costs before the batch is sent, as a network function would compute for it.",
    )
    .of_dut(&["skeleton", "dpdk-l2fwd"]),
    many(
        "dut",
        "coalesce",
        Kind::Duration,
        Some("0 s"),
        "Packets are taken over when none has come for this time, as from a network card whose receive timer starts again with each packet.",
    )
    .of_dut(&["dpdk-l2fwd"]),
    many(
        "dut",
        "pmd",
        Kind::Choice(&["af_packet", "af_xdp"]),
        Some("af_packet"),
        "Driver by which DPDK uses the links.",
    )
    .of_dut(&["dpdk-l2fwd", "dpdk-testpmd"]),
    many(
        "dut",
        "forward-mode",
        Kind::Choice(&["io", "mac", "macswap"]),
        Some("io"),
        "What testpmd does with Ethernet addresses.",
    )
    .of_dut(&["dpdk-testpmd"]),
    many(
        "dut",
        "datapath",
        Kind::Choice(&["userspace", "dpdk"]),
        Some("userspace"),
        "How Open vSwitch moves packets: by sockets of the kernel, or by DPDK.",
    )
    .of_dut(&["ovs"]),
    many(
        "dut",
        "capture",
        Kind::Choice(&["af-packet", "dpdk"]),
        Some("af-packet"),
        "How Suricata or Snort takes and sends packets.",
    )
    .of_dut(&["suricata", "snort3"]),
    many(
        "dut",
        "rules",
        Kind::Text,
        Some("none"),
        "Rules that it filters by: none, packaged (Suricata's own event rules), emerging (a cached Emerging Threats set), or a file, relative to the experiment's.",
    )
    .of_dut(&["suricata", "snort3"]),
    many(
        "dut",
        "release",
        Kind::Choice(&["immediate", "batch"]),
        Some("immediate"),
        "Whether the skeleton sends each packet at once or a batch together.",
    )
    .of_dut(SKELETON),
    many(
        "dut",
        "wait",
        Kind::Choice(&["spin", "block"]),
        Some("spin"),
        "What the skeleton's thread does while there is no packet: looks again at once, or sleeps until the kernel wakes it, so that others can use its core.",
    )
    .of_dut(SKELETON),
    many("dut", "delay", Kind::Duration, Some("0 s"), "Delay that the skeleton adds to some packets.")
        .of_dut(SKELETON),
    many("dut", "delay-every", Kind::Count(0), Some("0"), "Every how many packets it does so; 0 for never.")
        .of_dut(SKELETON),
    many(
        "dut",
        "drop-every",
        Kind::Count(0),
        Some("0"),
        "The skeleton drops one packet in so many, drawn by the seed; 0 for none.",
    )
    .of_dut(SKELETON),
    many(
        "dut",
        "duplicate-every",
        Kind::Count(0),
        Some("0"),
        "The skeleton sends one packet in so many twice, drawn by the seed; 0 for none.",
    )
    .of_dut(SKELETON),
    many(
        "dut",
        "swap-every",
        Kind::Count(0),
        Some("0"),
        "The skeleton sends one packet in so many behind its successor, drawn by the seed; 0 for none.",
    )
    .of_dut(SKELETON),
    many(
        "dut",
        "interference",
        Kind::Choice(&["none", "shootdown", "timer", "hog", "page-faults", "softirq", "ipi", "pause", "all"]),
        Some("none"),
        "What disturbs the skeleton on purpose, at known times: see [Planted disturbances](run.md#planted-disturbances). With all, the kinds take turns.",
    )
    .of_dut(SKELETON),
    many(
        "dut",
        "interference-every",
        Kind::Duration,
        Some("10 ms"),
        "From one of them to the next: exactly so for a single kind, up to a quarter more or less, drawn by the seed, for all.",
    )
    .of_interference(),
    many(
        "dut",
        "command",
        Kind::Text,
        Some(""),
        "Command line of the program, run by sh in the device's namespace: it forwards between the links `in` and `out`.",
    )
    .of_dut(COMMAND),
    one(
        "dut",
        "ready",
        Kind::Text,
        Some(""),
        "Text that the program prints when it is ready; without, it is ready when a packet crosses it.",
    )
    .of_dut(COMMAND),
    one("dut", "ready-timeout", Kind::Duration, Some("10 s"), "How long a device may take until it forwards."),
    many("traffic", "rate", Kind::Rate, None, "Offered load in each direction; of on-off traffic, while it is on; of a search over rates, the highest it tries."),
    many(
        "traffic",
        "pattern",
        Kind::Choice(&["constant", "poisson", "on-off", "replay"]),
        Some("constant"),
        "When packets depart: evenly spaced, with exponential gaps, evenly in turns with silence, or as recorded.",
    ),
    many("traffic", "burst", Kind::Count(1), Some("1"), "Packets sent back to back; the bursts are evenly spaced.")
        .of_pattern(&["constant"]),
    many("traffic", "on", Kind::Duration, Some("10 ms"), "How long on-off traffic is on.").of_pattern(&["on-off"]),
    many("traffic", "off", Kind::Duration, Some("10 ms"), "How long on-off traffic is off.")
        .of_pattern(&["on-off"]),
    many(
        "traffic",
        "replay",
        Kind::Text,
        Some(""),
        "Capture whose packets are sent as recorded, at a mean of the rate; relative to the experiment's file.",
    )
    .of_pattern(&["replay"]),
    many(
        "traffic",
        "size",
        Kind::Size,
        Some("100 B"),
        "Frame size without the frame check sequence: one for all, or a mix.",
    )
    .of_pattern(&["constant", "poisson", "on-off"]),
    many("traffic", "flows", Kind::Count(1), Some("1"), "Flows of a stream, told apart by their source port."),
    many("traffic", "streams", Kind::Count(1), Some("1"), "Streams, taking turns, told apart by the signature."),
    many(
        "traffic",
        "directions",
        Kind::Choice(&["one-way", "both"]),
        Some("one-way"),
        "Whether traffic crosses the device from in to out, or both ways at once.",
    ),
    many(
        "traffic",
        "mark-every",
        Kind::Count(0),
        Some("0"),
        "One packet in so many, drawn by the seed, carries a text behind its signature; 0 for none.",
    ),
    many("traffic", "mark", Kind::Text, Some("WIRETAIL-MARK"), "That text, for a device that filters by it."),
    one("traffic", "port", Kind::Count(1), Some("53"), "UDP port that packets are sent to."),
    one(
        "traffic",
        "socket",
        Kind::Choice(&["packet", "packet-ring", "xdp"]),
        Some("packet"),
        "Socket of the load generator: a call a packet, a ring, or AF_XDP.",
    ),
    many(
        "traffic",
        "pacing",
        Kind::Choice(&["spin", "sleep"]),
        Some("spin"),
        "How the load generator waits for a departure: by reading the clock, or asleep, some 10 to 60 us late, so that others can use its core.",
    ),
    one("traffic", "late-limit", Kind::Duration, Some("100 us"), "A packet that departs later than this is late."),
    many("trial", "duration", Kind::Duration, Some("2 s"), "How long each trial sends."),
    one("trial", "warm-up", Kind::Duration, Some("200 ms"), "First part of each trial that is left out."),
    one("trial", "repeats", Kind::Count(1), Some("1"), "How often each trial is done."),
    one(
        "trial",
        "device",
        Kind::Choice(&["fresh", "kept"]),
        Some("fresh"),
        "Whether each trial has a device of its own, or trials that differ in their traffic alone share one that is started once.",
    ),
    one("trial", "attempts", Kind::Count(1), Some("2"), "How often a trial that fails or is invalid is tried."),
    one("trial", "late-share", Kind::Percent, Some("1 %"), "More late packets than this make a trial invalid."),
    one(
        "trial",
        "stall-share",
        Kind::Percent,
        Some("1 %"),
        "A trial is invalid when stalls of a millisecond and more take a larger share of it than this.",
    ),
    one(
        "trial",
        "ingress",
        Kind::Choice(&["auto", "sender"]),
        Some("auto"),
        "Where a device's ingress is tapped: where packets arrive if they can be seen there, or always where they leave for it, so that all kinds of devices compare.",
    ),
    one(
        "trial",
        "capture",
        Kind::Choice(&["auto", "full", "none"]),
        Some("auto"),
        "Whether every packet is kept, or histograms and the worst packets of each second; auto keeps up to 20 million.",
    ),
    many(
        "host",
        "fifo",
        YES_NO,
        Some("yes"),
        "Whether generator and device run with real-time priority (SCHED_FIFO).",
    ),
    many(
        "host",
        "neighbour",
        Kind::Choice(&["quiet", "noisy", "cpu-load"]),
        Some("quiet"),
        "Others while packets are sent: nobody; one that wears out caches and causes interrupts, on the housekeeping core; or a crowd that computes wherever it is let, one for each core.",
    ),
    many(
        "host",
        "idle",
        Kind::Choice(&["sleep", "poll"]),
        Some("sleep"),
        "What cores do while nobody wants them: sleep, as the machine is set up, or poll, so that nobody has to wake up.",
    ),
    many(
        "host",
        "isolate",
        YES_NO,
        Some("yes"),
        "Whether other tasks, kernel workers and interrupts are moved off the packets' cores during a trial; with a profile it is the tasks only.",
    ),
    many(
        "host",
        "profile",
        Kind::Choice(&["none", "regular", "energysaving", "optimized"]),
        Some("none"),
        "Profile whose settings of the running kernel are set during a trial: see [tuning](tuning.md). What each of them is worth says wiretail host prove.",
    ),
    many(
        "host",
        "settings",
        Kind::Text,
        Some("all"),
        "Which of the profile's settings, by the rules of the audit that ask for them: all, or thp, workqueue, or all but thp.",
    )
    .of_profile(),
    many(
        "trace",
        "record",
        YES_NO,
        Some("no"),
        "Whether the kernel's trace of the device's core is recorded, and the worst packets are explained by it.",
    ),
    one(
        "trace",
        "control",
        YES_NO,
        Some("yes"),
        "Whether each traced trial has an untraced twin behind it, by which the report says what tracing costs.",
    )
    .of_trace(),
    one(
        "trace",
        "stacks",
        YES_NO,
        Some("yes"),
        "Whether the stacks of those who interrupt the device's core are recorded, which name their system call and cost them 2 to 12 us.",
    )
    .of_trace(),
    one(
        "trace",
        "buffer",
        Kind::Count(1),
        Some("16"),
        "MiB of the trace's buffer for a watched core; more where events are missing.",
    )
    .of_trace(),
    one(
        "trace",
        "page-faults",
        YES_NO,
        Some("no"),
        "Whether page faults on the device's core are recorded, too.",
    )
    .of_trace(),
    many(
        "search",
        "method",
        Kind::Choice(&["mlrsearch", "binary", "linear"]),
        Some("mlrsearch"),
        "How a search chooses the rates that it tries: multiple loss ratio search (RFC 9971), binary search with loss verification (ETSI GS NFV-TST 009), or one after the other.",
    ),
    one(
        "search",
        "goals",
        Kind::Text,
        Some("ndr"),
        "What is sought, with commas between: ndr (no loss), pdr 0.5% (at most so much), 100us@99.9% (so large a share within that time).",
    ),
    one(
        "search",
        "over",
        Kind::Choice(&["rate", "burst"]),
        Some("rate"),
        "What is searched: the rate, or how many packets may come back to back, at most traffic.burst, at a mean of traffic.rate (RFC 2544, 26.4; RFC 9004).",
    ),
    one("search", "lowest", Kind::Rate, Some("1 kpps"), "Lowest rate that a search tries; the highest is traffic.rate. A search over bursts begins with one packet."),
    one(
        "search",
        "width",
        Kind::Percent,
        Some("1 %"),
        "How far apart the rate that is found and the next one that misses the goal may be.",
    ),
    one(
        "search",
        "stretch",
        Kind::Percent,
        Some("0.5 %"),
        "A trial in which packets leave for so much longer than they come misses every goal: what was not lost filled the device's ring.",
    ),
    one(
        "search",
        "first-duration",
        Kind::Duration,
        Some("500 ms"),
        "How long the first trials of a search send; the last ones send for trial.duration.",
    )
    .of_method(&["mlrsearch"]),
    one("search", "trials", Kind::Count(1), Some("1"), "Full trials that a decision on a rate rests on.")
        .of_method(&["mlrsearch"]),
    one("search", "exceed", Kind::Percent, Some("0 %"), "Share of them that may miss the goal.")
        .of_method(&["mlrsearch"]),
    one(
        "search",
        "verify",
        Kind::Count(0),
        Some("1"),
        "How often a trial that missed the goal is repeated; one that meets it is enough.",
    )
    .of_method(&["binary"]),
    one(
        "energy",
        "source",
        Kind::Choice(&["auto", "rapl", "command", "none"]),
        Some("auto"),
        "What measures energy: the processor's counters (RAPL), a command that prints watts, or nothing; auto takes RAPL where it can be read.",
    ),
    one(
        "energy",
        "command",
        Kind::Text,
        Some(""),
        "Command line, run by sh on this host, that prints a number, the watts, on each line: one that ends is run again every interval.",
    )
    .of_energy(COMMAND),
    one("energy", "interval", Kind::Duration, Some("1 s"), "From one start of that command to the next.")
        .of_energy(COMMAND),
    one(
        "energy",
        "idle",
        Kind::Duration,
        Some("0 s"),
        "How long the idle host is measured before the device starts; 0 for not at all.",
    )
    .of_energy(METERED),
    one(
        "energy",
        "available",
        Kind::Duration,
        Some("0 s"),
        "How long the device is measured while it runs and waits, before the first packet; 0 for not at all.",
    )
    .of_energy(METERED),
];
