//! Arguments of `wiretail host recommend`.

use std::path::PathBuf;

use clap::Args;
use wiretail_host::CoreSet;

use super::RoleChoice;
use crate::cli::trace::cores;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail host recommend                                   # from the audit alone
  wiretail host recommend runs/*                            # and from all measurements
  wiretail host recommend runs/deployments runs/ndr-pdr --out recommend.html
  wiretail host recommend runs/edge7 --from host.txt        # for another machine: host audit --save
  wiretail host recommend runs/* --json | jq '.recommendations[] | {kind, stand, says}'

How each recommendation is judged: docs/recommend.md. Format of --json: docs/formats/recommend.md.

Exit code: 0 success; 2 error.")]
pub struct RecommendArgs {
    /// Directories of runs and searches
    #[arg(value_name = "RUN_DIR")]
    pub runs: Vec<PathBuf>,
    /// Audit a recorded host: a file of `host audit --save`, or a directory with the host's /proc and /sys
    #[arg(long, value_name = "HOST_RECORD")]
    pub from: Option<PathBuf>,
    /// Cores that should be isolated, such as 1 or 2-3,5 [default: the cores that the boot command line
    /// isolates]
    #[arg(long, value_name = "CORES", value_parser = cores)]
    pub cores: Option<CoreSet>,
    /// Role of the host in packet processing [default: detected]
    #[arg(long, value_enum)]
    pub role: Option<RoleChoice>,
    /// Also show the source of each recommendation, and all evidence
    #[arg(long, short)]
    pub all: bool,
    /// Write the recommendations as an HTML page
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the recommendations as JSON (docs/formats/recommend.md)
    #[arg(long)]
    pub json: bool,
}
