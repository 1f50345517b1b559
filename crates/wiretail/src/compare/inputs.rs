//! Reads the results to compare and groups them: by scenario for runs, as given for single results.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wiretail_schema::run::scenario::Scenario;
use wiretail_schema::run::{HostSnapshot, Run, TrialRecord, TrialState};
use wiretail_schema::summary::{SUMMARY_SCHEMA, Summary};

use crate::cli::CompareArgs;
use crate::run::output::directory;

/// Largest relative difference between the packet rates of two groups under the same load.
const RATE_DIFFERENCE_MAX: f64 = 0.1;
/// Number of invalid trials that a warning names.
const NAMED: usize = 5;
/// Prefixes of the keys that describe the load; trials under different loads are not compared.
const LOAD: [&str; 2] = ["traffic.", "trial.duration"];

/// One trial, or a run that counts as one.
pub struct TrialResult {
    /// Path, or name within its run.
    pub name: String,
    /// Repeat within its run; the position on the command line for a single result.
    pub repeat: u64,
    /// One result, or those of a run's repeats.
    pub summaries: Vec<Summary>,
}

/// Trials of the same device under the same load.
pub struct TrialGroup {
    pub name: String,
    /// Run directory that the trials are from; `None` for single results.
    pub run: Option<PathBuf>,
    pub trials: Vec<TrialResult>,
    /// Load in words; empty for single results.
    load: String,
}

/// The groups to compare.
pub struct Inputs {
    pub groups: Vec<TrialGroup>,
    /// Positions of the baseline and of the group compared with it.
    pub pairs: Vec<(usize, usize)>,
    pub warnings: Vec<String>,
    pub hosts_differ: bool,
}

/// What a path on the command line holds.
enum Source {
    Result(Box<TrialResult>),
    Run(Box<RunSource>),
}

struct RunSource {
    path: PathBuf,
    host: HostSnapshot,
    groups: Vec<TrialGroup>,
    /// Trials that are not valid.
    left_out: Vec<String>,
}

impl Inputs {
    /// Reads all results of the command line.
    ///
    /// # Errors
    /// Returns an error if a result cannot be read, or if the groups do not fit together.
    pub fn read(arguments: &CompareArgs) -> Result<Self> {
        let read = |paths: &[PathBuf]| -> Result<Vec<Source>> {
            paths.iter().zip(1..).map(|(path, place)| source(path, place)).collect()
        };
        let first = read(&arguments.results)?;
        let against = read(&arguments.against)?;
        let mut inputs =
            Self { groups: Vec::new(), pairs: Vec::new(), warnings: Vec::new(), hosts_differ: false };
        inputs.warn(first.iter().chain(&against));
        let baseline = arguments.baseline.as_deref();
        match (split(first)?, split(against)?) {
            (Sources::Runs(runs), Sources::None) if runs.len() == 1 => inputs.within(runs, baseline)?,
            (Sources::Runs(runs), Sources::None) => inputs.between(runs)?,
            (Sources::Results(results), Sources::None) if results.len() > 1 => inputs.singly(results),
            (Sources::Results(_), Sources::None) => {
                bail!("one result cannot be compared; expected several results, or a run directory")
            }
            (Sources::Results(a), Sources::Results(b)) => inputs.groups_of(a, b),
            (Sources::Runs(a), Sources::Runs(b)) => {
                inputs.between([pooled(a), pooled(b)].into_iter().flatten().collect())?
            }
            _ => {
                bail!("expected either results or run directories on both sides of --against, not a mixture")
            }
        }
        if baseline.is_some() && inputs.groups.iter().all(|group| group.run.is_none()) {
            bail!("--baseline names a scenario of a run; expected one run directory");
        }
        inputs.refuse_different_loads()?;
        Ok(inputs)
    }

    /// Title of the comparison.
    pub fn title(&self) -> String {
        let mut names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        names.dedup();
        names.join(" · ")
    }

    /// A typical trial of each group: the one with the median p99.9.
    pub fn typical(&self) -> Vec<(String, Summary)> {
        let typical = |group: &TrialGroup| {
            let at = |summary: &&Summary| summary.delay.percentile(99.9).map_or(0, |p| p.value_ns);
            let mut results: Vec<&Summary> = group.trials.iter().flat_map(|trial| &trial.summaries).collect();
            results.sort_by_key(at);
            let middle = results.get((results.len().max(1) - 1) / 2)?;
            Some((group.name.clone(), (*middle).clone()))
        };
        self.groups.iter().filter_map(typical).collect()
    }

    /// Compares the scenarios of one run with one of them that have the same load.
    fn within(&mut self, mut runs: Vec<RunSource>, baseline: Option<&str>) -> Result<()> {
        let run = runs.remove(0);
        let names = || run.groups.iter().map(|group| format!("\n  {}", group.name)).collect::<String>();
        let chosen = match baseline {
            None => 0,
            Some(name) => run.groups.iter().position(|group| group.name == name).with_context(|| {
                format!("{}: no scenario is named {name:?}; expected one of{}", run.path.display(), names())
            })?,
        };
        let Some(first) = run.groups.get(chosen) else { bail!("{}: no trial is valid", run.path.display()) };
        let is_alike = |other: &TrialGroup| other.load == first.load;
        self.pairs = (0..run.groups.len())
            .filter(|i| *i != chosen && is_alike(&run.groups[*i]))
            .map(|i| (chosen, i))
            .collect();
        if self.pairs.is_empty() {
            bail!(
                "{}: no scenario has the same load as the baseline {:?}; expected two or more devices or host settings \
                 under one load, or a second run to compare with",
                run.path.display(),
                first.name
            );
        }
        self.groups = run.groups;
        Ok(())
    }

