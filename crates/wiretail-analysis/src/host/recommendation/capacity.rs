//! Recommendation "spare capacity": how far below the breaking point the tail starts to rise.
//!
//! Two rates are determined for each device. The *breaking point* is the rate that a search found (the highest
//! rate that meets a loss goal). Without a search, it is the lowest rate at which the device's trials are
//! [overloaded](crate::comparison::overload). The tail *starts to rise* at the lowest rate with a p99.9 of at
//! least [1.5 times](RISE) the lowest p99.9 at lower rates. The interval of the risen p99.9 must be entirely
//! above the interval of the lowest one. Both conditions must also hold for all higher rates below the breaking
//! point.

use wiretail_schema::host::recommendation::{
    Advice, DelayOf, Evidence, Origin, RateOf, Recommendation, Stand,
};
use wiretail_schema::run::TrialRecord;
use wiretail_schema::run::scenario::RATE;
use wiretail_schema::search::{Goal, Over, Search};

use super::pooled::{self, Told, told};
use super::{JNSM, Known, counted, of_trials, step};
use crate::comparison::overload::{LoadPoint, overload};
use crate::host::recommendation::sample::{Condition, SameHost, Seen, grouped};
use crate::summary::verdict::percent;

const TAIL: f64 = 99.9;
/// Minimum ratio of a risen tail to the lowest tail. A smaller difference is ignored even if it is
/// significant.
const RISE: f64 = 1.5;
/// Maximum number of rates shown as evidence for the rise of the tail.
const SHOWN: usize = 6;

/// Measurements of one device under one kind of load.
struct Device<'s, 'a> {
    name: String,
    /// Trials of the device; trials of searches are included.
    seen: Vec<&'s Seen<'a>>,
    searched: Vec<(&'a str, &'a Search)>,
    /// Breaking point, in packets per second.
    breaks_pps: Option<u64>,
    /// Rate at which the tail starts to rise.
    rises_pps: Option<u64>,
    /// Highest rate found by a search that meets the delay budget.
    keeps_pps: Option<u64>,
    /// Highest rate of a trial outside of searches.
    highest_pps: Option<u64>,
}

pub(super) fn recommendation(known: &Known<'_>) -> Recommendation {
    let mut devices = devices(known);
    devices.sort_by_key(|device| device.breaks_pps.is_none());
    let broken = || devices.iter().filter_map(|device| Some((device, device.breaks_pps?)));
    let (stand, says) = if devices.is_empty() {
        (Stand::NoEvidenceYet, "No load was measured.".to_owned())
    } else if broken().next().is_none() {
        let says = "No device was loaded to its breaking point, so its spare capacity is unknown.";
        (Stand::NoEvidenceYet, says.to_owned())
    } else {
        let each: Vec<(bool, String)> = broken().map(|(device, breaks)| device.advice(breaks)).collect();
        let stand = if each.iter().all(|(spares, _)| *spares) { Stand::AlreadySo } else { Stand::Follow };
        (stand, each.into_iter().map(|(_, says)| says).collect::<Vec<_>>().join(" "))
    };
    Recommendation {
        kind: Advice::SpareCapacity,
        title: "spare capacity".to_owned(),
        advice:
            "Load a core well below its capacity. Close to the capacity, every interrupt leaves a queue that drains \
            slowly. The tail then rises before any packet is lost."
                .to_owned(),
        stand,
        says,
        evidence: devices.iter().flat_map(evidence).collect(),
        next: next(&devices),
        source: format!(
            "{JNSM}; how load and interrupts bound the capacity: Gallenmueller, Naab, Adam, Carle, 5G QoS: Impact of Security \
             Functions on Latency, NOMS 2020, doi 10.1109/NOMS47738.2020.9110422"
        ),
    }
}

impl Device<'_, '_> {
    /// Whether the device was run with spare capacity, and the advice. `breaks` is its breaking point, in
    /// packets per second.
    fn advice(&self, breaks: u64) -> (bool, String) {
        let share = |pps: u64| percent(pps as f64 / breaks as f64);
        let Self { name, .. } = self;
        let (limit, says) = match (self.rises_pps, self.keeps_pps) {
            (Some(rises), keeps) if keeps.is_none_or(|keeps| rises <= keeps) => (
                Some(rises),
                format!("{name}: p99.9 starts to rise at {} of the breaking point", share(rises)),
            ),
            (_, Some(keeps)) => (
                Some(keeps + 1),
                format!("{name}: it meets its delay budget up to {} of the breaking point", share(keeps)),
            ),
            _ => (
                None,
                format!(
                    "{name}: the breaking point is known, but not the rate at which the tail starts to rise"
                ),
            ),
        };
        match (self.highest_pps, limit) {
            (Some(highest), Some(limit)) if highest < limit => (
                true,
                format!(
                    "{says}; outside of searches, its load was at most {} of the breaking point.",
                    share(highest)
                ),
            ),
            (_, Some(_)) => (false, format!("{says}: stay below this rate.")),
            (_, None) => (false, format!("{says}: measure lower rates.")),
        }
    }
}

