//! Energy of the trials, by state and per million packets.

use wiretail_schema::run::TrialRecord;
use wiretail_schema::run::energy::{Energy, EnergySource, EnergyState, Joules, StateEnergy};

use super::Page;
use super::numbers::{in_order, none};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::page;

/// The section; empty if energy was neither measured nor requested.
pub fn section(m: &mut Markup, page: &Page<'_>) {
    let trials = || page.run.trials.iter();
    let measured = trials().any(|trial| states(trial).next().is_some());
    let reason =
        trials().filter(|trial| asked(trial)).find_map(|trial| trial.energy.as_ref()?.reason.as_ref());
    if !measured {
        if let Some(reason) = reason {
            page::section(m, "energy", "Energy", |m| {
                m.tag("p").class("hint").text(format_args!("Not measured: {reason}."));
            });
        }
        return;
    }
    page::section(m, "energy", "Energy", |m| {
        m.tag("p").class("hint").text(
            "Idle: no part of the trial runs. Available: the device runs without packets. Processing: packets \
             are sent. The whole host is measured, including load generator and capture.",
        );
        let domains = domains(page);
        let mut names = head(["trial", "state", "time", "readings", "power"]).to_vec();
        names.extend(domains.iter().map(|domain| domain.clone().into()));
        names.extend(head(["energy", "per million packets", "above available"]));
        let rows: Vec<Row> =
            in_order(page).into_iter().flat_map(|trial| rows(page, trial, &domains)).collect();
        m.tag("div")
            .class("broad")
            .body(|m| table(m, "Power and energy of each trial's states", &names, rows));
        m.tag("p").class("rests").text(rests(page));
    });
}

/// Reason why energy was not measured, if a reader may expect a measurement; `None` if energy was measured or
/// if a source was requested explicitly.
pub fn absent<'a>(page: &Page<'a>) -> Option<&'a str> {
    let reason = |trial: &'a TrialRecord| {
        let energy = trial.energy.as_ref().filter(|energy| energy.source == EnergySource::None)?;
        energy.reason.as_deref().filter(|_| !asked(trial))
    };
    page.run.trials.iter().find_map(reason)
}

/// Whether the experiment requests a specific energy source.
fn asked(trial: &TrialRecord) -> bool {
    trial.setting("energy.source").is_some_and(|source| source.text != "auto")
}

fn states(trial: &TrialRecord) -> impl Iterator<Item = &StateEnergy> {
    trial.energy.iter().flat_map(|energy| &energy.states)
}

/// The domains of any trial, if there is more than one.
fn domains(page: &Page<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for domain in page.run.trials.iter().flat_map(states).flat_map(|state| &state.domains) {
        if !names.contains(&domain.domain) {
            names.push(domain.domain.clone());
        }
    }
    if names.len() > 1 { names } else { Vec::new() }
}

fn rows(page: &Page<'_>, trial: &TrialRecord, domains: &[String]) -> Vec<Row> {
    let Some(energy) = &trial.energy else { return Vec::new() };
    let name = || {
        let name = Cell::text(&trial.name);
        if page.repeated() { name.note(format_args!("repeat {}", trial.repeat)) } else { name }
    };
    let mut rows: Vec<Row> =
        energy.states.iter().map(|state| row(name(), energy, state, domains).into()).collect();
    if rows.is_empty() {
        let mut cells = vec![name(), Cell::text("none").class("zero")];
        cells.extend((0..6 + domains.len()).map(|_| none()));
        rows.push(cells.into());
    }
    if let (Some(row), Some(reason)) = (rows.last_mut(), &energy.reason) {
        row.beneath.push(("note-beneath", reason.clone()));
    }
    rows
}

fn row(name: Cell, energy: &Energy, state: &StateEnergy, domains: &[String]) -> Vec<Cell> {
    let mut cells = vec![
        name,
        Cell::text(state.state),
        Cell::number(format::duration(state.seconds * 1e9)).exact(format_args!("{} s", state.seconds)),
        Cell::count(state.readings),
        Cell::number(format::watts(state.watts)).exact(format_args!("{} W", state.watts)),
    ];
    for name in domains {
        let domain = state.domains.iter().find(|domain| domain.domain == *name);
        cells.push(domain.map_or_else(none, |domain| {
            let cell = Cell::number(format::watts(domain.watts));
            let exact = if domain.counted {
                ""
            } else {
                ", not counted: contained in another domain, or containing others"
            };
            cell.exact(format_args!("{} J{exact}", domain.joules))
        }));
    }
    cells.push(amount(&state.total));
    let processing = state.state == EnergyState::Processing;
    let of = |amount_of: Option<Joules>| {
        let empty = if processing { none() } else { Cell::number("") };
        amount_of.filter(|_| processing).map_or(empty, |joules| amount(&joules))
    };
    cells.extend([of(energy.per_million_packets), of(energy.per_million_packets_above_available)]);
    cells
}

/// Joules, with their uncertainty below.
fn amount(joules: &Joules) -> Cell {
    let cell = Cell::number(format::joules(joules.joules)).exact(format_args!("{} J", joules.joules));
    cell.note(format_args!("± {}", format::joules(joules.uncertainty_j)))
}

/// Describes how the numbers were measured.
fn rests(page: &Page<'_>) -> String {
    let measured = page.run.trials.iter().filter_map(|trial| trial.energy.as_ref());
    let mut sources: Vec<String> = Vec::new();
    for energy in measured.filter(|energy| !energy.states.is_empty()) {
        let source = match energy.source {
            EnergySource::Rapl => {
                "The processor's own counters (RAPL): package and memory of all sockets, without the power \
                 supply, fans and NICs; cores are part of their package. Updated about every millisecond."
            }
            EnergySource::Command => {
                "Power in watts as printed by a command, interpolated linearly. ± is the uncertainty at the \
                 ends of a state, not the meter's own error."
            }
            EnergySource::None => continue,
        };
        if !sources.iter().any(|known| known == source) {
            sources.push(source.to_owned());
        }
    }
    let mut text = sources.join(" ");
    text.push_str(
        " Per million packets: energy while packets were sent, divided by the packets sent, including \
         warm-up and lost packets. Above available: minus the energy that the state Available takes in the \
         same time.",
    );
    text
}
