//! `wiretail predict`: model-based predictions of a device under other loads. One file per model.

mod capacity;
mod interrupts;
pub mod queueing;
mod tail;

use std::process::ExitCode;

use anyhow::Result;
use wiretail_schema::summary::Summary;

use crate::cli::predict::{Predict, PredictArgs};

/// Runs `wiretail predict`.
///
/// # Errors
/// Returns the error of the model: inputs that can't be read or are insufficient.
pub fn run(arguments: &PredictArgs) -> Result<ExitCode> {
    match &arguments.what {
        Predict::Capacity(arguments) => capacity::run(arguments),
        Predict::Interrupts(arguments) => interrupts::run(arguments),
        Predict::Tail(arguments) => tail::run(arguments),
        Predict::Queueing(arguments) => queueing::run(arguments),
    }
}

/// Returns the timestamp sources of a measurement, and the granularity of its delays in ns, which is that of
/// the tap with the finer granularity.
fn clock(summary: &Summary) -> (String, f64) {
    let (pre, post) = (&summary.pre.clock, &summary.post.clock);
    let source = if pre.source == post.source {
        pre.source.clone()
    } else {
        format!("ingress {}; egress {}", pre.source, post.source)
    };
    (source, pre.granularity_ns.min(post.granularity_ns).max(1.0))
}
