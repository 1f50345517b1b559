//! `wiretail host`: the isolation of a host's packet-processing cores, and its verification.

pub mod ablation;
mod applied;
mod apply;
mod audit;
mod noise;
mod plan;
mod read;
mod recommend;
mod revert;
mod text;
mod verify;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::host::{HostArgs, HostCommand};

/// Runs `wiretail host`.
///
/// # Errors
/// Returns the error of the command.
pub fn run(arguments: &HostArgs) -> Result<ExitCode> {
    match &arguments.command {
        HostCommand::Audit(arguments) => audit::run(arguments),
        HostCommand::Plan(arguments) => plan::run(arguments),
        HostCommand::Apply(arguments) => apply::run(arguments),
        HostCommand::Revert(arguments) => revert::run(arguments),
        HostCommand::Verify(arguments) => verify::run(arguments),
        HostCommand::Noise(arguments) => noise::run(arguments),
        HostCommand::Recommend(arguments) => recommend::run(arguments),
        HostCommand::Prove(arguments) => ablation::run(arguments),
    }
}
