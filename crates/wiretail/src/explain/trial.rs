//! The human-readable explanation of a trial's worst packets.

use std::io::{self, Write};

use wiretail_analysis::host::mitigation::mitigation;
use wiretail_report::format::{count, duration};
use wiretail_report::{cause_name, headline, sentence};
use wiretail_schema::causes::mitigation::Mitigation;
use wiretail_schema::causes::{CauseRow, CauseSender, PacketExplanation, TrialExplanation, TrialFindings};
use wiretail_schema::run::interference::GroundTruthReport;

use super::text::patterns;

/// Largest number of printed causes and senders; JSON has all.
const SHOWN: usize = 10;
/// Number of causes with printed mitigations.
const MITIGATIONS: usize = 3;
/// Percentiles by which causes are compared, in the order of [`TrialExplanation::percentiles`].
const COMPARED: [f64; 2] = [99.9, 99.999];

/// Writes the explanation, with up to `worst` of the worst packets.
///
/// # Errors
/// Returns an error if `out` can't be written, for example because a pipe was closed.
pub fn write(out: &mut impl Write, findings: &TrialFindings, worst: usize) -> io::Result<()> {
    writeln!(out, "\n  {}. {}", findings.number, findings.name)?;
    match &findings.causes {
        Some(explanation) => self::explanation(out, explanation, worst)?,
        None => writeln!(
            out,
            "  not traced: set [trace] record = true in the experiment to record what delays packets\n"
        )?,
    }
    findings.ground_truth.iter().try_for_each(|report| ground_truth(out, report))?;
    patterns(out, &findings.periodicity)
}

/// Writes the comparison of injected interference with the reported causes.
fn ground_truth(out: &mut impl Write, report: &GroundTruthReport) -> io::Result<()> {
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    writeln!(
        out,
        "  INJECTED interference, and the causes reported for packets that it delayed by more than 20 us"
    )?;
    writeln!(
        out,
        "  {:<12}  {:>7}  {:>7}  {:>9}  {:>9}  identified senders",
        "KIND", "injected", "packets", "precision", "recall"
    )?;
    for (kind, ground_truth) in &report.kinds {
        let senders: Vec<&str> = ground_truth.senders.iter().map(String::as_str).collect();
        let missed: Vec<&str> =
            ground_truth.injectors.difference(&ground_truth.senders).map(String::as_str).collect();
        let missed =
            if missed.is_empty() { String::new() } else { format!("; MISSED {}", missed.join(", ")) };
        writeln!(
            out,
            "  {:<12}  {:>7}  {:>7}  {:>9}  {:>9}  {}{missed}",
            kind.name(),
            ground_truth.injected,
            ground_truth.packets,
            percent(ground_truth.precision()),
            percent(ground_truth.recall()),
            senders.join(", ")
        )?;
    }
    for confused in &report.confused {
        let said = if confused.said.is_empty() { "nothing" } else { &confused.said };
        writeln!(
            out,
            "    {} packets delayed by {} were attributed to: {said}",
            confused.packets,
            confused.injected.name()
        )?;
    }
    writeln!(
        out,
        "    not judged: {} late packets that arrived too soon after others; {} outside all injected windows; {} that \
         overlapped interference for less than half of their excess delay\n",
        count(report.crowded),
        count(report.not_injected),
        count(report.doubtful)
    )
}

fn explanation(out: &mut impl Write, explanation: &TrialExplanation, worst: usize) -> io::Result<()> {
    writeln!(out, "  {}", headline(explanation))?;
    writeln!(
        out,
        "  The tail: the {} slowest of {} packets.\n",
        count(explanation.tail_packets),
        count(explanation.packets)
    )?;
    causes(out, explanation)?;
    if !explanation.senders.is_empty() {
        writeln!(out, "\n  SENDERS of the interrupts that delayed the tail")?;
    }
    for sender in explanation.senders.iter().take(SHOWN) {
        self::sender(out, explanation, sender)?;
    }
    incidents(out, explanation, worst)?;
    writeln!(
        out,
        "\n  MITIGATIONS [rule of wiretail host audit; wiretail host plan writes most of these settings]"
    )?;
    let mut told: Vec<Mitigation> = Vec::new();
    for row in explanation.causes.iter().filter(|row| row.tail_packets > 0) {
        let mitigation = mitigation(row.kind, &row.name);
        if told.len() == MITIGATIONS || told.contains(&mitigation) {
            continue;
        }
        writeln!(out, "    {}: {}", cause_name(row), mitigation.what)?;
        for step in &mitigation.steps {
            writeln!(out, "      - {step}")?;
        }
        for source in mitigation.sources {
            writeln!(out, "        {} ({})", source.url, source.title)?;
        }
        told.push(mitigation);
    }
    evidence(out, explanation)
}

