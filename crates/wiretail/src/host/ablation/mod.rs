//! `wiretail host prove`: measures the effect of a profile, and of each of its settings. Its trials are
//! recorded in the manifest, like those of a run. `ablation.json` records the configuration of each trial and
//! the results; it is written after every trial, so that `--resume` can continue.

mod text;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use wiretail_analysis::host::ablation::{
    HostKey, apply, configurations, factors, judge, not_tried, order, repeats_needed,
};
use wiretail_schema::experiment::{Experiment, Trial};
use wiretail_schema::host::ablation::{ABLATION_SCHEMA, Ablation, AblationTrial, Level, Statistic};
use wiretail_schema::host::plan::Profile;
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;
use wiretail_schema::units::rate::Percent;

use crate::analyze::outputs;
use crate::cli::host::ProveArgs;
use crate::run::experiment::read as read_file;
use crate::run::output::directory::{self, ABLATION_FILE, RunDirectory};
use crate::run::output::report::conclude;
use crate::run::retries::attempts;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::profile;
use crate::run::testbed::topology::Topology;
use crate::run::trial::progress::Line;
use crate::run::trial::session;
use crate::run::{begin, insert, interrupted, new_run};
use crate::traffic::live::stop_on_signals;

/// Number of repeats beyond the minimum for a confidence interval. With them, some repeats may contradict the
/// others.
const SPARE_REPEATS: u64 = 15;
/// Keys that differ between configurations, for the tables of the run's report.
const FACTORS: [&str; 5] = ["host.profile", "host.settings", "host.fifo", "host.isolate", "host.idle"];

/// Runs `wiretail host prove`.
///
/// # Errors
/// Returns an error if the experiment can't be read, the profile changes nothing, the host can't be changed,
/// or the disk is full. A failed trial is left out, and the others continue.
pub fn run(arguments: &ProveArgs) -> Result<ExitCode> {
    let (experiment, earlier) = match (&arguments.run.resume, &arguments.run.experiment) {
        (Some(path), _) => {
            let (directory, experiment, run) = RunDirectory::open(path)?;
            let ablation = directory::ablation(path)?.ok_or_else(|| {
                anyhow!("{}: contains no ablation; expected {ABLATION_FILE}", path.display())
            })?;
            (experiment, Some((directory, run, ablation)))
        }
        (None, Some(file)) => (read_file(file)?, None),
        (None, None) => bail!("expected an experiment: wiretail host prove EXPERIMENT.toml"),
    };
    let bases = bases(&experiment)?;
    let (ablation, earlier) = match earlier {
        Some((directory, run, ablation)) => (ablation, Some((directory, run))),
        None => (planned(arguments, &experiment, &bases)?, None),
    };
    let trials = trials(&ablation, &bases);
    if arguments.run.dry_run {
        text::plan(&mut io::stdout().lock(), &ablation, &trials)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (directory, mut run) = begin(&arguments.run, &experiment, earlier, trials.len())?;
    for key in FACTORS.iter().filter(|key| !experiment.factors().iter().any(|other| other == *key)) {
        run.factors.retain(|other| other != key);
        run.factors.push((*key).to_owned());
    }
    prove(&directory, run, ablation, &trials, arguments)
}

/// Runs all remaining trials, and prints the results.
fn prove(
    directory: &RunDirectory,
    mut run: Run,
    mut ablation: Ablation,
    trials: &[Planned],
    arguments: &ProveArgs,
) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    ablation.results = judge(&ablation);
    directory.write_manifest(&run)?;
    directory.write_document(ABLATION_FILE, &ablation)?;
    let done = |ablation: &Ablation, number| ablation.trials.iter().any(|trial| trial.number == number);
    let mut left: Vec<&Planned> = trials.iter().filter(|one| !done(&ablation, one.trial.number)).collect();
    while let Some(one) = left.first().filter(|_| !stop.load(Ordering::Relaxed)) {
        let waiting: Vec<&Trial> = left.iter().map(|one| &one.trial).collect();
        let line = Line::new(&waiting, trials.len(), arguments.run.quiet);
        // All configurations of a repeat use the same seed and therefore send the same packets.
        let seed = run.seed.wrapping_add(one.repeat);
        let Some(measured) = measured(directory, &mut run, (one, seed), &line, arguments.run.quiet, &stop)?
        else {
            break;
        };
        ablation.trials.push(measured);
        ablation.results = judge(&ablation);
        ablation.complete = ablation.trials.len() == trials.len();
        directory.write_document(ABLATION_FILE, &ablation)?;
        left.remove(0);
    }
    conclude(directory.path(), &run, false, true)?;
    if arguments.run.json || !arguments.run.quiet {
        outputs::print(&ablation, arguments.run.json, |out| {
            text::table(out, &ablation)?;
            writeln!(out, "\n  report  {}", directory.path().join("report.html").display())
        })?;
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted("host prove", directory.path()));
    }
    let all_valid = ablation.trials.iter().all(|trial| trial.invalid.is_empty());
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns the loads: the experiment's trials without repeats.
///
/// # Errors
/// Returns an error if a trial is invalid, or chooses a profile itself.
fn bases(experiment: &Experiment) -> Result<Vec<Trial>> {
    let bases: Vec<Trial> = experiment.trials().into_iter().filter(|trial| trial.repeat == 1).collect();
    for base in &bases {
        session::refuse(base)?;
        if profile::of(base).is_some() || crate::run::trial::tracing::is_traced(base) {
            bail!(
                "an ablation sets host.profile itself and does not trace; remove host.profile and trace.record"
            );
        }
    }
    Ok(bases)
}

