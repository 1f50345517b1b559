//! Delay and loss over the offered rate, and the lowest rate at which a device is overloaded.

use wiretail_schema::run::TrialState;
use wiretail_schema::run::scenario::{Overload, OverloadMark, OverloadSign, RATE, Scenario};
use wiretail_schema::summary::Summary;
use wiretail_schema::summary::figure::{AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};

use super::Page;
use super::figures::{axis, draw, titled};
use super::series::{self, CURVES, Curve};
use crate::format;
use crate::html::Markup;
use crate::pages::page;
use crate::plot::Size;

/// Percentiles drawn over the rate.
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];
/// Maximum number of curves that are drawn with confidence intervals. With more curves, the intervals would
/// hide each other.
const BANDS: usize = 4;
/// The axis is logarithmic if the ratio of the highest to the lowest rate is at least this value.
const WIDE: u64 = 20;

/// The section; empty if fewer than two rates have valid trials.
pub fn section(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    let mut curves = series::representatives(page);
    curves.retain(|curve| curve.trial.state == TrialState::Valid);
    if series::apart(&curves, RATE).len() < 2 {
        return;
    }
    let lines = scenarios(page, &curves);
    let first: Vec<Curve<'_>> = lines.iter().map(|line| line[0].clone()).collect();
    let factors: Vec<String> = page.run.factors.iter().filter(|key| *key != RATE).cloned().collect();
    let mut figures = Vec::new();
    for (index, group) in series::grouped(first, &factors, CURVES).iter().enumerate() {
        let of_group: Vec<&Vec<Curve<'_>>> = lines
            .iter()
            .filter(|line| group.iter().any(|c| c.trial.number == line[0].trial.number))
            .collect();
        figures.extend(of_lines(page, index, group, &of_group));
    }
    page::section(m, "load", "Delay and loss over the offered rate", |m| {
        overloads(m, page.overloads);
        draw(m, &figures, Size::Half, 2 * (PERCENTILES.len() + 1), count);
    });
}

