//! Which trials go into which figure: one for each scenario, and no more curves in a figure than a
//! reader can tell apart.

use wiretail_schema::run::{SettingRecord, TrialRecord, TrialState};
use wiretail_schema::scenario::Scenario;
use wiretail_schema::summary::Summary;

use super::Page;

/// Curves in one figure: more can't be told apart by colour and shape.
pub const CURVES: usize = 8;

/// A trial that stands for its scenario.
#[derive(Debug, Clone)]
pub struct Curve<'a> {
    /// The trial.
    pub trial: &'a TrialRecord,
    /// The numbers of its whole device under test.
    pub summary: &'a Summary,
    /// All its factors.
    pub scenario: Scenario,
    /// Trials of the same scenario that it was chosen from.
    pub repeats: usize,
}

impl Curve<'_> {
    /// The value of a factor as text; None where it has no effect in this trial.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.scenario.get(key).map(|setting| setting.text.as_str())
    }

    /// Its name among others: the settings in `keys`, and that it is not valid.
    pub fn name(&self, keys: &[&str]) -> String {
        let own = self.scenario.settings.iter().filter(|setting| keys.contains(&setting.key.as_str()));
        let name = words(own);
        match self.trial.state {
            TrialState::Valid => name,
            TrialState::Interrupted => format!("{name} (interrupted)"),
            TrialState::Invalid | TrialState::Failed => format!("{name} (invalid)"),
        }
    }
}

/// Settings in words: "skeleton, batch 32".
pub fn words<'a>(settings: impl IntoIterator<Item = &'a SettingRecord>) -> String {
    Scenario { settings: settings.into_iter().cloned().collect() }.to_string()
}

/// One curve for each scenario, in the order of the run: of its repeats the one with the median p99.9,
/// of an even number the lower middle one. Invalid trials stand for a scenario only where it has no
/// other.
pub fn representatives<'a>(page: &Page<'a>) -> Vec<Curve<'a>> {
    let mut scenarios: Vec<(Scenario, Vec<(&TrialRecord, &Summary)>)> = Vec::new();
    for trial in &page.run.trials {
        let Some(summary) = page.summary(trial, 0) else { continue };
        let scenario = Scenario::of(page.run, trial, &[]);
        match scenarios.iter_mut().find(|(other, _)| *other == scenario) {
            Some((_, repeats)) => repeats.push((trial, summary)),
            None => scenarios.push((scenario, vec![(trial, summary)])),
        }
    }
    let chosen = scenarios.into_iter().filter_map(|(scenario, all)| {
        let of = |state: TrialState| -> Vec<(&TrialRecord, &Summary)> {
            all.iter().filter(|(trial, _)| trial.state == state).copied().collect()
        };
        let states = [TrialState::Valid, TrialState::Interrupted, TrialState::Invalid, TrialState::Failed];
        let mut repeats = states.into_iter().map(of).find(|some| !some.is_empty())?;
        repeats.sort_by_key(|(_, summary)| p99_9(summary));
        let (trial, summary) = repeats[(repeats.len() - 1) / 2];
        Some(Curve { trial, summary, scenario, repeats: repeats.len() })
    });
    chosen.collect()
}

fn p99_9(summary: &Summary) -> i64 {
    let found = summary.delay.percentiles.iter().find(|p| p.percentile == 99.9);
    found.map_or(summary.delay.max_ns, |p| p.value_ns)
}

/// What a caption says of repeats; empty where there are none.
pub fn repeats_note(curves: &[Curve<'_>]) -> &'static str {
    if curves.iter().any(|curve| curve.repeats > 1) {
        " Of repeats, the one with the median p99.9 is shown; nothing is pooled."
    } else {
        ""
    }
}

/// The curves apart by the value of one factor, in the order of its first appearance.
pub fn apart<'a>(curves: &[Curve<'a>], key: &str) -> Vec<Vec<Curve<'a>>> {
    let mut groups: Vec<Vec<Curve<'a>>> = Vec::new();
    for curve in curves {
        match groups.iter_mut().find(|group| group[0].value(key) == curve.value(key)) {
            Some(group) => group.push(curve.clone()),
            None => groups.push(vec![curve.clone()]),
        }
    }
    groups
}

/// The curves in groups of at most `limit`, apart by as few factors as it takes: first by the one that
/// makes the fewest groups which are small enough, else by the one that makes the most.
pub fn grouped<'a>(curves: Vec<Curve<'a>>, factors: &[String], limit: usize) -> Vec<Vec<Curve<'a>>> {
    if curves.len() <= limit {
        return if curves.is_empty() { Vec::new() } else { vec![curves] };
    }
    let splits: Vec<_> = factors.iter().map(|key| apart(&curves, key)).filter(|g| g.len() > 1).collect();
    let fits = |groups: &&Vec<Vec<Curve<'a>>>| groups.iter().all(|group| group.len() <= limit);
    let best = splits.iter().filter(fits).min_by_key(|groups| groups.len());
    match best.or(splits.iter().max_by_key(|groups| groups.len())) {
        Some(groups) => groups.iter().flat_map(|group| grouped(group.clone(), factors, limit)).collect(),
        None => curves.chunks(limit).map(<[Curve<'a>]>::to_vec).collect(),
    }
}

/// The settings that all curves share, in words ("" for none), and the keys of those that tell them
/// apart, but for the keys in `without`, which the figure shows otherwise.
pub fn shared<'c>(
    curves: &'c [Curve<'_>],
    factors: &'c [String],
    without: &[&str],
) -> (String, Vec<&'c str>) {
    let same = |key: &str| curves.iter().all(|curve| curve.value(key) == curves[0].value(key));
    let keys = factors.iter().map(String::as_str).filter(|key| !without.contains(key));
    let (common, differing): (Vec<&str>, Vec<&str>) = keys.partition(|key| same(key));
    let common: Vec<_> = common.into_iter().filter_map(|key| curves.first()?.scenario.get(key)).collect();
    (if common.is_empty() { String::new() } else { words(common) }, differing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_enough_curves_stay_together() {
        assert!(grouped(Vec::new(), &[], CURVES).is_empty());
    }
}
