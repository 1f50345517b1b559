//! Facts about the host on which a measurement ran. They help to explain its latencies and are stored in the
//! manifest.
//!
//! This module changes nothing. The root is an argument, so that a recorded tree can be read as well. A fact
//! that the machine does not report is `None`; it is never guessed.

use std::fs;
use std::path::Path;

use wiretail_schema::run::HostSnapshot;

/// Reads the facts of the host under `root` (`/`, or a recorded tree). Never fails: missing facts are `None`.
pub fn snapshot(root: &Path) -> HostSnapshot {
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        let text = text.trim_matches(['\n', ' ', '\0']);
        (!text.is_empty()).then(|| text.to_owned())
    };
    let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
    let kernel_build = read("proc/sys/kernel/version");
    let realtime = read("sys/kernel/realtime").as_deref() == Some("1")
        || kernel_build.as_deref().is_some_and(|build| build.contains("PREEMPT_RT"));
    let machine = [read("sys/class/dmi/id/sys_vendor"), read("sys/class/dmi/id/product_name")];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    HostSnapshot {
        kernel: read("proc/sys/kernel/osrelease"),
        realtime_kernel: realtime,
        kernel_build,
        command_line: read("proc/cmdline"),
        cpu_model: field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "CPU part")),
        cores_online: read("sys/devices/system/cpu/online"),
        cores_isolated: read("sys/devices/system/cpu/isolated"),
        cores_nohz_full: read("sys/devices/system/cpu/nohz_full").filter(|list| list != "(null)"),
        smt_active: read("sys/devices/system/cpu/smt/active").map(|text| text == "1"),
        hypervisor: field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        machine: (!machine.is_empty()).then(|| machine.join(" ")),
        clocksource: read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle_driver: read("sys/devices/system/cpu/cpuidle/current_driver"),
        transparent_hugepages: read("sys/kernel/mm/transparent_hugepage/enabled"),
        hugepages: read("proc/sys/vm/nr_hugepages").and_then(|text| text.parse().ok()),
        realtime_runtime_us: read("proc/sys/kernel/sched_rt_runtime_us").and_then(|text| text.parse().ok()),
        realtime_period_us: read("proc/sys/kernel/sched_rt_period_us").and_then(|text| text.parse().ok()),
        memory_bytes: read("proc/meminfo").as_deref().and_then(memory_bytes),
        mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
    }
}

/// Value of the first line `name : value` in /proc/cpuinfo.
fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn mitigations(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let text = fs::read_to_string(entry.path()).ok()?;
            let what = text.trim().strip_prefix("Mitigation: ")?.to_owned();
            Some(format!("{}: {what}", entry.file_name().to_string_lossy()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_snapshot_from_recorded_tree() {
        let root = tempfile::tempdir().expect("a folder");
        for (path, value) in [
            ("proc/sys/kernel/osrelease", "6.18.1\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor tsc\n"),
            ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/nohz_full", "(null)\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
            ("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, value).expect("written");
        }
        let expected = HostSnapshot {
            kernel: Some("6.18.1".into()),
            kernel_build: Some("#1 SMP PREEMPT_RT Debian".into()),
            realtime_kernel: true,
            cpu_model: Some("A CPU".into()),
            hypervisor: true,
            smt_active: Some(false),
            machine: Some("QEMU Standard PC".into()),
            realtime_runtime_us: Some(-1),
            memory_bytes: Some(2 << 20),
            mitigations: vec!["spectre_v2: Retpolines".into()],
            ..HostSnapshot::default()
        };
        assert_eq!(snapshot(root.path()), expected);
        assert_eq!(snapshot(Path::new("/no/tree")), HostSnapshot::default());
    }

    #[test]
    fn reads_kernel_of_this_machine() {
        let snapshot = snapshot(Path::new("/"));
        assert!(snapshot.kernel.is_some() && snapshot.cores_online.is_some(), "{snapshot:?}");
    }
}