/// The curves of each scenario without its rate, in ascending order of the rate.
fn scenarios<'a>(page: &Page<'a>, curves: &[Curve<'a>]) -> Vec<Vec<Curve<'a>>> {
    let mut lines: Vec<(Scenario, Vec<Curve<'a>>)> = Vec::new();
    for curve in curves {
        let scenario = Scenario::of(page.run, curve.trial, &[RATE]);
        match lines.iter_mut().find(|(other, _)| *other == scenario) {
            Some((_, line)) => line.push(curve.clone()),
            None => lines.push((scenario, vec![curve.clone()])),
        }
    }
    let mut lines: Vec<Vec<Curve<'a>>> = lines.into_iter().map(|(_, line)| line).collect();
    lines.iter_mut().for_each(|line| line.sort_by_key(rate));
    lines
}

fn rate(curve: &Curve<'_>) -> u64 {
    curve.scenario.get(RATE).map_or(0, |setting| setting.number)
}

/// The figures of these scenarios: one for each percentile, and one for the loss.
fn of_lines(page: &Page<'_>, index: usize, group: &[Curve<'_>], lines: &[&Vec<Curve<'_>>]) -> Vec<Figure> {
    let (common, keys) = series::shared(group, &page.run.factors, &[RATE]);
    let bands = lines.len() <= BANDS;
    let marks = reference_lines(page, lines, &keys);
    let note = series::repeats_note(&lines.iter().flat_map(|line| line.iter().cloned()).collect::<Vec<_>>());
    let rates: Vec<u64> = lines.iter().flat_map(|line| line.iter().map(rate)).collect();
    let (low, high) = (rates.iter().min().copied().unwrap_or(1), rates.iter().max().copied().unwrap_or(1));
    let spread = if high / low.max(1) >= WIDE { Scale::Log } else { Scale::Linear };
    let figure = |id: &str, what: &str, y, point: &dyn Fn(&Summary) -> Option<Point>| Figure {
        id: format!("{id}-over-rate-{}", index + 1),
        title: titled(what, &common),
        caption: format!("Each point is one valid trial.{note}"),
        x: axis("offered rate", "rate_pps", Unit::PacketsPerSecond, spread),
        y,
        mark: Mark::Line,
        series: lines.iter().map(|line| over_rate(line, &keys, bands, point)).collect(),
        lines: marks.clone(),
    };
    let mut figures: Vec<Figure> = PERCENTILES
        .iter()
        .map(|&wanted| {
            let name = format::short(wanted);
            let y = axis(&format!("p{name} delay"), "delay_ns", Unit::Nanoseconds, Scale::Log);
            let id = format!("p{}", name.replace('.', "-"));
            figure(&id, &format!("p{name} delay"), y, &|summary| percentile(summary, wanted))
        })
        .collect();
    let y = axis("loss ratio", "loss_ratio", Unit::Ratio, Scale::Linear);
    figures.push(figure("loss", "Loss ratio", y, &loss));
    figures
}

/// A value, the bounds of its confidence interval, and whether it is supported.
type Point = (f64, f64, f64, bool);

fn percentile(summary: &Summary, wanted: f64) -> Option<Point> {
    let p = summary.delay.percentile(wanted)?;
    let high = p.high_ns.map_or(f64::INFINITY, |ns| ns as f64);
    Some((p.value_ns as f64, p.low_ns as f64, high, p.supported))
}

fn loss(summary: &Summary) -> Option<Point> {
    let loss = &summary.loss;
    Some((loss.ratio, loss.ratio_low, loss.ratio_high, true))
}

fn over_rate(
    line: &[Curve<'_>],
    keys: &[&str],
    bands: bool,
    point: &dyn Fn(&Summary) -> Option<Point>,
) -> Series {
    let points: Vec<(f64, Point)> =
        line.iter().filter_map(|curve| Some((rate(curve) as f64, point(curve.summary)?))).collect();
    let bound = |of: fn(&Point) -> f64| -> Vec<f64> {
        if bands { points.iter().map(|(_, p)| of(p)).collect() } else { Vec::new() }
    };
    Series {
        name: line[0].name(if keys.is_empty() { &["dut.kind"] } else { keys }),
        x: points.iter().map(|(rate, _)| *rate).collect(),
        y: points.iter().map(|(_, p)| p.0).collect(),
        low: bound(|p| p.1),
        high: bound(|p| p.2),
        supported: points.iter().map(|(_, p)| p.3).collect(),
        bar_width: None,
    }
}

/// A line at the lowest rate at which each scenario of the figure is overloaded.
fn reference_lines(page: &Page<'_>, lines: &[&Vec<Curve<'_>>], keys: &[&str]) -> Vec<ReferenceLine> {
    let mut rates: Vec<(u64, Vec<String>)> = Vec::new();
    for line in lines {
        let scenario = Scenario::of(page.run, line[0].trial, &[RATE]);
        let Some(mark) = page.overloads.iter().find(|mark| mark.scenario == scenario) else { continue };
        let name = line[0].name(if keys.is_empty() { &["dut.kind"] } else { keys });
        match rates.iter_mut().find(|(rate, _)| *rate == mark.overload.rate_pps) {
            Some((_, names)) => names.push(name),
            None => rates.push((mark.overload.rate_pps, vec![name])),
        }
    }
    let line = |(rate, names): (u64, Vec<String>)| {
        let who = match names.as_slice() {
            _ if lines.len() == 1 => String::new(),
            [name] => format!(": {name}"),
            names if names.len() == lines.len() => ": all".to_owned(),
            names => format!(": {} of them", names.len()),
        };
        ReferenceLine { on: AxisName::X, value: rate as f64, label: format!("overload{who}") }
    };
    rates.into_iter().map(line).collect()
}

/// Lists the overloads and states the rule that found them.
fn overloads(m: &mut Markup, marks: &[OverloadMark]) {
    if marks.is_empty() {
        m.tag("p").class("verdict-line").text("No scenario is overloaded at any of the rates tried.");
    } else {
        m.tag("ul").class("overloads").body(|m| {
            for mark in marks {
                m.tag("li").body(|m| {
                    let rate = format::rate(mark.overload.rate_pps as f64);
                    m.tag("strong").text(format_args!("{}: overloaded from {rate} on", mark.scenario));
                    m.text(format_args!(": {}.", sign(mark.overload.sign)));
                });
            }
        });
    }
    m.tag("p").class("rests").text(format_args!(
        "A rate counts as overloaded in two cases. In the first, more than {} of the packets are lost, and \
         the loss is more than {} times the median loss of the lower rates (or exceeds it by {} of the \
         packets). In the second, the median delay is more than {} times the median delay of at least {} \
         lower rates. The same must hold for every higher rate. The lowest rate therefore never counts as \
         overloaded. At the highest rate, a single outlier looks the same as an overload. The median over \
         repeats is used; invalid trials are excluded.",
        format::ratio(Overload::LOSS_MIN),
        format::short(Overload::LOSS_FACTOR),
        format::ratio(Overload::LOSS_STEP),
        format::short(Overload::DELAY_FACTOR),
        Overload::DELAY_RATES,
    ));
}

fn sign(sign: OverloadSign) -> String {
    match sign {
        OverloadSign::Loss { ratio, limit } => {
            format!("{} of the packets were lost, more than {}", format::ratio(ratio), format::ratio(limit))
        }
        OverloadSign::Delay { p50_ns, limit_ns } => format!(
            "the median delay is {}, more than {}",
            format::duration(p50_ns as f64),
            format::duration(limit_ns as f64)
        ),
    }
}
