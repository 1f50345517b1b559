//! What can be asked for on the command line. The parts of a testbed as commands are in [`traffic`], those of
//! the installation in [`setup`], the kernel's trace in [`trace`], the search for causes in [`explain`],
//! models in [`predict`], of which [`tail`] has the highest delays, the host in [`host`].

// Doc comments are the texts of --help: what stands in brackets there is no link.
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
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// From two captures to a verdict: loss, latency, jitter, reordering
    ///
    /// Matches every packet between the ingress and the egress wire of a device under test. PRE and
    /// POST are captures (pcap, pcapng, MoonSniff mscap, ERF; plain, gzip or zstd) of the wire before and
    /// behind the device; - reads standard input. One file that holds both taps is given as PRE
    /// alone, with --pre-interface and --post-interface.
    Analyze(AnalyzeArgs),
    /// From an experiment file to a report, live on this machine
    ///
    /// Builds a testbed of network namespaces, drives a device under test with exact traffic,
    /// timestamps every packet on the ingress and the egress wire, and analyses each trial as `analyze`
    /// does. Needs root.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Find how much load a device takes: NDR, PDR, or the highest rate within a latency budget
    ///
    /// Does trials as `run` does, at rates that it chooses one after the other. Each trial of the experiment becomes a
    /// search up to its traffic.rate; the table [search] of the file says for what, how, and how exactly.
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(RunArgs),
    /// Write a run's report again, from what is in its directory
    ///
    /// Also that of a run that was killed: what had been measured by then is in it.
    Report(ReportArgs),
    /// Say whether an experiment file is right, and how many trials it makes
    Check(CheckArgs),
    /// Revert what runs that were killed left behind: namespaces, links, settings
    Clean(CleanArgs),
    /// Install what devices under test need: DPDK, Suricata, Open vSwitch, containers, virtual machines
    ///
    /// Without PART, shows what is installed and what uses it. With one, shows the plan, asks, and
    /// installs from Debian's packages. Only that needs root.
    Setup(setup::SetupArgs),
    /// Send exact traffic from an interface, and say how exact it was
    ///
    /// Busy-waits for the departure of every packet. Needs CAP_NET_RAW; real-time priority and another
    /// namespace need root.
    Generate(traffic::GenerateArgs),
    /// Record one or more interfaces into a pcapng file, with the kernel's or the network card's stamps
    ///
    /// Each tap becomes an interface of the file, chosen by its name with --pre-interface and
    /// --post-interface of `analyze`. The file states how many packets each tap lost.
    Capture(traffic::CaptureArgs),
    /// Forward between two interfaces and do nothing else: the smallest possible device under test
    Forward(traffic::ForwardArgs),
    /// Record what the kernel does on some cores: interrupts, calls from other cores and who sent them
    ///
    /// Or, with --show, say what is in a trace that was recorded before. Only recording needs root.
    Trace(trace::TraceArgs),
    /// Say what delayed the worst packets, and what late packets have in common
    ///
    /// Of a run whose trials were traced: for each of the worst packets what its core did instead, who sent it, what the
    /// percentiles would be without each cause, and what helps. Of its other trials, and of two captures without a
    /// trace: stalls are compared with interrupt counters that were read once a second (--irq); late packets are searched for regular patterns, and those that
    /// follow a clock are told apart from those that follow the packets. Each statement comes with how
    /// probable it is by chance.
    Explain(explain::ExplainArgs),
    /// Say what another load would do to a device, by models, and which delays are to come
    Predict(predict::PredictArgs),
    /// Make a host fit for packets: what is requested, what is in effect, what helps
    Host(host::HostArgs),
    /// Put several results side by side
    ///
    /// The first result is the baseline. Differences come with their 95 % confidence interval.
    Compare(CompareArgs),
    /// Write a pair of synthetic captures with planted, exactly counted events
    ///
    /// The pcap files are those that two taps around a device would record, with loss, duplicates,
    /// reordering and delays planted from a seed. What was planted is printed as JSON.
    Synth(SynthArgs),
    /// Print shell completions, to be sourced or saved where the shell looks for them
    Completions {
        /// The shell to write them for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// Where to write them; made where it is missing
        directory: PathBuf,
    },
}

