//! The page of a predicted tail: the prediction, the fit, and the observed events.

use wiretail_schema::prediction::tail::{
    Basis, Fit, Forecast, LevelForecast, Refusal, RefusalKind, Tail, TailPrediction,
};
use wiretail_schema::summary::figure::{AxisName, Figure, Mark, ReferenceLine, Scale, Unit};

use super::{Formula, Frame, banded, counted, error_cell, fit, none, sentence};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{answer, section};
use crate::pages::run::figures::{axis, draw, plain};
use crate::plot::Size;

/// Renders the page of predicted delays.
pub fn tail(prediction: &TailPrediction) -> String {
    let tail = &prediction.tail;
    // Serialization cannot fail: all keys are strings, and numbers are finite or null.
    let document = serde_json::to_value(prediction).unwrap_or_default();
    let frame = Frame {
        what: "tail",
        title: &title(tail),
        lead: &format!("{} → {}", prediction.pre, prediction.post),
        schema: &prediction.schema,
        version: &prediction.wiretail_version,
        formula: Formula {
            text: "P(excess > y) = (1 + ξ y / σ)^(−1/ξ) above a threshold that is high enough: the \
                   generalised Pareto distribution, fitted to events. An event consists of delays above the \
                   threshold with few packets between them.",
            page: "docs/kpi/extreme-values.md",
            source: (
                "S. Coles, An Introduction to Statistical Modeling of Extreme Values (2001), chapters 4 and 5",
                None,
            ),
        },
    };
    super::page(&frame, &document, |m| {
        section(m, "verdicts", "Verdict", |m| verdicts(m, tail));
        if let Some(fit) = &tail.fit {
            section(m, "fit", "The tail", |m| fit::tiles(m, fit));
        }
        let mut count = 0;
        if !tail.return_levels.is_empty() || tail.forecast.is_some() {
            section(m, "comes", "Prediction", |m| comes(m, tail, &mut count));
        }
        if !tail.candidates.is_empty() {
            section(m, "diagnostics", "Goodness of fit", |m| fit::diagnostics(m, tail, count));
        }
        section(m, "rests", "Basis", |m| rests(m, prediction));
    })
}

fn title(tail: &Tail) -> String {
    if tail.refused.is_some() {
        return "No prediction is possible for these delays".to_owned();
    }
    let furthest = tail.return_levels.iter().max_by_key(|level| level.once_in_ns);
    furthest.map_or_else(
        || "Predicted delays".to_owned(),
        |level| {
            format!(
                "{} once in {}",
                format::duration(level.delay_ns.round()),
                span(level.once_in_ns as f64 * 1e-9)
            )
        },
    )
}

/// Formats a duration in s that may be several days long.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{} d", format::short((s / 8640.0).round() / 10.0)),
        s if s >= 3600.0 => format!("{} h", format::short((s / 360.0).round() / 10.0)),
        s if s >= 120.0 => format!("{} min", format::short((s / 6.0).round() / 10.0)),
        s => format::about(s * 1e9),
    }
}

fn verdicts(m: &mut Markup, tail: &Tail) {
    m.tag("div").class("cards").body(|m| {
        if let Some(refused) = &tail.refused {
            refusal(m, refused, tail);
        }
        if let Some(forecast) = tail.forecast.as_ref().filter(|forecast| forecast.holds.is_some()) {
            stalled(m, forecast);
        } else if tail.refused.is_none() {
            let fit = tail.fit.as_ref();
            let basis = fit.map_or_else(String::new, |fit| {
                format!("{} above {}.", counted(fit.events, "event"), format::duration(fit.threshold_ns))
            });
            let said = "No data was left for validation (--calibrate fits a part of the data and compares the prediction with the rest).";
            answer(m, ("undecided", "?", "NOT VALIDATED"), "prediction", said, &basis);
        }
        if let Some(fit) = tail.fit.as_ref().filter(|fit| fit.thin) {
            thin(m, fit);
        }
    });
}

