//! Audit rules: one file per rule, and their table.

pub mod boot;
pub mod counters;
pub mod guests;
pub mod kernel;
pub mod memory;
pub mod network;
pub mod processor;
pub mod services;

use std::collections::BTreeSet;

pub use wiretail_schema::host::audit::RuleGroup;

pub(crate) use network::nic_rings::ring_entries;

use super::{Judgement, View};

/// Audit rule: its explanation and its judgement.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub id: &'static str,
    pub group: RuleGroup,
    /// Subject of the check, in a few words.
    pub title: &'static str,
    /// Effect of the problem on latency.
    pub why: &'static str,
    /// Measured effect with its source, if there is a measurement.
    pub effect: Option<&'static str>,
    /// Source of `why`.
    pub source: &'static str,
    /// Command or setting that fixes the problem; `{cores}` is replaced by the packet cores.
    pub mitigation: &'static str,
    /// Drawback of the mitigation.
    pub cost: &'static str,
    /// Files that the rule reads; `*` matches anything within one path component.
    pub reads: &'static [&'static str],
    pub judge: fn(&View<'_>) -> Judgement,
}

/// All rules, in the order in which they are shown.
pub const ALL: &[Rule] = &[
    boot::boot_line::RULE,
    boot::realtime_kernel::RULE,
    boot::isolcpus::RULE,
    boot::nohz_full::RULE,
    boot::rcu_nocbs::RULE,
    boot::iommu::RULE,
    processor::governor::RULE,
    processor::turbo::RULE,
    processor::energy_bias::RULE,
    processor::idle_states::RULE,
    processor::clocksource::RULE,
    processor::smt::RULE,
    processor::steal::RULE,
    processor::mitigations::RULE,
    processor::core_distance::RULE,
    processor::cache_partition::RULE,
    processor::smi::RULE,
    kernel::tick::RULE,
    kernel::irq_affinity::RULE,
    kernel::interrupts::RULE,
    kernel::tasks::RULE,
    kernel::kernel_threads::RULE,
    kernel::workqueue::RULE,
    kernel::rt_throttling::RULE,
    kernel::fair_server::RULE,
    kernel::timer_migration::RULE,
    kernel::vm_stat_interval::RULE,
    kernel::nmi_watchdog::RULE,
    kernel::soft_watchdog::RULE,
    kernel::machine_check::RULE,
    memory::thp::RULE,
    memory::ksm::RULE,
    memory::numa_balancing::RULE,
    memory::compaction::RULE,
    memory::swappiness::RULE,
    memory::hugepages::RULE,
    memory::locked_memory::RULE,
    network::nic_driver::RULE,
    network::nic_firmware::RULE,
    network::nic_node::RULE,
    network::nic_pcie::RULE,
    network::pcie_aspm::RULE,
    network::nic_queues::RULE,
    network::nic_rings::RULE,
    network::nic_coalescing::RULE,
    network::nic_pause::RULE,
    network::nic_offloads::RULE,
    network::nic_eee::RULE,
    network::nic_timestamps::RULE,
    network::rps::RULE,
    services::irqbalance::RULE,
    services::tuned::RULE,
    services::audit_trail::RULE,
    guests::cfs_quota::RULE,
    guests::cpuset_partition::RULE,
    guests::rights::RULE,
    guests::cpu_model::RULE,
    guests::vcpu_pinning::RULE,
    guests::guest_memory::RULE,
    guests::halt_polling::RULE,
    guests::sriov::RULE,
];

/// Prefixes of the kernel configuration options that rules read.
pub const CONFIG_OPTIONS: &[&str] = &[
    "CONFIG_PREEMPT",
    "CONFIG_HZ",
    "CONFIG_NO_HZ",
    "CONFIG_RCU_NOCB",
    "CONFIG_CPU_ISOLATION",
    "CONFIG_CPUSETS",
];

/// Files that are read twice, to count events between the two readings.
pub const TWICE: &[&str] = &["/proc/interrupts", "/proc/stat"];

/// Model-specific registers that rules read: MSR_SMI_COUNT.
pub const REGISTERS: &[u64] = &[0x34];

/// Files that every view needs, independent of the rules.
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

/// Effect of TLB shootdowns, for all rules about pages that are unmapped or moved on all cores.
const TLB_SHOOTDOWN: &str = "TLB shootdowns from any cause: with Snort in a guest, two of them raised the delay of 27 of 300000 packets above 350 us, with a maximum of 1.88 ms; p99.9 was 18.4 us (computed from the published capture snort-filter-nohz-tlbshootdown of gallenmu/hipnet21)";

/// All files that the rules read, without duplicates.
pub fn files() -> Vec<&'static str> {
    let mut files: Vec<&str> = ALL.iter().flat_map(|rule| rule.reads).chain(ALWAYS).copied().collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| !TWICE.contains(file));
    files
}

/// Distinct values of the cores, comma-separated.
fn kinds(values: &[(u32, &str)]) -> String {
    let kinds: BTreeSet<&str> = values.iter().map(|(_, value)| *value).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

/// Formats the first items of a list, and the number of items left out.
fn listed(all: &[String]) -> String {
    const SHOWN: usize = 6;
    let first = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0..=SHOWN => first,
        more => format!("{first} and {} more", more - SHOWN),
    }
}
