//! Decides whether a trial pauses (`trial.pauses`).
//!
//! Only threads of this process can follow the announced pauses: the load generator and a bare skeleton. Other
//! programs poll or sleep as they do.

use anyhow::{Result, bail};
use wiretail_schema::experiment::{
    Deployment, DutKind, GeneratorPacing, LatePolicy, Neighbour, PausesChoice, SkeletonWait, Trial,
};
use wiretail_schema::run::pauses::Pauses;

use crate::run::testbed::cpus::CpuAssignment;
use crate::run::trial::store;

/// Longest time that a polling thread with real-time priority may keep ordinary tasks off its core, in ns. The
/// fair server of Linux steps in if these tasks got less than 50 ms within about 950 ms; the difference is a
/// margin for work in the kernel.
const SENDING_NS_MAX: u64 = 700_000_000;
/// Length of a pause, in ns. After ordinary tasks ran for 50 ms, the fair server starts a new period of one
/// second. The other half covers interrupts, the hypervisor, and the time that packets in flight take.
const PAUSE_NS: u64 = 100_000_000;

/// Returns the pauses of a trial that sends for `duration_ns`, relative to its start; empty if it has none.
pub fn plan(trial: &Trial, assignment: Option<&CpuAssignment>, duration_ns: u64) -> Pauses {
    let pauses = match trial.trial.pauses {
        PausesChoice::None => false,
        PausesChoice::Always => true,
        // Packets of a shifted schedule would become due in pauses.
        PausesChoice::Auto => trial.traffic.late_policy != LatePolicy::Shift && starves(trial, assignment),
    };
    if pauses { Pauses::plan(duration_ns, SENDING_NS_MAX, PAUSE_NS) } else { Pauses::default() }
}

/// Refuses a trial that cannot pause as requested.
///
/// # Errors
/// Returns an error if the trial is refused; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    if trial.trial.pauses == PausesChoice::Always && store::is_soak(trial) {
        bail!(
            "trial.pauses = \"always\" does not work in a trial that keeps no packets; set trial.pauses = \"none\", \
             or trial.capture = \"full\""
        );
    }
    if trial.trial.pauses == PausesChoice::Always && trial.traffic.late_policy == LatePolicy::Shift {
        bail!(
            "trial.pauses = \"always\" does not work with traffic.late-policy = \"shift\", because shifted packets \
             become due in pauses; set trial.pauses = \"none\", or another policy"
        );
    }
    Ok(())
}

/// Returns whether a thread of this process polls with real-time priority on a core that ordinary tasks cannot
/// be kept off.
fn starves(trial: &Trial, assignment: Option<&CpuAssignment>) -> bool {
    let Some(assignment) = assignment.filter(|assignment| assignment.fifo && !store::is_soak(trial)) else {
        return false;
    };
    // Without isolation, the threads of a CPU load run on any core, even on one that the kernel isolates.
    let anywhere = !trial.host.isolate && trial.host.neighbour == Neighbour::CpuLoad;
    let is_shared = |core| anywhere || assignment.is_shared(core, trial.host.isolate);
    let generator = trial.traffic.pacing == GeneratorPacing::Spin && is_shared(assignment.generator);
    let dut = &trial.dut;
    let is_thread = dut.kind == DutKind::Skeleton && dut.deployment == Deployment::Bare;
    let polls = dut.wait == SkeletonWait::Spin || dut.delay.ns > 0;
    generator || (is_thread && polls && is_shared(assignment.device))
}

/// Describes the pauses for the plan of a run; empty if there are none.
pub fn describe(pauses: &Pauses) -> String {
    if pauses.is_empty() {
        return String::new();
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "{} pauses of {:.0} ms, after every {:.0} ms of sending",
        pauses.count(),
        ms(pauses.length_ns()),
        ms(pauses.sending_ns())
    )
}

#[cfg(test)]
mod tests {
    use wiretail_host::CoreSet;
    use wiretail_schema::experiment::Experiment;

    use super::*;

    fn trial(dut: &str, more: &str) -> Trial {
        let text =
            format!("title = \"t\"\nseed = 1\n[traffic]\nrate = \"1 kpps\"\n[dut]\n{dut}\n[trial]\n{more}");
        Experiment::parse(&text).expect("an experiment").trials().remove(0)
    }

    fn assignment(generator: u32, quiet: &[u32]) -> CpuAssignment {
        CpuAssignment {
            housekeeping: 0,
            generator,
            device: 1,
            reader: 0,
            quiet: CoreSet::new(quiet.iter().copied()),
            isolated: CoreSet::new([]),
            fifo: true,
        }
    }

    #[test]
    fn pauses_only_where_ordinary_tasks_would_starve() {
        let two_cores = assignment(0, &[1]);
        let count = |trial: &Trial, assignment: &CpuAssignment| {
            plan(trial, Some(assignment), trial.trial.duration.ns_unsigned()).count()
        };
        // The load generator polls on the housekeeping core.
        assert_eq!(count(&trial("kind = \"skeleton\"", ""), &two_cores), 2);
        assert_eq!(count(&trial("kind = \"suricata\"", "duration = \"10 s\""), &two_cores), 14);
        assert_eq!(count(&trial("kind = \"skeleton\"", "duration = \"700 ms\""), &two_cores), 0);
        assert_eq!(count(&trial("kind = \"skeleton\"", "pauses = \"none\""), &two_cores), 0);
        let sleeps = trial("kind = \"skeleton\"", "[host]\nisolate = false");
        assert_eq!(count(&sleeps, &assignment(2, &[])), 2);
        // Its core has no other tasks.
        let four_cores = assignment(2, &[1, 2]);
        assert_eq!(count(&trial("kind = \"skeleton\"", ""), &four_cores), 0);
        assert_eq!(count(&trial("kind = \"skeleton\"", "pauses = \"always\""), &four_cores), 2);
        assert_eq!(count(&sleeps, &four_cores), 2);
        // Cores that the kernel isolates stay free of tasks, except if a CPU load runs anywhere.
        let isolated = CpuAssignment { isolated: CoreSet::new([1, 2]), ..four_cores };
        assert_eq!(count(&sleeps, &isolated), 0);
        let load = trial("kind = \"skeleton\"", "[host]\nisolate = false\nneighbour = \"cpu-load\"");
        assert_eq!(count(&load, &isolated), 2);
        // Without real-time priority, the scheduler shares the core.
        let ordinary = CpuAssignment { fifo: false, ..assignment(0, &[1]) };
        assert_eq!(count(&trial("kind = \"skeleton\"", ""), &ordinary), 0);
        assert_eq!(plan(&trial("kind = \"skeleton\"", ""), None, 2_000_000_000).count(), 0);
    }

    #[test]
    fn soaks_do_not_pause() {
        let soak = trial("kind = \"skeleton\"", "capture = \"none\"");
        assert!(plan(&soak, Some(&assignment(0, &[1])), 2_000_000_000).is_empty() && refuse(&soak).is_ok());
        let asked = trial("kind = \"skeleton\"", "capture = \"none\"\npauses = \"always\"");
        assert!(refuse(&asked).unwrap_err().to_string().contains("trial.capture = \"full\""));
    }

    #[test]
    fn description_lists_number_and_lengths() {
        let pauses = Pauses::plan(2_000_000_000, SENDING_NS_MAX, PAUSE_NS);
        assert_eq!(describe(&pauses), "2 pauses of 100 ms, after every 667 ms of sending");
        assert_eq!(describe(&Pauses::default()), "");
    }
}
