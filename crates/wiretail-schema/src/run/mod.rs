//! A run: what `manifest.json` in a run directory holds.
//!
//! A run is the trials of one experiment; a trial is one load on one device under test. A trial's taps
//! bound *segments*: from one tap to another, each with an analysis of its own ([`Summary`](crate::summary::Summary)). The first segment is the whole device under test.

pub mod breakdown;
pub mod calibration;
pub mod energy;
pub mod interference;
pub mod interval;
pub mod overhead;
pub mod scenario;
pub mod stalls;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::breakdown::Breakdown;
use crate::run::calibration::{Accounting, Calibration, Filtering};
use crate::run::energy::Energy;

/// Name and version of the document; the number rises when a reader of the old one would be misled.
pub const RUN_SCHEMA: &str = "wiretail.run/1";

/// In the notes of a trial whose device ran in a virtual machine: the processor ran its instructions (KVM).
pub const GUEST_ON_PROCESSOR: &str = "the virtual machine ran on the processor (kvm)";
/// In the same place: QEMU ran them, in software.
pub const GUEST_EMULATED: &str =
    "the virtual machine's processor was emulated in software (tcg): its delays say little about hardware";

/// A run of an experiment: what was done, on which host, with which outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// The experiment's title.
    pub title: String,
    /// Seed of everything random.
    pub seed: u64,
    /// When it began, in s since 1970.
    pub started_s: u64,
    /// Trials that the experiment asks for; `trials` holds fewer while it runs, or where it was interrupted.
    pub trials_planned: usize,
    /// Full names of the keys that vary from trial to trial, in their order: "dut.kind", "traffic.rate".
    pub factors: Vec<String>,
    /// The machine.
    pub host: HostSnapshot,
    /// The trials done, in their order.
    pub trials: Vec<TrialRecord>,
}

/// Facts of a host. None or empty is what the machine does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSnapshot {
    /// Release of the kernel: `6.18.0`.
    pub kernel: Option<String>,
    /// How it was built, with its preemption model.
    pub kernel_build: Option<String>,
    /// What it was started with: `isolcpus`, `nohz_full`, `idle`, …
    pub command_line: Option<String>,
    /// Whether it is a real-time kernel (PREEMPT_RT).
    pub realtime_kernel: bool,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Cores that are online, as a list.
    pub cores_online: Option<String>,
    /// Cores that are isolated, as a list.
    pub cores_isolated: Option<String>,
    /// Cores without a periodic tick, as a list.
    pub cores_nohz_full: Option<String>,
    /// Whether two threads share a physical core.
    pub smt_active: Option<bool>,
    /// Whether the processor says that it runs under a hypervisor.
    pub hypervisor: bool,
    /// Maker and model of the machine, as its firmware says: names the hypervisor, too.
    pub machine: Option<String>,
    /// Clock that timestamps come from: `tsc` is the fast and steady one.
    pub clocksource: Option<String>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Driver of idle states; deep ones add wake-up latency.
    pub idle_driver: Option<String>,
    /// Transparent huge pages: the line with the choice in brackets.
    pub transparent_hugepages: Option<String>,
    /// Huge pages of 2 MiB that are reserved.
    pub hugepages: Option<u64>,
    /// Microseconds of a period that real-time threads may take; -1 for all.
    pub realtime_runtime_us: Option<i64>,
    /// Microseconds of that period.
    pub realtime_period_us: Option<i64>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Mitigations of the processor's vulnerabilities that are in force, `name: what`.
    pub mitigations: Vec<String>,
}

