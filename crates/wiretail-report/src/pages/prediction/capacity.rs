//! The page of predicted capacities: predictions, measurements, and the inputs of the formula.

use wiretail_schema::prediction::capacity::{
    CapacityModel, Deployment, Estimate, Judgement, MedianBasis, SearchValidation,
};
use wiretail_schema::summary::figure::{Scale, Unit};

use super::intervals::{self, Lane, draw};
use super::{Formula, Frame, basis, error, error_cell, none, sentence};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::page::{answer, section};
use crate::pages::run::figures::axis;

/// Renders the page of deployments with their predicted maximum rates.
pub fn capacity(model: &CapacityModel) -> String {
    let title = match model.deployments.as_slice() {
        [one] => format!("{}: at most {}", one.inputs.name, format::rate(one.capacity.max_pps.value)),
        all => format!("Maximum rates of {} deployments", all.len()),
    };
    // Serialization cannot fail: all keys are strings, and numbers are finite or null.
    let document = serde_json::to_value(model).unwrap_or_default();
    let frame = Frame {
        what: "capacity",
        title: &title,
        lead: &lead(model),
        schema: &model.schema,
        version: &model.wiretail_version,
        formula: Formula {
            text: "R_max = (1 s − d) / t_cpu. t_cpu is the device's median delay minus the median delay of a \
                   forwarder that does no work and takes the device's place. d is the time that interrupts \
                   take per second: rate times length, summed over all interrupts. The interval is computed \
                   with every input at the worst end of its 95 % confidence interval.",
            page: "docs/kpi/capacity.md",
            source: (
                "S. Gallenmüller, J. Naab, I. Adam, G. Carle, 5G QoS: Impact of Security Functions on Latency (NOMS 2020)",
                Some("https://arxiv.org/abs/1909.08397"),
            ),
        },
    };
    let drawing = intervals::Frame {
        axis: axis("rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear),
        key: [
            "predicted, with its 95\u{a0}% interval",
            "measured: highest rate carried, lowest rate overloaded",
        ],
    };
    super::page(&frame, &document, |m| {
        verdicts(m, model);
        section(m, "rates", "Predicted and measured rates", |m| {
            m.tag("div").class("frame").body(|m| draw(m, &drawing, &lanes(model)));
            comparisons(m, model);
        });
        section(m, "inputs", "Inputs", |m| {
            m.tag("div").class("broad").body(|m| inputs(m, model));
            interrupts(m, model);
            rests(m, model);
        });
    })
}

/// All comparisons with an overload and with the results of searches.
fn judgements(model: &CapacityModel) -> Vec<Option<Judgement>> {
    let of = |found: &Deployment| {
        let against = found.against.iter().map(|validation| Some(validation.judgement));
        against.chain(found.searched.iter().map(|validation| validation.judgement)).collect::<Vec<_>>()
    };
    model.deployments.iter().flat_map(of).collect()
}

fn lead(model: &CapacityModel) -> String {
    let all = judgements(model);
    if all.is_empty() {
        return "There is no measurement to compare the prediction with.".to_owned();
    }
    let number = |wanted| all.iter().filter(|found| **found == wanted).count();
    let mut words = vec![
        format!("{} right", number(Some(Judgement::Inside))),
        format!("{} a lower bound", number(Some(Judgement::LowerBound))),
        format!("{} wrong", number(Some(Judgement::Off))),
    ];
    if number(None) > 0 {
        words.push(format!("{} open", number(None)));
    }
    format!("Compared with measurements: {}.", words.join(", "))
}

fn sign(judgement: Option<Judgement>) -> (&'static str, &'static str, &'static str) {
    match judgement {
        Some(Judgement::Inside) => ("pass", "✓", "RIGHT"),
        Some(Judgement::LowerBound) => ("undecided", "≥", "LOWER BOUND"),
        Some(Judgement::Off) => ("fail", "✕", "WRONG"),
        None => ("undecided", "?", "OPEN"),
    }
}

fn verdicts(m: &mut Markup, model: &CapacityModel) {
    if judgements(model).is_empty() {
        return;
    }
    section(m, "verdicts", "Verdict", |m| {
        m.tag("div").class("cards").body(|m| {
            for found in &model.deployments {
                let name = &found.inputs.name;
                if let (Some(validation), Some([carried, over])) = (&found.against, found.inputs.overload_pps)
                {
                    let basis = card_basis(found, [Some(carried), Some(over)], Some(validation.error));
                    answer(m, sign(Some(validation.judgement)), name, &sentence(&validation.reason), &basis);
                }
                for validation in &found.searched {
                    let what = format!("{}, {name}", validation.goal);
                    let basis =
                        card_basis(found, [validation.lower_pps, validation.upper_pps], validation.error);
                    answer(m, sign(validation.judgement), &what, &reason(validation), &basis);
                }
            }
        });
    });
}

fn reason(validation: &SearchValidation) -> String {
    let said = match validation.judgement {
        Some(Judgement::Inside) => "lies between the two bounds that the search found",
        Some(Judgement::LowerBound) => "is a lower bound: the device carries more than predicted",
        Some(Judgement::Off) => "is wrong: the device missed the goal at a lower rate",
        None => {
            "cannot be judged: the search found no bound, or only one that does not constrain the prediction"
        }
    };
    format!("The prediction {said} (search {}).", validation.search)
}

fn card_basis(found: &Deployment, measured: [Option<u64>; 2], wrong: Option<f64>) -> String {
    let wrong = wrong.map_or_else(|| "unknown".to_owned(), error);
    format!("Predicted: {}. Measured: {}. Error: {wrong}.", rate(found.capacity.max_pps), bracket(measured))
}

fn rate(found: Estimate) -> String {
    match interval(found) {
        Some(interval) => format!("{} ({interval})", format::rate(found.value)),
        None => format::rate(found.value),
    }
}

fn interval(found: Estimate) -> Option<String> {
    let high = || found.high.map_or_else(|| "unbounded".to_owned(), format::rate);
    (!found.is_exact()).then(|| format!("{} to {}", format::rate(found.low), high()))
}

fn bracket([carried, over]: [Option<u64>; 2]) -> String {
    let pps = |pps: u64| format::rate(pps as f64);
    match (carried, over) {
        (Some(carried), Some(over)) => format!("{} to {}", pps(carried), pps(over)),
        (Some(carried), None) => format!("{} or more", pps(carried)),
        (None, Some(over)) => format!("less than {}", pps(over)),
        (None, None) => "nothing found".to_owned(),
    }
}

fn lanes(model: &CapacityModel) -> Vec<Lane> {
    let of = |found: &Deployment| {
        let lane = |name: String, measured: [Option<u64>; 2]| {
            let predicted = found.capacity.max_pps;
            let bounds = measured.map(|pps| pps.map(|pps| pps as f64));
            Lane { name, tip: tip(predicted, measured), predicted, measured: bounds, middle: None }
        };
        let name = &found.inputs.name;
        let searched = found.searched.iter().map(|validation| {
            lane(format!("{}, {name}", validation.goal), [validation.lower_pps, validation.upper_pps])
        });
        let overload = found.inputs.overload_pps.map(|bounds| bounds.map(Some));
        let first = (overload.is_some() || found.searched.is_empty())
            .then(|| lane(name.clone(), overload.unwrap_or_default()));
        first.into_iter().chain(searched).collect::<Vec<_>>()
    };
    model.deployments.iter().flat_map(of).collect()
}

fn tip(predicted: Estimate, measured: [Option<u64>; 2]) -> String {
    let mut text = format!("predicted {}", format::rate(predicted.value));
    if !predicted.is_exact() {
        let high = predicted.high.map_or_else(|| "unbounded".to_owned(), format::rate);
        text.push_str(&format!(" ({} to {high})", format::rate(predicted.low)));
    }
    let pps = |pps: u64| format::rate(pps as f64);
    match measured {
        [Some(carried), Some(over)] => {
            text + &format!("\nmeasured: carried {}, overloaded at {}", pps(carried), pps(over))
        }
        [Some(carried), None] => text + &format!("\nmeasured: carried {}", pps(carried)),
        [None, Some(over)] => text + &format!("\nmeasured: overloaded at {}", pps(over)),
        [None, None] => text,
    }
}

fn comparisons(m: &mut Markup, model: &CapacityModel) {
    let row =
        |found: &Deployment, against: String, judged: Option<(Option<Judgement>, Option<f64>, String)>| {
            let max = found.capacity.max_pps;
            let mut cells = vec![
                Cell::text(&found.inputs.name),
                Cell::text(against),
                Cell::number(format::rate(max.value)).exact(format!("{} pps", max.value)),
                interval(max).map_or_else(none, Cell::number),
            ];
            match judged {
                Some((judgement, error, measured)) => {
                    let (_, sign, word) = sign(judgement);
                    let class = match judgement {
                        Some(Judgement::Inside) => "better",
                        Some(Judgement::Off) => "worse",
                        Some(Judgement::LowerBound) | None => "",
                    };
                    let said = Cell::text(format!("{sign} {}", word.to_lowercase())).class(class);
                    cells.extend([Cell::number(measured), error_cell(error), said]);
                }
                None => cells.extend([none(), none(), Cell::text("not measured")]),
            }
            cells
        };
    let of = |found: &Deployment| {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        if let (Some(validation), Some(bounds)) = (&found.against, found.inputs.overload_pps) {
            let judged = (Some(validation.judgement), Some(validation.error), bracket(bounds.map(Some)));
            rows.push(row(found, "overload".to_owned(), Some(judged)));
        }
        rows.extend(found.searched.iter().map(|validation| {
            let judged = (
                validation.judgement,
                validation.error,
                bracket([validation.lower_pps, validation.upper_pps]),
            );
            row(found, format!("{}, search {}", validation.goal, validation.search), Some(judged))
        }));
        if rows.is_empty() {
            rows.push(row(found, String::new(), None));
        }
        rows
    };
    let rows: Vec<Vec<Cell>> = model.deployments.iter().flat_map(of).collect();
    let names = head(["deployment", "against", "R_max", "95 % interval", "measured", "error", "verdict"]);
    m.tag("div").class("broad").body(|m| {
        table(
            m,
            "Error: distance of R_max from the nearer measured bound; zero between the bounds",
            &names,
            rows,
        );
    });
}

fn inputs(m: &mut Markup, model: &CapacityModel) {
    let time = |found: Estimate| {
        let cell = Cell::number(format::duration(found.value)).exact(format!("{} ns", found.value));
        let high = || found.high.map_or_else(|| "unbounded".to_owned(), format::duration);
        if found.is_exact() {
            cell
        } else {
            cell.note(format!("{} to {}", format::duration(found.low), high()))
        }
    };
    let rows = model.deployments.iter().map(|found| {
        let (inputs, capacity) = (&found.inputs, &found.capacity);
        vec![
            Cell::text(&inputs.name),
            time(inputs.dut_median_ns),
            time(inputs.forwarder_median_ns),
            time(capacity.cpu_ns),
            time(capacity.interrupts_ns),
        ]
    });
    let names =
        head(["deployment", "median, device", "median, forwarder", "t_cpu", "interrupts, per second"]);
    table(m, "Times, each with its 95 % interval below unless it is exact", &names, rows);
}

fn interrupts(m: &mut Markup, model: &CapacityModel) {
    let rows: Vec<Row> = model
        .deployments
        .iter()
        .flat_map(|found| found.inputs.interrupts.iter().map(move |load| (found, load)))
        .map(|(found, load)| {
            let rate = load.rate_hz.map_or_else(none, |rate| {
                Cell::number(format::digits(rate.value, 4)).exact(format!("{} a second", rate.value))
            });
            let cells = vec![
                Cell::text(&found.inputs.name),
                Cell::text(&load.name),
                rate,
                load.length_ns.map_or_else(none, Cell::ns_mean),
                Cell::ns_mean(load.time_ns.value),
            ];
            cells.into()
        })
        .collect();
    if rows.is_empty() {
        m.tag("p").class("rests").text("No interrupts were given.");
        return;
    }
    let names = head(["deployment", "interrupts", "a second", "length", "time per second"]);
    table(m, "Interrupts of the device's core", &names, rows);
}

fn rests(m: &mut Markup, model: &CapacityModel) {
    let row = |what: &str, basis: &MedianBasis| {
        let measured = format!("{what}, trial {}", basis.trial);
        [
            measured,
            format::count(basis.packets),
            basis.clock.clone(),
            format::duration_short(basis.granularity_ns),
        ]
    };
    let known = model.deployments.iter().filter_map(|found| found.inputs.basis.as_ref());
    let rows: Vec<_> =
        known.flat_map(|basis| [row("device", &basis.dut), row("forwarder", &basis.forwarder)]).collect();
    let given = model.deployments.iter().filter(|found| found.inputs.basis.is_none()).count();
    if !rows.is_empty() {
        basis(m, rows);
    }
    if given > 0 {
        m.tag("p")
            .class("rests")
            .text("For medians given as numbers, see their source for packets and clocks.");
    }
}
