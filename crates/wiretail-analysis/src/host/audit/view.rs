//! View of a host record for the rules: parsed once, together with the audit options.

use std::cell::OnceCell;

use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::record::{HostRecord, KERNEL_CONFIG, LATER, Reading, SELF, TASKS};
use wiretail_schema::units::cores::CoreSet;

use super::{BootLine, Judgement, Question};

/// Clock ticks per second in /proc: USER_HZ, 100 on every architecture that Debian supports.
const USER_HZ: f64 = 100.0;

/// Files that list a container's cores, for control groups version 2 and version 1.
const OWN_CORES: [&str; 2] =
    ["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"];

/// Initial UTS namespace of the kernel: PROC_UTS_INIT_INO, include/linux/proc_ns.h.
const FIRST_NAMES: &str = "uts:[4026531838]";

/// Thread of the recorded host.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Core on which the thread ran last.
    pub core: u32,
    /// Scheduling policy, as in sched(7): 0 other, 1 FIFO, 2 round robin, 6 deadline.
    pub policy: u32,
    pub priority: u32,
    /// CPU time of the thread, in s.
    pub ran_s: f64,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// Cores on which the thread may run.
    pub allowed: CoreSet,
    pub name: String,
}

/// Host record, packet cores and role, as the rules see them.
#[derive(Debug)]
pub struct View<'a> {
    record: &'a HostRecord,
    boot: BootLine,
    cores: CoreSet,
    cores_from: &'static str,
    role: HostRole,
    tasks: OnceCell<Vec<Task>>,
}

impl<'a> View<'a> {
    /// Determines the packet cores and the role of the host.
    pub fn new(record: &'a HostRecord, question: &Question) -> Self {
        let mut view = Self {
            record,
            boot: BootLine::default(),
            cores: CoreSet::default(),
            cores_from: "",
            role: HostRole::Bare,
            tasks: OnceCell::new(),
        };
        view.boot = BootLine::parse(view.text("/proc/cmdline").unwrap_or(""));
        view.role = question.role.unwrap_or_else(|| view.looks_like());
        let online = view.online();
        let own = OWN_CORES.into_iter().find_map(|name| view.core_list(name));
        // A container that may use all cores has no separate set of cores.
        let own = own.filter(|own| {
            view.role == HostRole::Container && !own.is_empty() && !online.without(own).is_empty()
        });
        let all_but_first = CoreSet::new(online.cores().iter().skip(1).copied());
        let asked = ["isolcpus", "nohz_full"].map(|name| view.boot.cores(name).and_then(Result::ok));
        let [isolated, no_tick] = asked.map(|set| set.filter(|set| !set.is_empty()));
        (view.cores, view.cores_from) = match (&question.cores, own, isolated, no_tick) {
            (Some(cores), ..) => (cores.clone(), "requested"),
            (None, Some(cores), ..) => (cores, "the container's own"),
            (None, None, Some(cores), _) => (cores, "the boot line's isolcpus"),
            (None, None, None, Some(cores)) => (cores, "the boot line's nohz_full"),
            (None, None, None, None) => (all_but_first, "all but the first; the boot line isolates none"),
        };
        view
    }

    /// Packet cores, to be kept free of other work.
    pub fn cores(&self) -> &CoreSet {
        &self.cores
    }

