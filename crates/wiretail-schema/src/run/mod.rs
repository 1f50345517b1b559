//! A run: the content of `manifest.json` in a run directory.
//!
//! A run consists of the trials of one experiment. A trial is one load on one device under test. A *segment* is
//! the path from one tap of a trial to another and has its own analysis ([`Summary`](crate::summary::Summary)).
//! The first segment is the whole device under test.

pub mod breakdown;
pub mod calibration;
pub mod energy;
pub mod interference;
pub mod interval;
pub mod overhead;
pub mod pauses;
pub mod scenario;
pub mod stalls;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::breakdown::Breakdown;
use crate::run::calibration::{Accounting, Calibration, Filtering};
use crate::run::energy::Energy;
use crate::run::pauses::Pause;

/// Schema name and version of the manifest. The number increases if a reader of the old version would misread
/// the new one.
pub const RUN_SCHEMA: &str = "wiretail.run/1";

/// Note of a trial whose device ran in a virtual machine, if the processor itself executed the guest's
/// instructions (KVM). Recommendations compare the exact text of this note. If the text changes, they no longer
/// recognize older runs.
pub const GUEST_ON_PROCESSOR: &str = "the virtual machine ran on the processor (kvm)";
/// Note of a trial whose device ran in a virtual machine, if QEMU emulated the guest's processor.
/// Recommendations compare the exact text of this note as well.
pub const GUEST_EMULATED: &str =
    "the virtual machine's processor was emulated in software (tcg): its delays say little about hardware";

/// A run of an experiment: the host, the trials and their outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Schema name and version ([`RUN_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Title of the experiment.
    pub title: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Start time, in s since 1970.
    pub started_s: u64,
    /// Number of trials that the experiment defines. `trials` holds fewer while the run is in progress or if
    /// it was interrupted.
    pub trials_planned: usize,
    /// Full names of the keys that vary between trials, in order: "dut.kind", "traffic.rate".
    pub factors: Vec<String>,
    /// Host that the trials ran on.
    pub host: HostSnapshot,
    /// Executed trials, in order.
    pub trials: Vec<TrialRecord>,
}

/// Facts about a host. A field is null or empty if the machine does not report it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSnapshot {
    /// Kernel release: `6.18.0`.
    pub kernel: Option<String>,
    /// Kernel build information, with the preemption model.
    pub kernel_build: Option<String>,
    /// Kernel command line: `isolcpus`, `nohz_full`, `idle`, …
    pub command_line: Option<String>,
    /// Whether the kernel is a real-time kernel (PREEMPT_RT).
    pub realtime_kernel: bool,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// List of online cores.
    pub cores_online: Option<String>,
    /// List of isolated cores.
    pub cores_isolated: Option<String>,
    /// List of cores without a periodic tick.
    pub cores_nohz_full: Option<String>,
    /// Whether any two hardware threads share a physical core.
    pub smt_active: Option<bool>,
    /// Whether the processor reports that it runs under a hypervisor.
    pub hypervisor: bool,
    /// Manufacturer and model of the machine as reported by its firmware, which also identifies a hypervisor.
    pub machine: Option<String>,
    /// Clock source of timestamps; `tsc` is fast and steady.
    pub clocksource: Option<String>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Driver of the CPU idle states. Deep states add wake-up latency.
    pub idle_driver: Option<String>,
    /// Transparent huge pages setting: the kernel's line with the active choice in brackets.
    pub transparent_hugepages: Option<String>,
    /// Number of reserved huge pages of 2 MiB.
    pub hugepages: Option<u64>,
    /// How long real-time threads may run in each period, in µs; -1 for no limit.
    pub realtime_runtime_us: Option<i64>,
    /// Length of the period for the limit on real-time threads, in µs.
    pub realtime_period_us: Option<i64>,
    /// Memory size, in bytes.
    pub memory_bytes: Option<u64>,
    /// Active mitigations of processor vulnerabilities, as `name: mitigation`.
    pub mitigations: Vec<String>,
}

