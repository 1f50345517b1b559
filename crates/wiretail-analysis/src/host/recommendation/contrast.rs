//! Trials that differ in one thing alone, under the same load on the same host.

use super::device::emulated;
use super::of_trials;
use super::pooled::{self, MAXIMUM, Told, told};
use crate::host::recommendation::sample::{SameHost, Seen, grouped};
use wiretail_schema::host::recommendation::{DelayOf, Evidence};

/// Percentiles that are judged by: the highest one that all have enough packets for.
const JUDGED: [f64; 3] = [99.9, 99.0, 50.0];
/// Those that are shown.
const SHOWN: [f64; 3] = [50.0, 99.9, MAXIMUM];

/// One thing against the baseline, under one load.
pub struct Contrast<'s, 'a> {
    /// The load in words.
    pub load: String,
    /// Trials of the baseline, with their name.
    pub baseline: (String, Vec<&'s Seen<'a>>),
    /// Those of the other.
    pub other: (String, Vec<&'s Seen<'a>>),
    /// By which percentile they were told apart or not; None where there are too few packets for any.
    pub judged: Option<(f64, Told)>,
    /// Whether either was emulated in software: then it says nothing of hardware.
    pub emulated: bool,
    /// Whether it is not known of a virtual machine what ran it.
    pub unsaid: bool,
}

/// What is compared.
pub struct Question<'q> {
    /// Settings in which the trials may differ.
    pub without: &'q [&'q str],
    /// What of the host has to be the same.
    pub host: SameHost,
    /// What a trial is called: "bare".
    pub name: &'q dyn Fn(&Seen<'_>) -> String,
    /// Which names may be the baseline: the lowest number is; None for one that may not.
    pub rank: &'q dyn Fn(&Seen<'_>) -> Option<u8>,
}

/// All pairs of a baseline and another, load by load.
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
    /// How the other was found, where that may be used.
    pub fn told(&self) -> Option<Told> {
        self.judged.filter(|_| !self.emulated).map(|(_, told)| told)
    }

    /// As evidence, with the numbers of both.
    pub fn evidence(&self) -> Evidence {
        let all: Vec<&Seen<'_>> = self.baseline.1.iter().chain(&self.other.1).copied().collect();
        let (baseline, other) = (&self.baseline.0, &self.other.0);
        let says = match self.judged {
            None => "too few packets to tell them apart at any percentile".to_owned(),
            Some((percentile, Told::Alike)) => {
                format!("can't be told apart at p{percentile}: the intervals overlap")
            }
            Some((percentile, told)) => {
                let word = if told == Told::Higher { "slower" } else { "faster" };
                let times = self.times(percentile).map(|times| format!(", {times}")).unwrap_or_default();
                format!("{other} is {word} at p{percentile}{times}: the intervals lie apart")
            }
        };
        let limit = if self.emulated {
            "; an emulated processor: it says nothing of hardware, and is not counted"
        } else if self.unsaid {
            "; the run does not say whether the processor was emulated"
        } else {
            ""
        };
        let once = match self.baseline.1.len().min(self.other.1.len()) {
            1 => "; without repeats the intervals do not hold what changes from trial to trial",
            _ => "",
        };
        let mut evidence =
            of_trials(format!("{}: {baseline} and {other}: {says}{limit}{once}", self.load), &all);
        for (name, group) in [&self.baseline, &self.other] {
            evidence.delays.extend(pooled::delays(name, &SHOWN, group));
        }
        evidence
    }

    /// "12.5 times", of the larger to the smaller one.
    fn times(&self, percentile: f64) -> Option<String> {
        let of = |group: &(String, Vec<&Seen<'_>>)| pooled::delay(&group.0, percentile, &group.1);
        let value = |delay: DelayOf| delay.value_ns as f64;
        let (a, b) = (value(of(&self.baseline)?), value(of(&self.other)?));
        let (low, high) = (a.min(b), a.max(b));
        (low > 0.0).then(|| format!("{:.1} times", high / low))
    }
}