    /// Origin of the packet cores, as text.
    pub fn cores_from(&self) -> &'static str {
        self.cores_from
    }

    pub fn role(&self) -> HostRole {
        self.role
    }

    pub fn boot(&self) -> &BootLine {
        &self.boot
    }

    pub fn online(&self) -> CoreSet {
        self.core_list("/sys/devices/system/cpu/online").unwrap_or_default()
    }

    /// Online cores other than the packet cores.
    pub fn housekeeping(&self) -> CoreSet {
        self.online().without(&self.cores)
    }

    /// Text of a file. `None` if the file is absent or unreadable.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        match self.record.readings.get(name)? {
            Reading::Text(text) => Some(text),
            Reading::Unreadable(_) => None,
        }
    }

    /// Reading of a file. `None` if the file is absent.
    pub fn reading(&self, name: &str) -> Option<&'a Reading> {
        self.record.readings.get(name)
    }

    /// Number in a file.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.trim().parse().ok()
    }

    /// Core list in a file.
    pub fn core_list(&self, name: &str) -> Option<CoreSet> {
        CoreSet::parse(self.text(name)?.trim()).ok()
    }

    /// Selected word in a file that lists alternatives: `madvise` in `always [madvise] never`.
    pub fn choice(&self, name: &str) -> Option<&'a str> {
        let text = self.text(name)?;
        Some(
            text.split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'))
                .map_or(text, |(chosen, _)| chosen),
        )
    }

    /// Judgement if a file is unreadable or absent.
    pub fn missing(&self, name: &str) -> Judgement {
        match self.record.readings.get(name) {
            Some(Reading::Unreadable(why)) => Judgement::unseen(format!("{name}: {why}")),
            _ => Judgement::not_here(format!("this kernel has no {name}")),
        }
    }

    /// Files whose names have this prefix and suffix. For each file, returns the part of its name between
    /// prefix and suffix, and the text.
    pub fn each<'v>(
        &'v self,
        before: &'v str,
        behind: &'v str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'v {
        let from = self.record.readings.range(before.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(before)).filter_map(move |(name, reading)| {
            let between = name.get(before.len()..)?.strip_suffix(behind)?;
            match reading {
                Reading::Text(text) => Some((between, text.as_str())),
                Reading::Unreadable(_) => None,
            }
        })
    }

    /// Files of [`Self::each`] with the number of a packet core between prefix and suffix.
    /// Returns the core and the trimmed text of each file, ordered by core.
    pub fn each_core(&self, before: &str, behind: &str) -> Vec<(u32, &'a str)> {
        let each = self.each(before, behind);
        let mut found: Vec<(u32, &str)> = each
            .filter_map(|(core, text)| Some((core.parse().ok()?, text.trim())))
            .filter(|(core, _)| self.cores.contains(*core))
            .collect();
        found.sort_unstable();
        found
    }

    /// Whether the interrupt with this number is in use: /proc/interrupts lists only interrupts in use.
    /// `None` if that file cannot be read.
    pub fn is_interrupt_used(&self, number: &str) -> Option<bool> {
        let mut lines = self.text("/proc/interrupts")?.lines();
        Some(lines.any(|line| line.split_once(':').is_some_and(|(name, _)| name.trim() == number)))
    }

    /// Whether the record has a reading of that name, readable or not.
    pub fn has(&self, name: &str) -> bool {
        self.record.readings.contains_key(name)
    }

    /// Value of a kernel configuration option: "y", "m", "250"; "n" if it is explicitly not set. `None` if
    /// the configuration is unknown or does not mention the option.
    pub fn config(&self, option: &str) -> Option<&'a str> {
        self.text(KERNEL_CONFIG)?.lines().find_map(|line| {
            if line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set")) == Some(option) {
                return Some("n");
            }
            line.split_once('=').filter(|(name, _)| *name == option).map(|(_, value)| value.trim_matches('"'))
        })
    }

    pub fn knows_config(&self) -> bool {
        self.text(KERNEL_CONFIG).is_some_and(|text| !text.is_empty())
    }

    /// First value of a line `name : value` in /proc/cpuinfo.
    pub fn processor_field(&self, name: &str) -> Option<&'a str> {
        let lines = self.text("/proc/cpuinfo")?.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    }

    /// Whether /proc/cpuinfo lists the flag.
    pub fn processor_flag(&self, flag: &str) -> bool {
        self.processor_field("flags").is_some_and(|flags| flags.split(' ').any(|one| one == flag))
    }

    /// Time between the two readings, in s. `None` without a second reading.
    pub fn seconds(&self) -> Option<f64> {
        (self.record.interval_ns > 0).then_some(self.record.interval_ns as f64 / 1e9)
    }

    pub fn both(&self, name: &str) -> Option<(&'a str, &'a str)> {
        self.text(name).zip(self.text(&format!("{name}{LATER}")))
    }

    /// All threads, from the first reading.
    pub fn tasks(&self) -> &[Task] {
        self.tasks.get_or_init(|| self.text(TASKS).map(tasks).unwrap_or_default())
    }

    /// Threads that ran on these cores between the two readings, with their CPU time in s, longest first.
    pub fn ran_on(&self, cores: &CoreSet) -> Vec<(Task, f64)> {
        let later = self.text(&format!("{TASKS}{LATER}")).map(tasks).unwrap_or_default();
        let own = self.number(SELF);
        let mut found: Vec<(Task, f64)> = later
            .into_iter()
            .filter(|task| cores.contains(task.core) && own != Some(i64::from(task.pid)))
            .filter_map(|task| {
                let before = self.tasks().iter().find(|one| one.tid == task.tid).map_or(0.0, |one| one.ran_s);
                let ran_s = task.ran_s - before;
                (ran_s > 0.0).then_some((task, ran_s))
            })
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found
    }

    fn looks_like(&self) -> HostRole {
        let files = ["/run/.containerenv", "/.dockerenv", "/run/systemd/container"];
        let said = self.text("/proc/1/environ").is_some_and(|text| text.contains("container="));
        // A complete machine may be started from the files of a container. In that case, kernel threads are
        // visible, and the UTS namespace is the initial one. A container that sees its host's processes
        // (--pid=host) also sees kernel threads, but has its own UTS namespace.
        let own_names = self.text("/proc/self/ns/uts").is_some_and(|names| names.trim() != FIRST_NAMES);
        if (said || files.iter().any(|name| self.has(name)))
            && (own_names || !self.tasks().iter().any(|task| task.is_kernel))
        {
            HostRole::Container
        } else if self.processor_flag("hypervisor") {
            HostRole::Vm
        } else if self
            .tasks()
            .iter()
            .any(|task| task.name.starts_with("qemu") || task.name.starts_with("CPU 0/KVM"))
        {
            HostRole::VmHost
        } else {
            HostRole::Bare
        }
    }
}

/// Parses the lines of the task table; invalid lines are skipped.
fn tasks(text: &str) -> Vec<Task> {
    let task = |line: &str| {
        let mut parts = line.splitn(9, ' ');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (tid, pid, core) = (number()?, number()?, number()?);
        let (policy, priority, ticks) = (number()?, number()?, number()?);
        let is_kernel = parts.next()? == "kernel";
        let allowed = CoreSet::parse(parts.next()?).ok()?;
        Some(Task {
            tid: tid as u32,
            pid: pid as u32,
            core: core as u32,
            policy: policy as u32,
            priority: priority as u32,
            ran_s: ticks as f64 / USER_HZ,
            is_kernel,
            allowed,
            name: parts.next()?.to_owned(),
        })
    };
    text.lines().filter_map(task).collect()
}
