//! Breakdowns of a synthetic run with a switch, the delay that devices add to that of the skeleton, and the
//! ranks of the devices.

use wiretail_schema::run::breakdown::{
    AddedDelay, Addition, Breakdown, BreakdownCurves, BreakdownDelays, TrialCurves,
};
use wiretail_schema::run::scenario::{Place, Ranking, Scenario, SegmentResult};
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::{Percentile, Summary};

/// The total delay equals that of the base. The devices account for a third of it, or for more if the delay
/// is long.
pub fn divide(trial: &mut TrialRecord, base: &Summary, factor: f64) -> TrialCurves {
    let count = base.delay.count;
    // The body of its distribution, and its own tail.
    let part = |scale: f64, tail: f64| -> Vec<Percentile> {
        let longer = |p: &Percentile, ns: i64| {
            (ns as f64 * scale * (1.0 + tail * p.percentile.powi(20) / 1e40)) as i64
        };
        let point = |p: &Percentile| Percentile {
            value_ns: longer(p, p.value_ns),
            low_ns: longer(p, p.low_ns),
            high_ns: p.high_ns.map(|ns| longer(p, ns)),
            ..*p
        };
        base.delay.percentiles.iter().filter(|p| p.percentile < 99.9999).map(point).collect()
    };
    let delays = |curve: &[Percentile]| BreakdownDelays {
        mean_ns: curve[0].value_ns as f64 * 1.1,
        max_ns: curve.last().map_or(0, |p| p.value_ns * 2),
        percentiles: curve
            .iter()
            .filter(|p| [50.0, 99.0, 99.9, 99.99].contains(&p.percentile))
            .copied()
            .collect(),
    };
    let mut curves = Vec::new();
    let directions: Vec<String> = trial.segments.iter().map(|segment| segment.name.clone()).collect();
    for segment in directions.into_iter().take(2) {
        let (whole, infrastructure, vnf) = (part(factor, 0.0), part(0.6, 0.4), part(factor * 0.5, 0.9));
        trial.breakdown.push(Breakdown {
            segment: segment.clone(),
            devices: 2,
            packets: count,
            left_out: trial.number as u64 / 7,
            contradictory: 0,
            whole: delays(&whole),
            infrastructure: delays(&infrastructure),
            vnf: delays(&vnf),
        });
        curves.push(BreakdownCurves { segment, whole, infrastructure, vnf });
    }
    TrialCurves { trial: trial.number, curves }
}

/// Each device other than a skeleton, compared with the first skeleton under the same load.
pub fn additions(run: &Run, curves: &[TrialCurves]) -> Vec<Addition> {
    let is_skeleton =
        |trial: &TrialRecord| trial.setting("dut.kind").is_some_and(|kind| kind.text == "skeleton");
    let load = |trial: &TrialRecord| Scenario::of(run, trial, &["dut.kind", "dut.batch"]);
    let of = |number: usize| curves.iter().find(|c| c.trial == number);
    let mut found = Vec::new();
    for trial in run.trials.iter().filter(|trial| !is_skeleton(trial) && trial.state == TrialState::Valid) {
        let same = |other: &&TrialRecord| {
            is_skeleton(other) && other.repeat == trial.repeat && load(other) == load(trial)
        };
        let Some(base) = run.trials.iter().find(same) else { continue };
        let Some((curve, from)) = of(trial.number).zip(of(base.number)) else { continue };
        for (curve, from) in curve.curves.iter().zip(&from.curves) {
            let added = |(a, b): (&Percentile, &Percentile)| AddedDelay {
                percentile: a.percentile,
                value_ns: a.value_ns - b.value_ns,
                low_ns: b.high_ns.map(|high| a.low_ns - high),
                high_ns: a.high_ns.map(|high| high - b.low_ns),
                supported: a.supported && b.supported,
            };
            found.push(Addition {
                trial: trial.number,
                skeleton: base.number,
                segment: curve.segment.clone(),
                points: curve.vnf.iter().zip(&from.vnf).map(added).collect(),
                max_ns: 123_456,
            });
        }
    }
    found
}

/// The devices of every load, ordered by the numbers of the first trials.
pub fn rankings(run: &Run, results: &[SegmentResult]) -> Vec<Ranking> {
    let mut rankings: Vec<Ranking> = Vec::new();
    for (trial, percentile) in run.trials.iter().flat_map(|trial| [(trial, 99.9), (trial, 50.0)]) {
        let result = results.iter().find(|r| r.trial == trial.number && r.segment == 0);
        let found = result.and_then(|r| r.summary.delay.percentile(percentile));
        let Some(p) = found.filter(|_| trial.state == TrialState::Valid) else {
            continue;
        };
        let load = Scenario::of(run, trial, &["dut.kind", "dut.batch"]);
        let place = Place {
            device: Scenario::of(run, trial, &["traffic.rate", "traffic.burst"]),
            trials: vec![trial.number],
            value_ns: p.value_ns,
            low_ns: p.low_ns,
            high_ns: p.high_ns,
            supported: p.supported,
            best: 0,
            worst: 0,
            alike: Vec::new(),
        };
        match rankings.iter_mut().find(|r| r.load == load && r.percentile == percentile) {
            Some(ranking) => match ranking.places.iter_mut().find(|other| other.device == place.device) {
                Some(other) => other.trials.push(trial.number),
                None => ranking.places.push(place),
            },
            None => rankings.push(Ranking { load, percentile, places: vec![place] }),
        }
    }
    rankings.retain(|ranking| ranking.places.len() > 1);
    for ranking in &mut rankings {
        ranking.places.sort_by_key(|place| place.value_ns);
        let last = ranking.places.len();
        for (index, place) in ranking.places.iter_mut().enumerate() {
            // The order of the first two is uncertain.
            (place.best, place.worst) = if index < 2 { (1, 2.min(last)) } else { (index + 1, index + 1) };
            place.alike = if index < 2 && last > 1 { vec![1 - index] } else { Vec::new() };
        }
    }
    rankings
}