/// As [`SEARCH_EXAMPLES`], which a search has in its place.
const RUN_EXAMPLES: &str = "\
Examples:
  wiretail run experiments/quickstart.toml --dry-run
  wiretail run experiments/quickstart.toml --allow-system-changes
  wiretail run --resume runs/2026-11-20T14-03-11-quickstart --allow-system-changes

Ctrl-C ends the run; what was measured by then is kept, and --resume goes on from there.

Exit code: 0 all trials valid; 1 a trial failed or is invalid; 2 error; 130 interrupted.";

const SEARCH_EXAMPLES: &str = "\
Examples:
  wiretail search experiments/search/ndr-pdr.toml --dry-run
  wiretail search experiments/search/ndr-pdr.toml --allow-system-changes
  wiretail search --resume runs/2026-11-20T14-03-11-ndr-pdr --allow-system-changes

Ctrl-C ends the search; its trials are kept, and --resume goes on from there.
With --json: docs/formats/search.md. Methods, and how to read the result: docs/kpi/search.md.

Exit code: 0 every rate was found; 1 one was not; 2 error; 130 interrupted.";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail analyze pre.pcap post.pcap
  wiretail analyze pre.pcap.zst post.pcap.zst --out result     # report.html, summary.json, samples.parquet ...
  wiretail analyze both.pcapng --pre-interface eth1 --post-interface eth2
  wiretail analyze pre.pcap post.pcap --budget 100us@99.99% --check && echo kept
  ssh dut tcpdump -i eth2 -w - | wiretail analyze pre.pcap - --json | jq .delay.max_ns

Exit code: 0 done; 2 error; with --check also 1 a budget is broken, 3 too few packets to tell.")]
pub struct AnalyzeArgs {
    /// Capture of the ingress wire, or of both wires
    pub pre: PathBuf,
    /// Capture of the egress wire
    #[arg(required_unless_present_all = ["pre_interface", "post_interface"])]
    pub post: Option<PathBuf>,

    /// How a packet is recognised at both taps: auto, moonsniff, bytes:A-B, invariant, payload, ip-id
    /// or offset:OFF+LEN
    ///
    /// auto tries the others in order on the first packets and takes the first that is unique and
    /// matches. moonsniff is a 4-byte number and 0x55 behind the UDP header. bytes:A-B are bytes of
    /// the frame from A up to B. invariant is what routers, NAT, VLAN tagging and TTL leave alone.
    /// offset:OFF+LEN is a number in the transport payload.
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// For --key bytes: in IPv4 frames of TCP or UDP, the checksums of both headers count as zero
    #[arg(long)]
    pub zero_checksums: bool,
    /// Longest latency that counts as arrived
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub window: Duration,
    /// Leave out packets sent in the first part of the measurement, as warm-up
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub trim: Duration,
    /// Interface of the ingress tap in a pcapng file, by index or name
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub pre_interface: Option<InterfaceChoice>,
    /// Interface of the egress tap in a pcapng file, by index or name
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub post_interface: Option<InterfaceChoice>,
    /// Where the time of a packet stands
    #[arg(long, value_enum, default_value_t = TimestampPlace::Header)]
    pub timestamps: TimestampPlace,
    /// Add this to every egress stamp, where the taps' clocks differ by a known offset
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// What tells flows apart in the breakdown
    #[arg(long, value_enum, default_value_t = FlowChoice::FiveTuple)]
    pub flows: FlowChoice,

