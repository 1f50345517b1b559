//! Command-line options. [`traffic`] contains the parts of a testbed as commands; [`predict`] and [`tail`]
//! contain the models.

// Doc comments are the text of --help: brackets in them are not links.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod explain;
pub mod host;
pub mod predict;
pub mod progress;
pub mod setup;
pub mod tail;
pub mod trace;
pub mod traffic;

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use wiretail_capture::read::InterfaceChoice;
use wiretail_schema::packet::FlowRule;
use wiretail_schema::units::{Budget, Duration};

/// Measures, explains and predicts the tail latency of software packet processing.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Measure loss, latency, jitter and reordering from two captures, and judge them
    ///
    /// Matches every packet between the ingress and the egress wire of a device under test. PRE and POST are
    /// captures of the wire upstream and downstream of the device (pcap, pcapng, MoonSniff mscap or ERF; plain,
    /// gzip or zstd); - reads standard input. If one file holds both taps, pass it as PRE and select the taps
    /// with --pre-interface and --post-interface.
    Analyze(AnalyzeArgs),
    /// Run an experiment on this machine and write a report
    ///
    /// Builds a testbed of network namespaces, sends precisely timed traffic through a device under test,
    /// timestamps every packet on the ingress and the egress wire, and analyzes each trial as `analyze` does.
    /// Needs root.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Find the highest load of a device: NDR, PDR, or the highest rate within a latency budget
    ///
    /// Runs trials as `run` does, at rates that the search method chooses. Each trial of the experiment becomes a
    /// search up to its traffic.rate; the table [search] of the file sets goals, method and precision.
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(RunArgs),
    /// Write the report of a run again, from the files in its directory
    ///
    /// Also works for a killed run: the report then has the trials that were completed.
    Report(ReportArgs),
    /// Check an experiment file, and print how many trials it makes
    Check(CheckArgs),
    /// Revert the changes that killed runs left behind: namespaces, links, settings
    Clean(CleanArgs),
    /// Install devices under test: DPDK, Suricata, Open vSwitch, containers, virtual machines
    ///
    /// Without PART, lists the parts, whether they are installed and which devices use them. With PART, shows the
    /// plan, asks for confirmation, and installs Debian packages. Only installing needs root.
    Setup(setup::SetupArgs),
    /// Send precisely timed traffic from an interface, and report the achieved precision
    ///
    /// Busy-waits for the departure of every packet. Needs CAP_NET_RAW; real-time priority and other network
    /// namespaces need root.
    Generate(traffic::GenerateArgs),
    /// Capture one or more interfaces into a pcapng file, with timestamps of the kernel or the NIC
    ///
    /// Each tap becomes an interface of the file; --pre-interface and --post-interface of `analyze` select it by
    /// name. The file records the number of packets that each tap dropped.
    Capture(traffic::CaptureArgs),
    /// Forward packets between two interfaces: a minimal device under test
    Forward(traffic::ForwardArgs),
    /// Trace the kernel on some cores: interrupts, tasks, and calls from other cores with their senders
    ///
    /// With --show, summarizes an earlier trace. Only recording needs root.
    Trace(trace::TraceArgs),
    /// Explain what delayed the worst packets, and what late packets have in common
    ///
    /// For the traced trials of a run: lists the activity of the device's core while each of the worst
    /// packets waited, the threads that caused it, the percentiles without each cause, and mitigations. For
    /// other trials, and for two captures: compares stalls with interrupt counters that were read once a
    /// second (--irq), and searches late packets for regular patterns in time and in packet numbers. Each
    /// statement comes with the probability that it arises by chance.
    Explain(explain::ExplainArgs),
    /// Predict capacity, delays under other loads, and rare delays, from models and measurements
    Predict(predict::PredictArgs),
    /// Audit and tune a host for low latency: requested settings, effective settings, mitigations
    Host(host::HostArgs),
    /// Compare groups of trials with a baseline
    ///
    /// Finds out whether a change made the delay worse. The unit is the trial: trials of the same device differ by more
    /// than their packets do, so each group needs several trials. All answers together are right with 95 % confidence.
    Compare(CompareArgs),
    /// Write a pair of synthetic captures with known loss, reordering and delays
    ///
    /// The pcap files contain the packets that two taps around a device would record. Loss, duplicates, reordering
    /// and delays are injected from a seed; the injected events are printed as JSON.
    Synth(SynthArgs),
    /// Print a completion script for a shell
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// Directory, created if missing
        directory: PathBuf,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  wiretail run experiments/quickstart.toml --dry-run
  wiretail run experiments/quickstart.toml --allow-system-changes
  wiretail run --resume runs/2026-11-20T14-03-11-quickstart --allow-system-changes

Ctrl-C ends the run. Completed trials are kept; --resume continues the run.

Exit code: 0 all trials valid; 1 a trial failed or is invalid; 2 error; 130 interrupted.";

