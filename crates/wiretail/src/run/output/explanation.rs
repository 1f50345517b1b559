//! Explains what delayed the worst packets of a traced trial. The explanation uses only the trial's files, so
//! it can be repeated later and on another machine.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wiretail_analysis::causes::attribution::{Builder, Inputs, PacketTime, explain};
use wiretail_analysis::causes::ground_truth::{Judged, judge};
use wiretail_analysis::host::mitigation::mitigation;
use wiretail_analysis::matching::Outcome;
use wiretail_capture::trace::Trace;
use wiretail_report::{EXPLANATION_PAGE, ExplanationPage};
use wiretail_schema::causes::trace::{Gap, ROLES_FILE, ROLES_SCHEMA, TRACE_FILE, TraceInfo, TraceRoles};
use wiretail_schema::causes::{EXPLANATION_FILE, ExplainedTrial, PacketExplanation, TrialExplanation};
use wiretail_schema::experiment::{TrafficPattern, Trial};
use wiretail_schema::run::interference::{GroundTruthReport, INTERFERENCE_FILE, Interference};
use wiretail_schema::run::pauses::Pause;
use wiretail_schema::run::{Run, SegmentRecord, TrialRecord};

use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::outputs;
use crate::run::output::job::job;
use crate::run::trial::store::is_soak;
use crate::run::trial::tracing::FOLDER;

/// Number of worst packets that are listed.
const WORST: usize = 5000;
/// Number of worst packets for which the activity of the core is kept.
const TIMELINES: usize = 50;

/// Explains a trial from its trace; `None` if the trial was not traced. `run` is the run's directory.
///
/// # Errors
/// Returns an error if the files cannot be read or do not belong together, or a clock was set during the
/// trial.
pub fn trial(run: &Path, trial: &Trial, record: &TrialRecord) -> Result<Option<TrialExplanation>> {
    let folder = run.join(&record.directory);
    let Some(segment) = record.segments.first().filter(|segment| segment.analysed) else { return Ok(None) };
    if !folder.join(FOLDER).join(TRACE_FILE).exists() {
        return Ok(None);
    }
    let roles = roles(&folder.join(FOLDER).join(ROLES_FILE))?;
    let mut trace = Trace::open(&folder.join(FOLDER))?;
    let shown = folder.join(FOLDER).display().to_string();
    if trace.info().clock_stepped {
        bail!(
            "{shown}: the clock that timestamps packets was set during the trace, so packets and trace \
             cannot be aligned; disable clock steps (NTP may slew the clock) and repeat the measurement"
        );
    }
    let mut builder = Builder::new(&roles);
    let end = trace.read(|event| builder.take(event))?;
    let lines = builder.finish(&trace);
    let of_core = end.lost.iter().filter(|lost| lost.cpu == roles.core);
    let lost: Vec<Gap> = of_core.map(|lost| Gap { from_ns: lost.from_ns, to_ns: lost.to_ns }).collect();
    let packets = packets(&folder, trial, segment)?;
    check_time(&shown, trace.info(), &packets)?;
    let inputs = Inputs {
        trial: &record.name,
        segment: &segment.name,
        version: env!("CARGO_PKG_VERSION"),
        roles: &roles,
        info: trace.info(),
        names: &trace,
        lost: &lost,
        packets: &packets,
        first_ns: packets.first().map_or(0, |packet| packet.in_ns),
        evenly: trial.traffic.pattern == TrafficPattern::Constant && trial.traffic.burst == 1,
        paused_ns: paused_ns(record, &packets),
        worst: WORST,
        timelines: TIMELINES,
    };
    Ok(Some(explain(lines, &inputs)))
}

/// Time of the trial's pauses between its first and its last packet, in ns.
fn paused_ns(record: &TrialRecord, packets: &[PacketTime]) -> u64 {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return 0 };
    let within = |pause: &&Pause| first.in_ns <= pause.start_ns && pause.end_ns <= last.in_ns;
    record.pauses.iter().filter(within).map(|pause| pause.end_ns.abs_diff(pause.start_ns)).sum()
}