/// Plans the configurations to compare on this host.
fn planned(arguments: &ProveArgs, experiment: &Experiment, bases: &[Trial]) -> Result<Ablation> {
    let profile = Profile::from(arguments.profile);
    if profile == Profile::Regular {
        bail!(
            "the regular profile is the reference of the comparison; expected --profile energysaving or optimized"
        );
    }
    let assignment = CpuAssignment::assign(Path::new("/"), Topology::of(&bases[0]).middle, true)?;
    let cores = assignment.map(|assignment| assignment.quiet).filter(|quiet| !quiet.is_empty());
    let cores = cores.ok_or_else(|| {
        anyhow!("a profile isolates cores, which requires a machine with at least two cores")
    })?;
    let plan = profile::here(profile, &cores)?;
    let mut factors = factors(&plan, &keys(&bases[0], profile));
    if let Some(unknown) =
        arguments.only.iter().find(|name| factors.iter().all(|factor| factor.name != **name))
    {
        let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
        bail!(
            "--only {unknown}: not a setting that the profile changes here; expected some of {}",
            names.join(", ")
        );
    }
    if !arguments.only.is_empty() {
        factors.retain(|factor| arguments.only.contains(&factor.name));
    }
    let configurations = configurations(&factors, arguments.alone);
    let compared = configurations.iter().filter(|configuration| configuration.factor.is_some()).count();
    let enough = repeats_needed(compared) + SPARE_REPEATS;
    let repeats = experiment.first().trial.repeats.max(enough);
    let run = new_run(experiment, 0);
    Ok(Ablation {
        schema: ABLATION_SCHEMA.to_owned(),
        wiretail_version: run.wiretail_version,
        title: run.title,
        seed: run.seed,
        started_s: run.started_s,
        profile,
        cores: cores.to_string(),
        repeats: arguments.repeats.unwrap_or(repeats).max(1),
        configurations,
        not_tried: not_tried(&plan),
        loads: bases.iter().map(|base| base.name.trim_end_matches("-repeat1").to_owned()).collect(),
        trials: Vec::new(),
        results: Vec::new(),
        complete: false,
    })
}

/// Returns the keys of table `host` that are factors. These are the keys that the experiment does not
/// disable, and polling if the profile requires it.
fn keys(base: &Trial, profile: Profile) -> Vec<HostKey> {
    let is_factor = |key: &HostKey| match key {
        HostKey::Fifo => base.host.fifo,
        HostKey::Isolate => base.host.isolate,
        HostKey::Idle => profile == Profile::Optimized,
    };
    HostKey::ALL.into_iter().filter(is_factor).collect()
}

/// A planned trial.
struct Planned {
    load: usize,
    configuration: usize,
    repeat: u64,
    trial: Trial,
}

/// Returns all trials in order of execution.
fn trials(ablation: &Ablation, bases: &[Trial]) -> Vec<Planned> {
    let mut trials = Vec::new();
    for repeat in 1..=ablation.repeats {
        for (load, base) in bases.iter().enumerate() {
            let switched = keys(base, ablation.profile);
            for configuration in order(ablation.configurations.len(), ablation.seed, load, repeat) {
                let number = trials.len() + 1;
                let words =
                    ablation.configurations[configuration].name().replace("host.", "").replace(' ', "-");
                let name = format!("{}-{words}-repeat{repeat}", ablation.loads[load]);
                let trial = base.with(number, repeat, name, |settings| {
                    let configuration = &ablation.configurations[configuration];
                    apply(configuration, ablation.profile, &switched, &mut settings.host);
                    // The generator's stalls and delays are part of what is measured, so they do not
                    // invalidate a trial.
                    settings.trial.late_share = Percent::ALL;
                    settings.trial.stall_share = Percent::ALL;
                    settings.trial.retries = 0;
                });
                trials.push(Planned { load, configuration, repeat, trial });
            }
        }
    }
    trials
}

/// Runs one trial; returns `None` if it was interrupted.
fn measured(
    directory: &RunDirectory,
    run: &mut Run,
    (planned, seed): (&Planned, u64),
    line: &Line,
    quiet: bool,
    stop: &AtomicBool,
) -> Result<Option<AblationTrial>> {
    let trial = &planned.trial;
    let record = attempts(directory, trial, seed.wrapping_sub(trial.like as u64), line, stop)?;
    if record.state == TrialState::Interrupted || stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let summary = directory::summary(directory.path(), &record, 0)?;
    let found = ablation_trial(planned, &record, summary.as_ref());
    if !quiet {
        line.end(&text::trial(&found));
    }
    insert(run, record);
    directory.write_manifest(run)?;
    Ok(Some(found))
}

fn ablation_trial(planned: &Planned, record: &TrialRecord, summary: Option<&Summary>) -> AblationTrial {
    let mut invalid = match record.state {
        TrialState::Valid => Vec::new(),
        _ => record.reasons.clone(),
    };
    if summary.is_none_or(|summary| summary.delay.count == 0) && invalid.is_empty() {
        invalid.push("no packet arrived".to_owned());
    }
    let level = |statistic: Statistic| {
        let delay = &summary?.delay;
        let (value_ns, supported) = match statistic.percentile() {
            None => (delay.max_ns, false),
            Some(asked) => {
                let found = delay.percentile(asked)?;
                (found.value_ns, found.supported)
            }
        };
        Some(Level { statistic, value_ns, supported })
    };
    AblationTrial {
        number: record.number,
        load: planned.load,
        configuration: planned.configuration,
        repeat: planned.repeat,
        invalid,
        packets: summary.map_or(0, |summary| summary.delay.count),
        lost: summary.map_or(0, |summary| summary.loss.lost),
        levels: Statistic::ALL.iter().filter_map(|statistic| level(*statistic)).collect(),
    }
}
