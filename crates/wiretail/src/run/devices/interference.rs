//! Injected interference (`dut.interference`): the plan for a trial, the threads that execute the plan, and
//! the list of injected interference.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use anyhow::{Result, bail};
use wiretail_dataplane::clock::ClockOffset;
use wiretail_dataplane::error::DataplaneError;
use wiretail_dataplane::interference::injectors::{InjectorSpec, Injectors};
use wiretail_dataplane::interference::{Injected, InterferencePlan};
use wiretail_host::own_loopback;
use wiretail_schema::experiment::{Deployment, DutKind, GeneratorPacing, InterferenceChoice, Trial};
use wiretail_schema::run::interference::{INTERFERENCE_FILE, Interference, InterferenceKind};
use wiretail_schema::run::pauses::Pauses;

use crate::analyze::outputs;
use crate::run::testbed::cpus::CpuAssignment;

/// Priority of the injectors if the load generator never sleeps. It is higher than the generator's priority,
/// because otherwise the injectors would never run on the generator's core.
const PRIORITY_ABOVE: u8 = 55;
/// Priority of the injectors if the load generator sleeps. It is lower than the generator's priority, because
/// packets must leave on time and be delayed only in the device.
const PRIORITY_BELOW: u8 = 45;
/// Nothing is injected during this time before a trial's end, in ns, because the injectors start some time
/// after the first packet.
const MARGIN_NS: u64 = 150_000_000;
/// Minimum interval between injections, in ns. The longest injections take most of this time.
const EVERY_NS_MIN: u64 = 1_000_000;

/// Plans the interference of a trial with this duration; `None` if the trial injects none.
pub fn plan(trial: &Trial, seed: u64, duration_ns: u64) -> Option<InterferencePlan> {
    let kinds = match trial.dut.interference {
        _ if trial.dut.kind != DutKind::Skeleton => return None,
        InterferenceChoice::None => return None,
        InterferenceChoice::All => InterferenceKind::ALL.to_vec(),
        InterferenceChoice::Shootdown => vec![InterferenceKind::Shootdown],
        InterferenceChoice::Timer => vec![InterferenceKind::Timer],
        InterferenceChoice::Hog => vec![InterferenceKind::Hog],
        InterferenceChoice::PageFaults => vec![InterferenceKind::PageFaults],
        InterferenceChoice::Softirq => vec![InterferenceKind::Softirq],
        InterferenceChoice::Ipi => vec![InterferenceKind::Ipi],
        InterferenceChoice::Pause => vec![InterferenceKind::Pause],
    };
    let duration_ns = duration_ns.saturating_sub(MARGIN_NS);
    let every_ns = trial.dut.interference_every.ns_unsigned();
    Some(InterferencePlan { kinds, every_ns, duration_ns, seed })
}

/// Refuses a trial whose interference cannot be injected as requested.
///
/// # Errors
/// Returns an error if the trial is refused; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    let dut = &trial.dut;
    if dut.kind != DutKind::Skeleton {
        return Ok(());
    }
    let is_interfered = dut.interference != InterferenceChoice::None;
    for (is_set, name, value, nothing) in [
        (is_interfered, "interference", dut.interference.to_string(), "none"),
        (dut.work.ns > 0, "work", dut.work.to_string(), "0 s"),
    ] {
        if is_set && dut.deployment != Deployment::Bare {
            bail!(
                "dut.{name} = \"{value}\" requires a skeleton in this process and does not support \
                 dut.deployment = \"{}\"; set dut.deployment = \"bare\", or dut.{name} = \"{nothing}\"",
                dut.deployment
            );
        }
    }
    if is_interfered && dut.interference_every.ns_unsigned() < EVERY_NS_MIN {
        bail!(
            "dut.interference-every = \"{}\" is shorter than the longest interference; expected \"1 ms\" or \
             more",
            dut.interference_every
        );
    }
    Ok(())
}

/// State that the injectors of a trial share. It outlives the injectors.
pub struct Injection {
    plan: InterferencePlan,
    assignment: CpuAssignment,
    priority: u8,
    loopback: Box<dyn Fn() -> Result<(), DataplaneError> + Sync>,
    stop: AtomicBool,
}

