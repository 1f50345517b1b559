//! `wiretail run`: from an experiment file to a report.
//!
//! - [`topology`]: the testbed as data, [`router`]: its routers; [`testbed`]: one that stands; [`places`]: who runs on
//!   which core; [`profile`]: what is set on the host;
//! - [`traffic`]: what is sent; [`device`]: what forwards; [`recorder`] and [`store`]: what is seen;
//! - [`tracing`] and [`interrupts`]: what the kernel did meanwhile; [`energy`]: what it took;
//! - [`sitting`]: all of these together; [`take`]: a trial's packets; [`attempts`]: until it is valid;
//!   [`validity`]: whether it says anything; [`results`]: what;
//!   [`shares`]: whose the delay is;
//! - [`directory`]: what stays; [`progress`] and [`table`]: what is shown;
//! - [`search`]: trials at rates that are chosen one after the other; [`proof`]: with and without settings of the host.
//!
//! Here: the trials of a file one after the other, and their evaluation.

mod attempts;
pub mod directory;
mod disturb;
mod dut;
mod energy;
pub mod explain;
pub mod interrupts;
mod lost;
mod neighbour;
pub mod packets;
mod places;
mod profile;
mod progress;
pub mod proof;
mod recorder;
mod results;
mod router;
pub mod search;
mod shares;
mod sitting;
mod store;
mod table;
mod take;
mod testbed;
mod topology;
mod tracing;
mod traffic;
mod validity;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use wiretail_analysis::overhead::overheads;
use wiretail_analysis::overload::overloads;
use wiretail_analysis::ranking::rankings;
use wiretail_analysis::shares::additions;
use wiretail_host::trace::steps as trace_steps;
use wiretail_host::{JOURNAL_FOLDER, KEPT_FOLDER, clean as clean_leftovers, leftovers, privileges, snapshot};
use wiretail_report::RunPage;
use wiretail_schema::experiment::{Experiment, Trial};
use wiretail_schema::run::{RUN_SCHEMA, Run, TrialRecord, TrialState};
use wiretail_schema::search::Goal;
use wiretail_schema::units::Budget;

use crate::cli::{CheckArgs, CleanArgs, ReportArgs, RunArgs};
use crate::live::stop_on_signals;
use crate::outputs;
use attempts::sittings;
use directory::RunDirectory;
use progress::Line;
use topology::Topology;

/// Values of `dut.rules` that are not the name of a file.
const RULE_SETS: [&str; 3] = ["none", "packaged", "emerging"];
/// Latency budgets that each trial is judged by: those of 5G's ultra-reliable low-latency service.
const BUDGETS: [&str; 2] = ["1ms@99.999%", "350us@99.999%"];

/// Runs an experiment.
///
/// # Errors
/// An experiment that can't be read, a host that can't be changed, a full disk. A trial that fails
/// is reported, and the others go on.
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

/// What was asked for, and the directory of the run that it goes on with, if it does.
fn experiment(arguments: &RunArgs) -> Result<(Experiment, Option<(RunDirectory, Run)>)> {
    match (&arguments.resume, &arguments.experiment) {
        (Some(path), _) => {
            let (directory, experiment, run) = RunDirectory::open(path)?;
            Ok((experiment, Some((directory, run))))
        }
        (None, Some(file)) => Ok((read(file)?, None)),
        (None, None) => bail!("which experiment? wiretail run EXPERIMENT.toml"),
    }
}

