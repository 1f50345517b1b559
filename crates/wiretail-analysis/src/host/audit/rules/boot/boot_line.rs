//! Rule `boot-line`: spelling and consistency of the boot line.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "boot-line",
    group: RuleGroup::Boot,
    title: "spelling and consistency of the boot line",
    why: "The kernel silently passes unknown parameters to init, so a misspelled parameter has no effect.",
    effect: None,
    source: "kernel-parameters.html, docs.kernel.org",
    mitigation: "correct the boot line, run update-grub and reboot",
    cost: "none",
    reads: &["/proc/cmdline"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(_) = view.text("/proc/cmdline") else { return view.missing("/proc/cmdline") };
    let mut faults = Vec::new();
    for word in view.boot().words() {
        let (name, _) = word.split_once('=').unwrap_or((word, ""));
        let name = name.replace('-', "_");
        if KNOWN.contains(&name.as_str()) {
            continue;
        }
        let near = KNOWN.iter().find(|known| near(&name, known));
        faults.extend(near.map(|known| format!("unknown parameter \"{name}\"; did you mean {known}?")));
    }
    for flag in view.boot().flags("isolcpus").iter().filter(|flag| !ISOLCPUS_FLAGS.contains(flag)) {
        faults.push(format!("isolcpus has no flag {flag}; its flags are {}", ISOLCPUS_FLAGS.join(", ")));
    }
    let value = |name| view.boot().value(name);
    if value("idle") == Some("poll") && value("processor.max_cstate").is_some() {
        faults.push("with idle=poll, cores never sleep, so processor.max_cstate has no effect".to_owned());
    }
    if value("nohz") == Some("off") && value("nohz_full").is_some() {
        faults.push("nohz=off disables nohz_full".to_owned());
    }
    if let (Some(Ok(isolated)), Some(Ok(no_tick))) =
        (view.boot().cores("isolcpus"), view.boot().cores("nohz_full"))
        && isolated != no_tick
    {
        faults.push(format!("isolcpus lists cores {isolated}, but nohz_full lists {no_tick}"));
    }
    if let (Some(Ok(isolated)), Some(Ok(interrupts))) =
        (view.boot().cores("isolcpus"), view.boot().cores("irqaffinity"))
        && !isolated.and(&interrupts).is_empty()
    {
        faults.push(format!("irqaffinity routes interrupts to isolated cores {}", isolated.and(&interrupts)));
    }
    for name in ["isolcpus", "nohz_full", "rcu_nocbs"] {
        if let Some(Ok(cores)) = view.boot().cores(name)
            && cores.contains(0)
        {
            faults.push(format!("{name} includes core 0, which the kernel needs for housekeeping"));
        }
    }
    let judged =
        if faults.is_empty() { Judgement::good() } else { Judgement::ineffective(faults.join("; ")) };
    judged.effective(format!("{} parameters", view.boot().words().len()))
}

/// Flags that isolcpus accepts before the core list.
const ISOLCPUS_FLAGS: [&str; 3] = ["nohz", "domain", "managed_irq"];

/// Parameters that affect latency. A word with a similar spelling is reported as misspelled.
const KNOWN: [&str; 34] = [
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "irqaffinity",
    "kthread_cpus",
    "idle",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "cpufreq.default_governor",
    "tsc",
    "clocksource",
    "mce",
    "audit",
    "nmi_watchdog",
    "nosoftlockup",
    "nowatchdog",
    "skew_tick",
    "nosmt",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "transparent_hugepage",
    "mitigations",
    "pcie_aspm",
    "numa_balancing",
    "threadirqs",
    "selinux",
];

/// Whether two words of at least five letters differ by at most one insertion, deletion, substitution or
/// transposition (Damerau, 1964).
fn near(word: &str, known: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (word.chars().collect(), known.chars().collect());
    if a.len() < 5 || b.len() < 5 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    match a.len().cmp(&b.len()) {
        std::cmp::Ordering::Greater => a[1..] == *b,
        std::cmp::Ordering::Less => *a == b[1..],
        std::cmp::Ordering::Equal => {
            a.get(1..) == b.get(1..) || a.len() > 1 && (a[0], a[1]) == (b[1], b[0]) && a[2..] == b[2..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn accepts_words_at_edit_distance_one() {
        for wrong in ["isolcpu", "isolcpuss", "isolcups", "iso1cpus"] {
            assert!(near(wrong, "isolcpus"), "{wrong}");
        }
        for other in ["isolcpus", "isol", "root", "isolated", "solcupsi"] {
            assert!(!near(other, "isolcpus") || other == "isolcpus", "{other}");
        }
        assert!(near("nohz_fulll", "nohz_full") && !near("ro", "tsc"));
    }
}
