//! `wiretail predict capacity`: reads the inputs from options, a file or a run, and prints a table or JSON.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use wiretail_analysis::prediction::capacity::{against_search, counted, deployment, inputs};
use wiretail_report::format::{duration, rate};
use wiretail_schema::causes::{CauseKind, EXPLANATION_FILE, TrialExplanation};
use wiretail_schema::prediction::capacity::{
    CAPACITY_SCHEMA, CapacityBasis, CapacityInputs, CapacityModel, Deployment, Estimate, InterruptLoad,
    Judgement, MedianBasis,
};
use wiretail_schema::prediction::deployments::{DeploymentSpec, parse_deployments};
use wiretail_schema::run::{Run, TrialRecord};
use wiretail_schema::summary::Summary;

use crate::analyze::outputs;
use crate::cli::predict::CapacityArgs;
use crate::run::output::directory;

/// Runs `wiretail predict capacity`.
///
/// # Errors
/// Returns an error if inputs are missing, can't be read, or leave no time for packets. The message names the
/// deployment.
pub fn run(arguments: &CapacityArgs) -> Result<ExitCode> {
    let given = gather(arguments)?;
    let deployments = given.into_iter().map(|inputs| {
        let name = inputs.name.clone();
        deployment(inputs).map_err(|error| anyhow!("{name}: {error}"))
    });
    let mut model = CapacityModel {
        schema: CAPACITY_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        deployments: deployments.collect::<Result<_>>()?,
    };
    if let (Some(path), Some(dut), [found]) = (&arguments.run, arguments.dut, &mut model.deployments[..]) {
        let searches = directory::searches(path)?.map_or_else(Vec::new, |searches| searches.searches);
        let own = searches.iter().find(|search| search.trials.iter().any(|trial| trial.number == dut));
        found.searched = own.map_or_else(Vec::new, |search| against_search(&found.capacity, search));
    }
    if let Some(path) = &arguments.report {
        outputs::write_file(path, wiretail_report::capacity(&model).as_bytes())?;
    }
    outputs::print(&model, arguments.json, |out| write(out, &model))?;
    Ok(ExitCode::SUCCESS)
}

/// Collects the inputs from options, file or run.
fn gather(arguments: &CapacityArgs) -> Result<Vec<CapacityInputs>> {
    if let Some(path) = &arguments.from {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("{shown}: cannot be read; expected a TOML file with tables [[deployment]]")
        })?;
        let specs = parse_deployments(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
        return Ok(specs.iter().map(inputs).collect());
    }
    let spec = |name: &str, dut_median_ns, forwarder_median_ns| DeploymentSpec {
        name: name.to_owned(),
        dut_median_ns,
        forwarder_median_ns,
        interrupts: arguments.interrupts.clone(),
        interrupt_time: arguments.interrupt_time,
        overload: arguments.overload,
    };
    if let (Some(path), Some(dut), Some(forwarder)) = (&arguments.run, arguments.dut, arguments.forwarder) {
        let (_, run) = directory::read(path)?;
        let (device, idle) = (trial(path, &run, dut)?, trial(path, &run, forwarder)?);
        let name = format!("{} compared with {}", device.name, idle.name);
        let ((dut_median_ns, dut), (forwarder_median_ns, forwarder)) =
            (median(path, device)?, median(path, idle)?);
        let mut found = inputs(&spec(&name, dut_median_ns, forwarder_median_ns));
        found.basis = Some(CapacityBasis { dut, forwarder });
        // Interrupts given as options replace the interrupts of the run, so that each is counted once.
        if arguments.interrupts.is_empty() && arguments.interrupt_time.is_none() {
            found.interrupts = interrupts(arguments, path, device)?;
        }
        return Ok(vec![found]);
    }
    match (arguments.dut_median, arguments.forwarder_median) {
        (Some(dut), Some(forwarder)) => {
            let exact = |ns: i64| Estimate::exact(ns as f64);
            Ok(vec![inputs(&spec("from options", exact(dut.ns), exact(forwarder.ns)))])
        }
        _ => bail!(
            "no inputs; expected --dut-median and --forwarder-median, --run with --dut and --forwarder, or \
             --from FILE (wiretail predict capacity --help has examples)"
        ),
    }
}

fn trial<'a>(path: &Path, run: &'a Run, number: usize) -> Result<&'a TrialRecord> {
    let found = run.trials.iter().find(|trial| trial.number == number);
    found.ok_or_else(|| {
        let numbers = run.trials.iter().map(|trial| format!("{} ({})", trial.number, trial.name));
        anyhow!(
            "{}: has no trial {number}; it has {}",
            path.display(),
            numbers.collect::<Vec<_>>().join(", ")
        )
    })
}

