//! Arguments of `wiretail host noise`.

use std::path::PathBuf;

use clap::Args;
use wiretail_host::CoreSet;
use wiretail_schema::run::interference::InterferenceKind;
use wiretail_schema::units::Duration;

use crate::cli::trace::cores;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host noise --cores 1                           # gaps by length, and the delay floor
  sudo wiretail host noise --cores 1-3 --trace            # with the causes of the gaps
  sudo wiretail host noise --cores 1 --fifo 50 --compare  # compared with cyclictest
  sudo wiretail host noise --cores 1 --trace --inject hog  # is injected interference identified?
  wiretail host noise --cores 1 --json | jq '.cores[0].floor'

The loop keeps its cores busy. Ctrl-C ends it and prints the result so far. With --fifo, it sleeps
for 0.1 s after each 0.7 s, so that the kernel neither throttles it nor runs other tasks in its
place. Meaning of the numbers: docs/noise.md.

Exit code: 0 success; 2 error.")]
pub struct NoiseArgs {
    /// Cores to measure, such as 1 or 2-3,5
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: CoreSet,
    /// Measurement time
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub duration: Duration,
    /// Trace the kernel on these cores and name the causes of the gaps; needs root
    #[arg(long)]
    pub trace: bool,
    /// Real-time priority of the loop (SCHED_FIFO), 1 to 99, as a forwarder may have [default: none]
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Shortest gap that counts, 1ns to 1ms; reading the clock takes about 30 ns
    #[arg(long, value_name = "DURATION", default_value = "1us")]
    pub threshold: Duration,
    /// Measure with cyclictest afterwards, if it is installed (Debian: rt-tests); needs root
    #[arg(long)]
    pub compare: bool,
    /// Inject interference on the first core, to test whether it is identified: shootdown, timer, hog,
    /// softirq, ipi
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = injected)]
    pub inject: Vec<InterferenceKind>,
    /// Time between two injected events
    #[arg(long, value_name = "DURATION", default_value = "20ms", requires = "inject")]
    pub inject_every: Duration,
    /// Write the result as JSON to a file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/noise.md)
    #[arg(long)]
    pub json: bool,
}

/// Parses a kind of interference that other threads can cause on a core.
fn injected(text: &str) -> Result<InterferenceKind, String> {
    InterferenceKind::of_name(text)
        .filter(|kind| !kind.is_own())
        .ok_or_else(|| "expected shootdown, timer, hog, softirq or ipi".to_owned())
}
