//! Highest load of the devices. The section shows the results of a run's searches, and the loads that they
//! tried.

use std::ops::RangeInclusive;

use wiretail_schema::search::{Ending, Goal, GoalResult, Method, Over, Search, SearchTrial};
use wiretail_schema::summary::figure::{AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};

use super::Page;
use super::figures::{axis, draw, titled};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page;
use crate::plot::Size;

/// Number of searches with a figure; further ones are folded.
const OPEN: usize = 4;

/// The section; empty without searches.
pub fn section(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    let Some(searches) = page.searches.filter(|searches| !searches.searches.is_empty()) else { return };
    let figures: Vec<Figure> =
        searches.searches.iter().filter(|search| !search.trials.is_empty()).map(way).collect();
    page::section(m, "search", "Highest load", |m| {
        m.tag("p").class("hint").text(
            "The highest load that meets each goal: a rate, or a number of packets back to back. Invalid trials \
             are ignored. A trial misses every goal if its packets took longer to leave the device than to \
             arrive: packets that were not lost were still queued in the device.",
        );
        let names = head([
            "search",
            "goal",
            "met at",
            "missed at",
            "forwarded",
            "p50 there",
            "p99.9 there",
            "based on",
        ])
        .to_vec();
        let rows = searches.searches.iter().flat_map(|search| {
            search.goals.iter().enumerate().map(move |(place, _)| row(page, search, place))
        });
        m.tag("div").class("broad").body(|m| table(m, "Loads", &names, rows));
        let names = head(["search", "method", "trials", "invalid", "sending time", "total time"]).to_vec();
        table(m, "Effort", &names, searches.searches.iter().map(effort));
        draw(m, &figures, Size::Half, OPEN, count);
    });
}

fn row(page: &Page<'_>, search: &Search, place: usize) -> Vec<Cell> {
    let result: &GoalResult = &search.goals[place];
    // RFC 2544, section 26.2, requires that the delay be measured at the throughput rate.
    let record = search
        .trial_found(place)
        .and_then(|trial| page.run.trials.iter().find(|record| record.number == trial.number));
    let summary = record.and_then(|record| page.summary(record, 0));
    let delay = |wanted: f64| {
        let found = summary.and_then(|summary| summary.delay.percentile(wanted));
        match found {
            Some(found) if found.supported => Cell::ns(found.value_ns),
            Some(found) => Cell::ns(found.value_ns).class("number weak"),
            None => super::numbers::none(),
        }
    };
    let shown = |found: Option<u64>| match found {
        Some(found) => Cell::number(load(search.effort.over, found)),
        None => super::numbers::none(),
    };
    let forwarded = match (result.forwarded_pps, result.held) {
        (Some(pps), _) => Cell::number(format::rate(pps)),
        (None, Some(held)) => Cell::number(format!("{} held", format::count(held as u64))),
        (None, None) => super::numbers::none(),
    };
    let rests = match result.ending {
        Ending::Found => result.reason.clone(),
        Ending::AtHighest | Ending::BelowLowest | Ending::Open => format!("Not found: {}", result.reason),
    };
    vec![
        Cell::text(if place == 0 { &search.name } else { "" }),
        Cell::text(result.goal.to_string()),
        shown(result.lower),
        shown(result.upper),
        forwarded,
        delay(50.0),
        delay(99.9),
        Cell::text(rests),
    ]
}

fn effort(search: &Search) -> Vec<Cell> {
    let invalid = search.trials.iter().filter(|trial| !trial.invalid.is_empty()).count();
    let seconds = |s: f64| Cell::number(format::duration(s * 1e9));
    vec![
        Cell::text(&search.name),
        Cell::text(method(search.effort.method)),
        Cell::count(search.trials.len() as u64),
        Cell::count(invalid as u64),
        seconds(search.sending_s),
        seconds(search.elapsed_s),
    ]
}

/// A load with its unit.
fn load(over: Over, load: u64) -> String {
    match over {
        Over::Rate => format::rate(load as f64),
        Over::Burst => super::counted(load as usize, "packet"),
    }
}

