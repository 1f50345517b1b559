//! Selects the trials of each figure: one curve per scenario, and no more curves per figure than a reader can
//! distinguish.

use wiretail_schema::run::scenario::Scenario;
use wiretail_schema::run::{SettingRecord, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;
use wiretail_schema::units::Share;

use super::Page;

/// Maximum number of curves in one figure; more cannot be distinguished by color and shape.
pub const CURVES: usize = 8;

/// A trial that represents its scenario.
#[derive(Debug, Clone)]
pub struct Curve<'a> {
    pub trial: &'a TrialRecord,
    /// The numbers of its whole device under test.
    pub summary: &'a Summary,
    /// All its factors.
    pub scenario: Scenario,
    /// Number of trials of the scenario from which it was chosen.
    pub repeats: usize,
}

impl AsRef<Scenario> for Curve<'_> {
    fn as_ref(&self) -> &Scenario {
        &self.scenario
    }
}

impl Curve<'_> {
    /// The name of the curve, which contains the settings in `keys` and a mark if the trial is not valid.
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

/// Settings as text: "skeleton, batch 32".
pub fn words<'a>(settings: impl IntoIterator<Item = &'a SettingRecord>) -> String {
    Scenario { settings: settings.into_iter().cloned().collect() }.to_string()
}

/// One curve per scenario, in the order of the run: the repeat with the median p99.9. An invalid trial
/// represents a scenario only if the scenario has no valid one.
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
        let (trial, summary) = *Share::MEDIAN.of(&repeats)?;
        Some(Curve { trial, summary, scenario, repeats: repeats.len() })
    });
    chosen.collect()
}

fn p99_9(summary: &Summary) -> i64 {
    let found = summary.delay.percentile(99.9);
    found.map_or(summary.delay.max_ns, |p| p.value_ns)
}

/// The caption's note on repeats; empty if there are none.
pub fn repeats_note(curves: &[Curve<'_>]) -> &'static str {
    if curves.iter().any(|curve| curve.repeats > 1) {
        " Among repeats, the one with the median p99.9 is shown; repeats are not pooled."
    } else {
        ""
    }
}

/// Groups the curves by the value of one factor, in the order in which the values first appear.
pub fn apart<T: AsRef<Scenario> + Clone>(curves: &[T], key: &str) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for curve in curves {
        match groups.iter_mut().find(|group| value(&group[0], key) == value(curve, key)) {
            Some(group) => group.push(curve.clone()),
            None => groups.push(vec![curve.clone()]),
        }
    }
    groups
}

/// Splits the curves into groups of at most `limit` by as few factors as possible. Among the factors whose
/// groups are all small enough, it chooses the one with the fewest groups. If there is none, it chooses the
/// factor with the most groups.
pub fn grouped<T: AsRef<Scenario> + Clone>(curves: Vec<T>, factors: &[String], limit: usize) -> Vec<Vec<T>> {
    if curves.len() <= limit {
        return if curves.is_empty() { Vec::new() } else { vec![curves] };
    }
    let splits: Vec<_> = factors.iter().map(|key| apart(&curves, key)).filter(|g| g.len() > 1).collect();
    let fits = |groups: &&Vec<Vec<T>>| groups.iter().all(|group| group.len() <= limit);
    let best = splits.iter().filter(fits).min_by_key(|groups| groups.len());
    match best.or(splits.iter().max_by_key(|groups| groups.len())) {
        Some(groups) => groups.iter().flat_map(|group| grouped(group.clone(), factors, limit)).collect(),
        None => curves.chunks(limit).map(<[T]>::to_vec).collect(),
    }
}

/// The settings that all curves share, as text ("" for none), and the keys that distinguish the curves. Keys
/// in `without` are excluded, because the figure shows them in another way.
pub fn shared<'f, T: AsRef<Scenario>>(
    curves: &[T],
    factors: &'f [String],
    without: &[&str],
) -> (String, Vec<&'f str>) {
    let same = |key: &str| curves.iter().all(|curve| value(curve, key) == value(&curves[0], key));
    let keys = factors.iter().map(String::as_str).filter(|key| !without.contains(key));
    let (common, differing): (Vec<&str>, Vec<&str>) = keys.partition(|key| same(key));
    let common: Vec<_> = common.into_iter().filter_map(|key| curves.first()?.as_ref().get(key)).collect();
    (if common.is_empty() { String::new() } else { words(common) }, differing)
}

