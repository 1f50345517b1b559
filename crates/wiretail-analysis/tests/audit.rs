//! The audit of a host that is as the papers' optimized one, and of the same with one thing wrong each.

use wiretail_analysis::audit::{ALL, Question, audit};
use wiretail_schema::host::audit::{Audit, Verdict};
use wiretail_schema::host::record::{HostRecord, Reading};

const OPTIMIZED: &str = include_str!("hosts/optimized.txt");

fn optimized() -> HostRecord {
    HostRecord::parse(OPTIMIZED).expect("a record")
}

fn of(record: &HostRecord) -> Audit {
    audit(record, &Question::default(), "0")
}

/// Rules that found something, each with how it is.
fn problems(record: &HostRecord) -> Vec<(String, Verdict)> {
    let found = of(record).findings.into_iter().filter(|finding| finding.verdict.is_problem());
    found.map(|finding| (finding.rule, finding.verdict)).collect()
}

fn text(record: &HostRecord, name: &str) -> String {
    match &record.readings[name] {
        Reading::Text(text) => text.clone(),
        Reading::Unreadable(why) => panic!("{name}: {why}"),
    }
}

#[test]
fn nothing_is_invented_on_a_clean_host() {
    let audit = of(&optimized());
    assert_eq!(audit.cores, "1-3");
    let bad: Vec<_> = audit.findings.iter().filter(|finding| finding.verdict.is_problem()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let unseen = audit.findings.iter().filter(|finding| finding.verdict == Verdict::Unseen).count();
    assert_eq!(unseen, 0, "{:#?}", audit.findings);
}

/// What is changed in the record, by the name of the reading: what stood there, what stands there now.
type Change = (&'static str, &'static str, &'static str);

/// A rule and how it is to find the host.
type Found = (&'static str, Verdict);

/// One thing wrong each, and exactly the rules that are to find it.
const PLANTED: &[(&str, &[Change], &[Found])] = &[
    (
        "isolcpus misspelt",
        &[("/proc/cmdline", "isolcpus=", "isolcpu="), ("/sys/devices/system/cpu/isolated", "1-3", "")],
        &[("boot-line", Verdict::Broken), ("isolcpus", Verdict::Improvable)],
    ),
    (
        "nohz_full without the kernel's support",
        &[
            ("kernel-config", "CONFIG_NO_HZ_FULL=y", "# CONFIG_NO_HZ_FULL is not set"),
            ("/sys/devices/system/cpu/nohz_full", "1-3", "(null)"),
            ("/proc/interrupts@later", "5250 301 301 301", "5250 550 550 550"),
        ],
        &[("nohz-full", Verdict::Broken), ("tick", Verdict::Broken)],
    ),
    (
        "an interrupt on an isolated core",
        &[
            ("/proc/irq/25/effective_affinity_list", "0", "2"),
            ("/proc/interrupts@later", "1040 0 0 0", "1000 0 40 0"),
        ],
        &[("irq-affinity", Verdict::Broken), ("interrupts", Verdict::Broken)],
    ),
    (
        "a quota",
        &[("/sys/fs/cgroup/cpu.max", "max 100000", "50000 100000")],
        &[("cfs-quota", Verdict::Harmful)],
    ),
    (
        "transparent huge pages switched on later",
        &[(
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never",
            "[always] madvise never",
        )],
        &[("thp", Verdict::Broken)],
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
        "workers everywhere",
        &[("/sys/devices/virtual/workqueue/cpumask", "1", "f")],
        &[("workqueue", Verdict::Broken)],
    ),
    (
        "two siblings, although nosmt was asked for",
        &[("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1", "0-1")],
        &[("smt", Verdict::Broken)],
    ),
    (
        "a governor that saves",
        &[("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance", "powersave")],
        &[("governor", Verdict::Improvable)],
    ),
    (
        "throttling of real-time threads",
        &[("/proc/sys/kernel/sched_rt_runtime_us", "-1", "950000")],
        &[("rt-throttling", Verdict::Improvable)],
    ),
    (
        "fewer huge pages than asked for",
        &[("/proc/sys/vm/nr_hugepages", "4", "3")],
        &[("hugepages", Verdict::Broken)],
    ),
    (
        "no thread for the callbacks of a core",
        &[("tasks", "rcuop/2", "other/2")],
        &[("rcu-nocbs", Verdict::Broken)],
    ),
    (
        "a thread that strays",
        &[("tasks@later", "400 400", "800 800 3 0 0 12 user 0-3 backup\n400 400")],
        &[("tasks", Verdict::Broken)],
    ),
    (
        "a slow clock",
        &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc", "hpet")],
        &[("clocksource", Verdict::Harmful)],
    ),
    ("merging of pages", &[("/sys/kernel/mm/ksm/run", "0", "1")], &[("ksm", Verdict::Harmful)]),
    (
        "lists that contradict each other",
        &[("/proc/cmdline", "irqaffinity=0", "irqaffinity=0-1")],
        &[("boot-line", Verdict::Broken)],
    ),
];

#[test]
fn each_planted_fault_is_found_by_its_rules_and_no_others() {
    for (what, changes, expected) in PLANTED {
        let mut record = optimized();
        for (name, old, new) in *changes {
            let text = text(&record, name);
            assert!(text.contains(old), "{what}: {name} has no {old:?}: {text}");
            record.add(name, &text.replacen(old, new, 1));
        }
        let expected: Vec<(String, Verdict)> =
            expected.iter().map(|(rule, verdict)| ((*rule).to_owned(), *verdict)).collect();
        let mut found = problems(&record);
        found.sort();
        let mut wanted = expected.clone();
        wanted.sort();
        assert_eq!(found, wanted, "{what}");
    }
}

#[test]
fn what_may_not_be_read_is_said_and_not_taken_for_good() {
    for (name, rule) in [
        ("/sys/devices/system/cpu/isolated", "isolcpus"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling"),
        ("/sys/kernel/debug/sched", "fair-server"),
    ] {
        let mut record = optimized();
        record.readings.insert(name.to_owned(), Reading::Unreadable("Permission denied".to_owned()));
        let audit = of(&record);
        let finding = audit.findings.iter().find(|finding| finding.rule == rule).expect("the rule");
        assert_eq!(finding.verdict, Verdict::Unseen, "{finding:?}");
        assert!(finding.detail.contains(name), "{finding:?}");
    }
}

#[test]
fn no_record_is_too_poor() {
    let empty = of(&HostRecord::default());
    assert!(
        empty.findings.iter().all(|finding| !matches!(finding.verdict, Verdict::Broken | Verdict::Harmful))
    );
    // Any one reading may be missing, or be something else than text that makes sense.
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

#[test]
fn the_page_has_the_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (begin, end) = ("--test audit -->\n", "<!-- End of what is generated. -->");
    let start = page.find(begin).expect("where the table begins") + begin.len();
    let stop = page.find(end).expect("where it ends");
    let mut table =
        "| rule | what is checked | why it matters | what helps | what that costs |\n|---|---|---|---|---|\n"
            .to_owned();
    for rule in ALL {
        let remedy = rule.remedy.replace("{cores}", "CORES");
        table += &format!(
            "| `{}` | {} | {} ({}) | {remedy} | {} |\n",
            rule.id, rule.title, rule.why, rule.source, rule.cost
        );
    }
    let generated = format!("{}{table}{}", &page[..start], &page[stop..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &generated).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).expect("the page") == generated,
        "docs/audit.md is old: UPDATE_DOCS=1"
    );
}

#[test]
fn rules_have_names_of_their_own() {
    let names: std::collections::BTreeSet<&str> = ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), ALL.len());
}
