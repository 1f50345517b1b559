//! `wiretail trace`.

use std::path::PathBuf;

use clap::Args;
use wiretail_host::CoreSet;
use wiretail_schema::units::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail trace --cpus 3 --duration 5s --out quiet       # who disturbs an idle core 3?
  wiretail trace --cpus 3 --out busy --stacks             # beside a device, until Ctrl-C
  wiretail trace --show busy                              # the same table again, on any machine
  wiretail trace --show busy --json | jq '.senders[0]'

Recorded are, of the watched cores, interrupts, softirqs, switches of tasks, calls from other
cores and TLB flushes; of all cores, what is sent towards the watched ones, and by which task.
An event costs some 150 ns on its core. --stacks costs a sender 2 to 12 µs a send, and names
the system call.

Stamps are CLOCK_MONOTONIC; trace.json in the folder says how far CLOCK_REALTIME, by which
packets are stamped, is from it. A recording that is killed leaves its buffers in the kernel:
`wiretail clean` removes them.

Exit code: 0 done; 1 events are missing, or the clock was set meanwhile; 2 error.")]
pub struct TraceArgs {
    /// Cores to watch, such as 1 or 2-3,5
    #[arg(long, value_name = "CORES", value_parser = cores, required_unless_present = "show")]
    pub cpus: Option<CoreSet>,
    /// End after this time; without it Ctrl-C ends it
    #[arg(long, value_name = "DURATION")]
    pub duration: Option<Duration>,
    /// Folder to write, made where it is missing: trace.json and the kernel's pages (docs/trace.md)
    #[arg(long, value_name = "DIR", required_unless_present = "show")]
    pub out: Option<PathBuf>,
    /// The stacks of who sends interrupts to the watched cores
    #[arg(long)]
    pub stacks: bool,
    /// Page faults on the watched cores; a program that starts has tens of thousands a second
    #[arg(long)]
    pub page_faults: bool,
    /// Memory of each watched core's buffer, in MiB; it is emptied every 20 ms
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer: u32,
    /// Record nothing, show what is in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cpus", "duration", "out", "stacks", "page_faults", "buffer"])]
    pub show: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// A list of cores that has some.
pub(in crate::cli) fn cores(text: &str) -> Result<CoreSet, String> {
    match CoreSet::parse(text)? {
        set if set.is_empty() => Err("expected a list of cores, such as 1 or 2-3,5".to_owned()),
        set => Ok(set),
    }
}
