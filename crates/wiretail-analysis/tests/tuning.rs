//! Tuning plans of recorded hosts: their exact text, and that an applied plan leaves nothing to change.

use std::fmt::Write;

use wiretail_analysis::host::audit::{Question, audit};
use wiretail_analysis::host::tuning::outputs::{Output, Place, all};
use wiretail_analysis::host::tuning::plan;
use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::plan::{Profile, SettingState, Target, TuningPlan};
use wiretail_schema::host::record::{HostRecord, TASKS};
use wiretail_schema::units::cores::CoreSet;

const OPTIMIZED: &str = include_str!("hosts/optimized.txt");
const GUEST: &str = include_str!("hosts/guest.txt");
const PROFILES: [Profile; 3] = [Profile::Regular, Profile::EnergySaving, Profile::Optimized];
const ROLES: [HostRole; 4] = [HostRole::Bare, HostRole::VmHost, HostRole::Vm, HostRole::Container];

fn host(text: &str) -> HostRecord {
    HostRecord::parse(text).expect("a record")
}

fn of(record: &HostRecord, profile: Profile, cores: &str) -> TuningPlan {
    let question = Question { cores: Some(CoreSet::parse(cores).expect("a list")), role: None };
    plan(record, profile, &question, "0").expect("a plan")
}

fn in_role(record: &HostRecord, profile: Profile, role: HostRole) -> TuningPlan {
    plan(record, profile, &Question { cores: None, role: Some(role) }, "0").expect("a plan")
}

fn lines(plan: &TuningPlan) -> String {
    let mut text = format!(
        "{}, {}, cores {}, others {}\n",
        plan.profile.name(),
        plan.role.name(),
        plan.cores,
        plan.housekeeping
    );
    for setting in &plan.settings {
        let (now, wanted) = (setting.now.as_deref().unwrap_or("-"), setting.wanted.as_deref().unwrap_or("-"));
        let state = setting.state.name();
        writeln!(text, "  {state:<9} {}: {now} => {wanted} {}", setting.target.name(), setting.detail)
            .expect("a String");
    }
    text
}

/// Record of a host after the plan was applied and the host rebooted.
fn carried_out(record: &HostRecord, plan: &TuningPlan) -> HostRecord {
    let mut after = record.clone();
    let files = all(plan, Place::default());
    let decided = |word: &str| {
        let name = word.split('=').next().unwrap_or("");
        plan.settings
            .iter()
            .any(|setting| matches!(&setting.target, Target::BootWord { name: own } if own == name))
    };
    let line = text(record, "/proc/cmdline");
    let kept: Vec<&str> = line.split_whitespace().filter(|word| !decided(word)).collect();
    after.add("/proc/cmdline", &format!("{} {}", kept.join(" "), file(&files, "boot-line.txt").trim()));
    for setting in &plan.settings {
        match (&setting.target, &setting.wanted) {
            (Target::File { path }, Some(wanted)) if setting.state != SettingState::NotHere => {
                let choice = text(record, path).contains('[');
                after.add(path, &if choice { format!("always [{wanted}] never") } else { wanted.clone() });
            }
            (Target::Nic { link, setting: name }, Some(wanted)) => {
                let name_of = |line: &str| line.split(' ').next().unwrap_or("").to_owned();
                let nic = format!("ethtool/{link}");
                let lines =
                    text(&after, &nic)
                        .lines()
                        .map(|line| {
                            if name_of(line) == *name { format!("{name} {wanted}") } else { line.to_owned() }
                        })
                        .collect::<Vec<_>>();
                after.add(&nic, &lines.join("\n"));
            }
            (Target::Service { name }, _) => {
                let tasks = text(record, TASKS)
                    .lines()
                    .filter(|line| !line.ends_with(name))
                    .collect::<Vec<_>>()
                    .join("\n");
                after.add(TASKS, &tasks);
            }
            _ => {}
        }
    }
    // Effect of the boot line in the kernel.
    let isolated = if plan.profile == Profile::Regular { "" } else { plan.cores.as_str() };
    after.add("/sys/devices/system/cpu/isolated", isolated);
    after
}

fn text(record: &HostRecord, name: &str) -> String {
    use wiretail_schema::host::record::Reading;
    match record.readings.get(name) {
        Some(Reading::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

fn file<'a>(files: &'a [Output], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
}

#[test]
fn plans_match_golden_text() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/plans.txt");
    let mut generated = String::new();
    for (name, record) in [("optimized.txt", host(OPTIMIZED)), ("guest.txt", host(GUEST))] {
        for profile in PROFILES {
            let plan = plan(&record, profile, &Question::default(), "0").expect("a plan");
            write!(generated, "{name}: {}", lines(&plan)).expect("a String");
        }
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &generated).expect("written");
    }
    let golden = std::fs::read_to_string(path).expect("the golden plans");
    for (old, new) in golden.lines().zip(generated.lines()) {
        assert_eq!(old, new, "plans changed: run with UPDATE_EXPECTED=1 and state the reason");
    }
    assert_eq!(golden.lines().count(), generated.lines().count());
}

