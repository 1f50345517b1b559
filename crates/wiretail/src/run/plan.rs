//! The plan of an experiment: its trials, and all changes that they would make to the host.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use wiretail_host::Plan;
use wiretail_host::trace::steps as trace_steps;
use wiretail_schema::experiment::{DutKind, Experiment, Trial};

use crate::cli::CheckArgs;
use crate::run::devices;
use crate::run::experiment::read;
use crate::run::testbed::changes::Changes;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::Topology;
use crate::run::trial::progress;
use crate::run::trial::{pauses, session, tracing};

/// Stands for the name of the run, which is not known before it starts.
const RUN: &str = "wt-RUN";

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
    writeln!(
        out,
        "Each trial makes these changes to the host in this order. When it ends, it undoes them in reverse order:\n\
         files get their previous values, and what was added is removed with everything in it."
    )?;
    let mut shown = Vec::new();
    let mut are_certain = true;
    for trial in trials {
        if session::refuse(trial).is_err() {
            continue;
        }
        let (plan, is_certain) = plan_of(trial)?;
        let is_command = trial.dut.kind == DutKind::Command;
        let key = (plan, is_command.then(|| trial.dut.command.clone()));
        if shown.contains(&key) {
            continue;
        }
        writeln!(out, "{}, as in trial {}", trial.dut.kind, trial.number)?;
        write!(out, "{}", key.0)?;
        if let Some(line) = &key.1 {
            writeln!(
                out,
                "     Then it runs the device, until the trial ends: sh -c {line:?} (dut.command)"
            )?;
        }
        shown.push(key);
        are_certain &= is_certain;
    }
    if !are_certain {
        writeln!(
            out,
            "Without root, it is assumed which settings of host.sysctl belong to a network namespace; repeat as root"
        )?;
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

/// Returns all changes that a trial makes to the host, and whether they are certain
/// ([`Changes::are_certain`]).
fn plan_of(trial: &Trial) -> Result<(Plan, bool)> {
    let topology = Topology::of(trial);
    let changes = Changes::of(trial, RUN);
    let assignment = assign(trial)?;
    let mut plan = changes.testbed(&topology, devices::needs(trial, &topology, RUN));
    if let Some(assignment) = &assignment {
        plan.extend(changes.settings(assignment, devices::stays(trial))?.steps().iter().cloned());
    }
    let commands = changes.commands(&topology, assignment.as_ref(), Path::new("TRIAL"))?;
    plan.extend(commands.steps().iter().cloned());
    if tracing::is_traced(trial) {
        plan.extend(trace_steps(RUN));
    }
    Ok((plan, changes.are_certain()))
}