/// One trial: its counters, and whether its numbers may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Number of the repeat, from 1.
    pub repeat: u64,
    /// Name made of the factor values: "skeleton-10kpps".
    pub name: String,
    /// Directory of the trial, relative to the run directory: "trials/0001-skeleton-10kpps".
    pub directory: String,
    /// Outcome of the trial.
    pub state: TrialState,
    /// Reasons why the trial is invalid, failed or interrupted; empty otherwise.
    pub reasons: Vec<String>,
    /// Notes about a valid trial; usually empty.
    pub notes: Vec<String>,
    /// Number of retries after failed or invalid executions; 0 if the first execution succeeded.
    pub retries: u32,
    /// Every key of the experiment with its value in this trial.
    pub settings: Vec<SettingRecord>,
    /// Counters of the load generator; null if it did not start.
    pub generator: Option<GeneratorRecord>,
    /// Counters reported by the device under test; null if it reports none.
    pub dut: Option<DutRecord>,
    /// Packet counts reported by each device, next to those of the taps around it; empty if no device reports
    /// counts.
    #[serde(default)]
    pub devices: Vec<DeviceCounts>,
    /// Taps of the trial.
    pub taps: Vec<TapRecord>,
    /// Segments between which delays were measured. The first is the whole device under test.
    pub segments: Vec<SegmentRecord>,
    /// Stalls: times at which a role's core was taken from it.
    pub stalls: StallsRecord,
    /// Announced pauses, in which no packet was due and the polling roles slept (`trial.pauses`), in order;
    /// empty in most trials. No statistic counts their time.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// Calibration by known delays of the device; null if the device adds none.
    pub calibration: Option<Calibration>,
    /// Comparison of faults that the device makes on purpose with the measured faults; null if it makes none.
    pub accounting: Option<Accounting>,
    /// Breakdown of the delay into devices and infrastructure, one entry per direction; empty without a
    /// switch, and for a soak.
    #[serde(default)]
    pub breakdown: Vec<Breakdown>,
    /// Whether a filter dropped exactly the packets that carry its text; null if the device does not filter.
    #[serde(default)]
    pub filtering: Option<Filtering>,
    /// Interrupts on the cores of the device and the load generator, from the first packet to the last,
    /// according to the kernel's counters. Only counters that increased are listed. Empty if these cores are
    /// not known.
    #[serde(default)]
    pub interrupts: Vec<InterruptDelta>,
    /// Energy used during the trial; null if it was not requested (`energy.source = "none"`) or the trial did
    /// not run.
    #[serde(default)]
    pub energy: Option<Energy>,
}

/// Number of interrupts of one kind on one core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptDelta {
    /// Core number.
    pub cpu: u32,
    /// Name of the interrupt, as in `/proc/interrupts`: "TLB shootdowns (TLB)".
    pub name: String,
    /// Number of interrupts.
    pub count: u64,
}

/// Value of an experiment key in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingRecord {
    /// Full name of the key: "traffic.rate".
    pub key: String,
    /// Value as written in the experiment: "10 kpps".
    pub text: String,
    /// Value in its base unit: packets per second, ns, bytes or the plain number; 0 for texts.
    pub number: u64,
}

/// Counters of the load generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorRecord {
    /// Requested load, in packets per second.
    pub offered_pps: u64,
    /// Number of packets sent.
    pub sent: u64,
    /// Sum of the lengths of sent packets in bytes, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that the kernel did not accept.
    pub failed: u64,
    /// Packets that left, or would have left if they had not been skipped, later than planned by more than the
    /// limit.
    pub late: u64,
    /// Limit for `late`, in ns.
    pub late_limit_ns: u64,
    /// Actual minus planned departure of the packets sent, in ns: median, 99th and 99.9th percentile, maximum.
    pub lateness_ns: [u64; 4],
    /// Packets that were not sent because they missed their departure (`traffic.late-policy = "skip"`). They are
    /// not part of `sent`, and the taps do not see them. Their numbers stay unused.
    #[serde(default)]
    pub skipped: u64,
    /// Sum of all shifts of the schedule, in ns (`traffic.late-policy = "shift"`).
    #[serde(default)]
    pub shifted_ns: u64,
    /// Share of the schedule that was skipped or shifted, beyond the time of the generator's stalls: the rate was
    /// too high for the generator.
    #[serde(default)]
    pub overload_ratio: f64,
    /// Planned departure of the first packet, in ns since 1970. All other planned departures follow from the
    /// settings and the seed. Null in runs of earlier versions.
    #[serde(default)]
    pub start_ns: Option<i64>,
}

/// Counters reported by the device under test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DutRecord {
    /// Number of packets received.
    pub received: u64,
    /// Number of packets sent.
    pub sent: u64,
    /// Packets dropped because its receive ring was full.
    pub dropped: u64,
    /// Packets that the device failed to send.
    pub failed: u64,
    /// Packets dropped on purpose.
    pub faults_dropped: u64,
    /// Packets sent twice on purpose.
    pub faults_duplicated: u64,
    /// Packets sent after their successor on purpose.
    pub faults_swapped: u64,
}

