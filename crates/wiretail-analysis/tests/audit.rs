//! Audits a host that is set up like the optimized host in the papers, and copies of it with one fault each.

use wiretail_analysis::host::audit::{ALL, Question, audit};
use wiretail_schema::host::audit::{Audit, HostRole, Verdict};
use wiretail_schema::host::record::{HOST_SCHEMA, HostRecord, Reading};

const OPTIMIZED: &str = include_str!("hosts/optimized.txt");

fn optimized() -> HostRecord {
    HostRecord::parse(OPTIMIZED).expect("a record")
}

fn of(record: &HostRecord) -> Audit {
    audit(record, &Question::default(), "0")
}

/// Rules that found a problem, with their verdicts.
fn problems(record: &HostRecord, role: Option<HostRole>) -> Vec<(String, Verdict)> {
    let found = audit(record, &Question { role, cores: None }, "0")
        .findings
        .into_iter()
        .filter(|finding| finding.verdict.is_problem());
    found.map(|finding| (finding.rule, finding.verdict)).collect()
}

fn text(record: &HostRecord, name: &str) -> String {
    match &record.readings[name] {
        Reading::Text(text) => text.clone(),
        Reading::Unreadable(why) => panic!("{name}: {why}"),
    }
}

#[test]
fn finds_no_problem_on_clean_host() {
    let audit = of(&optimized());
    assert_eq!(audit.cores, "1-3");
    let bad: Vec<_> = audit.findings.iter().filter(|finding| finding.verdict.is_problem()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let unseen = audit.findings.iter().filter(|finding| finding.verdict == Verdict::Unseen).count();
    assert_eq!(unseen, 0, "{:#?}", audit.findings);
}

/// Change to a record: the name of the reading, the old text and the new text.
type Change = (&'static str, &'static str, &'static str);

/// Rule and its expected verdict.
type Found = (&'static str, Verdict);

/// Single faults, each with the rules that must find it; no other rule may find a problem.
const PLANTED: &[(&str, &[Change], &[Found])] = &[
    (
        "isolcpus misspelled",
        &[("/proc/cmdline", "isolcpus=", "isolcpu="), ("/sys/devices/system/cpu/isolated", "1-3", "")],
        &[("boot-line", Verdict::Ineffective), ("isolcpus", Verdict::Improvable)],
    ),
    (
        "nohz_full without kernel support",
        &[
            ("kernel-config", "CONFIG_NO_HZ_FULL=y", "# CONFIG_NO_HZ_FULL is not set"),
            ("/sys/devices/system/cpu/nohz_full", "1-3", "(null)"),
            ("/proc/interrupts@later", "5250 301 301 301", "5250 550 550 550"),
        ],
        &[("nohz-full", Verdict::Ineffective), ("tick", Verdict::Ineffective)],
    ),
    (
        "an interrupt on an isolated core",
        &[
            ("/proc/irq/25/effective_affinity_list", "0", "2"),
            ("/proc/interrupts@later", "1040 0 0 0", "1000 0 40 0"),
        ],
        &[
            ("irq-affinity", Verdict::Ineffective),
            ("interrupts", Verdict::Ineffective),
            ("nic-queues", Verdict::Improvable),
        ],
    ),
    (
        "CPU quota",
        &[("/sys/fs/cgroup/cpu.max", "max 100000", "50000 100000")],
        &[("cfs-quota", Verdict::Harmful)],
    ),
    (
        "transparent huge pages enabled after boot",
        &[(
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never",
            "[always] madvise never",
        )],
        &[("thp", Verdict::Ineffective)],
    ),
    (
        "irqbalance",
        &[(
            "tasks",
            "1 1 0 0 0 500 user 0 systemd",
            "1 1 0 0 0 500 user 0 systemd\n700 700 0 0 0 1 user 0 irqbalance",
        )],
        &[("irqbalance", Verdict::Harmful)],
    ),
    (
        "unbound workers on all cores",
        &[("/sys/devices/virtual/workqueue/cpumask", "1", "f")],
        &[("workqueue", Verdict::Ineffective)],
    ),
    (
        "two siblings although nosmt was requested",
        &[("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1", "0-1")],
        &[("smt", Verdict::Ineffective)],
    ),
    (
        "powersave governor",
        &[("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance", "powersave")],
        &[("governor", Verdict::Improvable)],
    ),
    (
        "throttling of real-time threads",
        &[("/proc/sys/kernel/sched_rt_runtime_us", "-1", "950000")],
        &[("rt-throttling", Verdict::Improvable)],
    ),
    (
        "fewer huge pages than requested",
        &[("/proc/sys/vm/nr_hugepages", "4", "3")],
        &[("hugepages", Verdict::Ineffective)],
    ),
    (
        "no callback thread for a core",
        &[("tasks", "rcuop/2", "other/2")],
        &[("rcu-nocbs", Verdict::Ineffective)],
    ),
    (
        "an unpinned thread on a packet core",
        &[("tasks@later", "400 400", "800 800 3 0 0 12 user 0-3 backup\n400 400")],
        &[("tasks", Verdict::Ineffective)],
    ),
    (
        "a slow clock",
        &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc", "hpet")],
        &[("clocksource", Verdict::Harmful)],
    ),
    ("merging of pages", &[("/sys/kernel/mm/ksm/run", "0", "1")], &[("ksm", Verdict::Harmful)]),
    (
        "contradictory core lists",
        &[("/proc/cmdline", "irqaffinity=0", "irqaffinity=0-1")],
        &[("boot-line", Verdict::Ineffective)],
    ),
    ("turbo", &[("/sys/devices/system/cpu/cpufreq/boost", "0", "1")], &[("turbo", Verdict::Improvable)]),
    (
        "frequency driver that should be disabled",
        &[("/sys/devices/system/cpu/intel_pstate/status", "", "active")],
        &[("turbo", Verdict::Ineffective)],
    ),
    (
        "energy-saving hint",
        &[("/sys/devices/system/cpu/cpu3/power/energy_perf_bias", "0", "6")],
        &[("energy-bias", Verdict::Improvable)],
    ),
    ("system management interrupts", &[("msr/2/0x34@later", "17", "19")], &[("smi", Verdict::Harmful)]),
    (
        "cache ways shared with other groups",
        &[("/sys/fs/resctrl/schemata", "00f", "01f")],
        &[("cache-partition", Verdict::Improvable)],
    ),
    (
        "cache partition shared with another core",
        &[("/sys/fs/resctrl/packets/cpus_list", "1-3", "0-3")],
        &[("cache-partition", Verdict::Improvable)],
    ),
    (
        "polling for corrected errors",
        &[("/sys/devices/system/machinecheck/machinecheck0/ignore_ce", "1", "0")],
        &[("machine-check", Verdict::Ineffective)],
    ),
    (
        "address translation for devices",
        &[("/sys/kernel/iommu_groups/0/type", "identity", "DMA-FQ")],
        &[("iommu", Verdict::Ineffective)],
    ),
    (
        "IOMMU disabled by the firmware",
        &[
            ("/proc/cmdline", "iommu=pt", "intel_iommu=on"),
            ("/sys/kernel/iommu_groups/0/type", "identity", "DMA"),
        ],
        &[("iommu", Verdict::Improvable)],
    ),
    (
        "unpinned kernel thread",
        &[("tasks", "2 2 0 0 0 10 kernel 0 kthreadd", "2 2 0 0 0 10 kernel 0-3 kthreadd")],
        &[("kernel-threads", Verdict::Improvable)],
    ),
    (
        "NIC on the other memory node",
        &[
            ("/sys/devices/system/node/node0/cpulist", "0-3", "0"),
            ("/sys/devices/system/node/node1/cpulist", "", "1-3"),
        ],
        &[("nic-node", Verdict::Improvable)],
    ),
    (
        "no huge pages on the node of the cores",
        &[
            ("/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "", "0"),
            ("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "", "4"),
        ],
        &[("hugepages", Verdict::Improvable)],
    ),
    (
        "PCI Express slot with half of the lanes",
        &[("/sys/class/net/eth0/device/current_link_width", "8", "4")],
        &[("nic-pcie", Verdict::Improvable)],
    ),
    (
        "PCI Express lanes that sleep",
        &[
            ("/sys/class/net/eth0/device/link/l1_aspm", "0", "1"),
            ("/sys/module/pcie_aspm/parameters/policy", "default [performance]", "[default] performance"),
        ],
        &[("pcie-aspm", Verdict::Improvable)],
    ),
    (
        "more queues than housekeeping cores",
        &[("ethtool/eth0", "combined-channels 1", "combined-channels 4")],
        &[("nic-queues", Verdict::Improvable)],
    ),
    (
        "more queues than housekeeping cores, reported per direction",
        &[("ethtool/eth0", "combined-channels 1", "combined-channels 0\nrx-channels 2")],
        &[("nic-queues", Verdict::Improvable)],
    ),
    (
        "ring that overflows during an interrupt",
        &[("ethtool/eth0", "speed-mbps 10000", "speed-mbps 40000")],
        &[("nic-rings", Verdict::Improvable)],
    ),
    (
        "ring of maximum length at 40 Gbit/s",
        &[
            ("ethtool/eth0", "rx-ring-max 4096", "rx-ring-max 512"),
            ("ethtool/eth0", "speed-mbps 10000", "speed-mbps 40000"),
        ],
        &[],
    ),
    ("unknown link speed", &[("ethtool/eth0", "speed-mbps 10000", "speed-mbps 4294967295")], &[]),
    (
        "ring larger than the cache",
        &[
            ("ethtool/eth0", "rx-ring 512", "rx-ring 4096"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/size", "12288K", "8191K"),
        ],
        &[("nic-rings", Verdict::Improvable)],
    ),
    (
        "two NICs of one model with different firmware",
        &[
            ("/sys/class/net/eth1/device/driver", "", "../../../../bus/pci/drivers/ixgbe"),
            ("ethtool/eth1", "", "driver ixgbe\ndriver-version 6.1.0-18-amd64\nfirmware 0x80000001"),
        ],
        &[("nic-firmware", Verdict::Improvable)],
    ),
    (
        "two NIC models",
        &[
            ("/sys/class/net/eth1/device/driver", "", "../../../../bus/pci/drivers/i40e"),
            ("ethtool/eth1", "", "driver i40e\ndriver-version 6.1.0-18-amd64\nfirmware 9.20 0x8000d8c5"),
        ],
        &[],
    ),
    (
        "low memory lock limit without CAP_IPC_LOCK",
        &[("/proc/self/status", "CapEff:\t000001ffffffffff", "CapEff:\t000001ffffffbfff")],
        &[("rights", Verdict::Improvable), ("locked-memory", Verdict::Improvable)],
    ),
    (
        "sufficient memory lock limit without CAP_IPC_LOCK",
        &[
            ("/proc/self/status", "CapEff:\t000001ffffffffff", "CapEff:\t000001ffffffbfff"),
            ("/proc/self/limits", "8388608              8388608", "8388608              unlimited"),
        ],
        &[("rights", Verdict::Improvable)],
    ),
    (
        "cores on two nodes",
        &[
            ("/sys/devices/system/node/node0/cpulist", "0-3", "0-1"),
            ("/sys/devices/system/node/node0/distance", "10", "10 21"),
            ("/sys/devices/system/node/node1/cpulist", "", "2-3"),
            ("/sys/devices/system/node/node1/distance", "", "21 10"),
        ],
        &[("core-distance", Verdict::Improvable), ("nic-node", Verdict::Improvable)],
    ),
    (
        "cores with two caches",
        &[
            ("/sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "0-3", "0-1"),
            ("/sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list", "0-3", "2-3"),
            ("/sys/devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "0-3", "2-3"),
        ],
        &[("core-distance", Verdict::Improvable)],
    ),
    (
        "NIC with interrupt coalescing",
        &[("ethtool/eth0", "rx-usecs 0", "rx-usecs 20")],
        &[("nic-coalescing", Verdict::Improvable)],
    ),
    (
        "pause frames",
        &[("ethtool/eth0", "tx-pause off", "tx-pause on")],
        &[("nic-pause", Verdict::Improvable)],
    ),
    (
        "large receive offload",
        &[("ethtool/eth0", "features rx-gro", "features rx-lro")],
        &[("nic-offloads", Verdict::Improvable)],
    ),
    (
        "unknown flag of isolcpus",
        &[("/proc/cmdline", "isolcpus=managed_irq,", "isolcpus=managed_irqs,")],
        &[("boot-line", Verdict::Ineffective)],
    ),
    (
        "packets steered to an isolated core",
        &[("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0", "2")],
        &[("rps", Verdict::Improvable)],
    ),
    (
        "kernel auditing that should be off",
        &[("tasks", "2 2 0 0", "14 14 0 0 0 1 kernel 0 kauditd\n2 2 0 0")],
        &[("audit-trail", Verdict::Ineffective)],
    ),
    ("a link that sleeps", &[("ethtool/eth0", "eee off", "eee on")], &[("nic-eee", Verdict::Improvable)]),
    (
        "software timestamps only",
        &[("ethtool/eth0", "hardware-receive", "software-receive")],
        &[("nic-timestamps", Verdict::Improvable)],
    ),
    (
        "power-saving tuned profile",
        &[("/etc/tuned/active_profile", "", "balanced")],
        &[("tuned", Verdict::Improvable)],
    ),
    (
        "tuned profile without tuned running",
        &[("/etc/tuned/active_profile", "", "cpu-partitioning")],
        &[("tuned", Verdict::Ineffective)],
    ),
    (
        "no CAP_SYS_NICE",
        &[("/proc/self/status", "CapEff:\t000001ffffffffff", "CapEff:\t000001ffff7fffff")],
        &[("rights", Verdict::Improvable)],
    ),
    (
        "swapped memory",
        &[("/proc/swaps", "Filename", "Filename x\n/dev/sda2 partition 1000000 20480 -2\n")],
        &[("swappiness", Verdict::Improvable)],
    ),
    (
        "watchdog on all cores that should be off",
        &[("/proc/sys/kernel/nmi_watchdog", "0", "1"), ("/proc/sys/kernel/watchdog_cpumask", "0", "0-3")],
        &[("nmi-watchdog", Verdict::Ineffective)],
    ),
];

/// Faults on a host of virtual machines, in a guest and in a container. These roles have their own rules.
const PLANTED_IN_ROLES: &[(&str, HostRole, &[Change], &[Found])] = &[
    (
        "pinned vCPUs and huge pages",
        HostRole::VmHost,
        &[("tasks", "1 1 0", VM_TASKS), MEMORY, ("/sys/module/kvm/parameters/halt_poll_ns", "", "200000")],
        &[],
    ),
    (
        "two vCPUs on one core",
        HostRole::VmHost,
        &[
            ("tasks", "1 1 0", VM_TASKS),
            ("tasks", "user 2 CPU 1", "user 1 CPU 1"),
            MEMORY,
            ("/sys/module/kvm/parameters/halt_poll_ns", "", "200000"),
        ],
        &[("vcpu-pinning", Verdict::Harmful)],
    ),
    (
        "unpinned vCPU and emulator, small pages, no halt polling",
        HostRole::VmHost,
        &[
            ("tasks", "1 1 0", VM_TASKS),
            ("tasks", "user 2 CPU 1", "user 2-3 CPU 1"),
            ("/proc/meminfo", "", "HugePages_Total:       4\nHugePages_Free:        4"),
            ("/sys/module/kvm/parameters/halt_poll_ns", "", "0"),
        ],
        &[
            ("vcpu-pinning", Verdict::Improvable),
            ("guest-memory", Verdict::Improvable),
            ("halt-polling", Verdict::Improvable),
        ],
    ),
    (
        "emulator on a vCPU's core",
        HostRole::VmHost,
        &[
            ("tasks", "1 1 0", VM_TASKS),
            ("tasks", "user 0 qemu", "user 0-1 qemu"),
            MEMORY,
            ("/sys/module/kvm/parameters/halt_poll_ns", "", "200000"),
        ],
        &[("vcpu-pinning", Verdict::Improvable)],
    ),
    (
        "unused virtual functions",
        HostRole::VmHost,
        &[
            ("tasks", "1 1 0", VM_TASKS),
            MEMORY,
            ("/sys/module/kvm/parameters/halt_poll_ns", "", "200000"),
            ("/sys/class/net/eth0/device/sriov_totalvfs", "", "63"),
            ("/sys/class/net/eth0/device/sriov_numvfs", "", "0"),
        ],
        &[("sriov", Verdict::Improvable)],
    ),
    (
        "generic processor model and emulated NIC",
        HostRole::Vm,
        &[
            ("/proc/cpuinfo", "A server's processor", "QEMU Virtual CPU version 2.5+"),
            ("/sys/class/net/eth0/device/driver", "ixgbe", "e1000"),
        ],
        &[("cpu-model", Verdict::Improvable), ("nic-driver", Verdict::Improvable)],
    ),
    (
        "invalidated cpuset partition",
        HostRole::Container,
        &[(
            "/sys/fs/cgroup/cpuset.cpus.partition",
            "",
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)",
        )],
        &[("cpuset-partition", Verdict::Ineffective)],
    ),
    (
        "member partition on cores that the host isolates",
        HostRole::Container,
        &[("/sys/fs/cgroup/cpuset.cpus.partition", "", "member")],
        &[],
    ),
    (
        "member partition on cores that are not isolated",
        HostRole::Container,
        &[
            ("/sys/fs/cgroup/cpuset.cpus.partition", "", "member"),
            ("/sys/devices/system/cpu/isolated", "1-3", "1-2"),
        ],
        &[("cpuset-partition", Verdict::Improvable), ("isolcpus", Verdict::Ineffective)],
    ),
];

/// Guest with two vCPUs, each on a dedicated core.
const VM_TASKS: &str = "900 900 0 0 0 5 user 0 qemu-system-x86\n901 900 1 0 0 5 user 1 CPU 0/KVM\n902 900 2 0 0 5 user 2 CPU 1/KVM\n1 1 0";
const MEMORY: Change = ("/proc/meminfo", "", "HugePages_Total:       4\nHugePages_Free:        1");

/// Rules that find a problem on the clean host with these changes, sorted.
fn planted(what: &str, role: Option<HostRole>, changes: &[Change]) -> Vec<(String, Verdict)> {
    let mut record = optimized();
    for (name, old, new) in changes {
        // An empty old text adds a new reading.
        let text = if old.is_empty() { String::new() } else { text(&record, name) };
        assert!(text.contains(old), "{what}: {name} has no {old:?}: {text}");
        record.add(name, &text.replacen(old, new, 1));
    }
    let mut found = problems(&record, role);
    found.sort();
    found
}

fn sorted(expected: &[Found]) -> Vec<(String, Verdict)> {
    let mut all: Vec<_> = expected.iter().map(|(rule, verdict)| ((*rule).to_owned(), *verdict)).collect();
    all.sort();
    all
}

#[test]
fn each_fault_is_found_by_exactly_its_rules() {
    for (what, changes, expected) in PLANTED {
        assert_eq!(planted(what, None, changes), sorted(expected), "{what}");
    }
    for (what, role, changes, expected) in PLANTED_IN_ROLES {
        assert_eq!(planted(what, Some(*role), changes), sorted(expected), "{what}");
    }
}

#[test]
fn detects_role_and_packet_cores() {
    let mut record = optimized();
    record.add("/proc/1/environ", "container=lxc");
    record.add("/sys/fs/cgroup/cpuset.cpus.effective", "2-3");
    // Kernel threads are visible and the UTS namespace is the initial one, so this is not a container,
    // despite its environment.
    let audit = of(&record);
    assert_eq!((audit.role, audit.cores.as_str()), (HostRole::Bare, "1-3"));
    // With its own UTS namespace, it is a container that sees its host's processes.
    record.add("/proc/self/ns/uts", "uts:[4026532208]");
    let audit = of(&record);
    assert_eq!((audit.role, audit.cores.as_str()), (HostRole::Container, "2-3"));
    record.add("/proc/self/ns/uts", "uts:[4026531838]");
    record.add("tasks", "1 1 2 0 0 500 user 2-3 init");
    let audit = of(&record);
    assert_eq!((audit.role, audit.cores.as_str()), (HostRole::Container, "2-3"));
    assert_eq!(audit.cores_from, "the container's own");
}

#[test]
fn unreadable_files_are_reported_as_unseen() {
    for (name, rule) in [
        ("/sys/devices/system/cpu/isolated", "isolcpus"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling"),
        ("/sys/kernel/debug/sched", "fair-server"),
    ] {
        let mut record = optimized();
        record.add("/proc/sys/kernel/osrelease", "6.12.9-amd64");
        record.readings.insert(name.to_owned(), Reading::Unreadable("Permission denied".to_owned()));
        let audit = of(&record);
        let finding = audit.findings.iter().find(|finding| finding.rule == rule).expect("the rule");
        assert_eq!(finding.verdict, Verdict::Unseen, "{finding:?}");
        assert!(finding.detail.contains(name), "{finding:?}");
        let unreadable = audit.unreadable.iter().map(|one| (one.name.as_str(), one.why.as_str()));
        assert_eq!(unreadable.collect::<Vec<_>>(), [(name, "Permission denied")]);
    }
}

#[test]
fn accepts_incomplete_and_malformed_records() {
    let empty = of(&HostRecord::default());
    assert!(
        empty
            .findings
            .iter()
            .all(|finding| !matches!(finding.verdict, Verdict::Ineffective | Verdict::Harmful))
    );
    // Any reading may be missing or malformed.
    for name in optimized().readings.keys() {
        let mut record = optimized();
        record.readings.remove(name);
        of(&record);
        for text in ["", "x", "-1", "99999999999999999999", "0-99999999", "[", "(null)", "\u{0}"] {
            record.add(name, text);
            of(&record);
        }
    }
}

/// Recorded hosts, by the names of their files.
fn hosts() -> Vec<(String, HostRecord)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts");
    let entries = std::fs::read_dir(folder).expect("the folder").filter_map(|entry| Some(entry.ok()?.path()));
    let record = |path: std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".txt")?.to_owned();
        let text = std::fs::read_to_string(&path).expect("read");
        if !text.starts_with(HOST_SCHEMA) {
            return None;
        }
        Some((name.clone(), HostRecord::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))))
    };
    let mut hosts: Vec<_> = entries.filter_map(record).collect();
    hosts.sort_by(|a, b| a.0.cmp(&b.0));
    hosts
}

/// One row per rule, one column per host.
#[test]
fn verdicts_on_recorded_hosts_match_golden_table() {
    let hosts = hosts();
    let audits: Vec<Audit> = hosts.iter().map(|(_, record)| of(record)).collect();
    let mut table =
        "B ineffective, H harmful, i improvable, . good, ? not seen, - not applicable\n\n".to_owned();
    for (column, ((name, _), audit)) in hosts.iter().zip(&audits).enumerate() {
        table += &format!("{:>2}  {name:<20} {:<10} cores {}\n", column + 1, audit.role.name(), audit.cores);
    }
    let columns: String = (1..=hosts.len()).map(|column| format!("{column:>3}")).collect();
    table += &format!("\n{:<18}{columns}\n", "");
    for (row, rule) in ALL.iter().enumerate() {
        let marks: String =
            audits.iter().map(|audit| format!("  {}", mark(audit.findings[row].verdict))).collect();
        table += &format!("{:<18}{marks}\n", rule.id);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/golden.md");
    let page = format!(
        "# Verdicts on the recorded hosts\n\nGenerated: UPDATE_EXPECTED=1 cargo test -p wiretail-analysis --test audit. A change needs a reason.\n\n```text\n{table}```\n"
    );
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &page).expect("written");
    }
    let golden = std::fs::read_to_string(path).expect("the table");
    for (now, before) in page.lines().zip(golden.lines()) {
        assert_eq!(now, before, "golden.md");
    }
    assert_eq!(page.lines().count(), golden.lines().count());
}

fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Ineffective => 'B',
        Verdict::Harmful => 'H',
        Verdict::Improvable => 'i',
        Verdict::Good => '.',
        Verdict::Unseen => '?',
        Verdict::NotHere => '-',
    }
}