#[test]
fn tuned_host_needs_no_change() {
    let plan = of(&host(OPTIMIZED), Profile::Optimized, "1-3");
    let open: Vec<_> = plan.settings.iter().filter(|one| one.state == SettingState::Change).collect();
    assert!(open.is_empty(), "{open:#?}");
}

/// Applies all profiles, one after the other, to different hosts.
#[test]
fn applied_plan_is_in_effect() {
    for (text, cores) in [(OPTIMIZED, "1-3"), (OPTIMIZED, "2"), (GUEST, "1"), (GUEST, "0")] {
        let mut record = host(text);
        for profile in PROFILES.into_iter().chain(PROFILES.into_iter().rev()) {
            record = carried_out(&record, &of(&record, profile, cores));
            let again = of(&record, profile, cores);
            let open: Vec<_> =
                again.settings.iter().filter(|one| one.state == SettingState::Change).collect();
            assert!(open.is_empty(), "{cores} {}: {open:#?}", profile.name());
        }
    }
}

/// The rules of the audit are independent of the plan: the problems that an applied plan addresses must be
/// gone.
#[test]
fn audit_finds_no_addressed_problem_after_plan() {
    let before = host(GUEST);
    let question = Question { cores: Some(CoreSet::new([1])), role: None };
    let plan = plan(&before, Profile::Optimized, &question, "0").expect("a plan");
    let after = carried_out(&before, &plan);
    let problems = |record: &HostRecord| {
        let found = audit(record, &question, "0").findings.into_iter().filter(|one| one.verdict.is_problem());
        found.map(|finding| finding.rule).collect::<Vec<_>>()
    };
    let gone = [
        "workqueue",
        "rt-throttling",
        "vm-stat-interval",
        "soft-watchdog",
        "compaction",
        "irqbalance",
        "hugepages",
    ];
    let (before, after) = (problems(&before), problems(&after));
    for rule in gone {
        assert!(before.iter().any(|one| one == rule), "{rule} before: {before:?}");
        assert!(!after.iter().any(|one| one == rule), "{rule} after: {after:?}");
    }
}

#[test]
fn rejects_unavailable_cores() {
    let refused = |cores: &str| {
        let question = Question { cores: Some(CoreSet::parse(cores).expect("a list")), role: None };
        plan(&host(OPTIMIZED), Profile::Optimized, &question, "0").expect_err("refused")
    };
    assert!(refused("3-5").contains("4-5 are not online"), "{}", refused("3-5"));
    assert!(refused("0-3").contains("no core is left"), "{}", refused("0-3"));
    let nothing =
        plan(&HostRecord::default(), Profile::Regular, &Question::default(), "0").expect_err("empty");
    assert!(nothing.contains("/sys/devices/system/cpu/online"), "{nothing}");
}

#[test]
fn accepts_incomplete_and_malformed_records() {
    for source in [OPTIMIZED, GUEST] {
        for name in host(source).readings.keys() {
            for text in ["", "x", "-1", "99999999999999999999", "[", "\u{0}", "0-99999999"] {
                let mut record = host(source);
                record.add(name, text);
                for role in ROLES {
                    let question = Question { cores: None, role: Some(role) };
                    if let Ok(plan) = plan(&record, Profile::Optimized, &question, "0") {
                        all(&plan, Place { has_cgroup2: true });
                    }
                }
            }
        }
    }
}

/// A shell runs some of the files as root, and a record may come from an untrusted source.
#[test]
fn record_contents_do_not_become_commands() {
    let mut record = host(GUEST);
    let evil = "$(touch${IFS}/evil)`evil`';evil\"";
    record.add("/proc/cmdline", &format!("hugepages=4{evil} hugepagesz={evil} isolcpus=1{evil} x={evil}"));
    for core in ["0", "1", evil] {
        for state in ["1", evil] {
            let folder = format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state{state}");
            record.add(&format!("{folder}/latency"), "50");
            record.add(&format!("{folder}/disable"), evil);
        }
    }
    record.add(&format!("/proc/irq/{evil}/smp_affinity_list"), "0-1");
    record.add("/proc/interrupts", &format!("{evil}: 1 1 x"));
    for link in ["eth0", evil, "-evil"] {
        record.add(&format!("/sys/class/net/{link}/device/driver"), "x");
        let nic = format!(
            "rx-usecs {evil}\ncombined-channels {evil}\nrx-ring {evil}\nrx-ring-max {evil}\nrx-pause on"
        );
        record.add(&format!("ethtool/{link}"), &nic);
    }
    for name in ["/proc/meminfo", "/sys/devices/virtual/workqueue/cpumask", "/proc/irq/24/smp_affinity_list"]
    {
        record.add(name, evil);
    }
    for profile in PROFILES {
        for role in ROLES {
            for file in all(&in_role(&record, profile, role), Place::default()) {
                assert!(!file.text.contains("evil"), "{}: {}", file.path, file.text);
            }
        }
    }
}