/// Checks that the packets arrived while the trace was recorded.
fn check_time(shown: &str, info: &TraceInfo, packets: &[PacketTime]) -> Result<()> {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return Ok(()) };
    let at = |ns: u64| info.clock_before.offset_ns.saturating_add_unsigned(ns);
    let (from, to) = (at(info.start_ns), at(info.end_ns));
    if first.in_ns < from || last.in_ns > to {
        let utc = |ns| wiretail_report::format::utc(ns).unwrap_or_else(|| format!("{ns} ns"));
        bail!(
            "{shown}: recorded from {} to {}, but the packets arrived from {} to {}: this trace belongs to \
             another trial; restore the trace of this trial",
            utc(from),
            utc(to),
            utc(first.in_ns),
            utc(last.in_ns)
        );
    }
    Ok(())
}

fn roles(path: &Path) -> Result<TraceRoles> {
    let shown = path.display();
    let text = std::fs::read(path)
        .with_context(|| format!("{shown}: cannot be read; expected the roles of a traced trial"))?;
    let roles: TraceRoles = serde_json::from_slice(&text)
        .with_context(|| format!("{shown}: not a file with the roles of a traced trial"))?;
    if roles.schema != ROLES_SCHEMA {
        bail!("{shown}: has schema '{}'; expected {ROLES_SCHEMA}", roles.schema);
    }
    Ok(roles)
}

/// Returns the matched packets after the warm-up, in order of arrival.
fn packets(folder: &Path, trial: &Trial, segment: &SegmentRecord) -> Result<Vec<PacketTime>> {
    let mut packets = Vec::new();
    let mut each = |outcome: &Outcome| {
        if let Outcome::Matched { sent, delay_ns } = outcome {
            packets.push(PacketTime { index: sent.index(), in_ns: sent.ts_ns, delay_ns: *delay_ns });
        }
    };
    evaluate(job(folder, trial, segment)?, Some(&mut each))?;
    packets.sort_unstable_by_key(|packet| (packet.in_ns, packet.index));
    Ok(packets)
}

/// Writes the explanation into the trial's directory.
///
/// # Errors
/// Returns an error if the file system is full or read-only.
pub fn write(folder: &Path, explanation: &TrialExplanation) -> Result<()> {
    let mut text = serde_json::to_vec(explanation)?;
    text.push(b'\n');
    outputs::write_file(&folder.join(EXPLANATION_FILE), &text)
}

/// Writes the page of each explained trial, and returns the explanations.
///
/// # Errors
/// Returns an error if an explanation is damaged or a page cannot be written.
pub fn pages(path: &Path, run: &Run) -> Result<Vec<ExplainedTrial>> {
    let found = written(path, run)?;
    for ExplainedTrial { trial, explanation } in &found {
        let Some(record) = run.trials.iter().find(|record| record.number == *trial) else { continue };
        let page = wiretail_report::explanation(&ExplanationPage {
            run,
            trial: record,
            explanation,
            mitigations: mitigation,
        });
        let file = path.join(&record.directory).join(EXPLANATION_PAGE);
        outputs::write_file(&file, page.as_bytes())?;
    }
    Ok(found)
}

/// Reads the explanations in a run directory.
///
/// # Errors
/// Returns an error if an explanation is damaged.
pub fn written(path: &Path, run: &Run) -> Result<Vec<ExplainedTrial>> {
    let mut found = Vec::new();
    for trial in &run.trials {
        let file = path.join(&trial.directory).join(EXPLANATION_FILE);
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("{}: cannot be read", file.display())),
        };
        let explanation: TrialExplanation = serde_json::from_slice(&text)
            .with_context(|| format!("{}: not an explanation", file.display()))?;
        found.push(ExplainedTrial { trial: trial.number, explanation });
    }
    Ok(found)
}

