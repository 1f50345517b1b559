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
  wiretail host noise --cores 1                           # gaps by their length, and the floor
  sudo wiretail host noise --cores 1-3 --trace            # and who took the cores
  sudo wiretail host noise --cores 1 --fifo 50 --compare  # as a real-time thread; beside cyclictest
  sudo wiretail host noise --cores 1 --trace --inject hog  # does it name what is planted?
  wiretail host noise --cores 1 --json | jq '.cores[0].floor'

The loop keeps its cores busy; Ctrl-C ends it, and shows what there is. With --fifo it rests for 0.1 s
behind each 0.7 s, so that the kernel neither throttles it nor lets others in its stead. What the
numbers mean: docs/noise.md.

Exit code: 0 done; 2 error.")]
pub struct NoiseArgs {
    /// The cores to watch, such as 1 or 2-3,5
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: CoreSet,
    /// How long to watch
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub duration: Duration,
    /// Record what the kernel does on these cores meanwhile, and name who took them; needs root
    #[arg(long)]
    pub trace: bool,
    /// Watch with this real-time priority (SCHED_FIFO), 1 to 99, as a forwarder may have it [default: as any thread]
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Shortest gap that counts, 1ns to 1ms; a reading of the clock takes some 30 ns
    #[arg(long, value_name = "DURATION", default_value = "1us")]
    pub threshold: Duration,
    /// Then measure with cyclictest, too, if it is installed (Debian: rt-tests); needs root
    #[arg(long)]
    pub compare: bool,
    /// Disturb the first of the cores on purpose, to see whether that is named: shootdown, timer, hog, softirq, ipi
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = injected)]
    pub inject: Vec<InterferenceKind>,
    /// From one planted disturbance to the next
    #[arg(long, value_name = "DURATION", default_value = "20ms", requires = "inject")]
    pub inject_every: Duration,
    /// Write the result as JSON into a file as well
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/noise.md)
    #[arg(long)]
    pub json: bool,
}

/// A disturbance that other threads can do to a core.
fn injected(text: &str) -> Result<InterferenceKind, String> {
    InterferenceKind::of_name(text)
        .filter(|kind| !kind.is_own())
        .ok_or_else(|| "expected shootdown, timer, hog, softirq or ipi".to_owned())
}
