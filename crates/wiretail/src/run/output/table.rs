//! Prints the results of a run on a terminal, as a table of percentiles with one row per trial, like the
//! tables in the papers.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, joules, ratio, watts};
use wiretail_schema::run::breakdown::{Breakdown, BreakdownDelays};
use wiretail_schema::run::scenario::{Place, Ranking, SegmentResult};
use wiretail_schema::run::{DeviceCounts, Run, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use crate::run::devices::disagreement;

const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.999];

/// Prints the table.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn print(
    out: &mut impl Write,
    run: &Run,
    results: &[SegmentResult],
    rankings: &[Ranking],
) -> io::Result<()> {
    writeln!(out, "{}\n", run.title)?;
    let width = run.trials.iter().map(|trial| trial.name.chars().count() + 6).max().unwrap_or(0).max(10);
    let heads = PERCENTILES.map(|percentile| format!("p{percentile}"));
    let [a, b, c, d] = &heads;
    writeln!(
        out,
        "  {:<width$} {:>10} {:>9} {a:>10} {b:>10} {c:>10} {d:>10} {:>10}  state",
        "trial", "sent", "loss", "max"
    )?;
    let mut unsupported = false;
    for trial in &run.trials {
        let of_trial = || results.iter().filter(|result| result.trial == trial.number);
        if of_trial().next().is_none() {
            writeln!(out, "  {:<width$} {:>74}  {}", trial.name, "", state(trial))?;
        }
        for SegmentResult { segment: place, summary, .. } in of_trial() {
            let name = match (place, trial.segments.get(*place)) {
                (1.., Some(segment)) => format!("{} {}", trial.name, segment.name),
                _ => trial.name.clone(),
            };
            let [a, b, c, d] = PERCENTILES.map(|percentile| {
                let (text, supported) = value(summary, percentile);
                unsupported |= !supported;
                text
            });
            writeln!(
                out,
                "  {name:<width$} {:>10} {:>9} {a:>10} {b:>10} {c:>10} {d:>10} {:>10}  {}",
                count(summary.loss.sent),
                ratio(summary.loss.ratio),
                duration(summary.delay.max_ns as f64),
                state(trial)
            )?;
        }
        for reason in &trial.reasons {
            writeln!(out, "    {reason}")?;
        }
        for line in known(trial) {
            writeln!(out, "    {line}")?;
        }
    }
    fastest(out, rankings)?;
    let source = run.trials.iter().flat_map(|trial| &trial.taps).next();
    writeln!(out, "\n  timestamps: {}", source.map_or("none", |tap| &tap.timestamp_source))?;
    if unsupported {
        writeln!(out, "  ? too few packets: fewer than ten are beyond this percentile")?;
    }
    Ok(())
}

/// Describes how the injected delays and faults compare with the measured ones, and what else concerns the
/// trial.
fn known(trial: &TrialRecord) -> Vec<String> {
    let word = |holds: bool| if holds { "holds" } else { "does NOT hold" };
    let calibration = trial.calibration.iter().map(|known| {
        format!(
            "calibration {}: {} ns injected, {} ns recovered (error {} ns); the worst packets include {} of {} \
             delayed packets; {} delayed packets in stalls were excluded",
            word(known.holds()),
            known.injected_ns,
            known.recovered_ns,
            known.error_ns(),
            known.found,
            known.delayed,
            known.in_stalls
        )
    });
    let accounting = trial.accounting.iter().map(|known| {
        format!(
            "accounting {}: dropped {}, lost {}; sent twice {}, duplicates {}; swapped {}, reordered {}",
            word(known.holds()),
            known.dropped,
            known.lost,
            known.duplicated,
            known.duplicates,
            known.swapped,
            known.reordered
        )
    });
    let filtering = trial.filtering.iter().map(|known| {
        format!(
            "filter {}: {} packets marked; {} marked and {} other packets lost",
            word(known.holds()),
            known.marked,
            known.marked_lost,
            known.others_lost
        )
    });
    let generator = trial.generator.iter().filter_map(|generator| {
        let planned = generator.sent + generator.skipped;
        match (generator.skipped, generator.shifted_ns) {
            (0, 0) => None,
            (0, shifted_ns) => {
                Some(format!("the load generator shifted its schedule by {}", duration(shifted_ns as f64)))
            }
            (skipped, _) => Some(format!(
                "the load generator skipped {} of {} packets ({}), because their departure was missed",
                count(skipped),
                count(planned),
                ratio(skipped as f64 / planned as f64)
            )),
        }
    });
    let disagreements = trial.devices.iter().filter_map(disagreement);
    calibration
        .chain(accounting)
        .chain(filtering)
        .chain(agreement(trial))
        .chain(energy(trial))
        .chain(generator)
        .chain(disagreements)
        .chain(breakdown(trial))
        .collect()
}

