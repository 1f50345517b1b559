//! What `wiretail predict tail` can be asked for.

use std::path::PathBuf;

use clap::Args;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict tail pre.pcap post.pcap --trim 1s
  wiretail predict tail pre.pcap post.pcap --once-in 40h --once-in 1000h
  wiretail predict tail pre.pcap post.pcap --trim 1s --calibrate 20%   # fit a fifth, compare with the rest
  wiretail predict tail pre.pcap post.pcap --trim 1s --calibrate 20% --report tail.html
  wiretail predict tail pre.pcap post.pcap --json | jq .tail.refused

How to read it: docs/kpi/extreme-values.md.

Exit code: 0 predicted (with --calibrate: and what was observed lies in the bands); 1 refused, or it does not; 2 error.")]
pub struct TailArgs {
    /// Capture of the ingress wire
    pub pre: PathBuf,
    /// Capture of the egress wire
    pub post: PathBuf,
    /// Leave out packets sent in the first part of the measurement, as warm-up
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub trim: Duration,
    /// Fit the first part of the packets only, and compare the others with what it predicts
    #[arg(long, value_name = "SHARE%", value_parser = share, conflicts_with = "ahead")]
    pub calibrate: Option<f64>,
    /// How many packets to look ahead; without it, as many as there were
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub ahead: Option<std::num::NonZeroU64>,
    /// Span of time of which the delay is told that comes once in it; may be repeated
    #[arg(long, value_name = "DURATION", default_values = ["1min", "1h", "40h"])]
    pub once_in: Vec<Duration>,
    /// High delays with fewer packets than this between them are one event
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub run: u64,
    /// How a packet is recognised at both taps, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// Add this to every egress stamp, where the taps' clocks differ by a known offset
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// Seed of everything random: the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write a page: what comes beside what came, and how well the distribution fits
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/tail.schema.json)
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').map(|number| number.trim().parse::<f64>()) {
        Some(Ok(percent)) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage above 0% and below 100%, such as 20%".to_owned()),
    }
}