/// Warns if there are few events, either in total or in the upper component of a two-component mixture.
fn thin(m: &mut Markup, fit: &Fit) {
    let Some(below) = &fit.below else {
        let said = "No distribution fits above any threshold with 100 or more events: the prediction is based on few events.";
        return answer(m, ("undecided", "!", "THIN"), "fit", said, "");
    };
    let said = format!(
        "The delays are a mixture of two components, as if a rarer cause had its own typical length. There are \
         {} above {}; {} of these are above {} and determine the maxima.",
        counted(below.events, "event"),
        format::duration(below.threshold_ns),
        format::count(fit.events),
        format::duration(fit.threshold_ns)
    );
    let basis = "One distribution per component fits; a single distribution for both does not.";
    answer(m, ("undecided", "!", "TWO COMPONENTS"), "fit", &said, basis);
}

fn refusal(m: &mut Markup, refused: &Refusal, tail: &Tail) {
    let kind = match refused.kind {
        RefusalKind::TooFew => "too few",
        RefusalKind::BadFit => "bad fit",
        RefusalKind::NonStationary => "uneven over time",
        RefusalKind::HeavyTailed => "too heavy",
    };
    let reason = sentence(&refused.reason);
    let basis = format!(
        "{}, {} tried.",
        counted(tail.packets, "packet"),
        counted(tail.candidates.len() as u64, "threshold")
    );
    answer(m, ("fail", "✕", "REFUSED"), kind, &reason, &basis);
}

/// Shows whether the observed events lie within the predicted bands.
fn stalled(m: &mut Markup, forecast: &Forecast) {
    let judged = || forecast.levels.iter().filter(|level| level.observed.is_some());
    let outside: Vec<String> = judged()
        .filter(|level| !inside(level))
        .map(|level| format!("above {}", format::duration(level.level_ns)))
        .collect();
    let what = counted(forecast.packets, "packet");
    let basis = format!(
        "{} compared; the bands hold simultaneously with {} confidence.",
        counted(judged().count() as u64, "level"),
        format::ratio(forecast.confidence)
    );
    if forecast.holds == Some(true) {
        let said = "Every observed number of events lies in its predicted band.";
        answer(m, ("pass", "✓", "HOLDS"), &what, said, &basis);
    } else {
        let said = format!("Observed numbers outside of their predicted bands: {}.", outside.join(", "));
        answer(m, ("fail", "✕", "DOES NOT HOLD"), &what, &said, &basis);
    }
}

fn inside(level: &LevelForecast) -> bool {
    level.observed.is_none_or(|observed| (level.low..=level.high).contains(&observed))
}

fn comes(m: &mut Markup, tail: &Tail, count: &mut usize) {
    let forecast = tail.forecast.as_ref().filter(|forecast| !forecast.levels.is_empty());
    let mut figures = Vec::new();
    figures.extend(forecast.map(events));
    if tail.return_levels.len() > 1 {
        figures.push(levels(tail));
    }
    let size = if figures.len() > 1 { Size::Half } else { Size::Wide };
    draw(m, &figures, size, figures.len(), count);
    m.tag("div").class("broad").body(|m| {
        if let Some(forecast) = forecast {
            forecast_table(m, forecast);
        }
        let rows = tail.return_levels.iter().map(|level| {
            let ns = |ns: f64| Cell::number(format::duration(ns.round())).exact(format!("{ns} ns"));
            vec![
                Cell::text(span(level.once_in_ns as f64 * 1e-9)),
                Cell::count(level.once_in_packets as u64),
                ns(level.delay_ns),
                ns(level.low_ns),
                ns(level.high_ns),
            ]
        });
        if !tail.return_levels.is_empty() {
            let names = head(["once in", "packets", "delay", "95 % from", "to"]);
            table(m, "Delays exceeded once on average", &names, rows);
        }
    });
}

fn forecast_table(m: &mut Markup, forecast: &Forecast) {
    let rows = forecast.levels.iter().map(|level| {
        let observed = level.observed.map_or_else(none, Cell::count);
        let said = match level.observed {
            None => Cell::text("not observed"),
            Some(_) if inside(level) => Cell::text("✓ inside").class("better"),
            Some(_) => Cell::text("✕ outside").class("worse"),
        };
        vec![
            Cell::text(format!("above {}", format::duration(level.level_ns))),
            Cell::text(match level.basis {
                Basis::Counted => "counted",
                Basis::Fitted => "fitted",
            }),
            Cell::count(level.seen),
            Cell::number(format::digits(level.expected, 3)).exact(level.expected),
            Cell::number(format!("{} to {}", format::count(level.low), format::count(level.high))),
            observed,
            error_cell(level.error),
            said,
        ]
    });
    let names = head(["events", "basis", "seen", "expected", "band", "observed", "error", "in the band"]);
    let caption = format!(
        "Events in the next {}; the bands hold simultaneously with {} confidence. Error: expected relative to observed",
        counted(forecast.packets, "packet"),
        format::ratio(forecast.confidence)
    );
    table(m, &caption, &names, rows);
}

