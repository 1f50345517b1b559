//! The plan of an experiment: its trials, and all changes that they would make to the host.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use wiretail_host::trace::steps as trace_steps;
use wiretail_schema::experiment::{Experiment, Trial};

use crate::cli::CheckArgs;
use crate::run::devices;
use crate::run::experiment::read;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::profile;
use crate::run::testbed::topology::Topology;
use crate::run::trial::progress;
use crate::run::trial::{pauses, session, tracing};

/// Runs `wiretail check`: lists the trials of an experiment, or reports its errors.
///
/// # Errors
/// Returns an error if the experiment is invalid; the message names the file and the line.
pub fn check(arguments: &CheckArgs) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let experiment = read(&arguments.experiment)?;
    let trials = experiment.trials();
    let sending = trials.iter().map(|trial| trial.trial.duration.ns_unsigned()).sum();
    let time = progress::seconds(std::time::Duration::from_nanos(sending));
    writeln!(
        out,
        "{}: {} trials, which send packets for {time} in total",
        arguments.experiment.display(),
        trials.len()
    )?;
    let mut code = ExitCode::SUCCESS;
    for trial in &trials {
        if let Err(error) = session::refuse(trial) {
            writeln!(out, "  {:4}  {}: fails, {error}", trial.number, trial.name)?;
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}

/// Prints the trials, and the steps by which each trial changes the host.
///
/// # Errors
/// Returns an error if the host's cores cannot be read.
pub fn print_plan(experiment: &Experiment, trials: &[Trial]) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {} trials", experiment.first().title, trials.len())?;
    for trial in trials {
        let remark = match session::refuse(trial) {
            Ok(()) => paused(trial)?,
            Err(error) => format!(": fails, {error}"),
        };
        writeln!(out, "  {:4}  {}{remark}", trial.number, trial.name)?;
    }
    writeln!(out, "Each trial makes these changes to the host, and reverts them when it ends:")?;
    let mut shown = Vec::new();
    for trial in trials {
        if session::refuse(trial).is_err() {
            continue;
        }
        let topology = Topology::of(trial);
        let mut plan = devices::needs(trial, &topology, "wt-RUN");
        let of_host = (trial.host.isolate, trial.host.profile, trial.host.settings.clone());
        let key = (topology, plan.clone(), tracing::is_traced(trial), of_host);
        if shown.contains(&key) {
            continue;
        }
        plan.extend(topology.plan("wt-RUN").steps().iter().cloned());
        let assignment = assign(trial)?;
        if let Some(assignment) = &assignment {
            plan.extend(profile::steps(trial, assignment)?);
        }
        if let Some(assignment) = assignment.filter(|_| trial.host.isolate) {
            plan.extend(
                assignment
                    .isolation("wt-RUN", devices::stays(trial), profile::of(trial).is_some())?
                    .steps()
                    .iter()
                    .cloned(),
            );
        }
        if tracing::is_traced(trial) {
            plan.extend(trace_steps("wt-RUN"));
        }
        writeln!(out, "{}", trial.dut.kind)?;
        write!(out, "{plan}")?;
        shown.push(key);
    }
    Ok(())
}

fn assign(trial: &Trial) -> Result<Option<CpuAssignment>> {
    CpuAssignment::assign(Path::new("/"), Topology::of(trial).middle, trial.host.fifo)
}

/// Describes the pauses of a trial; empty if there are none.
fn paused(trial: &Trial) -> Result<String> {
    let plan = pauses::plan(trial, assign(trial)?.as_ref(), trial.trial.duration.ns_unsigned());
    Ok(if plan.is_empty() { String::new() } else { format!(": {}", pauses::describe(&plan)) })
}
