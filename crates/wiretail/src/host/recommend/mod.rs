//! `wiretail host recommend`: what the papers recommend, from one's own runs and audit.

mod text;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use wiretail_analysis::host::audit::audit;
use wiretail_analysis::host::recommendation::{RunInput, recommend};
use wiretail_analysis::host::tuning::files;

use super::read::{asked, recorded};
use crate::analyze::outputs::{print, write_file};
use crate::cli::host::RecommendArgs;
use crate::run::output::{directory, explanation};
use crate::run::testbed::profile::read;

/// How long a living host is watched for what interrupts its cores.
const WATCH: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// A record or a run that can't be read, a page that can't be written.
pub fn run(arguments: &RecommendArgs) -> Result<ExitCode> {
    // Runs first: a slip in their names is told at once.
    let runs: Vec<RunInput> = arguments.runs.iter().map(|path| input(path)).collect::<Result<_>>()?;
    let record = match &arguments.from {
        Some(path) => recorded(path, &files())?,
        None => read(Path::new("/"), &files(), WATCH),
    };
    let question = asked(&arguments.cores, arguments.role);
    let version = env!("CARGO_PKG_VERSION");
    let found = recommend(&audit(&record, &question, version), &runs, version);
    if let Some(path) = &arguments.out {
        write_file(path, wiretail_report::recommend(&found).as_bytes())?;
    }
    print(&found, arguments.json, |out| text::print(out, &found, arguments.all))?;
    Ok(ExitCode::SUCCESS)
}

/// What is taken from a run directory.
fn input(path: &Path) -> Result<RunInput> {
    if !path.is_dir() {
        bail!(
            "{}: is no folder; expected a directory of `wiretail run` or `wiretail search`",
            path.display()
        );
    }
    let (_, run) = directory::read(path).with_context(|| format!("{}: is no run", path.display()))?;
    Ok(RunInput {
        directory: path.display().to_string().trim_end_matches('/').to_owned(),
        results: directory::results(path, &run)?,
        searches: directory::searches(path)?,
        explanations: explanation::written(path, &run)?,
        run,
    })
}
