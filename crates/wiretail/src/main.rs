//! The command-line program. This is the only crate that connects the others.
//!
//! - [`cli`]: command-line options;
//! - [`analyze`]: two captures to a verdict; [`compare`]: several results side by side;
//! - [`run`]: an experiment file to a report, live; [`search`]: trials that find the highest rate of a
//!   device;
//! - [`traffic`]: the parts of a testbed as separate commands: `generate`, `forward`, `capture`;
//! - [`explain`]: why packets were late; [`trace`]: kernel traces; [`predict`]: models of other loads;
//! - [`host`]: audit, noise, plan, apply, revert, ablation; [`setup`]: installs devices under test;
//! - [`synth`]: captures with known, injected content.
//!
//! Exit codes: 0 success; 1 `--check` found a missed budget or a difference beyond the tolerance, traffic was
//! late, a live capture is incomplete, or a prediction was refused or failed its validation; 2 an error,
//! reported on standard error; 3 `--check` had too few packets to decide.

mod analyze;
mod cli;
mod compare;
mod explain;
mod host;
mod predict;
mod run;
mod search;
mod setup;
mod synth;
mod trace;
mod traffic;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Search(arguments) => search::run(&arguments),
        Command::Report(arguments) => run::output::report::report(&arguments),
        Command::Check(arguments) => run::plan::check(&arguments),
        Command::Clean(arguments) => run::clean::clean(&arguments),
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Generate(arguments) => traffic::generate::run(&arguments),
        Command::Capture(arguments) => traffic::capture::run(&arguments),
        Command::Forward(arguments) => traffic::forward::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Host(arguments) => host::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Synth(arguments) => synth::command::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "wiretail", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { directory } => man_pages(&directory),
    };
    match result {
        Ok(code) => code,
        // `wiretail ... | head` is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "wiretail: {}", message(&error));
            ExitCode::from(2)
        }
    }
}

/// Formats the error and its causes; omits a cause that the text of the error already contains.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(broken)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|error| error.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}

fn man_pages(directory: &std::path::Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|error| anyhow::anyhow!("{}: man pages can't be written: {error}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
