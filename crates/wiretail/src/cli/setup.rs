//! Arguments of `wiretail setup`.

use clap::{Args, ValueEnum};
use serde::Serialize;

/// The names of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartName {
    /// iproute2 and ethtool
    Tools,
    /// DPDK with its headers, and a C compiler
    Dpdk,
    /// Suricata 7
    Suricata,
    /// A set of 19,500 Suricata rules
    SuricataRules,
    /// Open vSwitch with its DPDK build
    Ovs,
    /// LXC and runc
    Container,
    /// QEMU and a static busybox
    Vm,
    /// Snort 3, which Debian has no package of
    Snort,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail setup                                   # what is installed, and what uses it
  wiretail setup suricata --dry-run                # packages, versions, sources, services
  sudo wiretail setup suricata suricata-rules      # shows the plan, and asks
  sudo wiretail setup dpdk ovs container vm --yes  # for scripts

What the packages of a part would start stays stopped, now and at boot: a measurement starts what
it needs. apt's configuration and lists stay as they are; a further suite that Suricata needs is
taken from the mirror that is configured, for this alone. What is installed already is left alone.

Exit code: 0 done; 1 answered with no, or asked for a part that has no package; 2 error.")]
pub struct SetupArgs {
    /// What to install; without it all parts are shown
    #[arg(value_enum, value_name = "PART")]
    pub parts: Vec<PartName>,
    /// Print what would be installed, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Install without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Print the parts and their state as JSON, and do nothing
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    pub json: bool,
}
