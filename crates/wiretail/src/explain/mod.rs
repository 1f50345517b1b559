//! `wiretail explain`: what delayed the worst packets of a traced run (printed by [`trial`]), and regular
//! patterns among the late packets of a run or of two [`captures`], which need no trace.

mod captures;
mod text;
mod trial;

use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_analysis::causes::periodicity::{find, kernel_ticks};
use wiretail_schema::causes::capture::Periodicity;
use wiretail_schema::causes::{RUN_EXPLANATION_SCHEMA, RunExplanation, TrialFindings};

use crate::analyze::outputs;
use crate::cli::explain::ExplainArgs;
use crate::run::output::explanation as traced;

/// Runs `wiretail explain`.
///
/// # Errors
/// Returns an error if a file can't be read, if no packet of the captures matches, or if the run has no
/// analyzed trial. The message names the file and the next step.
pub fn run(arguments: &ExplainArgs) -> Result<ExitCode> {
    match &arguments.post {
        Some(post) => captures::explain(arguments, post),
        None => of_run(arguments),
    }
}

/// Explains the worst packets of a run's traced trials, and regular patterns among the late packets of all
/// trials.
fn of_run(arguments: &ExplainArgs) -> Result<ExitCode> {
    if arguments.pre.is_file() {
        bail!(
            "{}: only one capture; expected a second one, of the egress wire, or the directory of a run",
            arguments.pre.display()
        );
    }
    let mut explained = RunExplanation {
        schema: RUN_EXPLANATION_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        trials: Vec::new(),
    };
    for found in traced::all(&arguments.pre, arguments.trial)? {
        let pre = found.job.pre.other_tap(found.job.pre.options().clone())?;
        let (_, series, _) = captures::read(found.job, pre)?;
        let periodicity: Periodicity = find(&series, &kernel_ticks());
        let (number, name, causes, ground_truth) =
            (found.number, found.name, found.causes, found.ground_truth);
        explained.trials.push(TrialFindings { number, name, causes, ground_truth, periodicity });
    }
    outputs::print(&explained, arguments.json, |out| {
        for findings in &explained.trials {
            trial::write(out, findings, arguments.worst)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
