//! Runs an experiment (`wiretail run`), from the experiment file to the report.
//!
//! - [`testbed`] sets up namespaces, links, routers, traffic and cores; [`devices`] runs the devices under
//!   test;
//! - [`trial`] executes one trial and checks its validity; [`retries`] repeats a trial until it is valid;
//! - [`mod@experiment`] reads the experiment file, and [`plan`] lists the changes that it would make;
//!   [`output`] writes the run directory and the terminal output; [`clean`] reverts changes left by earlier
//!   runs.
//!
//! This module runs the trials of a file one after the other and evaluates them.

pub mod clean;
pub mod devices;
pub mod experiment;
pub mod output;
pub mod plan;
pub mod retries;
pub mod testbed;
pub mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use wiretail_host::{privileges, snapshot};
use wiretail_schema::experiment::{Experiment, Trial};
use wiretail_schema::run::{RUN_SCHEMA, Run, TrialRecord, TrialState};

use crate::cli::RunArgs;
use crate::run::experiment::read;
use crate::run::output::directory::{self, RunDirectory};
use crate::run::output::report::conclude;
use crate::run::output::results;
use crate::run::plan::print_plan;
use crate::run::retries::sessions;
use crate::run::trial::progress::Line;
use crate::run::trial::session;
use crate::traffic::live::stop_on_signals;

/// Runs an experiment. A trial that fails is reported, and the other trials continue.
///
/// # Errors
/// Returns an error if the experiment cannot be read, the host cannot be changed, or the run directory cannot
/// be written.
pub fn run(arguments: &RunArgs) -> Result<ExitCode> {
    let (experiment, earlier) = experiment(arguments)?;
    let trials = experiment.trials();
    if arguments.dry_run {
        print_plan(&experiment, &trials)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (directory, mut run) = begin(arguments, &experiment, earlier, trials.len())?;
    let stop = stop_on_signals()?;
    directory.write_manifest(&run)?;
    all(&directory, &mut run, &trials, arguments.quiet, &stop)?;
    conclude(directory.path(), &run, arguments.json, arguments.quiet)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted("run", directory.path()));
    }
    let all_valid = run.trials.iter().all(|trial| trial.state == TrialState::Valid);
    Ok(if all_valid && run.trials.len() == trials.len() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns the experiment, and the run directory to continue if the run is resumed.
pub fn experiment(arguments: &RunArgs) -> Result<(Experiment, Option<(RunDirectory, Run)>)> {
    match (&arguments.resume, &arguments.experiment) {
        (Some(path), _) => {
            let (directory, experiment, run) = RunDirectory::open(path)?;
            Ok((experiment, Some((directory, run))))
        }
        (None, Some(file)) => Ok((read(file)?, None)),
        (None, None) => bail!("no experiment was given; usage: wiretail run EXPERIMENT.toml"),
    }
}

/// Opens or creates the run directory and its manifest, after checking that the run may change this host.
pub fn begin(
    arguments: &RunArgs,
    experiment: &Experiment,
    earlier: Option<(RunDirectory, Run)>,
    planned: usize,
) -> Result<(RunDirectory, Run)> {
    if !arguments.allow_system_changes {
        bail!(
            "a run creates network namespaces and links, and moves tasks off its measurement cores; list all \
             changes with --dry-run, then pass --allow-system-changes"
        );
    }
    let held = privileges(Path::new("/"))?;
    held.allow_testbed().and_then(|()| held.allow_packets())?;
    if let Some(earlier) = earlier {
        return Ok(earlier);
    }
    let file = arguments.experiment.as_deref().unwrap_or(Path::new("run"));
    let path = arguments.out.clone().unwrap_or_else(|| directory::default_path(file));
    Ok((RunDirectory::create(&path, experiment)?, new_run(experiment, planned)))
}

/// Prints how to resume an interrupted run.
pub fn interrupted(verb: &str, path: &Path) -> ExitCode {
    eprintln!("interrupted; resume with: wiretail {verb} --resume {} --allow-system-changes", path.display());
    ExitCode::from(130)
}

/// Creates the manifest of a run without trials.
pub fn new_run(experiment: &Experiment, planned: usize) -> Run {
    Run {
        schema: RUN_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: experiment.first().title.clone(),
        seed: experiment.first().seed,
        started_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        trials_planned: planned,
        factors: experiment.factors(),
        host: snapshot(Path::new("/")),
        trials: Vec::new(),
    }
}

/// Runs all trials that are not done yet.
fn all(
    directory: &RunDirectory,
    run: &mut Run,
    trials: &[Trial],
    quiet: bool,
    stop: &AtomicBool,
) -> Result<()> {
    let is_done = |record: &TrialRecord| matches!(record.state, TrialState::Valid | TrialState::Invalid);
    let done: Vec<usize> =
        run.trials.iter().filter(|record| is_done(record)).map(|record| record.number).collect();
    let mut left: Vec<&Trial> = trials.iter().filter(|trial| !done.contains(&trial.number)).collect();
    while !left.is_empty() && !stop.load(Ordering::Relaxed) {
        let together = session::share(&left);
        let lines: Vec<Line> =
            (0..together).map(|place| Line::new(&left[place..], trials.len(), quiet)).collect();
        let records = sessions(directory, &left[..together], run.seed, &lines, stop)?;
        for record in records {
            let line = left.iter().zip(&lines).find(|(trial, _)| trial.number == record.number);
            if let Some((_, line)) = line.filter(|_| !quiet) {
                line.end(&results::outcome(directory.path(), &record));
            }
            insert(run, record);
        }
        // Written after every session, so that completed trials survive a later failure.
        directory.write_manifest(run)?;
        left.drain(..together);
    }
    Ok(())
}

/// Inserts a trial's record in order, replacing an earlier record of the same trial.
pub fn insert(run: &mut Run, record: TrialRecord) {
    run.trials.retain(|other| other.number != record.number);
    let place = run.trials.partition_point(|other| other.number < record.number);
    run.trials.insert(place, record);
}