const SEARCH_EXAMPLES: &str = "\
Examples:
  wiretail search experiments/search/ndr-pdr.toml --dry-run
  wiretail search experiments/search/ndr-pdr.toml --allow-system-changes
  wiretail search --resume runs/2026-11-20T14-03-11-ndr-pdr --allow-system-changes

Ctrl-C ends the search. Completed trials are kept; --resume continues the search.
Format of --json: docs/formats/search.md. Methods, and how to read the result: docs/kpi/search.md.

Exit code: 0 every rate was found; 1 a rate was not found; 2 error; 130 interrupted.";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail analyze pre.pcap post.pcap
  wiretail analyze pre.pcap.zst post.pcap.zst --out result     # report.html and other files
  wiretail analyze both.pcapng --pre-interface eth1 --post-interface eth2
  wiretail analyze pre.pcap post.pcap --budget 100us@99.99% --check && echo kept
  ssh dut tcpdump -i eth2 -w - | wiretail analyze pre.pcap - --json | jq .delay.max_ns

Exit code: 0 success; 2 error; with --check also 1 a budget is missed, 3 too few packets to decide.")]
pub struct AnalyzeArgs {
    /// Capture of the ingress wire, or of both wires
    pub pre: PathBuf,
    /// Capture of the egress wire
    #[arg(required_unless_present_all = ["pre_interface", "post_interface"])]
    pub post: Option<PathBuf>,

    /// Key by which a packet is matched at both taps: auto, moonsniff, bytes:A-B, invariant, payload, ip-id or
    /// offset:OFF+LEN
    ///
    /// auto tries the other rules in order on the first packets, and takes the first rule whose keys are
    /// unique and match. moonsniff is a 4-byte number followed by 0x55, after the UDP header. bytes:A-B are
    /// the bytes of the frame from A to B, B excluded. invariant is the part of a packet that routers, NAT,
    /// VLAN tagging and TTL do not change. offset:OFF+LEN is a number in the transport payload.
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// For --key bytes: treat both checksums of IPv4 frames with TCP or UDP as zero
    #[arg(long)]
    pub zero_checksums: bool,
    /// Longest latency of a packet that counts as arrived
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub window: Duration,
    /// Warm-up at the start of the measurement; packets sent during it are left out
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub trim: Duration,
    /// Interface of the ingress tap in a pcapng file, by index or name
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub pre_interface: Option<InterfaceChoice>,
    /// Interface of the egress tap in a pcapng file, by index or name
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub post_interface: Option<InterfaceChoice>,
    /// Location of a packet's timestamp
    #[arg(long, value_enum, default_value_t = TimestampPlace::Header)]
    pub timestamps: TimestampPlace,
    /// Add this to every egress timestamp, to correct a known offset between the taps' clocks
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// Definition of a flow in the breakdown by flow
    #[arg(long, value_enum, default_value_t = FlowChoice::FiveTuple)]
    pub flows: FlowChoice,

    /// Latency budget: this share of the packets sent must arrive within this time; may be repeated
    #[arg(long = "budget", value_name = "TIME@SHARE%", default_values = ["1ms@99.999%", "350us@99.999%"])]
    pub budgets: Vec<Budget>,
    /// Report the verdict in the exit code
    #[arg(long)]
    pub check: bool,

    /// Print the result as JSON (docs/formats/summary.md)
    #[arg(long)]
    pub json: bool,
    /// Write report.html, summary.json, samples.parquet, percentiles.hgrm and the figures' CSV to this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the nine CSV files of the published PostgreSQL pipeline, with its exact semantics
    #[arg(long, value_name = "PREFIX")]
    pub csv_compat: Option<String>,
    /// Width of the buckets in --csv-compat
    #[arg(long, value_name = "DURATION", default_value = "100ns")]
    pub bucket: Duration,
    /// Number of worst packets to list
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub worst: usize,
    /// No progress bar and no summary
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimestampPlace {
    /// In the record header of the capture format
    Header,
    /// In the last eight bytes of each packet, as in libmoon's legacy captures
    Trailer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlowChoice {
    /// Addresses, ports and protocol
    FiveTuple,
    /// The stream id in the signature of Wiretail's load generator
    Stream,
    /// All packets are one flow
    None,
}

impl From<FlowChoice> for FlowRule {
    fn from(choice: FlowChoice) -> Self {
        match choice {
            FlowChoice::FiveTuple => Self::FiveTuple,
            FlowChoice::Stream => Self::Stream,
            FlowChoice::None => Self::None,
        }
    }
}

fn interface(text: &str) -> Result<InterfaceChoice, String> {
    if text.is_empty() {
        return Err("expected an interface's index or name, such as 0 or eth1".to_owned());
    }
    Ok(text.parse().map_or_else(|_| InterfaceChoice::Name(text.to_owned()), InterfaceChoice::Index))
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Experiment in TOML
    #[arg(required_unless_present = "resume")]
    pub experiment: Option<PathBuf>,
    /// Continue an interrupted run: execute the trials that are missing or have failed
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "out"])]
    pub resume: Option<PathBuf>,
    /// Run directory; by default a directory below runs/, named after time and experiment
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the trials and every change of the host, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Allow the changes that --dry-run shows; all are undone at the end
    #[arg(long)]
    pub allow_system_changes: bool,
    /// Print the result as JSON at the end; for a run, its manifest (docs/formats/run.md)
    #[arg(long)]
    pub json: bool,
    /// No progress and no table
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directory
    pub run: PathBuf,
    /// Print the manifest as JSON (docs/formats/run.md)
    #[arg(long)]
    pub json: bool,
    /// No table
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Experiment in TOML
    pub experiment: PathBuf,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Print the changes that would be reverted, and exit
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail compare runs/ab                                # scenarios of one run with its first one
  wiretail compare runs/monday runs/tuesday               # scenarios of the same name in two runs
  wiretail compare a1 a2 a3 a4 --against b1 b2 b3 b4      # two groups of single results
  wiretail compare runs/ab --check --tolerance 5%         # for CI