/// The directory of a run that may change this host, and its manifest.
fn begin(
    arguments: &RunArgs,
    experiment: &Experiment,
    earlier: Option<(RunDirectory, Run)>,
    planned: usize,
) -> Result<(RunDirectory, Run)> {
    if !arguments.allow_system_changes {
        bail!(
            "a run makes network namespaces and links, and moves tasks off the cores it measures on; look at all \
             changes with --dry-run, then say --allow-system-changes"
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

/// Says how to go on with what was interrupted.
fn interrupted(verb: &str, path: &Path) -> ExitCode {
    eprintln!("interrupted; go on with: wiretail {verb} --resume {} --allow-system-changes", path.display());
    ExitCode::from(130)
}

/// `wiretail report`: the report of what is in a run directory.
///
/// # Errors
/// It is none, or can't be written to.
pub fn report(arguments: &ReportArgs) -> Result<ExitCode> {
    let (experiment, mut run) = directory::read(&arguments.run)?;
    for trial in experiment.trials() {
        if run.trials.iter().all(|record| record.number != trial.number)
            && let Some(record) = results::recover(&arguments.run, &trial)?
        {
            insert(&mut run, record);
        }
    }
    conclude(&arguments.run, &run, arguments.json, arguments.quiet)?;
    Ok(ExitCode::SUCCESS)
}

/// The latency budgets that a trial is judged by: the two of all trials, and what a search asks for.
fn budgets(trial: &Trial) -> Result<Vec<Budget>> {
    let mut budgets = BUDGETS.iter().map(|budget| budget.parse()).collect::<Result<Vec<Budget>, _>>()?;
    for goal in Goal::list(&trial.get("search", "goals").text)? {
        if let Goal::Delay { budget, .. } = goal {
            budgets.push(budget.parse()?);
        }
    }
    Ok(budgets)
}

/// Reads an experiment file; the error names the file and the line. Names of further files become absolute.
fn read(path: &Path) -> Result<Experiment> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; expected an experiment file", path.display()))?;
    let error = |error| anyhow::anyhow!("{}: {error}", path.display());
    let mut experiment = Experiment::parse(&text).map_err(error)?;
    let base = path.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(base) = std::path::absolute(base) {
        experiment.rebase("traffic", "replay", |name| base.join(name).display().to_string());
        let named = |rules: &str| !RULE_SETS.contains(&rules);
        experiment.rebase("dut", "rules", |rules| match named(rules) {
            true => base.join(rules).display().to_string(),
            false => rules.to_owned(),
        });
    }
    Ok(experiment)
}

fn new_run(experiment: &Experiment, planned: usize) -> Run {
    Run {
        schema: RUN_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: experiment.first("", "title").text.clone(),
        seed: experiment.first("", "seed").number,
        started_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        trials_planned: planned,
        factors: experiment.factors(),
        host: snapshot(Path::new("/")),
        trials: Vec::new(),
    }
}

/// Does all trials that are not done yet.
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
        let together = sitting::share(&left);
        let lines: Vec<Line> =
            (0..together).map(|place| Line::new(&left[place..], trials.len(), quiet)).collect();
        let records = sittings(directory, &left[..together], run.seed, &lines, stop)?;
        for record in records {
            let line = left.iter().zip(&lines).find(|(trial, _)| trial.number == record.number);
            if let Some((_, line)) = line.filter(|_| !quiet) {
                line.end(&results::outcome(directory.path(), &record));
            }
            insert(run, record);
        }
        // After every sitting: what was measured is not lost with what comes.
        directory.write_manifest(run)?;
        left.drain(..together);
    }
    Ok(())
}

/// Puts a trial's record in its place; an earlier one of the same trial goes.
fn insert(run: &mut Run, record: TrialRecord) {
    run.trials.retain(|other| other.number != record.number);
    let place = run.trials.partition_point(|other| other.number < record.number);
    run.trials.insert(place, record);
}

/// The report, and the table on standard output.
fn conclude(path: &Path, run: &Run, json: bool, quiet: bool) -> Result<()> {
    let results = directory::results(path, run)?;
    let report = path.join("report.html");
    let curves = directory::curves(path, run)?;
    let explanations = explain::pages(path, run)?;
    let searches = search::read(path)?;
    let proof = proof::read(path)?;
    let page = RunPage {
        run,
        results: &results,
        overloads: &overloads(run, &results),
        rankings: &rankings(run, &results),
        curves: &curves,
        additions: &additions(run, &curves),
        explanations: &explanations,
        overheads: &overheads(run, &results),
        searches: searches.as_ref(),
        proof: proof.as_ref(),
    };
    outputs::write_file(&report, wiretail_report::run(&page).as_bytes())?;
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, run)?;
        writeln!(out)?;
    } else if !quiet {
        table::print(&mut out, run, &results, page.rankings)?;
        writeln!(out, "\n  report  {}", report.display())?;
    }
    Ok(())
}

