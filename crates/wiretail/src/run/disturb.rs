//! Disturbances on purpose (`dut.disturb`): what a trial plans, the threads that carry it out, and the list of what
//! took place.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use anyhow::{Result, bail};
use wiretail_dataplane::clock::ClockOffset;
use wiretail_dataplane::disturb::planters::{PlanterSpec, Planters};
use wiretail_dataplane::disturb::{DisturbPlan, Planted};
use wiretail_dataplane::error::DataplaneError;
use wiretail_host::own_loopback;
use wiretail_schema::disturbance::{DISTURBANCES_FILE, Disturbance, DisturbanceKind};
use wiretail_schema::experiment::Trial;

use super::places::Places;
use crate::outputs;

/// Above the load generator: one that never sleeps would not let anybody else on its core.
const PRIORITY_ABOVE: u8 = 55;
/// Below one that sleeps: packets are to leave on time, and to meet the disturbance in the device.
const PRIORITY_BELOW: u8 = 45;
/// Nothing is planted so shortly before the end of a trial, in ns: the planters begin some time after the packets.
const MARGIN_NS: u64 = 150_000_000;
/// Shortest time from one disturbance to the next, in ns: the longest ones take most of it.
const EVERY_NS_MIN: u64 = 1_000_000;

/// What a trial of this length is disturbed by; None where it is not.
pub fn plan(trial: &Trial, seed: u64, duration_ns: u64) -> Option<DisturbPlan> {
    let get = |name| trial.get("dut", name);
    let kinds = match (get("kind").text.as_str(), get("disturb").text.as_str()) {
        ("skeleton", "all") => DisturbanceKind::ALL.to_vec(),
        ("skeleton", name) => vec![DisturbanceKind::of_name(name)?],
        _ => return None,
    };
    let duration_ns = duration_ns.saturating_sub(MARGIN_NS);
    Some(DisturbPlan { kinds, every_ns: get("disturb-every").number, duration_ns, seed })
}

/// Refuses a trial that can't be disturbed as it says.
///
/// # Errors
/// Why not, and which key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    let get = |name| trial.get("dut", name);
    if get("kind").text != "skeleton" {
        return Ok(());
    }
    for (name, nothing) in [("disturb", "none"), ("work", "0 s")] {
        let set = if name == "work" { get(name).number > 0 } else { get(name).text != nothing };
        if set && get("deployment").text != "bare" {
            bail!(
                "dut.{name} = \"{}\" is for a skeleton of this process only, not with dut.deployment = \"{}\"; set \
                 dut.deployment = \"bare\", or dut.{name} = \"{nothing}\"",
                get(name).text,
                get("deployment").text
            );
        }
    }
    if get("disturb").text != "none" && get("disturb-every").number < EVERY_NS_MIN {
        bail!(
            "dut.disturb-every = \"{}\" is shorter than the longest disturbance; expected \"1 ms\" or more",
            get("disturb-every").text
        );
    }
    Ok(())
}

/// What the planters of a trial need while they run; outlives them.
pub struct Planting {
    plan: DisturbPlan,
    places: Places,
    priority: u8,
    loopback: Box<dyn Fn() -> Result<(), DataplaneError> + Sync>,
    stop: AtomicBool,
}

impl Planting {
    /// Of a trial that is disturbed.
    ///
    /// # Errors
    /// The device has no core of its own.
    pub fn of(trial: &Trial, plan: DisturbPlan, places: Option<&Places>) -> Result<Self> {
        let Some(places) = places.filter(|places| places.device != places.housekeeping).cloned() else {
            bail!(
                "dut.disturb = \"{}\" needs a core for the device and another one to disturb it from; set dut.disturb = \
                 \"none\", or take a machine of two cores or more",
                trial.get("dut", "disturb").text
            );
        };
        let sleeps =
            trial.get("traffic", "pacing").text == "sleep" || places.generator != places.housekeeping;
        let device = places.device;
        let loopback = Box::new(move || {
            own_loopback(device).map_err(|error| DataplaneError::Thread {
                step: "making a loopback whose packets the device's core receives".to_owned(),
                source: std::io::Error::other(error.to_string()),
                next: "leave dut.disturb = \"softirq\" out where that can't be had",
            })
        });
        let priority = if sleeps { PRIORITY_BELOW } else { PRIORITY_ABOVE };
        Ok(Self { plan, places, priority, loopback, stop: AtomicBool::new(false) })
    }

    /// Starts the planters, and returns when they are ready.
    ///
    /// # Errors
    /// One can't do its work here.
    pub fn start<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Planters<'scope>> {
        let spec = PlanterSpec {
            device: self.places.device as usize,
            housekeeping: self.places.housekeeping as usize,
            priority: self.priority,
            loopback: &*self.loopback,
        };
        Ok(Planters::start(scope, &self.plan, spec, &self.stop)?)
    }
}

/// Writes the list of what took place into a trial's directory.
///
/// # Errors
/// It can't be written.
pub fn write(directory: &Path, mut planted: Vec<Planted>, clock: &ClockOffset) -> Result<()> {
    planted.sort_by_key(|planted| planted.start_ns);
    let unix = |ns: u64| ns as i64 + clock.realtime_minus_monotonic_ns;
    let row = |planted: Planted| Disturbance {
        kind: planted.kind,
        start_ns: unix(planted.start_ns),
        end_ns: unix(planted.end_ns),
        pid: planted.pid,
        task: planted.task,
        start_monotonic_ns: planted.start_ns,
        end_monotonic_ns: planted.end_ns,
    };
    let rows: Vec<Disturbance> = planted.into_iter().map(row).collect();
    outputs::write_file(&directory.join(DISTURBANCES_FILE), Disturbance::list(&rows).as_bytes())
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
    fn only_a_skeleton_of_this_process_is_disturbed() {
        let refused = |device: &str| refuse(&trial(device)).unwrap_err().to_string();
        let skeleton = "kind = \"skeleton\"\ndisturb = \"all\"";
        assert!(refuse(&trial(skeleton)).is_ok());
        assert!(
            refused(&format!("{skeleton}\ndeployment = \"container\""))
                .contains("dut.deployment = \"container\"")
        );
        let work = "kind = \"skeleton\"\nwork = \"5 us\"\ndeployment = \"container\"";
        assert!(refused(work).contains("dut.work = \"0 s\""));
        assert!(refused(&format!("{skeleton}\ndisturb-every = \"1 us\"")).contains("\"1 ms\" or more"));
        assert!(refuse(&trial("kind = \"bridge\"")).is_ok());
    }

    #[test]
    fn a_plan_has_the_kinds_and_times_of_the_trial() {
        let of = |device: &str| plan(&trial(device), 7, 1_000_000_000);
        assert_eq!(of("kind = \"bridge\""), None);
        assert_eq!(of("kind = \"skeleton\""), None);
        let hog = of("kind = \"skeleton\"\ndisturb = \"hog\"\ndisturb-every = \"4 ms\"").unwrap();
        assert_eq!((hog.kinds.len(), hog.every_ns, hog.times().len()), (1, 4_000_000, 212));
        assert_eq!(of("kind = \"skeleton\"\ndisturb = \"all\"").unwrap().kinds.len(), 7);
    }
}