fn devices<'s, 'a>(known: &'s Known<'a>) -> Vec<Device<'s, 'a>> {
    let key = |one: &Seen<'a>| one.condition(&[RATE], SameHost::Whole);
    let with_device = known.seen.iter().filter(|one| one.text("dut.kind") != "wire");
    let groups = grouped(with_device, key);
    groups.into_iter().map(|(condition, seen)| device(known, &condition, seen)).collect()
}

fn device<'s, 'a>(known: &'s Known<'a>, condition: &Condition, seen: Vec<&'s Seen<'a>>) -> Device<'s, 'a> {
    let mut searched = Vec::new();
    for input in known.runs {
        for search in input.searches.iter().flat_map(|all| &all.searches) {
            // Whether the trial belongs to this device.
            let is_its = |number: usize| {
                let one = known
                    .seen
                    .iter()
                    .find(|one| std::ptr::eq(one.input, input) && one.trial.number == number);
                one.is_some_and(|one| one.condition(&[RATE], SameHost::Whole) == *condition)
            };
            if search.effort.over == Over::Rate && search.trials.iter().any(|trial| is_its(trial.number)) {
                searched.push((input.directory.as_str(), search));
            }
        }
    }
    let found = searched.iter().flat_map(|(_, search)| search.rates_of_loss().filter_map(|goal| goal.lower));
    let goals = searched.iter().flat_map(|(_, search)| &search.goals);
    let budgets =
        goals.filter(|result| matches!(result.goal, Goal::Delay { .. })).filter_map(|result| result.lower);
    let keeps_pps = budgets.min();
    let breaks_pps = found.min().or_else(|| overloaded(&seen));
    let alone =
        |one: &&&Seen<'_>| !in_search(one.input.searches.iter().flat_map(|all| &all.searches), one.trial);
    Device {
        name: seen.first().map(|one| one.words(&[RATE])).unwrap_or_default(),
        rises_pps: rises(&tails(&seen), breaks_pps),
        keeps_pps,
        highest_pps: seen.iter().filter(alone).map(|one| one.rate_pps()).max(),
        seen,
        searched,
        breaks_pps,
    }
}

fn in_search<'a>(mut searches: impl Iterator<Item = &'a Search>, trial: &TrialRecord) -> bool {
    searches.any(|search| search.trials.iter().any(|one| one.number == trial.number))
}

/// Lowest rate at which these trials are overloaded.
fn overloaded(seen: &[&Seen<'_>]) -> Option<u64> {
    let point = |one: &&Seen<'_>| LoadPoint {
        rate_pps: one.rate_pps(),
        loss_ratio: one.summary.loss.ratio,
        p50_ns: one.summary.delay.percentile(50.0).map(|p| p.value_ns),
    };
    overload(&seen.iter().map(point).collect::<Vec<_>>()).map(|found| found.rate_pps)
}

