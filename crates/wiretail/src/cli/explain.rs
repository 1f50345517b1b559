//! What `wiretail explain` can be asked for.

use std::path::PathBuf;

use clap::Args;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail explain runs/2026-11-20T14-03-11-quickstart         # what delayed the worst packets of its traced trials
  wiretail explain pre.pcap post.pcap                          # regular patterns among late packets
  wiretail explain pre.pcap post.pcap --irq irq.csv            # and which interrupts rose with the stalls
  wiretail explain pre.pcap post.pcap --irq irq.csv --cpu 1    # those of the core that forwards, only
  wiretail explain pre.pcap post.pcap --above 100us --json | jq .stalls

How to read it: docs/explain.md. irq.csv is a reading of the interrupt counters a line, separated by
semicolons: a column timestamp_us and columns such as TLB_TLB_shootdowns_CPU1. Its clock may be any.")]
pub struct ExplainArgs {
    /// Directory of a run with traced trials ([trace] record = true), or capture of the ingress wire
    #[arg(value_name = "RUN|PRE")]
    pub pre: PathBuf,
    /// Capture of the egress wire
    pub post: Option<PathBuf>,
    /// Of a run: only the trial of this number
    #[arg(long, value_name = "N", conflicts_with = "post")]
    pub trial: Option<usize>,
    /// Of a run: how many of the worst packets are shown, one of each incident
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "post")]
    pub worst: usize,
    /// Interrupt counters of the device under test, read about once a second
    #[arg(long, value_name = "FILE", requires = "post")]
    pub irq: Option<PathBuf>,
    /// Only counters of this CPU: the one that forwards packets, where it is known
    ///
    /// The fewer counters are compared, the less is an alignment by chance.
    #[arg(long, value_name = "N", requires = "irq")]
    pub cpu: Option<u32>,
    /// Delay from which on packets are part of a stall; without it, the median and twenty times what p99.9 is
    /// above it
    #[arg(long, value_name = "DURATION")]
    pub above: Option<Duration>,
    /// How a packet is recognised at both taps, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// Add this to every egress stamp, where the taps' clocks differ by a known offset
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// Print the result as JSON (docs/formats/explanation.md of a run, explanation.md of captures)
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}
