//! The command line: the only crate that wires the others.
//!
//! - [`cli`]: the options of every verb;
//! - [`analyze`]: two captures to a verdict; [`compare`]: several results side by side;
//! - [`run`]: from an experiment file to a report, live; [`search`]: trials that look for the rate a device takes;
//! - [`traffic`]: the parts of a testbed by hand: `generate`, `forward`, `capture`;
//! - [`explain`]: why packets were late; [`trace`]: what the kernel did; [`predict`]: other loads, by models;
//! - [`host`]: audit, noise, plan, apply, revert, ablation; [`setup`]: installs devices under test;
//! - [`synth`]: captures with planted, known content.
//!
//! Exit codes: 0 success; 1 `--check` found a budget broken or a difference beyond the tolerance, or
//! traffic was late, a live capture is not whole, or a prediction was refused or did not hold;
//! 2 an error, told on standard error; 3 `--check` could not decide for want of packets.

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
        // `wiretail ... | head` is no error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "wiretail: {}", message(&error));
            ExitCode::from(2)
        }
    }
}

/// The error and its causes; a cause that the error's own text tells already is not told again.
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
