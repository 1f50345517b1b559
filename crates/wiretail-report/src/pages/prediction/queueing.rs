//! The page of a queueing simulation that was compared with measured trials. It shows both distributions of
//! each trial, and the errors.

use std::borrow::Cow;

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::QueueingPrediction;
use wiretail_schema::prediction::queueing::calibration::{
    ComparedPercentile, QueueingCalibration, QueueingSearchValidation, QueueingValidation,
};
use wiretail_schema::summary::figure::{Figure, Mark, Scale, Series, Unit};

use super::intervals::{self, Lane, draw};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{self, section};
use crate::pages::run::figures::axis;
use crate::plot::Size;

/// Renders the page of the trials that a model was compared with.
pub fn queueing(prediction: &QueueingPrediction) -> String {
    let validations = &prediction.validations;
    let within = validations.iter().filter(|validation| validation.within).count();
    page::document("Digital twin · Wiretail", |m| {
        m.tag("header").body(|m| {
            m.tag("p").class("kicker").text("Wiretail · digital twin");
            m.tag("h1").text("Predicted and measured");
            m.tag("p").class("lead").text(format_args!(
                "{within} of {} loads are within 10 % at the median and 20 % at the 99th percentile",
                validations.len()
            ));
        });
        m.tag("main").body(|m| {
            section(m, "percentiles", "Percentiles", |m| {
                [50.0, 99.0].into_iter().for_each(|percentile| overview(m, validations, percentile));
            });
            section(m, "errors", "Errors", |m| {
                if !validations.is_empty() {
                    errors(m, validations);
                }
                if !prediction.searches.is_empty() {
                    searches(m, &prediction.searches);
                }
            });
            section(m, "figures", "Distributions", |m| {
                m.tag("div").class("figures").body(|m| {
                    for (place, validation) in validations.iter().enumerate() {
                        page::figure(m, &figure(place, validation), Size::Half, place);
                    }
                });
            });
            if let Some(calibration) = &prediction.calibration {
                section(m, "calibration", "Calibration of the model", |m| {
                    evidence(m, prediction, calibration)
                });
            }
        });
        page::footer(m, env!("CARGO_PKG_VERSION"));
    })
}

/// Shows one percentile for all loads.
fn overview(m: &mut Markup, validations: &[QueueingValidation], percentile: f64) {
    let lane = |validation: &QueueingValidation| {
        let one = validation.percentiles.iter().find(|one| one.percentile == percentile)?;
        let ns = |ns: i64| ns as f64;
        let range = |low_ns: i64, high_ns: i64| {
            format!("{} to {}", format::duration(ns(low_ns)), format::duration(ns(high_ns)))
        };
        Some(Lane {
            name: validation.name.clone(),
            tip: format!(
                "predicted {} (nine of ten repeats {})\nmeasured {} ({} repeats, {})\n{:+.1} %",
                format::duration(ns(one.predicted_ns)),
                range(one.predicted_low_ns, one.predicted_high_ns),
                format::duration(ns(one.measured_ns)),
                validation.trials.len(),
                range(one.measured_low_ns, one.measured_high_ns),
                one.error * 100.0
            ),
            predicted: Estimate {
                value: ns(one.predicted_ns),
                low: ns(one.predicted_low_ns),
                high: Some(ns(one.predicted_high_ns)),
            },
            measured: [Some(ns(one.measured_low_ns)), Some(ns(one.measured_high_ns))],
            middle: Some(ns(one.measured_ns)),
        })
    };
    let lanes: Vec<Lane> = validations.iter().filter_map(lane).collect();
    let frame = intervals::Frame {
        axis: axis("one-way delay", "delay_ns", Unit::Nanoseconds, Scale::Log),
        key: ["predicted, with nine of ten repeats", "measured: repeats and their median"],
    };
    m.tag("figure").body(|m| {
        m.tag("figcaption").text(format_args!("p{} of each load", format::short(percentile)));
        draw(m, &frame, &lanes);
    });
}

fn errors(m: &mut Markup, validations: &[QueueingValidation]) {
    let mut names: Vec<Cow<'_, str>> = head(["trial", "load"]).to_vec();
    for one in validations.first().map_or(&[][..], |validation| &validation.percentiles) {
        names.extend([format!("p{}", format::short(one.percentile)).into(), "error".into()]);
    }
    names.extend(head(["loss", "within"]));
    let rows = validations.iter().map(|validation| {
        let load = validation.predicted.load.map_or("unknown".to_owned(), format::ratio);
        let mut cells = vec![Cell::text(&validation.name), Cell::number(load)];
        validation.percentiles.iter().for_each(|one| cells.extend(compared(one)));
        let [predicted, measured] =
            [validation.predicted.loss_ratio, validation.measured_loss_ratio].map(format::ratio);
        cells.push(Cell::number(format!("{predicted} / {measured}")));
        cells.push(match (validation.within, validation.within_repeats) {
            (true, _) => Cell::number("✓ yes").class("number better"),
            (false, true) => Cell::number("between repeats"),
            (false, false) => Cell::number("✕ no").class("number worse"),
        });
        cells
    });
    let title = "Predicted / measured: the medians of the repeats. Below them: the range of nine of ten \
                 predicted repeats / the smallest and the largest measured value. Values in italics are based on \
                 fewer than ten measured packets and are not judged";
    m.tag("div").class("broad").body(|m| table(m, title, &names, rows));
    replays(m, validations);
    for validation in validations.iter().filter(|validation| !validation.within) {
        m.tag("p").text(format_args!("{}: {}.", validation.name, validation.failures.join("; ")));
    }
}