/// `wiretail check`: says what an experiment would do, or what is wrong with it.
///
/// # Errors
/// What is wrong, with file and line.
pub fn check(arguments: &CheckArgs) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let experiment = read(&arguments.experiment)?;
    let trials = experiment.trials();
    let sending = trials.iter().map(|trial| trial.get("trial", "duration").number).sum();
    let time = progress::seconds(std::time::Duration::from_nanos(sending));
    writeln!(out, "{}: {} trials, which send for {time}", arguments.experiment.display(), trials.len())?;
    let mut code = ExitCode::SUCCESS;
    for trial in &trials {
        if let Err(error) = sitting::refuse(trial) {
            writeln!(out, "  {:4}  {}: fails, {error}", trial.number, trial.name)?;
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}

/// `wiretail clean`: reverts what runs that ended before their time left behind.
///
/// # Errors
/// What could not be reverted.
pub fn clean(arguments: &CleanArgs) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let report = clean_leftovers(Path::new(JOURNAL_FOLDER), arguments.dry_run)?;
    for (leftover, undone) in &report.cleaned {
        if arguments.dry_run {
            writeln!(out, "{}: {} changes would be undone", leftover.run, leftover.steps.len())?;
            leftover.steps.iter().try_for_each(|step| writeln!(out, "  {step}"))?;
        } else {
            writeln!(out, "{}: {} changes undone", leftover.run, undone.steps)?;
        }
        undone.remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
    }
    for living in &report.living {
        writeln!(out, "{}: still running, left alone", living.run)?;
    }
    if report.cleaned.is_empty() && report.living.is_empty() && report.faults.is_empty() {
        writeln!(out, "nothing is left of earlier runs")?;
    }
    if leftovers(Path::new(KEPT_FOLDER)).is_ok_and(|applied| !applied.is_empty()) {
        writeln!(out, "a profile is applied to this host, and stays: `wiretail host revert` puts it back")?;
    }
    match report.faults.first() {
        Some(fault) => bail!("{} changes could not be undone: {fault}", report.faults.len()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn print_plan(experiment: &Experiment, trials: &[Trial]) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {} trials", experiment.first("", "title").text, trials.len())?;
    for trial in trials {
        let refused = sitting::refuse(trial).err().map(|error| format!(": fails, {error}"));
        writeln!(out, "  {:4}  {}{}", trial.number, trial.name, refused.unwrap_or_default())?;
    }
    writeln!(out, "Each trial changes the host by these steps, and undoes them at its end:")?;
    let mut shown = Vec::new();
    for trial in trials {
        if sitting::refuse(trial).is_err() {
            continue;
        }
        let topology = Topology::of(trial);
        let mut plan = dut::needs(trial, &topology, "wt-RUN");
        let of_host = ["isolate", "profile", "settings"].map(|key| trial.get("host", key).text.clone());
        let key = (topology, plan.clone(), tracing::is_traced(trial), of_host);
        if shown.contains(&key) {
            continue;
        }
        plan.extend(topology.plan("wt-RUN").steps().iter().cloned());
        let places = places::Places::assign(Path::new("/"), topology.middle, trial.is("host", "fifo"))?;
        if let Some(places) = &places {
            plan.extend(profile::steps(trial, places)?);
        }
        if let Some(places) = places.filter(|_| trial.is("host", "isolate")) {
            plan.extend(
                places
                    .isolation("wt-RUN", dut::stays(trial), profile::of(trial).is_some())?
                    .steps()
                    .iter()
                    .cloned(),
            );
        }
        if tracing::is_traced(trial) {
            plan.extend(trace_steps("wt-RUN"));
        }
        writeln!(out, "{}", trial.get("dut", "kind").text)?;
        write!(out, "{plan}")?;
        shown.push(key);
    }
    Ok(())
}
