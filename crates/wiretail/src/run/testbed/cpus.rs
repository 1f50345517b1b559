//! CPU assignment of a trial, and isolation of its cores from other tasks.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use wiretail_dataplane::placement::Placement;
use wiretail_host::{
    CoreClaim, CoreSet, CoreTimes, Cores, HostError, Plan, Step, move_tasks, quieten, running_on,
};

use crate::run::testbed::topology::Middle;

/// Real-time priority of the load generator and the device under test.
const PRIORITY: u8 = 50;
/// Real-time priority of a switch. It is lower than the generator's, because a switch on the generator's core
/// must not delay the generator's packets.
const PRIORITY_SWITCH: u8 = 49;
/// Real-time priority of the reader. It is higher than the generator's, because a reader that occasionally
/// runs for a short time must not wait for a generator that never sleeps.
const PRIORITY_READER: u8 = 51;
/// Time in each period that real-time threads may use, in us; -1 removes the limit (sched(7)).
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Path of the list of online cores, relative to the root directory.
const ONLINE: &str = "sys/devices/system/cpu/online";
/// Time for which a core is observed to check that it is idle. It is twenty ticks of the kernel's accounting.
const WATCHED: Duration = Duration::from_millis(200);
/// Maximum share of a packet core's time that other tasks may use.
const BUSY_SHARE_MAX: f64 = 0.5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAssignment {
    /// Core of all tasks that are not assigned to one of the following cores.
    pub housekeeping: u32,
    /// Core of the load generator. The kernel's own devices run on this core as well, because a packet that
    /// is sent into a veth pair is forwarded on the sender's core.
    pub generator: u32,
    /// Core of a device that polls.
    pub device: u32,
    /// Core of the thread that reads the taps while they record.
    pub reader: u32,
    /// Cores from which other tasks are moved away.
    pub quiet: CoreSet,
    /// Whether the roles run with real-time priority.
    pub fifo: bool,
}

impl CpuAssignment {
    /// Assigns cores to the roles; `None` if the machine reports no usable core.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list its cores.
    pub fn assign(root: &Path, middle: Middle, fifo: bool) -> Result<Option<Self>> {
        Ok(Self::of(&Cores::read(root)?, middle, fifo))
    }

    fn of(cores: &Cores, middle: Middle, fifo: bool) -> Option<Self> {
        let roles = cores.assign()?;
        let housekeeping = roles.housekeeping;
        // If no device polls, the core reserved for the device is the best one for the generator.
        let polls = middle == Middle::Ports;
        let generator = if polls { roles.generator } else { roles.dut };
        let quiet = [roles.dut, generator].into_iter().filter(|core| *core != housekeeping);
        let quiet = CoreSet::new(quiet);
        // If two real-time threads that never sleep share a core, the second one never runs.
        let fifo = fifo && !quiet.is_empty() && !(polls && generator == roles.dut);
        Some(Self { housekeeping, generator, device: roles.dut, reader: roles.timestamper, quiet, fifo })
    }

    /// Placement of the thread that controls the trial.
    pub fn for_control(&self) -> Placement {
        Placement { cpu: Some(self.housekeeping as usize), ..Placement::default() }
    }

    /// Placement of the load generator's thread.
    pub fn for_generator(&self) -> Placement {
        self.busy(self.generator, PRIORITY)
    }

    /// Placement of the device's thread.
    pub fn for_device(&self) -> Placement {
        self.busy(self.device, PRIORITY)
    }

    /// Placement of a switch between the devices: the reader's core if the reader has a core to itself,
    /// otherwise the generator's core. A switch that polls on the generator's core gets no real-time
    /// priority, because nothing else could run on that core.
    pub fn for_switch(&self, polls: bool) -> Placement {
        let own = ![self.housekeeping, self.generator, self.device].contains(&self.reader);
        let core = if own { self.reader } else { self.generator };
        let place = self.busy(core, PRIORITY_SWITCH);
        Placement { fifo: place.fifo.filter(|_| own || !polls), ..place }
    }

    /// Placement of the thread that reads the taps.
    pub fn for_reader(&self) -> Placement {
        self.busy(self.reader, PRIORITY_READER)
    }

    fn busy(&self, core: u32, priority: u8) -> Placement {
        Placement { cpu: Some(core as usize), fifo: self.fifo.then_some(priority), lock_memory: false }
    }