/// The value of a factor as text; `None` if it has no effect in this trial.
fn value<'c>(curve: &'c impl AsRef<Scenario>, key: &str) -> Option<&'c str> {
    curve.as_ref().get(key).map(|setting| setting.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["dut.kind", "dut.batch", "traffic.burst"];

    #[derive(Debug, Clone)]
    struct Named(Scenario);

    impl AsRef<Scenario> for Named {
        fn as_ref(&self) -> &Scenario {
            &self.0
        }
    }

    /// A bridge, whose batch has no effect, and a skeleton with `batches` batch sizes; each with `bursts`
    /// burst sizes.
    fn curves(batches: u64, bursts: u64) -> Vec<Named> {
        let setting = |key: &str, text: String| SettingRecord { key: key.to_owned(), text, number: 0 };
        let devices = std::iter::once(None).chain((1..=batches).map(Some));
        let with_burst = |batch: Option<u64>, burst: u64| {
            let kind = if batch.is_some() { "skeleton" } else { "bridge" };
            let mut settings = vec![setting("dut.kind", kind.to_owned())];
            settings.extend(batch.map(|batch| setting("dut.batch", batch.to_string())));
            settings.push(setting("traffic.burst", burst.to_string()));
            Named(Scenario { settings })
        };
        devices.flat_map(|batch| (1..=bursts).map(move |burst| with_burst(batch, burst))).collect()
    }

    /// The shared settings and the number of curves of each group.
    fn groups(curves: Vec<Named>) -> Vec<(String, usize)> {
        let keys = KEYS.map(str::to_owned);
        let groups = grouped(curves, &keys, CURVES);
        groups.iter().map(|group| (shared(group, &keys, &[]).0, group.len())).collect()
    }

    fn some(name: &str, count: usize) -> (String, usize) {
        (name.to_owned(), count)
    }

    #[test]
    fn few_curves_stay_in_one_group() {
        assert_eq!(groups(Vec::new()), []);
        assert_eq!(groups(curves(3, 2)), [some("", 8)]);
        assert_eq!(groups(curves(1, 1)), [some("burst 1", 2)]);
    }

    #[test]
    fn many_curves_are_split_by_the_factor_with_the_fewest_groups() {
        assert_eq!(groups(curves(4, 2)), [some("bridge", 2), some("skeleton", 8)]);
        // Groups by device or by batch are too large. Groups by burst are small enough.
        let many = grouped(curves(7, 9), &[KEYS[0].to_owned(), KEYS[2].to_owned()], CURVES);
        assert!(many.iter().all(|group| group.len() == CURVES), "{many:?}");
        assert_eq!(many.len(), 9);
    }

    #[test]
    fn indistinguishable_curves_are_truncated() {
        let same = vec![curves(1, 1)[0].clone(); 20];
        let sizes: Vec<usize> = groups(same).into_iter().map(|(_, count)| count).collect();
        assert_eq!(sizes, [8, 8, 4]);
    }

    #[test]
    fn shared_settings_are_not_in_curve_names() {
        let keys = KEYS.map(str::to_owned);
        let (common, differing) = shared(&curves(2, 1), &keys, &[]);
        assert_eq!((common.as_str(), differing), ("burst 1", vec!["dut.kind", "dut.batch"]));
        let (common, differing) = shared(&curves(2, 3), &keys, &["traffic.burst"]);
        assert_eq!((common.as_str(), differing), ("", vec!["dut.kind", "dut.batch"]));
    }
}