/// For a NIC whose settings are all wrong, the plan and the file for the next boot contain the command for
/// each setting.
#[test]
fn nics_are_set_by_commands() {
    let mut record = host(OPTIMIZED);
    record.add(
        "ethtool/eth0",
        "speed-mbps 40000\nrx-ring-max 4096\nrx-ring 512\ncombined-channels 4\nrx-usecs 20\nadaptive-rx on\nrx-pause on\ntx-pause on\neee on",
    );
    let plan = of(&record, Profile::Optimized, "1-3");
    let is_nic = |one: &&wiretail_schema::host::plan::Setting| matches!(one.target, Target::Nic { .. });
    let commands: Vec<&str> =
        plan.settings.iter().filter(is_nic).filter_map(|one| one.detail.strip_prefix("run: ")).collect();
    let pause = "ethtool -A eth0 autoneg off rx off tx off";
    let expected = [
        "ethtool -L eth0 combined 1",
        // In 20 us, 1191 frames of 84 bytes arrive at 40 Gbit/s.
        "ethtool -G eth0 rx 2048",
        "ethtool -C eth0 adaptive-rx off",
        "ethtool -C eth0 rx-usecs 0",
        pause,
        pause,
        "ethtool --set-eee eth0 eee off",
    ];
    assert_eq!(commands, expected);
    let files = all(&plan, Place::default());
    let service = file(&files, "etc/systemd/system/wiretail-cards.service");
    assert!(service.contains("\nAfter=sys-subsystem-net-devices-eth0.device\n"), "{service}");
    assert_eq!(service.matches("ExecStart=-/usr/sbin/ethtool ").count(), 6, "{service}");
    assert!(expected.iter().all(|command| service.contains(command)), "{service}");
    // After the plan was applied, the file for the next boot is the same.
    let later = all(&of(&carried_out(&record, &plan), Profile::Optimized, "1-3"), Place::default());
    assert_eq!(file(&later, "etc/systemd/system/wiretail-cards.service"), service);
    let balance = file(&files, "etc/systemd/system/irqbalance.service.d/99-wiretail.conf");
    assert!(balance.contains("\nEnvironment=IRQBALANCE_BANNED_CPULIST=1-3\n"), "{balance}");
    for (profile, role) in [(Profile::Regular, HostRole::Bare), (Profile::Optimized, HostRole::Container)] {
        assert!(!in_role(&record, profile, role).settings.iter().any(|one| is_nic(&one)), "{profile:?}");
    }
}

/// Output files of each role, and the requested cores in them.
#[test]
fn files_follow_the_role_and_name_the_cores() {
    let paths = |role, profile| -> Vec<String> {
        let plan = in_role(&host(OPTIMIZED), profile, role);
        all(&plan, Place::default()).into_iter().map(|file| file.path).collect()
    };
    let has = |paths: &[String], start: &str| paths.iter().any(|path| path.starts_with(start));
    for (role, folders) in [
        (HostRole::Bare, vec!["resctrl/"]),
        (HostRole::VmHost, vec!["libvirt/", "resctrl/"]),
        (HostRole::Vm, vec![]),
        (HostRole::Container, vec!["lxc/", "oci/", "resctrl/"]),
    ] {
        let found = paths(role, Profile::Optimized);
        for folder in ["libvirt/", "lxc/", "oci/", "resctrl/"] {
            assert_eq!(has(&found, folder), folders.contains(&folder), "{role:?} {folder}: {found:?}");
        }
        assert!(has(&found, "etc/default/grub.d/") && has(&found, "etc/tuned/wiretail-optimized/"));
    }
    assert!(!has(&paths(HostRole::Container, Profile::Regular), "lxc/"));
    let files = all(&in_role(&host(OPTIMIZED), Profile::Optimized, HostRole::VmHost), Place::default());
    assert!(file(&files, "boot-line.txt").contains(" iommu=pt intel_iommu=on"));
    let domain = file(&files, "libvirt/domain.xml");
    assert!(
        domain.contains("<vcpupin vcpu='2' cpuset='3'/>") && domain.contains("<emulatorpin cpuset='0'/>"),
        "{domain}"
    );
    let files = all(&in_role(&host(OPTIMIZED), Profile::Optimized, HostRole::Container), Place::default());
    let oci: serde_json::Value = serde_json::from_str(file(&files, "oci/config.json")).expect("JSON");
    assert_eq!(oci["linux"]["resources"]["cpu"]["cpus"], "1-3");
    assert!(file(&files, "lxc/wiretail.conf").contains("lxc.cgroup.cpuset.cpus = 1-3\n"));
    assert!(
        file(&files, "boot-line.txt")
            .starts_with("isolcpus=managed_irq,domain,1-3 nohz_full=1-3 rcu_nocbs=1-3")
    );
    assert!(file(&files, "etc/sysctl.d/99-wiretail.conf").contains("\n-kernel.sched_rt_runtime_us = -1\n"));
}