/// p99.9 per rate, in ascending order of rates. Trials with too few packets are left out.
fn tails(seen: &[&Seen<'_>]) -> Vec<(u64, DelayOf)> {
    let mut rates: Vec<(u64, Vec<&Seen<'_>>)> = grouped(seen.iter().copied(), Seen::rate_pps);
    rates.sort_by_key(|(rate, _)| *rate);
    let of = |(rate, group): (u64, Vec<&Seen<'_>>)| {
        let enough = |one: &&Seen<'_>| pooled::delay("", TAIL, &[*one]).is_some_and(|delay| delay.supported);
        let group: Vec<&Seen<'_>> = group.into_iter().filter(enough).collect();
        Some((rate, pooled::delay("", TAIL, &group)?))
    };
    rates.into_iter().filter_map(of).collect()
}

/// Lowest rate whose tail, like the tails at all higher rates, is significantly above the lowest tail at
/// lower rates.
fn rises(tails: &[(u64, DelayOf)], breaks_pps: Option<u64>) -> Option<u64> {
    let below = tails.iter().filter(|(rate, _)| breaks_pps.is_none_or(|breaks| *rate <= breaks));
    let below: Vec<&(u64, DelayOf)> = below.collect();
    (1..below.len()).find_map(|at| {
        let (lower, higher) = below.split_at(at);
        let quiet = &lower.iter().min_by_key(|(_, delay)| delay.value_ns)?.1;
        let is_more = |delay: &DelayOf| delay.value_ns as f64 >= RISE * quiet.value_ns as f64;
        let risen =
            higher.iter().all(|(_, delay)| told(quiet, delay) == Some(Told::Higher) && is_more(delay));
        risen.then_some(higher[0].0)
    })
}

fn evidence(device: &Device<'_, '_>) -> Vec<Evidence> {
    let mut all: Vec<Evidence> =
        device.searched.iter().map(|(run, search)| of_search(device, run, search)).collect();
    let tails = tails(&device.seen);
    let mut rates = Vec::new();
    let mut rate =
        |of: &str, pps: Option<u64>| rates.extend(pps.map(|pps| RateOf { of: of.to_owned(), pps }));
    rate("highest measured outside of searches", device.highest_pps);
    rate("overloaded from", overloaded(&device.seen));
    rate("p99.9 rises from", device.rises_pps);
    let says = match (overloaded(&device.seen), device.rises_pps) {
        (Some(_), Some(_)) => "trials show both the rise of the tail and the breaking point",
        (Some(_), None) => "trials show the breaking point; at lower rates, no tail exceeds the others",
        (None, Some(_)) => "trials show the rise of the tail",
        (None, None) if tails.len() < 2 => "fewer than two rates have enough packets for p99.9",
        (None, None) => "no rate has a higher tail than the others, and no rate is overloaded",
    };
    let of = format!("{}: {}: {says}", device.name, counted(device.seen.len()));
    let mut evidence = Evidence { rates, ..of_trials(of, &device.seen) };
    // Rate as given in the trial's settings, for example "40 kpps".
    let text =
        |pps: u64| device.seen.iter().find(|one| one.rate_pps() == pps).map_or("", |one| one.text(RATE));
    let tails = shown(tails, device).into_iter();
    evidence.delays = tails.map(|(pps, delay)| DelayOf { of: text(pps).to_owned(), ..delay }).collect();
    all.push(evidence);
    all
}

/// A few of the rates: the lowest, the highest, and those around the rise.
fn shown(tails: Vec<(u64, DelayOf)>, device: &Device<'_, '_>) -> Vec<(u64, DelayOf)> {
    if tails.len() <= SHOWN {
        return tails;
    }
    let last = tails.len() - 1;
    let rise =
        device.rises_pps.and_then(|pps| tails.iter().position(|(rate, _)| *rate == pps)).unwrap_or(last / 2);
    let wanted = [0, rise.saturating_sub(1), rise, rise + 1, last];
    tails.into_iter().enumerate().filter(|(place, _)| wanted.contains(place)).map(|(_, tail)| tail).collect()
}

fn of_search(device: &Device<'_, '_>, run: &str, search: &Search) -> Evidence {
    let mut rates = Vec::new();
    for result in &search.goals {
        let mut rate = |what: &str, pps: Option<u64>| {
            rates.extend(pps.map(|pps| RateOf { of: format!("{}, {what}", result.goal), pps }))
        };
        rate("met at", result.lower);
        rate("missed at", result.upper);
    }
    let open: Vec<String> =
        search.goals.iter().filter(|goal| goal.lower.is_none()).map(|goal| goal.goal.to_string()).collect();
    let open = if open.is_empty() { String::new() } else { format!("; no rate met {}", open.join(", ")) };
    // Rate within the delay budget, relative to the rate within the loss goal.
    let best = |wanted: fn(&Goal) -> bool| {
        search.goals.iter().filter(|g| wanted(&g.goal)).filter_map(|g| g.lower).min()
    };
    let left =
        best(|goal| matches!(goal, Goal::Delay { .. })).zip(best(|goal| matches!(goal, Goal::Loss { .. })));
    let left = left.map(|(budget, loss)| {
        format!(
            "; the rate that meets its delay budget is {} of the rate that meets its loss goal",
            percent(budget as f64 / loss as f64)
        )
    });
    Evidence {
        says: format!(
            "{}: searched in {}{open}{}",
            device.name,
            counted(search.trials.len()),
            left.unwrap_or_default()
        ),
        from: Origin::Search { run: run.to_owned(), search: search.number },
        delays: Vec::new(),
        rates,
    }
}

fn next(devices: &[Device<'_, '_>]) -> Vec<super::NextStep> {
    let search = step(
        "find the breaking point and the rate that meets a budget (first enter your own dut and budget in the file)",
        "sudo wiretail search experiments/search/ndr-pdr.toml --allow-system-changes",
    );
    let sweep = step(
        "find the rate at which the tail starts to rise",
        "sudo wiretail run experiments/traffic/rate-sweep.toml --allow-system-changes",
    );
    match devices.iter().any(|device| device.breaks_pps.is_some()) {
        true if devices.iter().any(|device| device.rises_pps.is_some()) => Vec::new(),
        true => vec![sweep],
        false => vec![search, sweep],
    }
}
