//! Implements `wiretail search`, which runs trials at different loads to find the highest load that a device
//! sustains.
//!
//! A trial of the experiment with a variable load defines a search. The trials of the search are recorded in
//! the manifest, like those of a run. The results for each goal are in `search.json`. This file is written
//! after every trial, so that `--resume` can continue an interrupted search.

mod measure;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use wiretail_analysis::search::{Ask, conclude as judge, next};
use wiretail_report::format::{count, duration};
use wiretail_schema::experiment::{Experiment, KEYS, Trial};
use wiretail_schema::run::scenario::RATE;
use wiretail_schema::run::{Run, TrialState};
use wiretail_schema::search::{
    Effort, Ending, Goal, Method, Over, SEARCH_SCHEMA, Search, SearchTrial, Searches,
};
use wiretail_schema::units::Duration as Span;
use wiretail_schema::units::rate::Rate;

use crate::cli::RunArgs;
use crate::run::output::directory::{self, RunDirectory, SEARCH_FILE};
use crate::run::output::report::conclude;
use crate::run::plan::print_plan;
use crate::run::retries::attempts;
use crate::run::trial::progress::Line;
use crate::run::trial::session;
use crate::run::{begin, experiment, insert, interrupted};
use crate::traffic::live::stop_on_signals;

/// Runs the searches of an experiment. A failed trial is ignored, and its search continues.
///
/// # Errors
/// Returns an error if the experiment cannot be read or searched, the host cannot be changed, or a file
/// cannot be written.
pub fn run(arguments: &RunArgs) -> Result<ExitCode> {
    let (experiment, earlier) = experiment(arguments)?;
    let templates = experiment.trials();
    let goals = experiment.first().search.goals.0.clone();
    for template in &templates {
        session::refuse(template)?;
        refuse(template, &effort(template))?;
    }
    if arguments.dry_run {
        print_plan(&experiment, &templates)?;
        text::plan(&mut io::stdout().lock(), &effort(&templates[0]), &goals)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (directory, mut run) = begin(arguments, &experiment, earlier, 0)?;
    run.factors = factors(&experiment);
    let mut searches =
        directory::searches(directory.path())?.unwrap_or_else(|| new_searches(&experiment, &run, &templates));
    let stop = stop_on_signals()?;
    directory.write_manifest(&run)?;
    for template in &templates {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        one(&directory, (&mut run, &mut searches), template, &goals, arguments.quiet, &stop)?;
    }
    conclude(directory.path(), &run, false, true)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &searches)?;
        writeln!(out)?;
    } else if !arguments.quiet {
        text::table(&mut out, &searches)?;
        writeln!(out, "\n  report  {}", directory.path().join("report.html").display())?;
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted("search", directory.path()));
    }
    let mut endings = searches.searches.iter().flat_map(|search| &search.goals).map(|goal| goal.ending);
    Ok(if endings.all(|ending| ending == Ending::Found) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs or resumes one search until it ends or is interrupted. Completed trials are not repeated.
fn one(
    directory: &RunDirectory,
    (run, searches): (&mut Run, &mut Searches),
    template: &Trial,
    goals: &[Goal],
    quiet: bool,
    stop: &AtomicBool,
) -> Result<()> {
    let place = searches.searches.iter().position(|search| search.number == template.number);
    let place = match place {
        Some(place) if searches.searches[place].complete => return Ok(()),
        Some(place) => place,
        None => {
            searches.searches.push(new_search(template, goals));
            searches.searches.len() - 1
        }
    };
    let mut begun = Instant::now();
    loop {
        let search = &mut searches.searches[place];
        let ask = next(&search.effort, goals, &search.trials);
        if let Some(ask) = ask.filter(|_| !stop.load(Ordering::Relaxed)) {
            let seed = run.seed;
            match measured(directory, (run, seed), template, goals, (ask, search), quiet, stop)? {
                Some(trial) => search.trials.push(trial),
                None => stop.store(true, Ordering::Relaxed),
            }
        }
        search.goals = judge(&search.effort, goals, &search.trials);
        search.complete = ask.is_none();
        search.sending_s = search.trials.iter().map(|trial| trial.duration_ns as f64 / 1e9).sum();
        search.elapsed_s += begun.elapsed().as_secs_f64();
        begun = Instant::now();
        let ended = search.complete || stop.load(Ordering::Relaxed);
        if ended && search.effort.over == Over::Burst {
            measure::held(directory.path(), run, search)?;
        }
        if ended && !quiet {
            search
                .goals
                .iter()
                .for_each(|goal| eprintln!("{}: {}", template.name, text::result(search.effort.over, goal)));
        }
        directory.write_document(SEARCH_FILE, searches)?;
        if ended {
            return Ok(());
        }
    }
}

/// Runs a trial at the requested load. Returns `None` if the trial was interrupted.
fn measured(
    directory: &RunDirectory,
    (run, seed): (&mut Run, u64),
    template: &Trial,
    goals: &[Goal],
    (ask, search): (Ask, &Search),
    quiet: bool,
    stop: &AtomicBool,
) -> Result<Option<SearchTrial>> {
    let number = run.trials.iter().map(|record| record.number).max().unwrap_or(0) + 1;
    let over = search.effort.over;
    let name = match over {
        Over::Rate => format!("{}-{}pps", template.name, ask.load),
        Over::Burst => format!("{}-burst{}", template.name, ask.load),
    };
    let trial = template.with(number, template.repeat, name, |settings| {
        match over {
            Over::Rate => settings.traffic.rate = Rate { pps: ask.load },
            Over::Burst => settings.traffic.burst = ask.load as u32,
        }
        settings.trial.duration = Span::from_ns(ask.duration_ns as i64);
    });
    let sending = duration(ask.duration_ns as f64);
    let head = format!("{}: {} {} for {sending}", template.name, count(ask.load), over.unit());
    let line = Line::of_search(head, &trial, quiet);
    let record = attempts(directory, &trial, seed, &line, stop)?;
    if record.state == TrialState::Interrupted || stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let measured = measure::of(directory.path(), &record, ask, goals, &search.effort)?;
    if !quiet {
        line.end(&text::trial(&measured, goals));
    }
    insert(run, record);
    run.trials_planned = run.trials.len();
    directory.write_manifest(run)?;
    Ok(Some(measured))
}

/// Returns the keys that distinguish the trials of a search: the experiment's factors for the device and its
/// load, and the load that is searched for.
fn factors(experiment: &Experiment) -> Vec<String> {
    let asked = experiment.factors();
    let names = KEYS.iter().filter(|row| row.table != "search").map(|row| row.full_name());
    let sought = match experiment.first().search.over {
        Over::Rate => RATE,
        Over::Burst => "traffic.burst",
    };
    names.filter(|name| name == sought || asked.contains(name)).collect()
}

fn new_searches(experiment: &Experiment, run: &Run, templates: &[Trial]) -> Searches {
    Searches {
        schema: SEARCH_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: run.title.clone(),
        seed: run.seed,
        started_s: run.started_s,
        factors: experiment.factors(),
        searches_planned: templates.len(),
        searches: Vec::new(),
    }
}

fn new_search(template: &Trial, goals: &[Goal]) -> Search {
    let effort = effort(template);
    Search {
        number: template.number,
        repeat: template.repeat,
        name: template.name.clone(),
        settings: template.records(),
        goals: judge(&effort, goals, &[]),
        effort,
        trials: Vec::new(),
        sending_s: 0.0,
        elapsed_s: 0.0,
        complete: false,
    }
}

/// Returns how the search chooses loads.
fn effort(template: &Trial) -> Effort {
    let keys = &template.search;
    let full_ns = template.trial.duration.ns_unsigned();
    let (lowest, highest) = match keys.over {
        Over::Rate => (keys.lowest.pps, template.traffic.rate.pps),
        Over::Burst => (1, u64::from(template.traffic.burst)),
    };
    Effort {
        method: keys.method,
        over: keys.over,
        lowest,
        highest,
        width: keys.width.fraction(),
        full_ns,
        first_ns: keys.first_duration.ns_unsigned().min(full_ns),
        trials: keys.trials,
        exceed: keys.exceed.fraction(),
        verify: keys.verify,
        stretch: keys.stretch.fraction(),
    }
}

/// Refuses settings that cannot be searched.
fn refuse(template: &Trial, effort: &Effort) -> Result<()> {
    if effort.over == Over::Burst {
        let shortest_ns = if effort.method == Method::Mlrsearch { effort.first_ns } else { effort.full_ns };
        let fit = (template.traffic.rate.pps as f64 * shortest_ns as f64 / 1e9) as u64;
        if effort.highest < 2 || effort.highest > fit {
            bail!(
                "traffic.burst = {}, the longest burst of the search: expected 2 to {fit} packets, the \
                 number of packets in a trial",
                effort.highest
            );
        }
    } else if effort.lowest >= effort.highest {
        bail!(
            "search.lowest = {} pps is not below traffic.rate = {} pps, the highest rate of the search",
            effort.lowest,
            effort.highest
        );
    }
    if effort.width <= 0.0 || effort.width >= 1.0 {
        bail!("search.width: expected more than 0 % and less than 100 %, such as 1 %");
    }
    let warm_up = template.trial.warm_up;
    if effort.method == Method::Mlrsearch && effort.first_ns <= warm_up.ns_unsigned() {
        bail!(
            "search.first-duration = {} ns is not longer than trial.warm-up = \"{warm_up}\"",
            effort.first_ns
        );
    }
    Ok(())
}