#[test]
fn audit_page_lists_all_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (begin, end) = ("--test audit -->\n", "<!-- End of what is generated. -->");
    let start = page.find(begin).expect("where the table begins") + begin.len();
    let stop = page.find(end).expect("where it ends");
    let mut table =
        "| rule | checks | why it matters | measured effect | fix | cost of the fix |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for rule in ALL {
        let mitigation = rule.mitigation.replace("{cores}", "CORES");
        table += &format!(
            "| `{}` | {} | {} ({}) | {} | {mitigation} | {} |\n",
            rule.id,
            rule.title,
            rule.why,
            rule.source,
            rule.effect.unwrap_or(""),
            rule.cost
        );
    }
    let generated = format!("{}{table}{}", &page[..start], &page[stop..]);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &generated).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).expect("the page") == generated,
        "docs/audit.md is outdated: run with UPDATE_EXPECTED=1"
    );
}

#[test]
fn rule_names_are_unique() {
    let names: std::collections::BTreeSet<&str> = ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), ALL.len());
}

/// A measured effect contains a number and ends with its source in parentheses.
#[test]
fn effects_have_number_and_source() {
    let said: Vec<(&str, &str)> = ALL.iter().filter_map(|rule| Some((rule.id, rule.effect?))).collect();
    for (rule, effect) in &said {
        assert!(effect.contains(|letter: char| letter.is_ascii_digit()), "{rule}: {effect}");
        assert!(effect.ends_with(')') && effect.contains(" ("), "{rule}: {effect}");
    }
    assert!(said.len() > 10, "{said:?}");
}