    /// Compares scenarios of the same name in several runs with those of the first run.
    fn between(&mut self, runs: Vec<RunSource>) -> Result<()> {
        let mut runs = runs.into_iter();
        let Some(first) = runs.next() else { return Ok(()) };
        let count = first.groups.len();
        let first_path = first.path.display().to_string();
        self.groups = first.groups;
        for run in runs {
            for group in run.groups {
                let partner = self.groups[..count].iter().position(|known| known.name == group.name);
                match partner {
                    Some(partner) => self.pairs.push((partner, self.groups.len())),
                    None => {
                        self.warnings.push(format!(
                            "{}: the scenario {:?} has no partner in {first_path} and is left out",
                            run.path.display(),
                            group.name
                        ));
                        continue;
                    }
                }
                self.groups.push(group);
            }
        }
        if self.pairs.is_empty() {
            bail!("the runs have no scenario in common; {first_path} has:{}", {
                self.groups[..count].iter().map(|group| format!("\n  {}", group.name)).collect::<String>()
            });
        }
        for group in &mut self.groups {
            let run = group.run.as_deref().unwrap_or(Path::new("")).display();
            group.name =
                if group.name.is_empty() { run.to_string() } else { format!("{} ({run})", group.name) };
        }
        self.warnings.push(
            "the runs were made at different times, so a difference may be one of the host between these times; trials \
             of one run are interleaved and exclude this"
                .to_owned(),
        );
        Ok(())
    }

    /// Compares single results with the first one.
    fn singly(&mut self, results: Vec<TrialResult>) {
        self.pairs = (1..results.len()).map(|place| (0, place)).collect();
        self.groups = results.into_iter().map(|result| group(result.name.clone(), vec![result])).collect();
    }

    /// Compares two groups of single results.
    fn groups_of(&mut self, baseline: Vec<TrialResult>, other: Vec<TrialResult>) {
        self.pairs = vec![(0, 1)];
        self.groups = vec![group("baseline".to_owned(), baseline), group("against".to_owned(), other)];
    }

    fn warn<'a>(&mut self, sources: impl Iterator<Item = &'a Source>) {
        let runs: Vec<&RunSource> = sources
            .filter_map(|source| match source {
                Source::Run(run) => Some(&**run),
                Source::Result(_) => None,
            })
            .collect();
        for run in &runs {
            if !run.left_out.is_empty() {
                let named =
                    run.left_out.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = if run.left_out.len() > NAMED { ", …" } else { "" };
                self.warnings.push(format!(
                    "{}: {} of its trials are left out, because they are not valid: {named}{more}",
                    run.path.display(),
                    run.left_out.len(),
                ));
            }
        }
        for run in runs.iter().skip(1) {
            let differences = host_differences(&runs[0].host, &run.host);
            if !differences.is_empty() {
                self.hosts_differ = true;
                self.warnings.push(format!(
                    "{} and {} are from different hosts or host settings: {}",
                    runs[0].path.display(),
                    run.path.display(),
                    differences.join("; ")
                ));
            }
        }
    }

    fn refuse_different_loads(&self) -> Result<()> {
        for (baseline, other) in &self.pairs {
            let (a, b) = (&self.groups[*baseline], &self.groups[*other]);
            if a.load != b.load {
                bail!(
                    "{} and {} have different loads: {} and {}; expected the same load",
                    a.name,
                    b.name,
                    a.load,
                    b.load
                );
            }
            if a.trials.is_empty() || b.trials.is_empty() {
                let empty = if a.trials.is_empty() { a } else { b };
                bail!("{:?} has no valid trial; expected at least one on either side", empty.name);
            }
            let rate = |group: &TrialGroup| {
                let rates =
                    group.trials.iter().flat_map(|trial| &trial.summaries).map(|s| s.pre.mean_rate_pps);
                wiretail_analysis::stats::list::median(rates).unwrap_or(0.0)
            };
            let (rate_a, rate_b) = (rate(a), rate(b));
            if a.run.is_none() && (rate_a - rate_b).abs() > RATE_DIFFERENCE_MAX * rate_a.max(rate_b) {
                bail!(
                    "{} and {} have different loads: {rate_a:.0} and {rate_b:.0} packets per second; expected the same \
                     load within {:.0} %",
                    a.name,
                    b.name,
                    RATE_DIFFERENCE_MAX * 100.0
                );
            }
        }
        Ok(())
    }
}

fn group(name: String, trials: Vec<TrialResult>) -> TrialGroup {
    TrialGroup { name, run: None, trials, load: String::new() }
}

