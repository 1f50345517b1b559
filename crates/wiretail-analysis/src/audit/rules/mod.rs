//! The rules, a file each, and their table.

mod audit_trail;
mod boot_line;
mod cache_partition;
mod cards;
mod cfs_quota;
mod clocksource;
mod compaction;
mod core_distance;
mod counters;
mod cpu_model;
mod cpuset_partition;
mod energy_bias;
mod fair_server;
mod governor;
mod guest_memory;
mod halt_polling;
mod hugepages;
mod idle_states;
mod interrupts;
mod iommu;
mod irq_affinity;
mod irqbalance;
mod isolcpus;
mod kernel_threads;
mod ksm;
mod locked_memory;
mod machine_check;
mod mitigations;
mod nic_coalescing;
mod nic_driver;
mod nic_eee;
mod nic_firmware;
mod nic_node;
mod nic_offloads;
mod nic_pause;
mod nic_pcie;
mod nic_queues;
mod nic_rings;
mod nic_timestamps;
mod nmi_watchdog;
mod nohz_full;
mod numa_balancing;
mod pcie_aspm;
mod rcu_nocbs;
mod realtime_kernel;
mod rights;
mod rps;
mod rt_throttling;
mod smi;
mod smt;
mod soft_watchdog;
mod sriov;
mod steal;
mod swappiness;
mod tasks;
mod thp;
mod tick;
mod timer_migration;
mod tuned;
mod turbo;
mod vcpu_pinning;
mod vm_stat_interval;
mod workqueue;

use std::collections::BTreeSet;

pub use wiretail_schema::host::audit::RuleGroup;

pub(crate) use nic_rings::ring_entries;

use super::{Judgement, View};

/// A rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name.
    pub id: &'static str,
    /// What it is about.
    pub group: RuleGroup,
    /// What is checked, in a few words.
    pub title: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// How much it is worth, where somebody measured it, and who.
    pub effect: Option<&'static str>,
    /// Where the reason is from.
    pub source: &'static str,
    /// What to do; `{cores}` stands for the cores that are to be left alone.
    pub remedy: &'static str,
    /// What that costs.
    pub cost: &'static str,
    /// The files that it reads; `*` stands for anything in a part of a path.
    pub reads: &'static [&'static str],
    /// How a host is.
    pub judge: fn(&View<'_>) -> Judgement,
}

/// All rules, in the order in which they are shown.
pub const ALL: &[Rule] = &[
    boot_line::RULE,
    realtime_kernel::RULE,
    isolcpus::RULE,
    nohz_full::RULE,
    rcu_nocbs::RULE,
    iommu::RULE,
    governor::RULE,
    turbo::RULE,
    energy_bias::RULE,
    idle_states::RULE,
    clocksource::RULE,
    smt::RULE,
    steal::RULE,
    mitigations::RULE,
    core_distance::RULE,
    cache_partition::RULE,
    smi::RULE,
    tick::RULE,
    irq_affinity::RULE,
    interrupts::RULE,
    tasks::RULE,
    kernel_threads::RULE,
    workqueue::RULE,
    rt_throttling::RULE,
    fair_server::RULE,
    timer_migration::RULE,
    vm_stat_interval::RULE,
    nmi_watchdog::RULE,
    soft_watchdog::RULE,
    machine_check::RULE,
    thp::RULE,
    ksm::RULE,
    numa_balancing::RULE,
    compaction::RULE,
    swappiness::RULE,
    hugepages::RULE,
    locked_memory::RULE,
    nic_driver::RULE,
    nic_firmware::RULE,
    nic_node::RULE,
    nic_pcie::RULE,
    pcie_aspm::RULE,
    nic_queues::RULE,
    nic_rings::RULE,
    nic_coalescing::RULE,
    nic_pause::RULE,
    nic_offloads::RULE,
    nic_eee::RULE,
    nic_timestamps::RULE,
    rps::RULE,
    irqbalance::RULE,
    tuned::RULE,
    audit_trail::RULE,
    cfs_quota::RULE,
    cpuset_partition::RULE,
    rights::RULE,
    cpu_model::RULE,
    vcpu_pinning::RULE,
    guest_memory::RULE,
    halt_polling::RULE,
    sriov::RULE,
];

/// Options of the kernel's configuration that rules look at, by how they begin.
pub const CONFIG_OPTIONS: &[&str] = &[
    "CONFIG_PREEMPT",
    "CONFIG_HZ",
    "CONFIG_NO_HZ",
    "CONFIG_RCU_NOCB",
    "CONFIG_CPU_ISOLATION",
    "CONFIG_CPUSETS",
];

/// Files that are read a second time, to see what happens meanwhile.
pub const TWICE: &[&str] = &["/proc/interrupts", "/proc/stat"];

/// Model-specific registers that rules look at: MSR_SMI_COUNT.
pub const REGISTERS: &[u64] = &[0x34];

/// Files that every view needs, whatever the rules are.
const ALWAYS: &[&str] = &[
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/sys/kernel/osrelease",
    "/sys/devices/system/cpu/online",
    "/proc/1/environ",
    "/run/.containerenv",
    "/.dockerenv",
    "/run/systemd/container",
    "/proc/self/ns/uts",
    "/sys/fs/cgroup/cpuset.cpus.effective",
    "/sys/fs/cgroup/cpuset/cpuset.effective_cpus",
];

/// What several rules are about: pages that are unmapped or moved on all cores.
const TLB_SHOOTDOWN: &str = "A TLB shootdown, whoever causes it: two of them made 27 of 300000 packets of Snort in a guest later than 350 us, the worst 1.88 ms; p99.9 was 18.4 us (computed from the published capture snort-filter-nohz-tlbshootdown of gallenmu/hipnet21)";

/// All files that the rules read, each once.
pub fn files() -> Vec<&'static str> {
    let mut files: Vec<&str> = ALL.iter().flat_map(|rule| rule.reads).chain(ALWAYS).copied().collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| !TWICE.contains(file));
    files
}

/// The values that cores have, each once.
fn kinds(values: &[(u32, &str)]) -> String {
    let kinds: BTreeSet<&str> = values.iter().map(|(_, value)| *value).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

/// The first few of a list, and how many more there are.
fn listed(all: &[String]) -> String {
    const SHOWN: usize = 6;
    let first = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0..=SHOWN => first,
        more => format!("{first} and {} more", more - SHOWN),
    }
}
