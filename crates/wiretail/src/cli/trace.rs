//! Arguments of `wiretail trace`.

use std::path::PathBuf;

use clap::Args;
use wiretail_host::CoreSet;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail trace --cpus 3 --duration 5s --out quiet       # what interrupts an idle core 3?
  wiretail trace --cpus 3 --out busy --stacks             # while a device runs, until Ctrl-C
  wiretail trace --show busy                              # prints the same table again
  wiretail trace --show busy --json | jq '.senders[0]'

Records interrupts, softirqs, task switches, calls from other cores and TLB flushes on the watched
cores. On all cores, records what is sent to the watched ones, and by which task. An event costs
about 150 ns on its core. --stacks costs a sender 2 to 12 µs per event, and names the system call.

Timestamps are CLOCK_MONOTONIC, but packet timestamps are CLOCK_REALTIME; trace.json in the output
directory has the offset between the two. A killed recording leaves its buffers in the kernel;
`wiretail clean` removes them.

Exit code: 0 success; 1 events are missing, or the clock was set during the recording; 2 error.")]
pub struct TraceArgs {
    /// Cores to watch, such as 1 or 2-3,5
    #[arg(long, value_name = "CORES", value_parser = cores, required_unless_present = "show")]
    pub cpus: Option<CoreSet>,
    /// End after this time [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Duration>,
    /// Output directory, created if missing, for trace.json and the kernel's trace pages (docs/trace.md)
    #[arg(long, value_name = "DIR", required_unless_present = "show")]
    pub out: Option<PathBuf>,
    /// Record the stacks of the senders of interrupts to the watched cores
    #[arg(long)]
    pub stacks: bool,
    /// Record page faults on the watched cores; a program has tens of thousands per second when it starts
    #[arg(long)]
    pub page_faults: bool,
    /// Memory of each watched core's buffer, in MiB; it is emptied every 20 ms
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// Show the recording in this directory; record nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cpus", "duration", "out", "stacks", "page_faults", "buffer"])]
    pub show: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses a non-empty list of cores.
pub(in crate::cli) fn cores(text: &str) -> Result<CoreSet, String> {
    match CoreSet::parse(text)? {
        set if set.is_empty() => Err("expected a list of cores, such as 1 or 2-3,5".to_owned()),
        set => Ok(set),
    }
}