    /// Claims the quiet cores for this run.
    ///
    /// # Errors
    /// Returns an error if another run measures on these cores, or on cores from which it has moved this
    /// process.
    pub fn claim(&self) -> Result<Vec<CoreClaim>> {
        let root = Path::new("/");
        // Another run may have moved this process off the cores of that run. This process would then not
        // consider them usable.
        let online = std::fs::read_to_string(root.join(ONLINE)).unwrap_or_default();
        let online = CoreSet::parse(online.trim()).unwrap_or_default();
        for core in online.without(&Cores::read(root)?.usable).cores() {
            CoreClaim::take(*core)?;
        }
        Ok(self.quiet.cores().iter().map(|core| CoreClaim::take(*core)).collect::<Result<_, _>>()?)
    }

    /// Returns the steps that move other tasks off the quiet cores for the run with this name. The steps also
    /// disable the kernel's throttling of real-time threads, which by default takes 50 ms of each second from
    /// a real-time thread that never sleeps. `stays` is an additional process that is not moved. If a profile
    /// controls kernel workers, interrupts and throttling, only tasks are moved.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list its cores.
    pub fn isolation(&self, run: &str, stays: Option<i32>, has_profile: bool) -> Result<Plan> {
        let mut plan = Plan::new();
        if self.fifo && !has_profile {
            let path = RT_RUNTIME.into();
            plan.push(Step::WriteFile { path, value: "-1".to_owned(), may_refuse: true });
        }
        if !self.quiet.is_empty() {
            let keep: Vec<i32> = stays.into_iter().chain([std::process::id() as i32]).collect();
            let steps = if has_profile { move_tasks } else { quieten };
            plan.extend(steps(Path::new("/"), run, &self.quiet, &keep)?);
        }
        Ok(plan)
    }

    /// Checks that the quiet cores are idle.
    ///
    /// # Errors
    /// Returns an error if a task that could not be moved keeps a core busy; the message names the task.
    pub fn check_quiet(&self) -> Result<()> {
        let root = Path::new("/");
        let read = || self.quiet.cores().iter().map(|core| CoreTimes::read(root, *core)).collect::<Vec<_>>();
        let before = read();
        std::thread::sleep(WATCHED);
        for ((core, before), after) in self.quiet.cores().iter().zip(before).zip(read()) {
            let share = before.zip(after).and_then(|(before, after)| after.busy_share_since(&before));
            if let Some(share) = share.filter(|share| *share > BUSY_SHARE_MAX) {
                let names = running_on(root, *core, std::process::id());
                let names = if names.is_empty() { "an unknown task".to_owned() } else { names.join(", ") };
                let by = format!("{names}, {:.0} % of the time", share * 100.0);
                return Err(HostError::Busy { core: *core, by }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(usable: &str, middle: Middle) -> (u32, u32, u32, String) {
        let usable = CoreSet::parse(usable).unwrap();
        let cores = Cores { usable, isolated: CoreSet::default(), siblings: Vec::new() };
        let assignment = CpuAssignment::of(&cores, middle, true).unwrap();
        (assignment.housekeeping, assignment.generator, assignment.device, assignment.quiet.to_string())
    }

    #[test]
    fn busy_real_time_threads_get_separate_cores() {
        let fifo = |usable: &str, middle| {
            let usable = CoreSet::parse(usable).unwrap();
            let cores = Cores { usable, isolated: CoreSet::default(), siblings: Vec::new() };
            CpuAssignment::of(&cores, middle, true).unwrap().fifo
        };
        assert!(!fifo("0", Middle::Ports) && !fifo("0", Middle::Bridge));
        assert!(fifo("0-1", Middle::Ports) && fifo("0-1", Middle::Bridge) && fifo("0-3", Middle::Ports));
    }

    #[test]
    fn polling_switch_on_shared_core_has_no_real_time_priority() {
        let switch = |usable: &str, polls| {
            let usable = CoreSet::parse(usable).unwrap();
            let cores = Cores { usable, isolated: CoreSet::default(), siblings: Vec::new() };
            let place = CpuAssignment::of(&cores, Middle::Ports, true).unwrap().for_switch(polls);
            (place.cpu, place.fifo)
        };
        assert_eq!((switch("0-1", false), switch("0-1", true)), ((Some(0), Some(49)), (Some(0), None)));
        assert_eq!((switch("0-3", false), switch("0-3", true)), ((Some(1), Some(49)), (Some(1), Some(49))));
    }

    #[test]
    fn packets_get_the_quiet_cores() {
        assert_eq!(assignment("0", Middle::Ports), (0, 0, 0, String::new()));
        assert_eq!(assignment("0-1", Middle::Ports), (0, 0, 1, "1".to_owned()));
        // The kernel forwards on the sender's core.
        assert_eq!(assignment("0-1", Middle::Bridge), (0, 1, 1, "1".to_owned()));
        assert_eq!(assignment("0-3", Middle::Ports), (0, 2, 3, "2-3".to_owned()));
        assert_eq!(assignment("0-3", Middle::Nothing), (0, 3, 3, "3".to_owned()));
    }
}
