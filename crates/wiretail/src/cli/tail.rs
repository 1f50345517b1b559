//! Arguments of `wiretail predict tail`.

use std::path::PathBuf;

use clap::Args;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict tail pre.pcap post.pcap --trim 1s
  wiretail predict tail pre.pcap post.pcap --once-in 40h --once-in 1000h
  wiretail predict tail pre.pcap post.pcap --trim 1s --calibrate 20%   # fit a fifth
  wiretail predict tail pre.pcap post.pcap --trim 1s --calibrate 20% --report tail.html
  wiretail predict tail pre.pcap post.pcap --json | jq .tail.refused

How to read the result: docs/kpi/extreme-values.md.

Exit code: 0 predicted (with --calibrate: the observation lies within the bands); 1 refused, or
outside the bands; 2 error.")]
pub struct TailArgs {
    /// Capture of the ingress wire
    pub pre: PathBuf,
    /// Capture of the egress wire
    pub post: PathBuf,
    /// Warm-up at the start of the measurement; packets sent during it are left out
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub trim: Duration,
    /// Fit only the first part of the packets, and compare the prediction with the others
    #[arg(long, value_name = "SHARE%", value_parser = share, conflicts_with = "ahead")]
    pub calibrate: Option<f64>,
    /// Number of packets to predict for [default: as many as were measured]
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub ahead: Option<std::num::NonZeroU64>,
    /// Return period: predict the delay that is exceeded once in this time; may be repeated
    #[arg(long, value_name = "DURATION", default_values = ["1min", "1h", "40h"])]
    pub once_in: Vec<Duration>,
    /// Treat high delays as one event if fewer packets than this lie between them
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub run: u64,
    /// Key by which a packet is matched at both taps, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto")]
    pub key: String,
    /// Add this to every egress timestamp, to correct a known offset between the taps' clocks
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub post_offset: Duration,
    /// Seed of all random numbers; the same seed gives the same result
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write an HTML page with predicted and observed delays, and the goodness of fit
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