fn causes(out: &mut impl Write, explanation: &TrialExplanation) -> io::Result<()> {
    let width = explanation.causes.iter().take(SHOWN).map(|row| cause_name(row).chars().count());
    let width = width.max().unwrap_or(0).max(12);
    let without = COMPARED.map(|at| format!("p{at} without"));
    writeln!(
        out,
        "  {:<width$}  {:>7}  {:>8}  {:>10}  {:>10}  {:>14}  {:>16}",
        "CAUSE", "of tail", "packets", "at most", "per second", without[0], without[1]
    )?;
    let row = |row: &CauseRow| -> Vec<String> {
        let seconds = explanation.evidence.duration_ns.max(1) as f64 * 1e-9;
        let at = |wanted: f64| {
            let mut places = explanation.percentiles.iter().zip(&row.without_ns);
            let found = places.find(|(value, _)| value.percentile == wanted);
            found.map_or_else(String::new, |(value, ns)| percentile(*ns, value.supported))
        };
        vec![
            share(row.tail_ns.iter().sum(), explanation.tail_lost_ns),
            count(row.tail_packets),
            duration(row.longest_ns as f64),
            format!("{:.1}", row.events as f64 / seconds),
            at(COMPARED[0]),
            at(COMPARED[1]),
        ]
    };
    let mut print = |name: &str, cells: &[String]| {
        let [share, packets, longest, often, low, high] = cells else { return Ok(()) };
        writeln!(
            out,
            "  {name:<width$}  {share:>7}  {packets:>8}  {longest:>10}  {often:>10}  {low:>14}  {high:>16}"
        )
    };
    for cause in explanation.causes.iter().filter(|row| row.tail_packets > 0).take(SHOWN) {
        print(&cause_name(cause), &row(cause))?;
    }
    let measured = |wanted: f64| {
        let found = explanation.percentiles.iter().find(|value| value.percentile == wanted);
        found.map_or_else(String::new, |value| percentile(value.value_ns, value.supported))
    };
    let none = String::new();
    let unknown = share(explanation.tail_unknown_ns, explanation.tail_lost_ns);
    print("unknown", &[unknown, none.clone(), none.clone(), none.clone(), none.clone(), none.clone()])?;
    print("as measured", &[none.clone(), none.clone(), none.clone(), none, measured(99.9), measured(99.999)])
}

/// Writes only the worst packet of each incident, because the packets that waited behind it have the same
/// causes.
fn incidents(out: &mut impl Write, explanation: &TrialExplanation, most: usize) -> io::Result<()> {
    let mut worst: Vec<(&PacketExplanation, u64)> = Vec::new();
    for packet in &explanation.worst {
        match worst.iter_mut().find(|(first, _)| first.incident == packet.incident) {
            Some((_, more)) => *more += 1,
            None => worst.push((packet, 0)),
        }
    }
    if most > 0 {
        writeln!(
            out,
            "\n  WORST PACKETS, one per incident: number in the stream, seconds since the first packet, causes"
        )?;
    }
    for (packet, more) in worst.iter().take(most) {
        let at_s = packet.at_ns as f64 * 1e-9;
        let more =
            if *more > 0 { format!("; {} more late packets with it", count(*more)) } else { String::new() };
        writeln!(out, "  {:>12} {at_s:>10.4}  {}{more}", count(packet.index), sentence(explanation, packet))?;
    }
    Ok(())
}

fn sender(out: &mut impl Write, explanation: &TrialExplanation, sender: &CauseSender) -> io::Result<()> {
    let cause = explanation.causes.get(sender.cause).map(cause_name).unwrap_or_default();
    let call = sender.system_call.as_ref().map_or(String::new(), |call| format!(" in {call}()"));
    writeln!(
        out,
        "    {} ({}) on core {}{call}: {cause}; {} times, delayed {} packets of the tail by {} in total",
        sender.task,
        sender.pid,
        sender.cpu,
        count(sender.sends),
        count(sender.tail_packets),
        duration(sender.tail_ns as f64)
    )
}

fn evidence(out: &mut impl Write, explanation: &TrialExplanation) -> io::Result<()> {
    let evidence = &explanation.evidence;
    writeln!(
        out,
        "\n  based on {} events of core {} in {:.1} s; the clocks agree within {}",
        count(evidence.events),
        evidence.core,
        evidence.duration_ns as f64 * 1e-9,
        duration(evidence.clock_uncertainty_ns as f64)
    )?;
    if evidence.windows_lost > 0 {
        writeln!(
            out,
            "  events are missing in {} windows: {} packets of the tail are not explained; increase trace.buffer",
            count(evidence.windows_lost),
            count(evidence.packets_in_lost)
        )?;
    }
    for cost in &evidence.calibration {
        writeln!(
            out,
            "  calibrated by {} gaps: {} takes {} before its first tracepoint and {} after its last",
            count(cost.gaps),
            cost.event,
            duration(cost.head_ns[0] as f64),
            duration(cost.tail_ns[0] as f64)
        )?;
    }
    evidence.remarks.iter().try_for_each(|remark| writeln!(out, "  note: {remark}"))?;
    writeln!(out)
}

/// Formats a percentile, with a question mark if too few packets are beyond it.
fn percentile(ns: i64, supported: bool) -> String {
    format!("{}{}", duration(ns as f64), if supported { "" } else { "?" })
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}