    /// Latency budget: this share of the packets sent must arrive within this time; may be repeated
    #[arg(long = "budget", value_name = "TIME@SHARE%", default_values = ["1ms@99.999%", "350us@99.999%"])]
    pub budgets: Vec<Budget>,
    /// Let the exit code tell the verdict
    #[arg(long)]
    pub check: bool,

    /// Print the result as JSON (docs/formats/summary.md)
    #[arg(long)]
    pub json: bool,
    /// Write report.html, summary.json, samples.parquet, percentiles.hgrm and the figures' CSV there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the nine CSV files of the published PostgreSQL pipeline, with its exact semantics
    #[arg(long, value_name = "PREFIX")]
    pub csv_compat: Option<String>,
    /// Width of the buckets in --csv-compat
    #[arg(long, value_name = "DURATION", default_value = "100ns")]
    pub bucket: Duration,
    /// How many of the worst packets to list
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub worst: usize,
    /// No progress bar and no summary
    #[arg(long, short)]
    pub quiet: bool,
}

/// Where the time of a packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimestampPlace {
    /// In the record header of the capture format
    Header,
    /// In the last eight bytes of each packet, as libmoon's legacy captures have it
    Trailer,
}

/// What tells flows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlowChoice {
    /// Addresses, ports and protocol
    FiveTuple,
    /// The stream id in the signature of Wiretail's load generator
    Stream,
    /// One flow for all
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
    /// Go on with an interrupted run: do the trials that are missing or failed
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "out"])]
    pub resume: Option<PathBuf>,
    /// Run directory; without it one under runs/, named after the time and the experiment
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the trials and every change of the host, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Allow the changes that --dry-run shows; all are undone
    #[arg(long)]
    pub allow_system_changes: bool,
    /// Print the result as JSON at the end: of a run its manifest (docs/formats/run.md)
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
    /// Say what would be reverted, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail compare before after
  wiretail compare baseline.json tuned.json rt.json --out comparison.html
  wiretail compare main branch --check --tolerance 5%      # in CI: 1 where a percentile got worse

Exit code: 0 done; 2 error; with --check also 1 where a result is worse than the baseline.")]
pub struct CompareArgs {
    /// Results: directories written with --out, or summary.json files
    #[arg(required = true, num_args = 2.., value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the comparison as an HTML page
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 1 where a result is worse than the first by more than the tolerance, with 95 % confidence
    #[arg(long)]
    pub check: bool,
    /// How much worse is still good enough, in percent of the first result's value
    ///
    /// Some fifteen numbers are compared at 95 % confidence each: with 0% one of them fails by chance
    /// now and then.
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
    /// Where to write the ingress capture
    pub pre: PathBuf,
    /// Where to write the egress capture
    pub post: PathBuf,
    /// Packets sent, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", default_value = "300k", value_parser = count)]
    pub packets: NonZeroU64,
    /// Offered load, such as 10kpps or 1Mpps
    #[arg(long, value_name = "RATE", default_value = "10kpps", value_parser = rate)]
    pub rate: NonZeroU64,
    /// Seed of everything random; the same seed gives the same files
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
    /// Share of packets that are held back so that later ones overtake them
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
    /// Share of packets that meet a stall
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
    let expected = "expected packets a second with their unit, such as 10kpps, 1Mpps or 500pps";
    let number = text.strip_suffix("pps").ok_or(expected)?.trim_end();
    count(number).map_err(|_| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn units_are_asked_for() {
        assert_eq!(rate("10kpps").unwrap().get(), 10_000);
        assert_eq!(count("20M").unwrap().get(), 20_000_000);
        assert!(rate("10").is_err() && rate("0pps").is_err() && count("-3").is_err());
        assert_eq!(interface("3").unwrap(), InterfaceChoice::Index(3));
        assert_eq!(interface("eth1").unwrap(), InterfaceChoice::Name("eth1".to_owned()));
        assert_eq!(tolerance("5%").unwrap(), 0.05);
        assert!(tolerance("-1").is_err());
    }
}
