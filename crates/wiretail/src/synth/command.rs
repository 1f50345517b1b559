//! `wiretail synth`: the command for [`synthesize`].

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::{LatencyModel, SynthOptions, synthesize};
use crate::cli::SynthArgs;

/// Runs `wiretail synth`: writes both captures and prints the injected events.
///
/// # Errors
/// Returns an error if an option is out of range, or a file can't be written.
pub fn run(arguments: &SynthArgs) -> Result<ExitCode> {
    let nanoseconds = |name: &str, duration: wiretail_schema::units::Duration| {
        u64::try_from(duration.ns).map_err(|_| anyhow::anyhow!("--{name} must not be negative"))
    };
    let options = SynthOptions {
        packets: arguments.packets.get(),
        rate_pps: arguments.rate.get(),
        seed: arguments.seed,
        loss: arguments.loss,
        duplicate_pre: arguments.duplicate_pre,
        duplicate_post: arguments.duplicate_post,
        reorder: arguments.reorder,
        latency: LatencyModel {
            base_ns: nanoseconds("base", arguments.base)?,
            body_ns: nanoseconds("body", arguments.body)?,
            tail_ns: nanoseconds("stall", arguments.stall)?,
            tail_share: arguments.stall_share,
        },
        flows: arguments.flows,
        frame_len: arguments.frame_len,
        ..SynthOptions::default()
    };
    let ground_truth = synthesize(&options, create(&arguments.pre)?, create(&arguments.post)?)
        .with_context(|| format!("{} and {}", arguments.pre.display(), arguments.post.display()))?;
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &ground_truth)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 18, file))
}
