//! `wiretail compare`: groups of trials against a baseline.
//!
//! - [`inputs`] reads results and runs, and groups their trials;
//! - [`table`] prints the comparison.

mod inputs;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_analysis::comparison::groups::{self, GroupPair, Trial};
use wiretail_schema::comparison::{COMPARISON_SCHEMA, Comparison, ComparisonOutcome};

use crate::analyze::outputs;
use crate::cli::CompareArgs;
use crate::compare::inputs::{Inputs, TrialGroup};

/// Runs `wiretail compare`.
///
/// # Errors
/// Returns an error if a result cannot be read, or if the groups cannot be compared.
pub fn run(arguments: &CompareArgs) -> Result<ExitCode> {
    let inputs = Inputs::read(arguments)?;
    let pairs: Vec<GroupPair<'_>> = inputs.pairs.iter().map(|pair| group_pair(&inputs, pair)).collect();
    let (comparisons, family) = groups::compare(&pairs, arguments.tolerance);
    if comparisons.iter().all(|comparison| comparison.statistics.is_empty()) {
        bail!("the groups have no statistic in common; expected trials in which packets arrived");
    }
    let comparison = Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        tolerance: arguments.tolerance,
        family,
        warnings: inputs.warnings.clone(),
        outcome: groups::outcome(&comparisons, arguments.tolerance),
        pairs: comparisons,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &comparison)?;
        writeln!(out)?;
    } else {
        table::write(&mut out, &comparison)?;
    }
    if let Some(path) = &arguments.out {
        let page = wiretail_report::comparison(&inputs.title(), &inputs.typical(), &comparison);
        outputs::write_file(path, page.as_bytes())?;
    }
    if !arguments.check {
        return Ok(ExitCode::SUCCESS);
    }
    if inputs.hosts_differ && !arguments.across_hosts {
        bail!(
            "the results are from different hosts (see the warning); pass --across-hosts to check them anyway"
        );
    }
    Ok(match comparison.outcome {
        ComparisonOutcome::Pass => ExitCode::SUCCESS,
        ComparisonOutcome::Fail => ExitCode::from(1),
        ComparisonOutcome::Undecided => ExitCode::from(3),
    })
}

fn group_pair<'a>(inputs: &'a Inputs, (baseline, other): &(usize, usize)) -> GroupPair<'a> {
    let groups = [&inputs.groups[*baseline], &inputs.groups[*other]];
    let trials = |group: &'a TrialGroup| -> Vec<Trial<'a>> {
        let trial = |trial: &'a inputs::TrialResult| Trial {
            name: trial.name.clone(),
            repeat: trial.repeat,
            summary: &trial.summary,
        };
        group.trials.iter().map(trial).collect()
    };
    GroupPair {
        names: groups.map(|group| group.name.clone()),
        trials: groups.map(trials),
        // Trials of one run are interleaved.
        paired: groups[0].run.is_some() && groups[0].run == groups[1].run,
    }
}
