//! The command line: the only crate that wires the others.
//!
//! - [`cli`]: what can be asked for;
//! - [`analyze`]: two captures to a verdict, by [`evaluate`]: [`recognise`] (which key, do the clocks agree),
//!   [`pipeline`] (read, match, tally; the two readers' records come together in [`meeting`]), then [`outputs`] and [`terminal`];
//! - [`run`]: from an experiment file to a report, live, and the search for the rate that a device takes;
//! - [`generate`], [`forward`], [`capture`]: the parts of a testbed, each on its own, over [`live`];
//! - [`trace`]: what the kernel does on some cores, recorded and summed up;
//! - [`soak`]: a measurement of any length, a record a second, and its result;
//! - [`setup`]: what trials may need and is not there: devices under test from Debian's packages;
//! - [`explain`]: what late packets have in common: interrupt counters that rose, regular patterns;
//! - [`predict`]: what another load would do, by models;
//! - [`host`]: whether a host leaves the packets' cores alone;
//! - [`compare`]: several results side by side;
//! - [`synth`]: captures with planted, known content.
//!
//! Exit codes: 0 success; 1 `--check` found a budget broken or a difference beyond the tolerance, or
//! traffic was late, a live capture is not whole, or a prediction was refused or did not hold;
//! 2 an error, told on standard error; 3 `--check` could not decide for want of packets.

mod analyze;
mod capture;
mod cli;
mod compare;
mod dpdk;
mod evaluate;
mod explain;
mod forward;
mod generate;
mod host;
mod live;
mod meeting;
mod outputs;
mod pipeline;
mod predict;
mod progress;
mod recognise;
mod recording;
mod run;
mod setup;
mod soak;
mod source;
mod synth;
mod terminal;
mod trace;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Analyze(arguments) => analyze::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Search(arguments) => run::search::run(&arguments),
        Command::Report(arguments) => run::report(&arguments),
        Command::Check(arguments) => run::check(&arguments),
        Command::Clean(arguments) => run::clean(&arguments),
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Forward(arguments) => forward::run(&arguments),
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
