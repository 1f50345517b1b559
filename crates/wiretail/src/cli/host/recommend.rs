//! Arguments of `wiretail host recommend`.

use std::path::PathBuf;

use clap::Args;
use wiretail_host::CoreSet;

use super::RoleChoice;
use crate::cli::trace::cores;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host recommend                                   # of the audit alone
  wiretail host recommend runs/*                            # and of all that was measured
  wiretail host recommend runs/deployments runs/ndr-pdr --out recommend.html
  wiretail host recommend runs/edge7 --from host.txt        # of another machine: host audit --save
  wiretail host recommend runs/* --json | jq '.recommendations[] | {kind, stand, says}'

How each recommendation is judged: docs/recommend.md. With --json: docs/formats/recommend.md.

Exit code: 0 done; 2 error.")]
pub struct RecommendArgs {
    /// Directories of runs and searches
    #[arg(value_name = "RUN_DIR")]
    pub runs: Vec<PathBuf>,
    /// Audit what was recorded: a file of `host audit --save`, or a folder with a machine's /proc and /sys
    #[arg(long, value_name = "HOST_RECORD")]
    pub from: Option<PathBuf>,
    /// The cores that are to be left alone, such as 1 or 2-3,5 [default: those that the boot line isolates]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
    /// What the host is for the packets [default: what it looks like]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// Show also where each recommendation is from, and all evidence
    #[arg(long, short)]
    pub all: bool,
    /// Write the recommendations as a page
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print them as JSON (docs/formats/recommend.md)
    #[arg(long)]
    pub json: bool,
}