/// One trial: its counters, and whether its numbers may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Which repeat it is, from 1.
    pub repeat: u64,
    /// Its factors: "skeleton-10kpps".
    pub name: String,
    /// Its directory below the run's: "trials/0001-skeleton-10kpps".
    pub directory: String,
    /// What became of it.
    pub state: TrialState,
    /// Why it is invalid, failed or interrupted; empty otherwise.
    pub reasons: Vec<String>,
    /// What the reader should know though it is valid; empty in most trials.
    pub notes: Vec<String>,
    /// How often it was repeated because an earlier attempt failed or was invalid; 0 for a trial that was right at once.
    pub retries: u32,
    /// Every key of the experiment with its value in this trial.
    pub settings: Vec<SettingRecord>,
    /// What the load generator did; None where it did not start.
    pub generator: Option<GeneratorRecord>,
    /// What the device under test says of itself; None where it does not count.
    pub dut: Option<DutRecord>,
    /// What each device counted of the trial's packets, beside what the taps around it saw; empty where none counts.
    #[serde(default)]
    pub devices: Vec<DeviceCounts>,
    /// What was tapped.
    pub taps: Vec<TapRecord>,
    /// From which tap to which tap delays were taken; the first is the whole device under test.
    pub segments: Vec<SegmentRecord>,
    /// Times at which a role's core was taken from it.
    pub stalls: StallsRecord,
    /// What the known delays of the device say about the measurement; None where it adds none.
    pub calibration: Option<Calibration>,
    /// Whether the known faults of the device were measured exactly; None where it commits none.
    pub accounting: Option<Accounting>,
    /// Whose the delay is, one entry a direction; empty where there is no switch, and of a soak.
    #[serde(default)]
    pub breakdown: Vec<Breakdown>,
    /// Whether a filter took exactly the packets that carry its text; None where there is none.
    #[serde(default)]
    pub filtering: Option<Filtering>,
    /// Interrupts of the device's and the load generator's core from the first packet to the last, by the kernel's
    /// counters: those that came at all. Empty where it is not known which cores those are.
    #[serde(default)]
    pub interrupts: Vec<InterruptDelta>,
    /// What it took of energy; None where nobody asked (`energy.source = "none"`), or it did not run.
    #[serde(default)]
    pub energy: Option<Energy>,
}

/// How often a core was interrupted for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptDelta {
    /// The core.
    pub cpu: u32,
    /// The interrupt, as in `/proc/interrupts`: "TLB shootdowns (TLB)".
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A key's value in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingRecord {
    /// Full name: "traffic.rate".
    pub key: String,
    /// As the experiment has it: "10 kpps".
    pub text: String,
    /// In its base unit: packets a second, ns, bytes, or the number itself; 0 for texts.
    pub number: u64,
}

/// What the load generator did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorRecord {
    /// Offered load asked for, in packets a second.
    pub offered_pps: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that the kernel did not take.
    pub failed: u64,
    /// Packets that left later than the limit after their intended departure.
    pub late: u64,
    /// That limit, in ns.
    pub late_limit_ns: u64,
    /// Actual minus intended departure, in ns: median, 99th, 99.9th percentile, maximum.
    pub lateness_ns: [u64; 4],
}

/// What the device under test says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DutRecord {
    /// Packets that it took.
    pub received: u64,
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that found its receiving ring full.
    pub dropped: u64,
    /// Packets that could not be sent.
    pub failed: u64,
    /// Packets that it dropped on purpose.
    pub faults_dropped: u64,
    /// Packets that it sent twice on purpose.
    pub faults_duplicated: u64,
    /// Packets that it sent behind their successor on purpose.
    pub faults_swapped: u64,
}

/// What a device counted between the first and the last packet of a trial, all its directions together, and what
/// the taps around it saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Which: "dut1", "switch".
    pub device: String,
    /// Packets that it says it took.
    pub received: u64,
    /// Packets that it says it sent.
    pub sent: u64,
    /// Packets that it says it lost before it took them, or dropped for another reason than a rule.
    pub dropped: u64,
    /// Of those that it took, packets that it says a rule of its made it drop.
    #[serde(default)]
    pub filtered: u64,
    /// Packets that it says it could not send.
    pub failed: u64,
    /// Packets that the taps saw enter it; None where not every way in has one.
    pub tapped_in: Option<u64>,
    /// Packets that the taps saw leave it; None where not every way out has one.
    pub tapped_out: Option<u64>,
}