/// Sources of one kind.
enum Sources {
    None,
    Results(Vec<TrialResult>),
    Runs(Vec<RunSource>),
}

fn split(sources: Vec<Source>) -> Result<Sources> {
    let (mut results, mut runs) = (Vec::new(), Vec::new());
    for source in sources {
        match source {
            Source::Result(result) => results.push(*result),
            Source::Run(run) => runs.push(*run),
        }
    }
    Ok(match (results.is_empty(), runs.is_empty()) {
        (true, true) => Sources::None,
        (false, true) => Sources::Results(results),
        (true, false) => Sources::Runs(runs),
        (false, false) => {
            bail!("results and run directories cannot be compared with each other; expected one kind")
        }
    })
}

/// Makes groups whose trials are whole runs, because repeats of a run share the state of the host. A single run
/// keeps its trials.
fn pooled(runs: Vec<RunSource>) -> Option<RunSource> {
    let several = runs.len() > 1;
    let mut runs =
        runs.into_iter().zip(1..).map(|(run, place)| if several { as_trials(run, place) } else { run });
    let mut all = runs.next()?;
    for run in runs {
        for group in run.groups {
            match all.groups.iter_mut().find(|known| known.name == group.name) {
                Some(known) => known.trials.extend(group.trials),
                None => all.groups.push(group),
            }
        }
    }
    Some(all)
}

/// Turns each group of a run into one trial.
fn as_trials(mut run: RunSource, place: u64) -> RunSource {
    for group in &mut run.groups {
        let summaries = group.trials.drain(..).flat_map(|trial| trial.summaries).collect();
        group.trials = vec![TrialResult { name: run.path.display().to_string(), repeat: place, summaries }];
    }
    run
}

fn source(path: &Path, place: u64) -> Result<Source> {
    if path.join("manifest.json").exists() {
        return Ok(Source::Run(Box::new(run_source(path)?)));
    }
    let name = path.display().to_string().trim_end_matches('/').to_owned();
    Ok(Source::Result(Box::new(TrialResult { name, repeat: place, summaries: vec![summary(path)?] })))
}

fn run_source(path: &Path) -> Result<RunSource> {
    let (_, run) = directory::read(path)?;
    let mut groups: Vec<TrialGroup> = Vec::new();
    let mut left_out = Vec::new();
    for trial in &run.trials {
        let name = scenario(&run, trial);
        let place = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            // A scenario keeps its place even if its first trial is not valid.
            let load = load(trial);
            groups.push(TrialGroup { name, run: Some(path.to_owned()), trials: Vec::new(), load });
            groups.len() - 1
        });
        if trial.state != TrialState::Valid {
            left_out.push(trial.name.clone());
        } else if let Some(summary) = directory::summary(path, trial, 0)? {
            let (name, repeat) = (trial.name.clone(), trial.repeat);
            groups[place].trials.push(TrialResult { name, repeat, summaries: vec![summary] });
        }
    }
    Ok(RunSource { path: path.to_owned(), host: run.host, groups, left_out })
}

/// Factors of a trial in words; empty if the run has no factors.
fn scenario(run: &Run, trial: &TrialRecord) -> String {
    let scenario = Scenario::of(run, trial, &[]);
    if scenario.settings.is_empty() { String::new() } else { scenario.to_string() }
}

/// The settings of a trial that describe its load, in words.
fn load(trial: &TrialRecord) -> String {
    let of_load =
        trial.settings.iter().filter(|setting| LOAD.iter().any(|prefix| setting.key.starts_with(prefix)));
    of_load.map(|setting| format!("{} {}", setting.key, setting.text)).collect::<Vec<_>>().join(", ")
}

/// Facts by which two hosts differ: "kernel 6.1.0 and 6.12.0".
fn host_differences(a: &HostSnapshot, b: &HostSnapshot) -> Vec<String> {
    let fields = |host: &HostSnapshot| match serde_json::to_value(host) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = (fields(a), fields(b));
    let differing = a.iter().filter(|(name, value)| b.get(*name) != Some(value));
    differing
        .map(|(name, value)| {
            format!("{name} {value} and {}", b.get(name).unwrap_or(&serde_json::Value::Null))
        })
        .collect()
}

/// Reads a result: a directory written by `analyze --out`, or its summary.json.
fn summary(path: &Path) -> Result<Summary> {
    let file = if path.is_dir() { path.join("summary.json") } else { path.to_owned() };
    let shown = file.display();
    let text = std::fs::read(&file).with_context(|| {
        format!(
            "{shown}: cannot be read; expected a run directory, a directory of `wiretail analyze --out`, or its summary.json"
        )
    })?;
    let document: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{shown}: is not JSON"))?;
    match document.get("schema").and_then(|schema| schema.as_str()) {
        Some(SUMMARY_SCHEMA) => {}
        Some(other) => bail!(
            "{shown}: is a {other}; expected {SUMMARY_SCHEMA}: analyze the captures again with this version"
        ),
        None => bail!("{shown}: has no schema; expected a summary.json of `wiretail analyze --out`"),
    }
    serde_json::from_value(document).with_context(|| format!("{shown}: is not a complete {SUMMARY_SCHEMA}"))
}