/// Compares the explanation of a trial's late packets with the injected interference; `None` if no
/// interference was injected.
///
/// # Errors
/// Returns an error if the list of injected interference is damaged.
pub fn ground_truth(
    folder: &Path,
    packets: &[PacketTime],
    told: &TrialExplanation,
) -> Result<Option<GroundTruthReport>> {
    let path = folder.join(INTERFERENCE_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{}: cannot be read", path.display())),
    };
    let injected =
        Interference::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let judged = |packet: &PacketExplanation| {
        let in_ns = told.first_ns + packet.at_ns;
        // The cause that explains the largest part of the delay, at any level of certainty.
        let total =
            |cause| packet.parts.iter().filter(|part| part.cause == cause).map(|part| part.ns).sum::<u64>();
        let first = packet.parts.iter().max_by_key(|part| total(part.cause)).map(|part| part.cause);
        let of_first = packet.parts.iter().filter(|part| Some(part.cause) == first);
        let sender = of_first.filter_map(|part| Some((part.ns, part.sender?))).max();
        Judged {
            in_ns,
            out_ns: in_ns + packet.delay_ns,
            lost_ns: packet.lost_ns,
            cause: first.map(|cause| (told.causes[cause].kind, told.causes[cause].name.clone())),
            sender: sender.map(|(_, sender)| told.senders[sender].task.clone()),
        }
    };
    let said: HashMap<u64, &PacketExplanation> =
        told.worst.iter().map(|packet| (packet.index, packet)).collect();
    let silent = |packet: &PacketTime| Judged {
        in_ns: packet.in_ns,
        out_ns: packet.in_ns + packet.delay_ns,
        lost_ns: (packet.delay_ns - told.baseline_ns).max(0) as u64,
        cause: None,
        sender: None,
    };
    let packets = packets.iter();
    let packets: Vec<Judged> = packets
        .map(|packet| said.get(&packet.index).map_or_else(|| silent(packet), |said| judged(said)))
        .collect();
    Ok(Some(judge(&injected, &packets)))
}

/// The explanation of an evaluated trial.
pub struct Explained {
    /// Position in the experiment, from 1.
    pub number: usize,
    pub name: String,
    /// Causes from the trial's trace; `None` if the trial was not traced.
    pub causes: Option<TrialExplanation>,
    /// Accuracy of the explanation, if interference was injected.
    pub ground_truth: Option<GroundTruthReport>,
    /// Analysis job that reads the trial's packets again.
    pub job: Job<'static>,
}

/// Explains one trial or all trials of a run again, and writes the explanations of traced trials.
///
/// # Errors
/// Returns an error if [`trial`] fails, or if no trial has packets that were analyzed.
pub fn all(run: &Path, number: Option<usize>) -> Result<Vec<Explained>> {
    let (experiment, manifest) = crate::run::output::directory::read(run)?;
    let trials = experiment.trials();
    let mut found = Vec::new();
    for record in manifest.trials.iter().filter(|record| number.is_none_or(|number| number == record.number))
    {
        let Some(of) = trials.iter().find(|trial| trial.number == record.number) else { continue };
        let Some(segment) = record.segments.first().filter(|segment| segment.analysed) else { continue };
        if is_soak(of) {
            continue;
        }
        let folder = run.join(&record.directory);
        let causes = trial(run, of, record)?;
        causes.iter().try_for_each(|causes| write(&folder, causes))?;
        let ground_truth = match &causes {
            Some(causes) => ground_truth(&folder, &packets(&folder, of, segment)?, causes)?,
            None => None,
        };
        let job = job(&folder, of, segment)?;
        found.push(Explained { number: record.number, name: record.name.clone(), causes, ground_truth, job });
    }
    pages(run, &manifest)?;
    if found.is_empty() {
        let which = number.map_or_else(|| "any trial".to_owned(), |number| format!("trial {number}"));
        bail!(
            "{}: there are no analyzed packets of {which} of this run; `wiretail report` lists the trials",
            run.display()
        );
    }
    Ok(found)
}