impl Injection {
    /// Prepares the injection of a trial.
    ///
    /// # Errors
    /// Returns an error if the device does not have a core to itself.
    pub fn of(trial: &Trial, plan: InterferencePlan, assignment: Option<&CpuAssignment>) -> Result<Self> {
        let Some(assignment) =
            assignment.filter(|assignment| assignment.device != assignment.housekeeping).cloned()
        else {
            bail!(
                "dut.interference = \"{}\" needs one core for the device and another core for the injectors; \
                 set dut.interference = \"none\", or use a machine with two or more cores",
                trial.dut.interference
            );
        };
        let sleeps =
            trial.traffic.pacing == GeneratorPacing::Sleep || assignment.generator != assignment.housekeeping;
        let device = assignment.device;
        let loopback = Box::new(move || {
            own_loopback(device).map_err(|error| DataplaneError::Thread {
                step: "creating a loopback for packets that the device's core receives".to_owned(),
                source: std::io::Error::other(error.to_string()),
                next: "remove \"softirq\" from dut.interference if this machine does not support it",
            })
        });
        let priority = if sleeps { PRIORITY_BELOW } else { PRIORITY_ABOVE };
        Ok(Self { plan, assignment, priority, loopback, stop: AtomicBool::new(false) })
    }

    /// Starts the injectors, and returns when all are ready.
    ///
    /// # Errors
    /// Returns an error if an injector cannot work on this machine.
    pub fn start<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Injectors<'scope>> {
        let spec = InjectorSpec {
            device: self.assignment.device as usize,
            housekeeping: self.assignment.housekeeping as usize,
            priority: self.priority,
            loopback: &*self.loopback,
        };
        Ok(Injectors::start(scope, &self.plan, spec, &self.stop)?)
    }
}

/// Returns the interference that was injected while packets were sent. In a pause, it delays nothing.
pub fn outside_pauses(injected: &[Injected], pauses: &Pauses) -> Vec<Injected> {
    injected.iter().filter(|injected| !pauses.is_paused(injected.start_ns as i64)).cloned().collect()
}

/// Writes the list of injected interference into a trial's directory.
///
/// # Errors
/// Returns an error if the list cannot be written.
pub fn write(directory: &Path, mut injected: Vec<Injected>, clock: &ClockOffset) -> Result<()> {
    injected.sort_by_key(|injected| injected.start_ns);
    let unix = |ns: u64| ns as i64 + clock.realtime_minus_monotonic_ns;
    let row = |injected: Injected| Interference {
        kind: injected.kind,
        start_ns: unix(injected.start_ns),
        end_ns: unix(injected.end_ns),
        pid: injected.pid,
        task: injected.task,
        start_monotonic_ns: injected.start_ns,
        end_monotonic_ns: injected.end_ns,
    };
    let rows: Vec<Interference> = injected.into_iter().map(row).collect();
    outputs::write_file(&directory.join(INTERFERENCE_FILE), Interference::list(&rows).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::experiment::Experiment;

    fn trial(device: &str) -> Trial {
        let text =
            format!("title = \"t\"\nseed = 1\n[dut]\n{device}\n[traffic]\nrate = \"1 kpps\"\n[trial]\n");
        Experiment::parse(&text).unwrap().trials().remove(0)
    }

    #[test]
    fn accepts_interference_only_for_skeleton_in_this_process() {
        let refused = |device: &str| refuse(&trial(device)).unwrap_err().to_string();
        let skeleton = "kind = \"skeleton\"\ninterference = \"all\"";
        assert!(refuse(&trial(skeleton)).is_ok());
        assert!(
            refused(&format!("{skeleton}\ndeployment = \"container\""))
                .contains("dut.deployment = \"container\"")
        );
        let work = "kind = \"skeleton\"\nwork = \"5 us\"\ndeployment = \"container\"";
        assert!(refused(work).contains("dut.work = \"0 s\""));
        assert!(refused(&format!("{skeleton}\ninterference-every = \"1 us\"")).contains("\"1 ms\" or more"));
        assert!(refuse(&trial("kind = \"bridge\"")).is_ok());
    }

    #[test]
    fn plan_has_kinds_and_times_of_the_trial() {
        let of = |device: &str| plan(&trial(device), 7, 1_000_000_000);
        assert_eq!(of("kind = \"bridge\""), None);
        assert_eq!(of("kind = \"skeleton\""), None);
        let hog = of("kind = \"skeleton\"\ninterference = \"hog\"\ninterference-every = \"4 ms\"").unwrap();
        assert_eq!((hog.kinds.len(), hog.every_ns, hog.times().len()), (1, 4_000_000, 212));
        assert_eq!(of("kind = \"skeleton\"\ninterference = \"all\"").unwrap().kinds.len(), 7);
    }
}
