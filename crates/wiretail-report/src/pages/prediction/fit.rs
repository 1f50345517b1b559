//! Goodness of fit of a tail distribution: parameters and diagnostic figures.

use wiretail_schema::prediction::tail::{Candidate, Fit, FittedQuantile, Tail};
use wiretail_schema::summary::figure::{AxisName, Figure, Mark, ReferenceLine, Scale, Unit};

use super::{banded, counted};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{figure, tile};
use crate::pages::run::figures::{axis, plain};
use crate::plot::Size;

/// The parameters of the fit.
pub fn tiles(m: &mut Markup, fit: &Fit) {
    m.tag("dl").class("tiles").body(|m| {
        let lines = [format!("{} above", counted(fit.exceedances, "packet")), counted(fit.events, "event")];
        let thin = fit.thin.then_some("fewer than 100 events");
        let shown = format::duration(fit.threshold_ns);
        tile(m, "threshold", &shown, &format!("{} ns", fit.threshold_ns), &lines, thin);
        if let Some(below) = &fit.below {
            let shown = format::duration(below.threshold_ns);
            let share = format!("{} of them below the threshold", format::ratio(below.share));
            let shape = format!("shape {}", format::fixed(below.shape, 3));
            let scale = format!("scale {}", format::duration(below.scale_ns.round()));
            let lines = [counted(below.events, "event"), share, shape, scale];
            tile(m, "lower component from", &shown, &format!("{} ns", below.threshold_ns), &lines, None);
        }
        let mut lines =
            vec![format!("{} to {}", format::fixed(fit.shape_low, 3), format::fixed(fit.shape_high, 3))];
        lines.extend(fit.shape_by_moments.map(|shape| format!("by moments {}", format::fixed(shape, 3))));
        tile(m, "shape ξ", &format::fixed(fit.shape, 3), &fit.shape.to_string(), &lines, None);
        let scale = format::duration(fit.scale_ns.round());
        tile(m, "scale σ", &scale, &format!("{} ns", fit.scale_ns), &[], None);
        let end = fit.end_ns.map_or_else(|| "none".to_owned(), |end| format::duration(end.round()));
        tile(m, "upper end", &end, "", &["of the fitted distribution".to_owned()], None);
        let chance = format::ratio(fit.maximum_chance);
        tile(m, "maximum at least this high", &chance, "", &["by chance".to_owned()], None);
        let dispersion = format::digits(fit.dispersion, 2);
        let lines = ["the variance of the counts".to_owned(), "relative to a Poisson process".to_owned()];
        tile(m, "unevenness", &format!("{dispersion} times"), "", &lines, None);
    });
}

