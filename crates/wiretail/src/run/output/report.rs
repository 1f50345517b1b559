//! Writes the report of a run, for `run`, `search`, `host prove` and `wiretail report`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use wiretail_analysis::comparison::overhead::overheads;
use wiretail_analysis::comparison::overload::overloads;
use wiretail_analysis::comparison::ranking::rankings;
use wiretail_analysis::summary::breakdown::additions;
use wiretail_report::RunPage;
use wiretail_schema::run::Run;

use crate::analyze::outputs;
use crate::cli::ReportArgs;
use crate::run::insert;
use crate::run::output::{directory, explanation, results, table};

/// Runs `wiretail report`: writes the report of a run directory.
///
/// # Errors
/// Returns an error if the directory is not a run directory or cannot be written to.
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

/// Writes the report, and prints the table to standard output.
pub fn conclude(path: &Path, run: &Run, json: bool, quiet: bool) -> Result<()> {
    let results = directory::results(path, run)?;
    let report = path.join("report.html");
    let curves = directory::curves(path, run)?;
    let explanations = explanation::pages(path, run)?;
    let searches = directory::searches(path)?;
    let ablation = directory::ablation(path)?;
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
        ablation: ablation.as_ref(),
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