impl DeviceCounts {
    /// Whether the device counted what the taps saw: everything that it took or dropped came in, and
    /// everything that it sent came out; one that filters has done one or the other with everything it took.
    pub fn agrees(&self) -> bool {
        let came = self
            .tapped_in
            .is_none_or(|tapped| tapped == self.received || tapped == self.received + self.dropped);
        let decided = self.filtered == 0 || self.received == self.sent + self.filtered + self.failed;
        came && decided && self.tapped_out.is_none_or(|tapped| tapped == self.sent)
    }
}

/// One tap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TapRecord {
    /// Its name, also that of its interface in the capture file: "pre", "post".
    pub name: String,
    /// Where on the wire, in words: "in of the device under test, arriving".
    pub place: String,
    /// Where its stamps come from: "kernel software".
    pub timestamp_source: String,
    /// Packets recorded.
    pub packets: u64,
    /// Packets that the capture dropped: not the device's loss.
    pub drops: u64,
}

/// From one tap to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentRecord {
    /// Its name: "forward", "back", "hop 1".
    pub name: String,
    /// Tap of its ingress wire.
    pub pre: String,
    /// Tap of its egress wire.
    pub post: String,
    /// Directory of its analysis below the run's: that of the trial for the first segment.
    pub directory: String,
    /// Whether it was analysed: summary.json and report.html are there.
    pub analysed: bool,
}

/// Times at which a role's core was taken from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallsRecord {
    /// Shorter ones are not told apart from the work itself, in ns.
    pub threshold_ns: u64,
    /// How many of each cause, and how long together; causes that did not occur are left out.
    pub causes: Vec<StallCauseRecord>,
    /// The longest ones, longest first.
    pub longest: Vec<StallRecord>,
}

/// All stalls of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallCauseRecord {
    /// The cause.
    pub cause: StallCause,
    /// How many.
    pub count: u64,
    /// How long together, in ns.
    pub total_ns: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
}

/// One stall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallRecord {
    /// When it began, in ns since 1970.
    pub start_ns: i64,
    /// How long it was, in ns.
    pub duration_ns: u64,
    /// Who was stalled: "load generator", "device under test", or both.
    pub role: String,
    /// Why, as far as can be told.
    pub cause: StallCause,
}

/// Why a core was taken from a busy-polling role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// All busy cores stood still at the same time: the hypervisor or firmware paused them.
    AllCoresPaused,
    /// The scheduler gave the core to others: the fair server against a real-time thread, or another task.
    Scheduler,
    /// One core stood still and the scheduler did not run anybody else: interrupts, or the hypervisor.
    OneCorePaused,
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// Its numbers may be used.
    Valid,
    /// It ran, but its numbers say nothing about the device under test.
    Invalid,
    /// It did not run to its end, and left no numbers.
    Failed,
    /// It did not run to its end; its numbers are those up to there.
    Interrupted,
}

impl TrialRecord {
    /// A record without settings or numbers.
    pub fn blank(number: usize, repeat: u64, name: &str, state: TrialState) -> Self {
        Self {
            number,
            repeat,
            name: name.to_owned(),
            directory: format!("trials/{number:04}-{name}"),
            state,
            reasons: Vec::new(),
            notes: Vec::new(),
            retries: 0,
            settings: Vec::new(),
            generator: None,
            dut: None,
            devices: Vec::new(),
            taps: Vec::new(),
            segments: Vec::new(),
            stalls: StallsRecord::default(),
            calibration: None,
            accounting: None,
            breakdown: Vec::new(),
            filtering: None,
            interrupts: Vec::new(),
            energy: None,
        }
    }

    /// The value of a key by its full name, such as "traffic.rate".
    pub fn setting(&self, key: &str) -> Option<&SettingRecord> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}
