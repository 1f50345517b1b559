//! `wiretail host recommend`: recommendations from the literature, judged by the user's runs and audit.

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

/// How long this host's interrupts are counted.
const WATCH: Duration = Duration::from_secs(1);

/// Runs `wiretail host recommend`.
///
/// # Errors
/// Returns an error if a record or a run can't be read, or a page can't be written.
pub fn run(arguments: &RecommendArgs) -> Result<ExitCode> {
    // Read the runs first, so that a mistyped path is reported at once.
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

/// Reads the evidence in a run directory.
fn input(path: &Path) -> Result<RunInput> {
    if !path.is_dir() {
        bail!(
            "{}: is not a directory; expected a directory of `wiretail run` or `wiretail search`",
            path.display()
        );
    }
    let (_, run) = directory::read(path).with_context(|| format!("{}: is not a run", path.display()))?;
    Ok(RunInput {
        directory: path.display().to_string().trim_end_matches('/').to_owned(),
        results: directory::results(path, &run)?,
        searches: directory::searches(path)?,
        explanations: explanation::written(path, &run)?,
        run,
    })
}
