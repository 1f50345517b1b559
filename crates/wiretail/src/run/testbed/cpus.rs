//! Who runs on which core in a trial, and keeping everybody else away from the packets.

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
/// Lower: a switch on the generator's core must not make packets late.
const PRIORITY_SWITCH: u8 = 49;
/// Higher: a reader that takes a moment now and then must not wait for a generator that never sleeps.
const PRIORITY_READER: u8 = 51;
/// How much of each period real-time threads may run, in us; -1 is all of it (sched(7)).
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Cores that are online, below the root.
const ONLINE: &str = "sys/devices/system/cpu/online";
/// How long a core is watched before it counts as free: twenty ticks of the kernel's accounting.
const WATCHED: Duration = Duration::from_millis(200);
/// A core that others keep busier than this is no core for packets.
const BUSY_SHARE_MAX: f64 = 0.5;

/// The cores of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuAssignment {
    /// Everything that is not below.
    pub housekeeping: u32,
    /// The load generator. The kernel's own devices run there, too: a packet that is sent into a veth
    /// pair is forwarded by the sender's core.
    pub generator: u32,
    /// A device that polls.
    pub device: u32,
    /// Who reads the taps while they record.
    pub reader: u32,
    /// The cores that others are moved off.
    pub quiet: CoreSet,
    /// Whether the roles run with real-time priority.
    pub fifo: bool,
}

impl CpuAssignment {
    /// Gives the roles their cores; None where the machine says of no core that it is usable.
    ///
    /// # Errors
    /// The kernel does not say which cores there are.
    pub fn assign(root: &Path, middle: Middle, fifo: bool) -> Result<Option<Self>> {
        Ok(Self::of(&Cores::read(root)?, middle, fifo))
    }

    fn of(cores: &Cores, middle: Middle, fifo: bool) -> Option<Self> {
        let roles = cores.assign()?;
        let housekeeping = roles.housekeeping;
        // Without a device that polls, the core that would be its own is the best one for the generator.
        let polls = middle == Middle::Ports;
        let generator = if polls { roles.generator } else { roles.dut };
        let quiet = [roles.dut, generator].into_iter().filter(|core| *core != housekeeping);
        let quiet = CoreSet::new(quiet);
        // Of two real-time threads that never sleep, the second one on a core would never run.
        let fifo = fifo && !quiet.is_empty() && !(polls && generator == roles.dut);
        Some(Self { housekeeping, generator, device: roles.dut, reader: roles.timestamper, quiet, fifo })
    }

    /// For the thread that controls the trial.
    pub fn for_control(&self) -> Placement {
        Placement { cpu: Some(self.housekeeping as usize), ..Placement::default() }
    }

    /// For the load generator's thread.
    pub fn for_generator(&self) -> Placement {
        self.busy(self.generator, PRIORITY)
    }

    /// For the device's thread.
    pub fn for_device(&self) -> Placement {
        self.busy(self.device, PRIORITY)
    }

    /// For a switch between the devices: the reader's core where that is one of its own, else the generator's. There
    /// one that polls has no real-time priority: nobody else would run.
    pub fn for_switch(&self, polls: bool) -> Placement {
        let own = ![self.housekeeping, self.generator, self.device].contains(&self.reader);
        let core = if own { self.reader } else { self.generator };
        let place = self.busy(core, PRIORITY_SWITCH);
        Placement { fifo: place.fifo.filter(|_| own || !polls), ..place }
    }

    /// For the thread that reads the taps.
    pub fn for_reader(&self) -> Placement {
        self.busy(self.reader, PRIORITY_READER)
    }

    fn busy(&self, core: u32, priority: u8) -> Placement {
        Placement { cpu: Some(core as usize), fifo: self.fifo.then_some(priority), lock_memory: false }
    }

    /// Claims the quiet cores for this run.
    ///
    /// # Errors
    /// Another run measures there, or on cores that this process was moved off.
    pub fn claim(&self) -> Result<Vec<CoreClaim>> {
        let root = Path::new("/");
        // A run that has cores for itself moves others off them: they don't look usable while it lasts.
        let online = std::fs::read_to_string(root.join(ONLINE)).unwrap_or_default();
        let online = CoreSet::parse(online.trim()).unwrap_or_default();
        for core in online.without(&Cores::read(root)?.usable).cores() {
            CoreClaim::take(*core)?;
        }
        Ok(self.quiet.cores().iter().map(|core| CoreClaim::take(*core)).collect::<Result<_, _>>()?)
    }

    /// The steps that move others off the quiet cores, for the run of that name, and let the roles keep
    /// their cores: by default the kernel throttles real-time threads that never sleep, 50 ms in each second.
    /// `stays` is a further process that is not moved. Where a profile decides on kernel workers, interrupts and throttling, tasks are
    /// moved only.
    ///
    /// # Errors
    /// The kernel does not say which cores there are.
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

    /// Looks whether the quiet cores are quiet.
    ///
    /// # Errors
    /// Somebody who could not be moved keeps one busy; the message says who.
    pub fn check_quiet(&self) -> Result<()> {
        let root = Path::new("/");
        let read = || self.quiet.cores().iter().map(|core| CoreTimes::read(root, *core)).collect::<Vec<_>>();
        let before = read();
        std::thread::sleep(WATCHED);
        for ((core, before), after) in self.quiet.cores().iter().zip(before).zip(read()) {
            let share = before.zip(after).and_then(|(before, after)| after.busy_share_since(&before));
            if let Some(share) = share.filter(|share| *share > BUSY_SHARE_MAX) {
                let names = running_on(root, *core, std::process::id());
                let names = if names.is_empty() { "something".to_owned() } else { names.join(", ") };
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
    fn real_time_threads_that_never_sleep_have_a_core_each() {
        let fifo = |usable: &str, middle| {
            let usable = CoreSet::parse(usable).unwrap();
            let cores = Cores { usable, isolated: CoreSet::default(), siblings: Vec::new() };
            CpuAssignment::of(&cores, middle, true).unwrap().fifo
        };
        assert!(!fifo("0", Middle::Ports) && !fifo("0", Middle::Bridge));
        assert!(fifo("0-1", Middle::Ports) && fifo("0-1", Middle::Bridge) && fifo("0-3", Middle::Ports));
    }

    #[test]
    fn a_switch_that_polls_lets_the_rest_of_its_core_run() {
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
    fn packets_have_the_quiet_cores() {
        assert_eq!(assignment("0", Middle::Ports), (0, 0, 0, String::new()));
        assert_eq!(assignment("0-1", Middle::Ports), (0, 0, 1, "1".to_owned()));
        // The kernel forwards on the sender's core.
        assert_eq!(assignment("0-1", Middle::Bridge), (0, 1, 1, "1".to_owned()));
        assert_eq!(assignment("0-3", Middle::Ports), (0, 2, 3, "2-3".to_owned()));
        assert_eq!(assignment("0-3", Middle::Nothing), (0, 3, 3, "3".to_owned()));
    }
}