/// Lists the devices whose counters agree with the taps; `None` if no agreeing device has taps around it.
fn agreement(trial: &TrialRecord) -> Option<String> {
    let tapped = |device: &&DeviceCounts| device.tapped_in.or(device.tapped_out).is_some();
    let agree = trial.devices.iter().filter(|device| device.agrees()).filter(tapped);
    let told: Vec<String> = agree
        .map(|device| {
            format!("{} received {} and sent {}", device.device, count(device.received), count(device.sent))
        })
        .collect();
    (!told.is_empty()).then(|| format!("device counters agree with the taps: {}", told.join("; ")))
}

/// Describes a trial's energy. If the energy was not measured although a source was requested by name,
/// describes the reason.
fn energy(trial: &TrialRecord) -> Option<String> {
    let energy = trial.energy.as_ref()?;
    if energy.states.is_empty() {
        let asked = trial.setting("energy.source").is_some_and(|source| source.text != "auto");
        return energy
            .reason
            .as_ref()
            .filter(|_| asked)
            .map(|reason| format!("energy: not measured: {reason}"));
    }
    let states = energy.states.iter().map(|state| format!("{} {}", state.state, watts(state.watts)));
    let mut told: Vec<String> = vec![states.collect::<Vec<_>>().join(", ")];
    told.extend(
        energy.per_million_packets.map(|taken| format!("{} per million packets", joules(taken.joules))),
    );
    let above = energy.per_million_packets_above_available;
    told.extend(above.map(|taken| format!("{} above the available state", joules(taken.joules))));
    Some(format!("energy: {}", told.join("; ")))
}

/// Formats the latency breakdown, one line per direction.
fn breakdown(trial: &TrialRecord) -> Vec<String> {
    let at = |delays: &BreakdownDelays, wanted: f64| {
        let found = delays.percentiles.iter().find(|p| p.percentile == wanted);
        found.map_or("-".to_owned(), |p| {
            format!("{}{}", duration(p.value_ns as f64), if p.supported { "" } else { "?" })
        })
    };
    let both = |delays: &BreakdownDelays| format!("p50 {}, p99.9 {}", at(delays, 50.0), at(delays, 99.9));
    let line = |breakdown: &Breakdown| {
        format!(
            "{}: infrastructure {}; {} device{} {}; {} packets, {} excluded",
            breakdown.segment,
            both(&breakdown.infrastructure),
            breakdown.devices,
            if breakdown.devices == 1 { "" } else { "s" },
            both(&breakdown.vnf),
            count(breakdown.packets),
            count(breakdown.left_out + breakdown.contradictory)
        )
    };
    trial.breakdown.iter().map(line).collect()
}

/// Maximum number of devices listed for each load. The report lists all devices.
const FASTEST: usize = 6;

/// Prints the fastest devices by p99.9, one line per load.
fn fastest(out: &mut impl Write, rankings: &[Ranking]) -> io::Result<()> {
    let by_tail: Vec<&Ranking> = rankings.iter().filter(|ranking| ranking.percentile == 99.9).collect();
    if by_tail.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  ranks by p99.9; devices with a range of ranks cannot be distinguished with 95 % confidence"
    )?;
    for ranking in by_tail {
        let place = |place: &Place| {
            let rank = match (place.best, place.worst) {
                (best, worst) if best == worst => best.to_string(),
                (best, worst) => format!("{best}-{worst}"),
            };
            let doubt = if place.supported { "" } else { "?" };
            format!("{rank} {} {}{doubt}", place.device, duration(place.value_ns as f64))
        };
        let mut places: Vec<String> = ranking.places.iter().take(FASTEST).map(place).collect();
        if ranking.places.len() > FASTEST {
            places.push(format!("{} more in the report", ranking.places.len() - FASTEST));
        }
        writeln!(out, "    {}: {}", ranking.load, places.join("; "))?;
    }
    Ok(())
}

/// Formats a percentile, with a question mark if it is not supported by enough packets.
pub fn value(summary: &Summary, percentile: f64) -> (String, bool) {
    let found = summary.delay.percentile(percentile);
    match found {
        Some(found) if found.supported => (duration(found.value_ns as f64), true),
        Some(found) => (format!("{}?", duration(found.value_ns as f64)), false),
        None => ("-".to_owned(), true),
    }
}

pub fn state(trial: &TrialRecord) -> &'static str {
    match trial.state {
        TrialState::Valid => "valid",
        TrialState::Invalid => "invalid",
        TrialState::Failed => "failed",
        TrialState::Interrupted => "interrupted",
    }
}