fn events(forecast: &Forecast) -> Figure {
    let of = |value: fn(&LevelForecast) -> f64| forecast.levels.iter().map(value).collect::<Vec<f64>>();
    let x = of(|level| level.level_ns);
    let band = (of(|level| level.low as f64), of(|level| level.high as f64));
    let mut series = vec![banded("expected", x, of(|level| level.expected), band.0, band.1)];
    let observed =
        || forecast.levels.iter().filter_map(|level| Some((level.level_ns, level.observed? as f64)));
    if observed().next().is_some() {
        let (x, y) = observed().unzip();
        series.push(plain("observed".to_owned(), x, y));
    }
    Figure {
        id: "tail-events".to_owned(),
        title: "Events above a level, predicted and observed".to_owned(),
        caption: format!(
            "Events among the {} after the fitted packets. An observed number should lie in its band. The bands \
             hold simultaneously with {} confidence.",
            counted(forecast.packets, "packet"),
            format::ratio(forecast.confidence)
        ),
        x: axis("level", "level_ns", Unit::Nanoseconds, Scale::Linear),
        y: axis("events", "events", Unit::Packets, Scale::Log),
        mark: Mark::Line,
        series,
        lines: Vec::new(),
    }
}

fn levels(tail: &Tail) -> Figure {
    let mut levels: Vec<_> = tail.return_levels.iter().collect();
    levels.sort_by_key(|level| level.once_in_ns);
    let x = levels.iter().map(|level| level.once_in_ns as f64 * 1e-9).collect();
    let y = levels.iter().map(|level| level.delay_ns).collect();
    let low = levels.iter().map(|level| level.low_ns).collect();
    let high = levels.iter().map(|level| level.high_ns).collect();
    let line = |level: &&&wiretail_schema::prediction::tail::ReturnLevel| ReferenceLine {
        on: AxisName::X,
        value: level.once_in_ns as f64 * 1e-9,
        label: span(level.once_in_ns as f64 * 1e-9),
    };
    Figure {
        id: "tail-return-levels".to_owned(),
        title: "Return levels: the delay exceeded once in a period".to_owned(),
        caption: "For periods far longer than the measurement, the values rest on the fit alone and assume \
                  that conditions do not change."
            .to_owned(),
        x: axis("once in", "once_in_s", Unit::Seconds, Scale::Log),
        y: axis("delay", "delay_ns", Unit::Nanoseconds, Scale::Linear),
        mark: Mark::Line,
        lines: levels.iter().filter(|level| level.once_in_ns > 0).map(|level| line(&level)).collect(),
        series: vec![banded("delay", x, y, low, high)],
    }
}

fn rests(m: &mut Markup, prediction: &TailPrediction) {
    let tail = &prediction.tail;
    let clock = if prediction.clock.is_empty() { "unknown" } else { &prediction.clock };
    let what = match prediction.calibrate {
        Some(share) => format!("the first {} of the packets", format::ratio(share)),
        None => "all packets".to_owned(),
    };
    let granularity = format::duration_short(tail.granularity_ns);
    super::basis(m, vec![[what, format::count(tail.packets), clock.to_owned(), granularity]]);
    let rows = tail.support.iter().map(|support| {
        vec![
            Cell::text(format::percentile(support.percentile)),
            Cell::count(support.packets),
            support.seconds.map_or_else(none, |seconds| Cell::number(span(seconds))),
            Cell::text(if support.supported { "✓ enough packets measured" } else { "" }),
        ]
    });
    let names = head(["percentile", "packets", "at this rate", ""]);
    table(m, "Measurement length for ten packets above a percentile", &names, rows);
    m.tag("p").class("rests").text(format_args!(
        "Fitted to {} at {}, without the first {}. Exceedances with fewer than {} packets between them are one event; equal \
         delays are spread over one step of the timestamp granularity, with seed {}.",
        format::duration(tail.span_ns as f64),
        format::rate(tail.rate_pps),
        format::duration_short(prediction.trim_ns as f64),
        format::count(tail.run_packets),
        tail.seed
    ));
}
