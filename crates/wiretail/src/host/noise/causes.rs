//! Traces the kernel on the measured cores, and determines the causes of their gaps.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;
use wiretail_analysis::causes::attribution::{Builder, explain_gaps};
use wiretail_capture::trace::Trace;
use wiretail_dataplane::noise::NoiseLog;
use wiretail_host::trace::{Recorder, TraceSpec};
use wiretail_host::{CoreSet, JOURNAL_FOLDER, Journal};
use wiretail_schema::causes::trace::{Gap, ROLES_SCHEMA, Spin, TraceRoles};
use wiretail_schema::host::noise::CoreNoise;

use super::longest;

/// A running trace.
pub struct Tracing {
    folder: TempDir,
    journal: Journal,
    recorder: Recorder,
}

impl Tracing {
    /// Starts tracing `cores`. The trace is drained on the core `drain`, which may be disturbed.
    ///
    /// # Errors
    /// Returns an error without root, if the kernel can't be traced, or if there is no space for the trace.
    pub fn start(cores: &CoreSet, drain: Option<u32>) -> Result<Self> {
        let folder = tempfile::tempdir().context("a directory for the trace can't be created")?;
        let mut journal = Journal::create_unique(Path::new(JOURNAL_FOLDER))
            .context("--trace needs root; without --trace, gaps have lengths but no causes")?;
        let spec =
            TraceSpec { stacks: true, drain_core: drain, ..TraceSpec::new(folder.path(), cores.clone()) };
        let recorder = Recorder::start(&mut journal, &spec).context(
            "--trace: the kernel can't be traced; without --trace, gaps have lengths but no causes",
        )?;
        Ok(Self { folder, journal, recorder })
    }

    /// Ends the trace and adds the causes to each core. Returns the limitations of the explanation.
    ///
    /// # Errors
    /// Returns an error if a file can't be written or read.
    pub fn finish(
        mut self,
        logs: &[(u32, NoiseLog)],
        found: &mut [CoreNoise],
        fifo: bool,
    ) -> Result<Vec<String>> {
        let info = self.recorder.finish()?;
        self.journal.undo_all()?;
        let remarks = info.remarks.clone();
        crate::trace::complete(self.folder.path(), info)?;
        for ((core, log), noise) in logs.iter().zip(found) {
            self::explain(self.folder.path(), *core, log, fifo, noise)?;
        }
        Ok(remarks)
    }
}

fn explain(folder: &Path, core: u32, log: &NoiseLog, fifo: bool, noise: &mut CoreNoise) -> Result<()> {
    let gaps = log.kept().iter();
    let gaps: Vec<Gap> =
        gaps.map(|gap| Gap { from_ns: gap.start_ns, to_ns: gap.start_ns + gap.duration_ns }).collect();
    let spin = Spin {
        core,
        thread: log.thread,
        span: Gap { from_ns: log.from_ns, to_ns: log.to_ns },
        step_ns: noise.step_ns,
        gaps: gaps.clone(),
        ..Spin::default()
    };
    let roles = TraceRoles {
        schema: ROLES_SCHEMA.to_owned(),
        core,
        threads: vec![log.thread],
        fifo,
        polls: true,
        batch: 1,
        stalls: gaps,
        logs_stalls: true,
        spin: Some(spin),
        ..TraceRoles::default()
    };
    let mut trace = Trace::open(folder)?;
    let mut builder = Builder::new(&roles);
    let end = trace.read(|event| builder.take(event))?;
    let lines = builder.finish(&trace);
    let of_core = end.lost.iter().filter(|lost| lost.cpu == core);
    let lost: Vec<Gap> = of_core.map(|lost| Gap { from_ns: lost.from_ns, to_ns: lost.to_ns }).collect();
    let mut explained = explain_gaps(lines, &roles, &trace, &lost, &longest(log));
    for (gap, parts) in noise.longest.iter_mut().zip(explained.parts) {
        gap.parts = parts;
    }
    explained.causes.gaps_not_kept = log.gaps() - log.kept().len() as u64;
    noise.causes = Some(explained.causes);
    Ok(())
}
