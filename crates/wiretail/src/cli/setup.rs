//! Arguments of `wiretail setup`.

use clap::{Args, ValueEnum};
use serde::Serialize;

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
    /// Snort 3, for which Debian has no package
    Snort,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail setup                                   # installed parts, and the devices that use them
  wiretail setup suricata --dry-run                # packages, versions, sources, services
  sudo wiretail setup suricata suricata-rules      # shows the plan, and asks for confirmation
  sudo wiretail setup dpdk ovs container vm --yes  # for scripts

Services of the installed packages are stopped and not enabled at boot: a measurement starts what it
needs. The configuration and package lists of apt are not changed; an additional suite that Suricata
needs is read from the configured mirror for this purpose only. Installed packages are not changed.

Exit code: 0 success; 1 the confirmation was declined, or a requested part has no package; 2 error.")]
pub struct SetupArgs {
    /// Parts to install; without PART, lists all parts
    #[arg(value_enum, value_name = "PART")]
    pub parts: Vec<PartName>,
    /// Print the plan, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Install without confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Print the parts and their state as JSON, and exit
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    pub json: bool,
}
