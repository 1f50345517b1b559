//! Comparison of trials that differ only in one setting, under the same load on the same host.

use super::device::emulated;
use super::of_trials;
use super::pooled::{self, MAXIMUM, Told, told};
use crate::host::recommendation::sample::{SameHost, Seen, grouped};
use wiretail_schema::host::recommendation::{DelayOf, Evidence};

/// Percentiles for the comparison: the highest one for which all trials have enough packets is used.
const JUDGED: [f64; 3] = [99.9, 99.0, 50.0];
/// Percentiles shown as evidence.
const SHOWN: [f64; 3] = [50.0, 99.9, MAXIMUM];

/// Comparison of one variant with the baseline, under one load.
pub struct Contrast<'s, 'a> {
    /// Load, as text.
    pub load: String,
    /// Name and trials of the baseline.
    pub baseline: (String, Vec<&'s Seen<'a>>),
    /// Name and trials of the variant.
    pub other: (String, Vec<&'s Seen<'a>>),
    /// Percentile that was compared, and the result. `None` if no percentile has enough packets.
    pub judged: Option<(f64, Told)>,
    /// Whether the baseline or the variant was emulated in software, so that the result does not apply to
    /// hardware.
    pub emulated: bool,
    /// True if it is unknown whether a virtual machine was emulated.
    pub unsaid: bool,
}

/// Variants to compare.
pub struct Question<'q> {
    /// Settings in which the trials may differ.
    pub without: &'q [&'q str],
    /// Parts of the host that must be the same.
    pub host: SameHost,
    /// Returns the name of a trial's variant, for example "bare".
    pub name: &'q dyn Fn(&Seen<'_>) -> String,
    /// Returns the priority of a variant as the baseline, lowest first; `None` excludes the variant.
    pub rank: &'q dyn Fn(&Seen<'_>) -> Option<u8>,
}

/// All pairs of a baseline and a variant, load by load.
pub fn contrasts<'s, 'a>(
    seen: impl IntoIterator<Item = &'s Seen<'a>>,
    question: &Question<'_>,
) -> Vec<Contrast<'s, 'a>>
where
    'a: 's,
{
    let mut all = Vec::new();
    for (_, same) in grouped(seen, |one| one.condition(question.without, question.host)) {
        let mut named = grouped(same, |one| (question.name)(one));
        let rank = |(_, group): &(String, Vec<&Seen<'_>>)| group.first().and_then(|one| (question.rank)(one));
        let ranked = named.iter().enumerate().filter_map(|(place, group)| Some((rank(group)?, place)));
        let Some((_, place)) = ranked.min() else { continue };
        let baseline = named.remove(place);
        all.extend(named.into_iter().map(|other| contrast(question, &baseline, other)));
    }
    all
}

fn contrast<'s, 'a>(
    question: &Question<'_>,
    baseline: &(String, Vec<&'s Seen<'a>>),
    other: (String, Vec<&'s Seen<'a>>),
) -> Contrast<'s, 'a> {
    let both = |percentile| {
        let of = |group: &(String, Vec<&Seen<'_>>)| pooled::delay(&group.0, percentile, &group.1);
        Some((percentile, told(&of(baseline)?, &of(&other)?)?))
    };
    let trials = || baseline.1.iter().chain(&other.1);
    let in_guest = |one: &&&Seen<'_>| one.text("dut.deployment") == "vm";
    Contrast {
        load: baseline.1.first().map(|one| one.words(question.without)).unwrap_or_default(),
        judged: JUDGED.into_iter().find_map(both),
        emulated: trials().any(|one| emulated(one) == Some(true)),
        unsaid: trials().filter(in_guest).any(|one| emulated(one).is_none()),
        baseline: baseline.clone(),
        other,
    }
}

impl Contrast<'_, '_> {
    /// Result of the comparison. `None` if there is no result, or if it does not apply to hardware.
    pub fn told(&self) -> Option<Told> {
        self.judged.filter(|_| !self.emulated).map(|(_, told)| told)
    }

    /// Evidence with the numbers of both variants.
    pub fn evidence(&self) -> Evidence {
        let all: Vec<&Seen<'_>> = self.baseline.1.iter().chain(&self.other.1).copied().collect();
        let (baseline, other) = (&self.baseline.0, &self.other.0);
        let says = match self.judged {
            None => "too few packets to distinguish the trials at any percentile".to_owned(),
            Some((percentile, Told::Alike)) => {
                format!("indistinguishable at p{percentile}: the intervals overlap")
            }
            Some((percentile, told)) => {
                let word = if told == Told::Higher { "slower" } else { "faster" };
                let times = self.times(percentile).map(|times| format!(", {times}")).unwrap_or_default();
                format!("{other} is {word} at p{percentile}{times}: the intervals do not overlap")
            }
        };
        let limit = if self.emulated {
            "; not counted: the processor was emulated, so the result does not apply to hardware"
        } else if self.unsaid {
            "; the run does not record whether the processor was emulated"
        } else {
            ""
        };
        let once = match self.baseline.1.len().min(self.other.1.len()) {
            1 => "; without repeats, the intervals do not include variation between trials",
            _ => "",
        };
        let mut evidence =
            of_trials(format!("{}: {baseline} and {other}: {says}{limit}{once}", self.load), &all);
        for (name, group) in [&self.baseline, &self.other] {
            evidence.delays.extend(pooled::delays(name, &SHOWN, group));
        }
        evidence
    }

    /// Ratio of the larger to the smaller value, as in "12.5 times".
    fn times(&self, percentile: f64) -> Option<String> {
        let of = |group: &(String, Vec<&Seen<'_>>)| pooled::delay(&group.0, percentile, &group.1);
        let value = |delay: DelayOf| delay.value_ns as f64;
        let (a, b) = (value(of(&self.baseline)?), value(of(&self.other)?));
        let (low, high) = (a.min(b), a.max(b));
        (low > 0.0).then(|| format!("{:.1} times", high / low))
    }
}
