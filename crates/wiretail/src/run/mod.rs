//! `wiretail run`: from an experiment file to a report.
//!
//! - [`testbed`]: namespaces, links, taps;
//! - [`trial`]: one trial, from the testbed to both captures.
//!
//! Here: the trials one after the other, their analyses, the run directory.

mod testbed;
mod trial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Parser;
use wiretail_host::{JOURNAL_FOLDER, Journal, clean as clean_leftovers, privileges, snapshot};
use wiretail_schema::experiment::{Experiment, Trial};
use wiretail_schema::run::{RUN_SCHEMA, Run, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use crate::cli::{CheckArgs, CleanArgs, Cli, Command, RunArgs};
use crate::{analyze, outputs};

/// Runs an experiment.
///
/// # Errors
/// An experiment that can't be read, a host that can't be changed, a full disk. A trial that fails
/// is reported, and the others go on.
pub fn run(arguments: &RunArgs) -> Result<ExitCode> {
    let (text, experiment) = read(&arguments.experiment)?;
    let trials = experiment.trials();
    if arguments.dry_run {
        print_plan(&experiment, &trials);
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.allow_system_changes {
        bail!(
            "a run makes network namespaces and links; look at them with --dry-run, then say --allow-system-changes"
        );
    }
    let held = privileges(Path::new("/"))?;
    held.allow_testbed().and_then(|()| held.allow_packets())?;
    let directory = directory(arguments)?;
    outputs::write_file(&directory.join("experiment.resolved.toml"), text.as_bytes())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signals can't be caught")?;
    }
    let mut run = Run {
        schema: RUN_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: experiment.first("", "title").text.clone(),
        seed: experiment.first("", "seed").number,
        started_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        trials_planned: trials.len(),
        factors: experiment.factors(),
        host: snapshot(Path::new("/")),
        trials: Vec::new(),
    };
    let mut summaries = Vec::new();
    for trial in &trials {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("[{}/{}] {}", trial.number, trials.len(), trial.name);
        let folder = directory.join("trials").join(format!("{:04}-{}", trial.number, trial.name));
        let (record, summary) = one(trial, run.seed, &folder, &stop);
        for reason in &record.reasons {
            eprintln!("  {:?}: {reason}", record.state);
        }
        if let Some(summary) = summary {
            summaries.push((trial.name.clone(), summary));
        }
        run.trials.push(record);
        // After every trial: what was measured is not lost with what comes.
        write_manifest(&directory, &run)?;
    }
    finish(&directory, &run, &summaries)?;
    Ok(exit_code(&run, &trials, &stop))
}

/// 130 when interrupted, 1 where a trial failed or is invalid.
fn exit_code(run: &Run, trials: &[Trial], stop: &AtomicBool) -> ExitCode {
    if stop.load(Ordering::Relaxed) {
        return ExitCode::from(130);
    }
    let all_valid = run.trials.iter().all(|trial| trial.state == TrialState::Valid);
    if all_valid && run.trials.len() == trials.len() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Reads an experiment file; the error names the file and the line.
fn read(path: &Path) -> Result<(String, Experiment)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; expected an experiment file", path.display()))?;
    let experiment =
        Experiment::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    Ok((text, experiment))
}

/// `wiretail check`: says what an experiment would do, or what is wrong with it.
///
/// # Errors
/// What is wrong, with file and line.
pub fn check(arguments: &CheckArgs) -> Result<ExitCode> {
    let (_, experiment) = read(&arguments.experiment)?;
    let trials = experiment.trials();
    println!("{}: {} trials", arguments.experiment.display(), trials.len());
    Ok(ExitCode::SUCCESS)
}

/// `wiretail clean`: reverts what runs that ended before their time left behind.
///
/// # Errors
/// What could not be reverted.
pub fn clean(arguments: &CleanArgs) -> Result<ExitCode> {
    let report = clean_leftovers(Path::new(JOURNAL_FOLDER), arguments.dry_run)?;
    for (leftover, undone) in &report.cleaned {
        if arguments.dry_run {
            println!("{}: {} changes would be undone", leftover.run, leftover.steps.len());
            leftover.steps.iter().for_each(|step| println!("  {step}"));
        } else {
            println!("{}: {} changes undone", leftover.run, undone.steps);
        }
        undone.remarks.iter().for_each(|remark| println!("  {remark}"));
    }
    for living in &report.living {
        println!("{}: still running, left alone", living.run);
    }
    if report.cleaned.is_empty() && report.living.is_empty() && report.faults.is_empty() {
        println!("nothing is left of earlier runs");
    }
    match report.faults.first() {
        Some(fault) => bail!("{} changes could not be undone: {fault}", report.faults.len()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn print_plan(experiment: &Experiment, trials: &[Trial]) {
    println!("{}: {} trials", experiment.first("", "title").text, trials.len());
    for trial in trials {
        println!("  {:4}  {}", trial.number, trial.name);
    }
    println!("Each trial changes the host by these steps, and undoes them at its end:");
    let mut shown = Vec::new();
    for trial in trials {
        let middle = trial::middle(trial);
        if !shown.contains(&middle) {
            println!("{}", trial.get("dut", "kind").text);
            print!("{}", testbed::plan("wt-RUN", middle));
            shown.push(middle);
        }
    }
}

fn directory(arguments: &RunArgs) -> Result<PathBuf> {
    let directory = match &arguments.out {
        Some(directory) => directory.clone(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
            let stamp = wiretail_report::format::utc(now).unwrap_or_default();
            let stamp = stamp.trim_end_matches(" UTC").replace(' ', "T").replace(':', "-");
            let name = arguments.experiment.file_stem().unwrap_or_default().to_string_lossy();
            PathBuf::from("runs").join(format!("{stamp}-{name}"))
        }
    };
    if directory.join("manifest.json").exists() {
        bail!("{}: holds a run already; choose another --out", directory.display());
    }
    std::fs::create_dir_all(directory.join("trials"))
        .with_context(|| format!("{}: cannot be made", directory.display()))?;
    Ok(directory)
}

/// One trial with its analysis; a failure becomes part of the record.
fn one(trial: &Trial, seed: u64, folder: &Path, stop: &AtomicBool) -> (TrialRecord, Option<Summary>) {
    let outcome = attempt(trial, seed, folder, stop);
    match outcome {
        Ok((record, summary)) => (record, Some(summary)),
        Err(error) => {
            let record = trial::blank(trial, TrialState::Failed, vec![format!("{error:#}")]);
            (record, None)
        }
    }
}

fn attempt(trial: &Trial, seed: u64, folder: &Path, stop: &AtomicBool) -> Result<(TrialRecord, Summary)> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let journal = Journal::create_unique(Path::new(JOURNAL_FOLDER))?;
    let prefix = journal.run().to_owned();
    let setup = trial::Setup {
        trial,
        seed: seed.wrapping_add(trial.number as u64),
        prefix: &prefix,
        directory: folder,
        cores: cores(),
        stop,
    };
    let record = trial::run(&setup, journal)?;
    let summary = analyse(trial, folder)?;
    Ok((record, summary))
}

/// The generator's core and the device's: the first two, where there are two.
fn cores() -> (Option<usize>, Option<usize>) {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() >= 2 => (Some(0), Some(1)),
        _ => (None, None),
    }
}

/// Analyses a trial's captures as `wiretail analyze` does, into the trial's directory.
fn analyse(trial: &Trial, folder: &Path) -> Result<Summary> {
    let trim = format!("{}ns", trial.get("trial", "warm-up").number);
    let path = |name: &str| folder.join(name).into_os_string();
    let mut line = vec!["wiretail".into(), "analyze".into(), path("pre.pcap"), path("post.pcap")];
    line.extend(["--quiet", "--trim", &trim, "--out"].map(Into::into));
    line.push(folder.as_os_str().to_owned());
    let Command::Analyze(arguments) = Cli::try_parse_from(line)?.command else {
        unreachable!("analyze it is")
    };
    analyze::run(&arguments)?;
    let summary = std::fs::read(folder.join("summary.json"))?;
    Ok(serde_json::from_slice(&summary)?)
}

fn write_manifest(directory: &Path, run: &Run) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(run)?;
    text.push(b'\n');
    outputs::write_file(&directory.join("manifest.json"), &text)
}

fn finish(directory: &Path, run: &Run, summaries: &[(String, Summary)]) -> Result<()> {
    if summaries.is_empty() {
        bail!("{}: no trial could be analysed; manifest.json there says why", directory.display());
    }
    let report = directory.join("report.html");
    let page = wiretail_report::comparison(&run.title, summaries, &[]);
    outputs::write_file(&report, page.as_bytes())?;
    table(run, summaries);
    println!("\n  report  {}", report.display());
    Ok(())
}

/// The table of the papers: scenario, rate, loss, percentiles.
fn table(run: &Run, summaries: &[(String, Summary)]) {
    use wiretail_report::format::{count, duration, ratio};
    println!("{}\n", run.title);
    println!(
        "  {:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  state",
        "trial", "sent", "loss", "p50", "p99", "p99.9", "max"
    );
    for record in &run.trials {
        let state = format!("{:?}", record.state).to_lowercase();
        let Some((_, summary)) = summaries.iter().find(|(name, _)| *name == record.name) else {
            println!("  {:<28} {:>65}  {state}", record.name, "");
            continue;
        };
        let at = |wanted: f64| {
            let found = summary.delay.percentiles.iter().find(|p| p.percentile == wanted);
            found.map_or("-".to_owned(), |p| {
                format!("{}{}", duration(p.value_ns as f64), if p.supported { "" } else { "?" })
            })
        };
        println!(
            "  {:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {state}",
            record.name,
            count(record.generator.as_ref().map_or(0, |generator| generator.sent)),
            ratio(summary.loss.ratio),
            at(50.0),
            at(99.0),
            at(99.9),
            duration(summary.delay.max_ns as f64),
        );
    }
    println!(
        "\n  ? too few packets for this percentile; stamps: {}",
        run.trials.first().and_then(|t| t.taps.first()).map_or("", |tap| &tap.timestamp_source)
    );
}
