//! Boot line words that the profiles set or remove.

use wiretail_schema::host::plan::{Profile, Setting, SettingState, TakesEffect, Target};
use wiretail_schema::units::cores::CoreSet;

use super::{Ask, setting};
use crate::host::audit::{ALL, BootLine};
use wiretail_schema::host::audit::{HostRole, Verdict};

/// Value that a profile requests for a word.
enum Wish {
    /// `name=value`.
    Value(String),
    /// The bare word.
    Bare,
    /// Absent from the boot line.
    Absent,
    /// Without effect on this host, with the reason.
    NotHere(&'static str),
}

struct Word {
    name: &'static str,
    /// Audit rule that checks this word.
    rule: &'static str,
    /// Purpose and drawback, for words that no rule checks.
    own: Option<(&'static str, &'static str)>,
    /// Value in the isolating profiles. The regular profile removes all words.
    wish: fn(&Ask<'_>) -> Wish,
}

const fn word(name: &'static str, rule: &'static str, wish: fn(&Ask<'_>) -> Wish) -> Word {
    Word { name, rule, own: None, wish }
}

/// Words in the order of the boot line, because the number of huge pages applies to the page size that
/// precedes it.
const WORDS: &[Word] = &[
    word("isolcpus", "isolcpus", |ask| Wish::Value(format!("managed_irq,domain,{}", ask.cores()))),
    word("nohz_full", "nohz-full", |ask| match ask.view.config("CONFIG_NO_HZ_FULL") {
        Some("y") => Wish::Value(ask.cores().to_string()),
        None if !ask.view.knows_config() => Wish::Value(ask.cores().to_string()),
        _ => Wish::NotHere("this kernel is built without CONFIG_NO_HZ_FULL"),
    }),
    word("rcu_nocbs", "rcu-nocbs", |ask| Wish::Value(ask.cores().to_string())),
    word("rcu_nocb_poll", "rcu-nocbs", |ask| optimized(ask, Wish::Bare)),
    word("irqaffinity", "irq-affinity", |ask| Wish::Value(ask.housekeeping.to_string())),
    word("idle", "idle-states", |ask| optimized(ask, Wish::Value("poll".to_owned()))),
    word("tsc", "clocksource", |ask| {
        match ["constant_tsc", "nonstop_tsc"].iter().all(|flag| ask.view.processor_flag(flag)) {
            true => Wish::Value("reliable".to_owned()),
            false => Wish::NotHere("the processor does not guarantee that its TSC never stops"),
        }
    }),
    word("nmi_watchdog", "nmi-watchdog", |_| Wish::Value("0".to_owned())),
    word("nosoftlockup", "soft-watchdog", |_| Wish::Bare),
    word("nosmt", "smt", |ask| physical(ask, Wish::Bare)),
    word("intel_pstate", "governor", |ask| match physical(ask, Wish::Bare) {
        Wish::Bare => optimized(ask, Wish::Value("disable".to_owned())),
        other => other,
    }),
    word("mce", "machine-check", |ask| physical(ask, Wish::Value("ignore_ce".to_owned()))),
    word("audit", "audit-trail", |_| Wish::Value("0".to_owned())),
    Word {
        name: "skew_tick",
        rule: "",
        own: Some(("the cores' ticks do not coincide", "slightly higher power consumption")),
        wish: |_| Wish::Value("1".to_owned()),
    },
    word("transparent_hugepage", "thp", |_| Wish::Value("madvise".to_owned())),
    word("default_hugepagesz", "hugepages", |ask| huge(ask, "default_hugepagesz", "1G")),
    word("hugepagesz", "hugepages", |ask| huge(ask, "hugepagesz", "1G")),
    word("hugepages", "hugepages", |ask| huge(ask, "hugepages", GIANT_PAGES)),
    word("iommu", "iommu", |_| Wish::Value("pt".to_owned())),
    word("intel_iommu", "sriov", |ask| match ask.view.processor_field("vendor_id") {
        Some("AuthenticAMD") => Wish::NotHere("this processor enables its IOMMU by default"),
        _ => Wish::Value("on".to_owned()),
    }),
];

/// Number of 1 GiB pages for DPDK applications.
const GIANT_PAGES: &str = "4";
/// Minimum memory for [`GIANT_PAGES`], in KiB: 16 GiB.
const GIANT_MEMORY_KIB: u64 = 16 << 20;

/// Words set only by profiles for virtual machine hosts. On other hosts, they are left unchanged.
const OF_VM_HOSTS: &[&str] = &["iommu", "intel_iommu"];

/// Settings of the plan, one per word.
pub(super) fn settings(ask: &Ask<'_>) -> Vec<Setting> {
    let is_vm_host = ask.isolates() && ask.view.role() == HostRole::VmHost;
    let decided = WORDS.iter().filter(|word| is_vm_host || !OF_VM_HOSTS.contains(&word.name));
    decided.map(|word| judged(ask, word)).collect()
}

fn judged(ask: &Ask<'_>, word: &Word) -> Setting {
    let target = Target::BootWord { name: word.name.to_owned() };
    let mut found = setting(target, word.rule, TakesEffect::Reboot);
    if let Some((title, cost)) = word.own {
        (found.title, found.cost) = (title.to_owned(), cost.to_owned());
    }
    let line = ask.view.boot();
    let value = line.value(word.name);
    found.now = line.word(word.name).map(str::to_owned);
    let wish = if ask.isolates() { (word.wish)(ask) } else { Wish::Absent };
    let wanted = match wish {
        Wish::Value(value) => Some(value),
        Wish::Bare => Some(String::new()),
        Wish::Absent => None,
        Wish::NotHere(why) => {
            found.state = SettingState::NotHere;
            found.detail = why.to_owned();
            return found;
        }
    };
    found.wanted = wanted.as_ref().map(|value| match value.as_str() {
        "" => word.name.to_owned(),
        value => format!("{}={value}", word.name),
    });
    let is_there = match (value, &wanted) {
        (Some(value), Some(wanted)) => same(word.name, value, wanted),
        (None, None) => true,
        _ => false,
    };
    found.state = if is_there { SettingState::InEffect } else { SettingState::Change };
    if is_there && wanted.is_some() {
        broken(ask, word, &mut found);
    }
    found
}

/// Marks a word that is on the boot line, but that the audit finds ineffective.
fn broken(ask: &Ask<'_>, word: &Word, found: &mut Setting) {
    let Some(rule) = ALL.iter().find(|rule| rule.id == word.rule) else { return };
    let judgement = (rule.judge)(&ask.view);
    let is_its = judgement.requested.is_some_and(|text| text.split('=').next() == Some(word.name));
    if judgement.verdict == Verdict::Ineffective && is_its {
        found.state = SettingState::Ineffective;
        found.detail = judgement.detail;
    }
}

/// Whether two values are equivalent. Core lists are compared as sets, and `now` may have more flags than
/// `wanted`.
fn same(name: &str, now: &str, wanted: &str) -> bool {
    let parse = |value: &str| BootLine::parse(&format!("{name}={value}"));
    let (line, wish) = (parse(now), parse(wanted));
    let lists = ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"].contains(&name);
    if !lists {
        return now == wanted;
    }
    let cores = |line: &BootLine| line.cores(name).and_then(Result::ok).unwrap_or_default();
    let has = line.flags(name);
    cores(&line) == cores(&wish)
        && cores(&line) != CoreSet::default()
        && wish.flags(name).iter().all(|flag| has.contains(flag))
}

fn optimized(ask: &Ask<'_>, wish: Wish) -> Wish {
    if ask.profile == Profile::Optimized { wish } else { Wish::Absent }
}

/// Returns the wish, or [`Wish::NotHere`] on a virtual machine.
fn physical(ask: &Ask<'_>, wish: Wish) -> Wish {
    if ask.is_vm() { Wish::NotHere("the hypervisor decides") } else { wish }
}

/// Keeps the huge pages that the boot line requests; otherwise requests 1 GiB pages if the processor has them
/// and memory suffices.
fn huge(ask: &Ask<'_>, name: &str, value: &str) -> Wish {
    let line = ask.view.boot();
    if line.word("hugepages").is_some() {
        // A value recorded on another machine ends up in a shell script, so only a number with a unit is
        // accepted.
        let is_size = |value: &&str| value.chars().all(|letter| letter.is_ascii_alphanumeric());
        return match line.value(name) {
            None => Wish::Absent,
            Some(value) if is_size(&value) => Wish::Value(value.to_owned()),
            Some(_) => Wish::NotHere("the boot line has no valid number of pages"),
        };
    }
    match giant(ask) {
        true => Wish::Value(value.to_owned()),
        false => Wish::NotHere(
            "1 GiB pages are not supported or memory is below 16 GiB; vm.nr_hugepages reserves small pages instead",
        ),
    }
}

/// Whether the host has 1 GiB pages and enough memory for them.
pub(super) fn giant(ask: &Ask<'_>) -> bool {
    let enough = ask.memory_kib().is_some_and(|memory| memory >= GIANT_MEMORY_KIB);
    enough && ask.view.processor_flag("pdpe1gb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_as_sets() {
        assert!(same("nohz_full", "1,2,3", "1-3"));
        assert!(same("isolcpus", "domain,managed_irq,1-3", "managed_irq,domain,1-3"));
        assert!(!same("isolcpus", "1-3", "managed_irq,domain,1-3"));
        assert!(!same("isolcpus", "managed_irq,domain,1-2", "managed_irq,domain,1-3"));
        assert!(!same("idle", "halt", "poll"));
    }

    #[test]
    fn every_word_has_a_rule_or_its_own_purpose() {
        for word in WORDS {
            let ruled = ALL.iter().any(|rule| rule.id == word.rule);
            assert!(ruled != word.own.is_some(), "{}", word.name);
        }
    }
}