/// Packet counts of a device between the first and the last packet of a trial, summed over all directions:
/// those that the device reports, and those of the taps around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Name of the device: "dut1", "switch".
    pub device: String,
    /// Packets received, as reported by the device.
    pub received: u64,
    /// Packets sent, as reported by the device.
    pub sent: u64,
    /// Packets lost before the device received them, or dropped for a reason other than a rule, as reported by
    /// the device.
    pub dropped: u64,
    /// Packets received and then dropped by a rule of the device, as reported by the device.
    #[serde(default)]
    pub filtered: u64,
    /// Packets that the device failed to send, as reported by the device.
    pub failed: u64,
    /// Packets that the taps saw enter the device; null if an input has no tap.
    pub tapped_in: Option<u64>,
    /// Packets that the taps saw leave the device; null if an output has no tap.
    pub tapped_out: Option<u64>,
}

impl DeviceCounts {
    /// Returns whether the device's counts agree with those of the taps. The number of packets that entered
    /// must equal the number received, with or without those dropped, and the number that left must equal the
    /// number sent. A device that filters must have sent, filtered or failed to send every packet that it
    /// received.
    pub fn agrees(&self) -> bool {
        let came = self
            .tapped_in
            .is_none_or(|tapped| tapped == self.received || tapped == self.received + self.dropped);
        let decided = self.filtered == 0 || self.received == self.sent + self.filtered + self.failed;
        came && decided && self.tapped_out.is_none_or(|tapped| tapped == self.sent)
    }
}

/// A tap of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TapRecord {
    /// Name of the tap and of its interface in the capture file: "pre", "post".
    pub name: String,
    /// Position on the wire, in words: "in of the device under test, arriving".
    pub place: String,
    /// Source of the timestamps: "kernel software".
    pub timestamp_source: String,
    /// Number of packets recorded.
    pub packets: u64,
    /// Packets that the capture dropped. They do not count as loss of the device.
    pub drops: u64,
}

/// A segment: the path from one tap to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentRecord {
    /// Name of the segment: "forward", "back", "hop 1".
    pub name: String,
    /// Tap at the ingress of the segment.
    pub pre: String,
    /// Tap at the egress of the segment.
    pub post: String,
    /// Directory of the analysis, relative to the run directory. For the first segment, the directory of the
    /// trial.
    pub directory: String,
    /// Whether the segment was analyzed; if so, summary.json and report.html exist.
    pub analysed: bool,
}

/// Stalls: times at which a role's core was taken from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallsRecord {
    /// Shortest recorded stall, in ns. Shorter ones cannot be distinguished from the work itself.
    pub threshold_ns: u64,
    /// Number and total duration of stalls by cause; causes that did not occur are omitted.
    pub causes: Vec<StallCauseRecord>,
    /// The longest stalls, longest first.
    pub longest: Vec<StallRecord>,
}

/// Stalls of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallCauseRecord {
    /// Cause of the stalls.
    pub cause: StallCause,
    /// Number of stalls.
    pub count: u64,
    /// Total duration of the stalls, in ns.
    pub total_ns: u64,
    /// Longest stall, in ns.
    pub longest_ns: u64,
}

/// A stall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StallRecord {
    /// Start, in ns since 1970.
    pub start_ns: i64,
    /// Duration, in ns.
    pub duration_ns: u64,
    /// Stalled role: "load generator", "device under test", or both.
    pub role: String,
    /// Cause of the stall, as far as it can be determined.
    pub cause: StallCause,
}

/// Why a core was taken from a busy-polling role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StallCause {
    /// All busy cores stood still at the same time: the hypervisor or the firmware paused the cores.
    AllCoresPaused,
    /// The scheduler ran another thread on the core. Either the fair server ran it in place of a real-time
    /// thread, or it was another task.
    Scheduler,
    /// One core stood still while the scheduler ran no other thread: interrupts or the hypervisor.
    OneCorePaused,
}

/// Outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// The trial's numbers may be used.
    Valid,
    /// The trial ran, but its numbers do not characterize the device under test.
    Invalid,
    /// The trial did not finish and left no numbers.
    Failed,
    /// The trial did not finish; its numbers cover the time until then.
    Interrupted,
}

impl TrialRecord {
    /// Returns a record without settings or numbers.
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
            pauses: Vec::new(),
            calibration: None,
            accounting: None,
            breakdown: Vec::new(),
            filtering: None,
            interrupts: Vec::new(),
            energy: None,
        }
    }

    /// Returns the value of a key, given its full name such as "traffic.rate".
    pub fn setting(&self, key: &str) -> Option<&SettingRecord> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}
