//! `wiretail predict`: what another load would do to a device, by models. One file a model.

mod capacity;
mod interrupts;
mod tail;
mod twin;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::predict::{Predict, PredictArgs};

/// Runs the command.
///
/// # Errors
/// As of each model: inputs that can't be read, or from which nothing follows.
pub fn run(arguments: &PredictArgs) -> Result<ExitCode> {
    match &arguments.what {
        Predict::Capacity(arguments) => capacity::run(arguments),
        Predict::Interrupts(arguments) => interrupts::run(arguments),
        Predict::Tail(arguments) => tail::run(arguments),
        Predict::Twin(arguments) => twin::run(arguments),
    }
}
