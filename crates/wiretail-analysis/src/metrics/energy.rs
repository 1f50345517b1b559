//! Energy per state of a trial and per million packets, in joules, from a meter's readings.
//!
//! Counters (RAPL) are read at the beginning and end of a state; the energy is the difference. A power meter is
//! read repeatedly during a state, and the readings are joined by straight lines (trapezoidal rule). Before the
//! first and after the last reading of a state, power is taken to be that reading. A state's energy therefore
//! does not depend on its neighbors.

use wiretail_schema::run::energy::{
    DomainEnergy, Energy, EnergySource, EnergyState, Joules, Reading, Readings, StateEnergy, StateSpan,
};

/// Computes the energy of these states. `packets` is the number of packets sent in the last `Processing` state.
pub fn energy(readings: &Readings, spans: &[StateSpan], packets: u64) -> Energy {
    let mut reasons: Vec<String> = readings.ended.iter().map(|(_, why)| why.clone()).collect();
    let mut states = Vec::new();
    for span in spans {
        // The energy after a meter's failure is not extrapolated.
        if readings.ended.as_ref().is_some_and(|(at_ns, _)| *at_ns < span.to_ns) {
            continue;
        }
        match of_state(readings, span) {
            Some(state) => states.push(state),
            None => reasons.push(format!(
                "{} was not measured: fewer than two readings within {:.3} s; set a shorter energy.interval or a \
                 longer state",
                span.state,
                seconds(span.from_ns, span.to_ns)
            )),
        }
    }
    let mut energy = Energy {
        source: readings.source,
        reason: Some(reasons.join("; ")).filter(|reason| !reason.is_empty()),
        resolution_ns: Some(resolution_ns(readings)),
        states,
        packets,
        per_million_packets: None,
        per_million_packets_above_available: None,
    };
    if let Some(processing) = energy.state(EnergyState::Processing).filter(|_| packets > 0) {
        let per_million = |joules: f64| joules / packets as f64 * 1e6;
        let (whole, available) = (processing.total, energy.state(EnergyState::Available));
        let above = available.map(|available| {
            // Scaled to the duration of sending.
            let factor = processing.seconds / available.seconds;
            Joules {
                joules: per_million(whole.joules - available.total.joules * factor),
                uncertainty_j: per_million(whole.uncertainty_j + available.total.uncertainty_j * factor),
            }
        });
        energy.per_million_packets = Some(Joules {
            joules: per_million(whole.joules),
            uncertainty_j: per_million(whole.uncertainty_j),
        });
        energy.per_million_packets_above_available = above;
    }
    energy
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

/// Interval between readings, in ns. For a command, it is the observed mean.
fn resolution_ns(readings: &Readings) -> u64 {
    match (readings.source, &readings.readings[..]) {
        (EnergySource::Command, [first, .., last]) => {
            last.at_ns.saturating_sub(first.at_ns) / (readings.readings.len() as u64 - 1)
        }
        _ => readings.resolution_ns,
    }
}

/// Returns `None` if fewer than two readings fell into the state.
fn of_state(readings: &Readings, span: &StateSpan) -> Option<StateEnergy> {
    let all = &readings.readings;
    let first = all.partition_point(|reading| reading.at_ns < span.from_ns);
    let end = all.partition_point(|reading| reading.at_ns <= span.to_ns);
    let within = all.get(first..end)?;
    let [begin, .., last] = within else { return None };
    let counts = readings.source == EnergySource::Rapl;
    let length_s = if counts { seconds(begin.at_ns, last.at_ns) } else { seconds(span.from_ns, span.to_ns) };
    if length_s <= 0.0 {
        return None;
    }
    let mut total = Joules { joules: 0.0, uncertainty_j: 0.0 };
    let mut domains = Vec::with_capacity(readings.domains.len());
    for (place, (name, counted)) in readings.domains.iter().enumerate() {
        let measured = match counts {
            true => difference(begin, last, place, readings.resolution_ns),
            false => trapezoids(within, span, place),
        };
        let (domain, watts) = (name.clone(), measured.joules / length_s);
        domains.push(DomainEnergy { domain, joules: measured.joules, watts, counted: *counted });
        if *counted {
            total.joules += measured.joules;
            total.uncertainty_j += measured.uncertainty_j;
        }
    }
    let watts = total.joules / length_s;
    let readings = within.len() as u64;
    Some(StateEnergy { state: span.state, seconds: length_s, readings, total, watts, domains })
}

/// A domain's value in a reading, or 0 if it is missing.
fn value(reading: &Reading, place: usize) -> f64 {
    reading.values.get(place).copied().unwrap_or(0.0)
}

/// Energy from a counter. Either reading may be as old as the counter's update interval, which moves energy
/// across the state's borders.
fn difference(begin: &Reading, end: &Reading, place: usize, update_ns: u64) -> Joules {
    let joules = value(end, place) - value(begin, place);
    let watts = joules / seconds(begin.at_ns, end.at_ns).max(f64::MIN_POSITIVE);
    Joules { joules, uncertainty_j: watts.abs() * update_ns as f64 / 1e9 }
}

/// Energy from power readings. The uncertainty allows for any of the power values read at either end of the
/// state.
fn trapezoids(within: &[Reading], span: &StateSpan, place: usize) -> Joules {
    let [first, .., last] = within else { return Joules { joules: 0.0, uncertainty_j: 0.0 } };
    let between = within.windows(2).map(|pair| {
        let mean = (value(&pair[0], place) + value(&pair[1], place)) / 2.0;
        mean * seconds(pair[0].at_ns, pair[1].at_ns)
    });
    let (before_s, behind_s) = (seconds(span.from_ns, first.at_ns), seconds(last.at_ns, span.to_ns));
    let held = value(first, place) * before_s + value(last, place) * behind_s;
    let read = || within.iter().map(|reading| value(reading, place));
    let range = read().fold(f64::MIN, f64::max) - read().fold(f64::MAX, f64::min);
    Joules { joules: between.sum::<f64>() + held, uncertainty_j: range * (before_s + behind_s) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn span(state: EnergyState, from_ns: u64, to_ns: u64) -> StateSpan {
        StateSpan { state, from_ns, to_ns }
    }

    fn metered(watts: impl Fn(f64) -> f64, every_ns: u64, until_ns: u64) -> Readings {
        let times = (0..=until_ns / every_ns).map(|number| number * every_ns);
        Readings {
            source: EnergySource::Command,
            resolution_ns: every_ns,
            domains: vec![("metered".to_owned(), true)],
            readings: times.map(|at_ns| Reading { at_ns, values: vec![watts(at_ns as f64 / 1e9)] }).collect(),
            ended: None,
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} against {b}");
    }

    #[test]
    fn constant_power_is_power_times_time() {
        // The sums are correct for any position of the states' borders between the readings.
        for (from, to) in [(0, 10 * S), (S / 3, 7 * S + 1), (S - 1, 4 * S + S / 2)] {
            let readings = metered(|_| 50.0, S, 10 * S);
            let energy = energy(&readings, &[span(EnergyState::Processing, from, to)], 250_000);
            let state = energy.state(EnergyState::Processing).unwrap();
            close(state.total.joules, 50.0 * (to - from) as f64 / 1e9);
            close(state.watts, 50.0);
            assert_eq!((state.total.uncertainty_j, energy.resolution_ns), (0.0, Some(S)));
            close(energy.per_million_packets.unwrap().joules, 4.0 * state.total.joules);
        }
    }

    #[test]
    fn ramp_is_exact_between_readings_and_bounded_at_the_ends() {
        // P = 10 + 3 t: the integral from a to b is 10 (b - a) + 3/2 (b^2 - a^2).
        let readings = metered(|t| 10.0 + 3.0 * t, S / 4, 20 * S);
        let ground_truth = |a: f64, b: f64| 10.0 * (b - a) + 1.5 * (b * b - a * a);
        let joules = |from, to| {
            let energy = energy(&readings, &[span(EnergyState::Idle, from, to)], 0);
            assert_eq!(energy.per_million_packets, None);
            energy.states[0].total
        };
        close(joules(2 * S, 12 * S).joules, ground_truth(2.0, 12.0));
        // The readings are extrapolated over 0.15 s before and 0.2 s after: the error is 3 (0.15^2 - 0.2^2) /
        // 2, within the reported uncertainty.
        let total = joules(2 * S + S / 10, 12 * S + S / 5);
        close(total.joules - ground_truth(2.1, 12.2), 1.5 * (0.15 * 0.15 - 0.2 * 0.2));
        assert!((total.joules - ground_truth(2.1, 12.2)).abs() < total.uncertainty_j, "{total:?}");
    }

    #[test]
    fn states_do_not_share_readings() {
        // 20 W until 5 s, 100 W from then on.
        let readings = metered(|t| if t < 5.0 { 20.0 } else { 100.0 }, S / 2, 10 * S);
        let spans =
            [span(EnergyState::Available, S, 5 * S - 1), span(EnergyState::Processing, 5 * S - 1, 9 * S - 1)];
        let energy = energy(&readings, &spans, 1_000_000);
        close(energy.states[0].watts, 20.0);
        close(energy.states[1].watts, 100.0);
        close(energy.per_million_packets.unwrap().joules, 400.0);
        close(energy.per_million_packets_above_available.unwrap().joules, 320.0);
        assert_eq!(energy.reason, None);
    }

    #[test]
    fn reports_too_few_readings_and_failed_meter() {
        let mut readings = metered(|_| 50.0, S, 10 * S);
        let spans = [span(EnergyState::Idle, S / 4, S / 2), span(EnergyState::Processing, 2 * S, 8 * S)];
        let told = energy(&readings, &spans, 10);
        assert_eq!(told.states.len(), 1);
        assert!(told.reason.as_deref().unwrap().starts_with("idle was not measured: fewer than two"));
        readings.ended = Some((5 * S, "the meter broke".to_owned()));
        let told = energy(&readings, &spans[1..], 10);
        assert_eq!((told.states.len(), told.per_million_packets), (0, None));
        assert_eq!(told.reason.as_deref(), Some("the meter broke"));
        readings.readings.clear();
        assert!(energy(&readings, &[span(EnergyState::Idle, 0, 0)], 0).states.is_empty());
    }

    #[test]
    fn counters_are_subtracted_and_subdomains_counted_once() {
        let reading = |at_ns, values: [f64; 3]| Reading { at_ns, values: values.to_vec() };
        let readings = Readings {
            source: EnergySource::Rapl,
            resolution_ns: S / 1000,
            domains: [("package", true), ("dram", true), ("core", false)]
                .map(|(name, counted)| (name.to_owned(), counted))
                .to_vec(),
            readings: vec![
                reading(S, [0.0, 0.0, 0.0]),
                reading(3 * S, [60.0, 8.0, 40.0]),
                reading(4 * S, [130.0, 14.0, 90.0]),
                reading(6 * S, [330.0, 34.0, 200.0]),
            ],
            ended: None,
        };
        let spans = [span(EnergyState::Available, S, 3 * S), span(EnergyState::Processing, 4 * S, 6 * S + 7)];
        let energy = energy(&readings, &spans, 2_000_000);
        close(energy.states[0].total.joules, 68.0);
        close(energy.states[1].total.joules, 220.0);
        close(energy.states[1].seconds, 2.0);
        close(energy.states[1].domains[2].watts, 55.0);
        // One millisecond at 110 W.
        close(energy.states[1].total.uncertainty_j, 0.11);
        close(energy.per_million_packets.unwrap().joules, 110.0);
        close(energy.per_million_packets_above_available.unwrap().joules, 76.0);
    }
}