/// The diagnostics of all thresholds. Their figures are numbered after those already drawn.
pub fn diagnostics(m: &mut Markup, tail: &Tail, drawn: usize) {
    let mut figures: Vec<Figure> =
        tail.fit.iter().filter(|fit| !fit.quantiles.is_empty()).map(quantiles).collect();
    let chosen = tail.fit.as_ref().map(|fit| fit.threshold_ns);
    figures.extend([
        over_thresholds(
            tail,
            (
                "tail-mean-excess",
                "Mean excess over the threshold",
                "mean excess",
                "mean_excess_ns",
                Unit::Nanoseconds,
            ),
            "The curve is a straight line if the distribution fits.",
            (chosen, |candidate| candidate.mean_excess_ns),
        ),
        shapes(tail, chosen),
        over_thresholds(
            tail,
            (
                "tail-modified-scale",
                "Modified scale σ − ξu",
                "modified scale",
                "modified_scale_ns",
                Unit::Nanoseconds,
            ),
            "Constant if the distribution fits.",
            (chosen, |candidate| candidate.modified_scale_ns),
        ),
    ]);
    m.tag("div").class("figures").body(|m| {
        for (place, one) in figures.iter().enumerate() {
            // Figures are placed in pairs; one without a partner gets the full width.
            let alone = place + 1 == figures.len() && place % 2 == 0;
            figure(m, one, if alone { Size::Wide } else { Size::Half }, drawn + place);
        }
    });
    let rows = tail.candidates.iter().map(|candidate| {
        let chance = |chance: f64, limit: f64| {
            let rejected = chance < limit;
            Cell::number(format::fixed(chance, 3)).class(if rejected { "number worse" } else { "number" })
        };
        let mark = if chosen == Some(candidate.threshold_ns) { " ← taken" } else { "" };
        vec![
            Cell::text(format!("{}{mark}", format::duration(candidate.threshold_ns))),
            Cell::count(candidate.events),
            Cell::number(format::fixed(candidate.shape, 3)).note(format!(
                "{} to {}",
                format::fixed(candidate.shape_low, 2),
                format::fixed(candidate.shape_high, 2)
            )),
            Cell::number(format::digits(candidate.anderson_darling, 3)),
            chance(candidate.fit_chance, 0.05),
            chance(candidate.counts_chance, 0.01),
            chance(candidate.sizes_chance, 0.01),
        ]
    });
    m.tag("details").class("more").body(|m| {
        m.tag("summary")
            .text(format_args!("All {} tried", counted(tail.candidates.len() as u64, "threshold")));
        let names = head(["threshold", "events", "shape ξ", "Anderson-Darling", "fit", "counts", "sizes"]);
        table(
            m,
            "Probability that chance alone produces a fit this bad, or counts or sizes this uneven over \
             time",
            &names,
            rows,
        );
    });
}

fn quantiles(fit: &Fit) -> Figure {
    let of = |value: fn(&FittedQuantile) -> f64| fit.quantiles.iter().map(value).collect::<Vec<f64>>();
    let fitted = of(|at| at.fitted_ns);
    Figure {
        id: "tail-quantiles".to_owned(),
        title: "Events against the fitted distribution".to_owned(),
        caption: format!(
            "Each of {} is plotted against the delay that the fitted distribution has at the same rank. The \
             points lie on the line if the distribution fits. The band contains 95 % of samples drawn from \
             the distribution.",
            counted(fit.events, "event")
        ),
        x: axis("fitted", "fitted_ns", Unit::Nanoseconds, Scale::Linear),
        y: axis("observed", "observed_ns", Unit::Nanoseconds, Scale::Linear),
        mark: Mark::Line,
        series: vec![
            banded("fitted", fitted.clone(), fitted.clone(), of(|at| at.low_ns), of(|at| at.high_ns)),
            plain("observed".to_owned(), fitted, of(|at| at.observed_ns)),
        ],
        lines: Vec::new(),
    }
}

type Named = (&'static str, &'static str, &'static str, &'static str, Unit);

fn over_thresholds(
    tail: &Tail,
    (id, title, label, column, unit): Named,
    caption: &str,
    (chosen, value): (Option<f64>, fn(&Candidate) -> f64),
) -> Figure {
    let x = tail.candidates.iter().map(|candidate| candidate.threshold_ns).collect();
    let taken = |threshold| ReferenceLine { on: AxisName::X, value: threshold, label: "taken".to_owned() };
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: axis("threshold u", "threshold_ns", Unit::Nanoseconds, Scale::Linear),
        y: axis(label, column, unit, Scale::Linear),
        mark: Mark::Line,
        series: vec![plain(label.to_owned(), x, tail.candidates.iter().map(value).collect())],
        lines: chosen.map(taken).into_iter().collect(),
    }
}

fn shapes(tail: &Tail, chosen: Option<f64>) -> Figure {
    let named = ("tail-shape", "Shape ξ", "shape", "shape", Unit::Number);
    let caption = "Constant within the intervals if the distribution fits.";
    let mut figure = over_thresholds(tail, named, caption, (chosen, |candidate| candidate.shape));
    if let Some(series) = figure.series.first_mut() {
        series.low = tail.candidates.iter().map(|candidate| candidate.shape_low).collect();
        series.high = tail.candidates.iter().map(|candidate| candidate.shape_high).collect();
    }
    figure
}