fn replays(m: &mut Markup, validations: &[QueueingValidation]) {
    let mut names: Vec<Cow<'_, str>> = head(["load"]).to_vec();
    for one in validations.first().map_or(&[][..], |validation| &validation.replay.percentiles) {
        names.extend([format!("p{}", format::short(one.percentile)).into(), "error".into()]);
    }
    names.extend(head(["within"]));
    let rows = validations.iter().map(|validation| {
        let mut cells = vec![Cell::text(&validation.name)];
        validation.replay.percentiles.iter().for_each(|one| cells.extend(compared(one)));
        cells.push(match validation.replay.within {
            true => Cell::number("✓ yes").class("number better"),
            false => Cell::number("✕ no").class("number worse"),
        });
        cells
    });
    let stalls = if validations.iter().all(|validation| validation.replay.stalls) {
        " and the stalls of the device"
    } else {
        ""
    };
    let title = format!(
        "Simulated with the arrivals{stalls} that each trial recorded: errors in this table are due to the \
         device; errors that occur only in the table above are due to the load generator and the machine"
    );
    m.tag("div").class("broad").body(|m| table(m, &title, &names, rows));
}

fn searches(m: &mut Markup, validations: &[QueueingSearchValidation]) {
    let names = head(["search", "goal", "predicted", "met at", "missed at", "error", "within"]);
    let rows = validations.iter().map(|validation| {
        vec![
            Cell::text(&validation.name),
            Cell::text(&validation.goal),
            Cell::number(format::rate(validation.predicted_pps)),
            Cell::number(format::rate(validation.lower_pps as f64)),
            Cell::number(validation.upper_pps.map_or("unknown".to_owned(), |pps| format::rate(pps as f64))),
            Cell::number(format!("{:+.1} %", validation.error * 100.0)),
            match validation.within {
                true => Cell::number("✓ yes").class("number better"),
                false => Cell::number("✕ no").class("number worse"),
            },
        ]
    });
    table(m, "Predicted capacity and the rate that a search found", &names, rows);
}

fn compared(one: &ComparedPercentile) -> [Cell; 2] {
    let beyond = one.limit.is_some_and(|limit| one.error.abs() > limit);
    let class = match (one.supported, beyond) {
        (false, _) => "number weak",
        (true, true) => "number worse",
        (true, false) => "number",
    };
    let [predicted, measured] = [one.predicted_ns, one.measured_ns].map(|ns| format::duration(ns as f64));
    let range = |low_ns: i64, high_ns: i64| match low_ns == high_ns {
        true => format::duration(low_ns as f64),
        false => format!("{} to {}", format::duration(low_ns as f64), format::duration(high_ns as f64)),
    };
    let spread = match one.measured_low_ns == one.measured_high_ns {
        true => String::new(),
        false => format!(
            "{} / {}",
            range(one.predicted_low_ns, one.predicted_high_ns),
            range(one.measured_low_ns, one.measured_high_ns)
        ),
    };
    let both = Cell::number(format!("{predicted} / {measured}"))
        .exact(format!("{} ns, {} ns", one.predicted_ns, one.measured_ns));
    [
        if spread.is_empty() { both } else { both.note(spread) },
        Cell::number(format!("{:+.1} %", one.error * 100.0)).class(class),
    ]
}

fn figure(place: usize, validation: &QueueingValidation) -> Figure {
    let series = |name: &str, value: fn(&ComparedPercentile) -> i64| Series {
        name: name.to_owned(),
        x: validation.curve.iter().map(|one| one.percentile).collect(),
        y: validation.curve.iter().map(|one| value(one) as f64).collect(),
        low: Vec::new(),
        high: Vec::new(),
        supported: validation.curve.iter().map(|one| one.supported).collect(),
        bar_width: None,
    };
    Figure {
        id: format!("twin-{place}"),
        title: validation.name.clone(),
        caption: format!(
            "{}: {} measured packets, {} simulated; the repeat with the median p99 is drawn; dashed parts are based on fewer than \
             ten measured packets.",
            format::first_of(&validation.trials),
            format::count(validation.measured_packets),
            format::count(validation.predicted.sent)
        ),
        x: axis("percentile", "percentile", Unit::Percentile, Scale::Nines),
        y: axis("one-way delay", "delay_ns", Unit::Nanoseconds, Scale::Log),
        mark: Mark::Line,
        series: vec![series("measured", |one| one.measured_ns), series("predicted", |one| one.predicted_ns)],
        lines: Vec::new(),
    }
}

fn evidence(m: &mut Markup, prediction: &QueueingPrediction, found: &QueueingCalibration) {
    let row = |what: &str, value: String, rests: String| {
        vec![Cell::text(what), Cell::number(value), Cell::text(rests)]
    };
    let mut rows = vec![
        row(
            "service, median",
            format::duration(found.service_ns.value),
            format!(
                "{} gaps, {} with the device busy",
                format::count(found.gaps),
                format::duration(found.busy_ns)
            ),
        ),
        row(
            "interrupts a second",
            format::digits(found.interrupts.per_second.value, 3),
            format!(
                "{} were observed; they take {} of the time",
                format::count(found.interrupts.count),
                format::ratio(found.interrupts.share)
            ),
        ),
        row(
            "transfer",
            format::duration(prediction.model.transfer_ns),
            format!("{} packets found the device idle", format::count(found.isolated)),
        ),
    ];
    rows.extend(found.wakes.iter().map(|wake| {
        let what = format!("mean wake-up delay after {} idle", format::duration_short(wake.after_idle_ns));
        row(&what, format::duration(wake.mean_ns), format!("{} packets", format::count(wake.packets)))
    }));
    table(
        m,
        &format!("Calibrated with {}", format::first_of(&found.trials)),
        &head(["what", "value", "based on"]),
        rows,
    );
    for remark in &found.remarks {
        m.tag("p").text(remark);
    }
}
