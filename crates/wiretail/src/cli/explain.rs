//! Arguments of `wiretail explain`.

use std::path::PathBuf;

use clap::Args;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail explain runs/2026-11-20T14-03-11-quickstart         # the worst packets of traced trials
  wiretail explain pre.pcap post.pcap                          # regular patterns among late packets
  wiretail explain pre.pcap post.pcap --irq irq.csv            # and interrupt counters
  wiretail explain pre.pcap post.pcap --irq irq.csv --cpu 1    # only those of core 1
  wiretail explain pre.pcap post.pcap --above 100us --json | jq .stalls

How to read the result: docs/explain.md. irq.csv has one sample of the interrupt counters per line,
separated by semicolons: a column timestamp_us, and columns such as TLB_TLB_shootdowns_CPU1. Any
clock will do.")]
pub struct ExplainArgs {
    /// Directory of a run with traced trials ([trace] record = true), or capture of the ingress wire
    #[arg(value_name = "RUN|PRE")]
    pub pre: PathBuf,
    /// Capture of the egress wire
    pub post: Option<PathBuf>,
    /// For a run: explain only this trial
    #[arg(long, value_name = "N", conflicts_with = "post")]
    pub trial: Option<usize>,
    /// For a run: number of worst packets to show, one per incident
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "post")]
    pub worst: usize,
    /// CSV file of the interrupt counters of the device under test, sampled about once per second
    #[arg(long, value_name = "FILE", requires = "post")]
    pub irq: Option<PathBuf>,
    /// Compare only the counters of this CPU: the one that forwards packets, if known
    ///
    /// With fewer counters, fewer of them match the stalls by chance.
    #[arg(long, value_name = "N", requires = "irq")]
    pub cpu: Option<u32>,
    /// Shortest delay of a packet in a stall [default: the median plus 20 times the distance from the median
    /// to p99.9]
    #[arg(long, value_name = "DURATION")]
    pub above: Option<Duration>,
    /// Key by which a packet is matched at both taps, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// Add this to every egress timestamp, to correct a known offset between the taps' clocks
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// Print the result as JSON (docs/formats/explanation.md for a run, explanation.md for captures)
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}