/// Returns the median delay of the whole device in a trial, with its confidence interval, and its basis.
fn median(path: &Path, trial: &TrialRecord) -> Result<(Estimate, MedianBasis)> {
    let segment = trial.segments.first().filter(|segment| segment.analysed);
    let segment =
        segment.with_context(|| format!("trial {} ({}) was not analyzed", trial.number, trial.name))?;
    let file = path.join(&segment.directory).join("summary.json");
    let shown = file.display();
    let text = std::fs::read(&file).with_context(|| format!("{shown}: cannot be read"))?;
    let summary: Summary =
        serde_json::from_slice(&text).with_context(|| format!("{shown}: is not a summary"))?;
    let found = summary.delay.percentile(50.0);
    let found = found.filter(|_| summary.delay.count > 0);
    let found = found.with_context(|| format!("{shown}: has no median because no packet was matched"))?;
    let median = Estimate {
        value: found.value_ns as f64,
        low: found.low_ns as f64,
        high: found.high_ns.map(|high| high as f64),
    };
    let (clock, granularity_ns) = super::clock(&summary);
    let trial = format!("{} ({})", trial.number, trial.name);
    Ok((median, MedianBasis { trial, packets: summary.delay.count, clock, granularity_ns }))
}

/// Returns the interrupts of the device's core in its trial: from the trace if there is one, otherwise from
/// the counters and the given costs.
fn interrupts(arguments: &CapacityArgs, path: &Path, trial: &TrialRecord) -> Result<Vec<InterruptLoad>> {
    let file = path.join(&trial.directory).join(EXPLANATION_FILE);
    let shown = file.display();
    if arguments.costs.is_empty() {
        return match std::fs::read(&file) {
            Ok(text) => {
                let explanation: TrialExplanation = serde_json::from_slice(&text)
                    .with_context(|| format!("{shown}: is not an explanation"))?;
                traced(&explanation).with_context(|| format!("{shown}: its trace has zero length"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "trial {} ({}) was not traced, so the length of its interrupts is unknown; pass --interrupt-cost \
                 LOC=3.2us for each kind, or all interrupts with --interrupt",
                trial.number,
                trial.name
            ),
            Err(error) => Err(error).with_context(|| format!("{shown}: cannot be read")),
        };
    }
    by_counters(arguments, trial)
}

/// Returns the causes that take the core from the device, with their events and durations. Excludes the
/// device's own work, packets that arrive together, and a core that waits for packets.
pub fn traced(explanation: &TrialExplanation) -> Option<Vec<InterruptLoad>> {
    let seconds = explanation.evidence.duration_ns as f64 * 1e-9;
    if seconds <= 0.0 {
        return None;
    }
    let takes = |kind: CauseKind| match kind {
        CauseKind::Timer
        | CauseKind::TlbShootdown
        | CauseKind::FunctionCall
        | CauseKind::Reschedule
        | CauseKind::Vector
        | CauseKind::Irq
        | CauseKind::Softirq
        | CauseKind::Nmi
        | CauseKind::Task
        | CauseKind::FairServer
        | CauseKind::Paused => true,
        CauseKind::PageFault
        | CauseKind::Asleep
        | CauseKind::Device
        | CauseKind::Burst
        | CauseKind::Batch
        | CauseKind::Feeding => false,
    };
    let rows = explanation.causes.iter().filter(|row| takes(row.kind) && row.events > 0);
    let load = |row: &wiretail_schema::causes::CauseRow| {
        let length_ns = row.total_ns as f64 / row.events as f64;
        InterruptLoad::new(wiretail_report::cause_name(row), counted(row.events, seconds), length_ns)
    };
    Some(rows.map(load).collect())
}

/// Returns the interrupt counters of the device's core, each with the cost given for its name.
fn by_counters(arguments: &CapacityArgs, trial: &TrialRecord) -> Result<Vec<InterruptLoad>> {
    let named = format!("trial {} ({})", trial.number, trial.name);
    let mut cores: Vec<u32> = trial.interrupts.iter().map(|delta| delta.cpu).collect();
    cores.sort_unstable();
    cores.dedup();
    if cores.is_empty() {
        bail!("{named} has no interrupt counters; pass the interrupts with --interrupt");
    }
    let Some(cpu) = arguments.cpu.filter(|cpu| cores.contains(cpu)) else {
        let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
        bail!(
            "{named} has interrupt counters of the cores {}; select the device's core with --cpu",
            cores.join(", ")
        );
    };
    let sent = trial.generator.as_ref().filter(|generator| generator.sent > 0 && generator.offered_pps > 0);
    let sent = sent.with_context(|| format!("{named} does not record how long packets were sent"))?;
    let planned = sent.sent + sent.skipped;
    let seconds = planned as f64 / sent.offered_pps as f64 + sent.shifted_ns as f64 / 1e9;
    let mut loads = Vec::new();
    let mut without = Vec::new();
    for delta in trial.interrupts.iter().filter(|delta| delta.cpu == cpu) {
        let fits = |name: &str| delta.name == name || delta.name.ends_with(&format!("({name})"));
        match arguments.costs.iter().find(|(name, _)| fits(name)) {
            Some((_, length)) => loads.push(InterruptLoad::new(
                delta.name.clone(),
                counted(delta.count, seconds),
                length.ns as f64,
            )),
            None => without.push(delta.name.as_str()),
        }
    }
    if !without.is_empty() {
        bail!(
            "{named}: core {cpu} was also interrupted by {}, of unknown length; pass --interrupt-cost for each (0us \
             to leave it out)",
            without.join(", ")
        );
    }
    Ok(loads)
}

fn write(out: &mut impl Write, model: &CapacityModel) -> io::Result<()> {
    let width = model.deployments.iter().map(|found| found.inputs.name.chars().count()).max().unwrap_or(0);
    let width = width.max("DEPLOYMENT".len());
    writeln!(
        out,
        "\n  {:<width$}  {:>9}  {:>9}  {:>9}  {:>12}  {:>10}",
        "DEPLOYMENT", "device", "forwarder", "t_cpu", "interrupts", "R_max"
    )?;
    for found in &model.deployments {
        row(out, found, width)?;
    }
    writeln!(out)?;
    for found in &model.deployments {
        for load in &found.inputs.interrupts {
            let often = match (load.rate_hz, load.length_ns) {
                (Some(rate), Some(length)) => format!("{:.2}/s of {}", rate.value, duration(length)),
                _ => "given as a sum".to_owned(),
            };
            let time = bounded(load.time_ns, duration);
            writeln!(out, "  {:<width$}  {}: {often}, {time} per second", found.inputs.name, load.name)?;
        }
    }
    let judged: Vec<&Deployment> = model.deployments.iter().filter(|found| found.against.is_some()).collect();
    if !judged.is_empty() {
        writeln!(out, "\n  COMPARISON WITH THE MEASURED OVERLOAD")?;
    }
    for found in judged {
        if let Some(validation) = &found.against {
            let error = format!("{:+.1} %", validation.error * 100.0);
            writeln!(out, "  {:<width$}  {error:>7}  {}", found.inputs.name, validation.reason)?;
        }
    }
    searched(out, model, width)?;
    writeln!(
        out,
        "\n  R_max = (1 s - interrupts) / t_cpu, t_cpu = device - forwarder (medians); [95 % confidence], by interval \
         arithmetic\n"
    )
}

/// Writes R_max next to the rates that searches found; writes nothing if there are no searches.
fn searched(out: &mut impl Write, model: &CapacityModel, width: usize) -> io::Result<()> {
    let mut all = model
        .deployments
        .iter()
        .flat_map(|found| found.searched.iter().map(move |validation| (found, validation)))
        .peekable();
    if all.peek().is_some() {
        writeln!(out, "\n  COMPARISON WITH SEARCH RESULTS")?;
    }
    for (found, validation) in all {
        let pps = |pps: Option<u64>| pps.map_or_else(|| "none".to_owned(), |pps| rate(pps as f64));
        let said = match validation.judgement {
            Some(Judgement::Inside) => "right",
            Some(Judgement::LowerBound) => "a lower bound",
            Some(Judgement::Off) => "off",
            None => "undecided: the deciding bound was not found",
        };
        let error = validation.error.map_or_else(String::new, |error| format!(", {:+.1} %", error * 100.0));
        writeln!(
            out,
            "  {:<width$}  {}: predicted {}, met at {}, missed at {}: {said}{error}",
            found.inputs.name,
            validation.goal,
            rate(found.capacity.max_pps.value),
            pps(validation.lower_pps),
            pps(validation.upper_pps)
        )?;
    }
    Ok(())
}

fn row(out: &mut impl Write, found: &Deployment, width: usize) -> io::Result<()> {
    let (inputs, capacity) = (&found.inputs, &found.capacity);
    write!(
        out,
        "  {:<width$}  {:>9}  {:>9}  {:>9}  {:>10}/s  {:>10}",
        inputs.name,
        duration(inputs.dut_median_ns.value),
        duration(inputs.forwarder_median_ns.value),
        duration(capacity.cpu_ns.value),
        micros(capacity.interrupts_ns.value),
        rate(capacity.max_pps.value)
    )?;
    if !capacity.max_pps.is_exact() {
        let high = capacity.max_pps.high.map_or("unbounded".to_owned(), rate);
        write!(out, "  [{} ... {high}]", rate(capacity.max_pps.low))?;
    }
    writeln!(out)
}

/// Formats microseconds with one decimal, like the published tables.
fn micros(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

/// Formats a value, with its interval if it has one.
fn bounded(estimate: Estimate, show: impl Fn(f64) -> String) -> String {
    let value = show(estimate.value);
    match estimate.high {
        _ if estimate.is_exact() => value,
        Some(high) => format!("{value} [{} ... {}]", show(estimate.low), show(high)),
        None => format!("{value} [{} ...]", show(estimate.low)),
    }
}