Exit code: 0 success; 2 error; with --check: 0 nothing is worse by more than the tolerance; 1 something is; 3
undecided.")]
pub struct CompareArgs {
    /// Run directories, or results: directories written with `analyze --out`, or summary.json files
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Results or runs of the other group; the first ones are then the baseline
    #[arg(long, num_args = 1.., value_name = "RESULT")]
    pub against: Vec<PathBuf>,
    /// Scenario of a run that the others are compared with; default: the first one
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the comparison as an HTML page
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 1 if a result is worse than the baseline by more than the tolerance, with 95 % confidence, and with 3
    /// if the trials do not decide
    #[arg(long)]
    pub check: bool,
    /// Check results of different hosts or kernels, too
    #[arg(long, requires = "check")]
    pub across_hosts: bool,
    /// Accepted degradation, in percent of the baseline's value
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = tolerance)]
    pub tolerance: f64,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage of 0 or more, such as 5%".to_owned()),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  wiretail synth pre.pcap post.pcap --packets 1M --rate 100kpps --loss 0.001 > truth.json
  wiretail analyze pre.pcap post.pcap")]
pub struct SynthArgs {
    /// Ingress capture to write
    pub pre: PathBuf,
    /// Egress capture to write
    pub post: PathBuf,
    /// Packets sent, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", default_value = "300k", value_parser = count)]
    pub packets: NonZeroU64,
    /// Offered load, such as 10kpps or 1Mpps
    #[arg(long, value_name = "RATE", default_value = "10kpps", value_parser = rate)]
    pub rate: NonZeroU64,
    /// Seed of all random numbers; the same seed gives the same files
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Share of packets that are lost, between 0 and 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,
    /// Share of packets that appear twice at ingress
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub duplicate_pre: f64,
    /// Share of packets that appear twice at egress
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub duplicate_post: f64,
    /// Share of packets that are delayed until later packets have overtaken them
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub reorder: f64,
    /// Fixed part of the delay
    #[arg(long, value_name = "DURATION", default_value = "3us")]
    pub base: Duration,
    /// Median of the variable part of the delay
    #[arg(long, value_name = "DURATION", default_value = "1us")]
    pub body: Duration,
    /// Shortest of the rare stalls
    #[arg(long, value_name = "DURATION", default_value = "20us")]
    pub stall: Duration,
    /// Share of packets delayed by a stall
    #[arg(long, value_name = "SHARE", default_value_t = 1e-4, value_parser = share)]
    pub stall_share: f64,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub flows: u16,
    /// Frame length in bytes, without frame check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub frame_len: usize,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share between 0 and 1, such as 0.001".to_owned()),
    }
}

pub(crate) fn count(text: &str) -> Result<NonZeroU64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).and_then(NonZeroU64::new);
    number.ok_or_else(|| "expected a number above 0, such as 300000, 300k or 20M".to_owned())
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    let expected = "expected a packet rate with its unit, such as 10kpps, 1Mpps or 500pps";
    let number = text.strip_suffix("pps").ok_or(expected)?.trim_end();
    count(number).map_err(|_| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_passes_claps_checks() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rejects_numbers_without_units() {
        assert_eq!(rate("10kpps").unwrap().get(), 10_000);
        assert_eq!(count("20M").unwrap().get(), 20_000_000);
        assert!(rate("10").is_err() && rate("0pps").is_err() && count("-3").is_err());
        assert_eq!(interface("3").unwrap(), InterfaceChoice::Index(3));
        assert_eq!(interface("eth1").unwrap(), InterfaceChoice::Name("eth1".to_owned()));
        assert_eq!(tolerance("5%").unwrap(), 0.05);
        assert!(tolerance("-1").is_err());
    }
}
