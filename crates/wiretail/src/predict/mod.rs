//! `wiretail predict`: what another load would do to a device, by models. One file a model.

mod capacity;
mod interrupts;
pub mod queueing;
mod tail;

use std::process::ExitCode;

use anyhow::Result;
use wiretail_schema::summary::Summary;

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
        Predict::Queueing(arguments) => queueing::run(arguments),
    }
}

/// Where the stamps of a measurement come from, and the finest step in ns that their differences have: the finer of both grids.
fn clock(summary: &Summary) -> (String, f64) {
    let (pre, post) = (&summary.pre.clock, &summary.post.clock);
    let source = if pre.source == post.source {
        pre.source.clone()
    } else {
        format!("ingress {}; egress {}", pre.source, post.source)
    };
    (source, pre.granularity_ns.min(post.granularity_ns).max(1.0))
}