/// A method's name with its source.
fn method(method: Method) -> &'static str {
    match method {
        Method::Mlrsearch => "MLRsearch (RFC 9971)",
        Method::Binary => "binary search with loss verification (ETSI GS NFV-TST 009)",
        Method::Linear => "linear sweep",
    }
}

/// The loads that were tried, over the time spent.
fn way(search: &Search) -> Figure {
    let goals: Vec<&Goal> = search.goals.iter().map(|result| &result.goal).collect();
    let mut series: Vec<Series> = Vec::new();
    let mut spent_s = 0.0;
    let near = near(search);
    let mut far = 0;
    for trial in &search.trials {
        spent_s += trial.duration_ns as f64 / 1e9;
        if !near.contains(&trial.load) {
            far += 1;
            continue;
        }
        let name = outcome(trial, &goals);
        let place = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            series.push(Series { name, ..empty() });
            series.len() - 1
        });
        series[place].x.push(spent_s);
        series[place].y.push(trial.load as f64);
    }
    series.sort_by_key(|series| series.name.len());
    let mut found: Vec<(u64, String)> = Vec::new();
    for result in &search.goals {
        let Some(pps) = result.lower else { continue };
        match found.iter_mut().find(|(other, _)| *other == pps) {
            Some((_, goals)) => *goals = format!("{goals}, {}", result.goal),
            None => found.push((pps, result.goal.to_string())),
        }
    }
    let line = |(pps, goals): (u64, String)| ReferenceLine {
        on: AxisName::Y,
        value: pps as f64,
        label: format!("{goals}: {}", load(search.effort.over, pps)),
    };
    Figure {
        id: format!("search-{}", search.number),
        title: titled("Loads tried", &search.name),
        caption: format!(
            "{} trials by {}. Each point is one trial, at the end of its sending time.{}",
            search.trials.len(),
            method(search.effort.method),
            match far {
                0 => String::new(),
                far => format!(
                    " Not drawn: {} far from the loads found, below {} or above {}.",
                    super::counted(far, "trial"),
                    load(search.effort.over, *near.start()),
                    load(search.effort.over, *near.end())
                ),
            }
        ),
        x: axis("sending time", "sending_s", Unit::Seconds, Scale::Linear),
        y: match search.effort.over {
            Over::Rate => axis("offered rate", "rate_pps", Unit::PacketsPerSecond, Scale::Log),
            Over::Burst => axis("packets back to back", "burst", Unit::Packets, Scale::Log),
        },
        mark: Mark::Point,
        series,
        lines: found.into_iter().map(line).collect(),
    }
}

/// Range of loads to draw. It extends from half the lowest load found to 1.5 times the highest, so that the
/// trials close to the results can be distinguished. If nothing was found, it includes all loads.
fn near(search: &Search) -> RangeInclusive<u64> {
    let found = || search.goals.iter().filter_map(|goal| goal.lower);
    match (found().min(), found().max()) {
        (Some(lowest), Some(highest)) => lowest / 2..=highest + highest / 2,
        _ => 0..=u64::MAX,
    }
}

/// The outcome of a trial: "met", "missed NDR".
fn outcome(trial: &SearchTrial, goals: &[&Goal]) -> String {
    if !trial.invalid.is_empty() {
        return "invalid".to_owned();
    }
    let missed: Vec<String> =
        goals.iter().zip(&trial.poor).filter(|(_, poor)| **poor).map(|(goal, _)| goal.to_string()).collect();
    match missed.len() {
        0 => "met".to_owned(),
        count if count == goals.len() && count > 1 => "missed all goals".to_owned(),
        _ => format!("missed {}", missed.join(", ")),
    }
}

fn empty() -> Series {
    Series {
        name: String::new(),
        x: Vec::new(),
        y: Vec::new(),
        low: Vec::new(),
        high: Vec::new(),
        supported: Vec::new(),
        bar_width: None,
    }
}
