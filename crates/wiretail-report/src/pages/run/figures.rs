//! The figures of a run: percentiles of all devices, bursts, delay over time, segments.

use wiretail_schema::run::SegmentRecord;
use wiretail_schema::run::scenario::{RATE, Scenario};
use wiretail_schema::summary::Summary;
use wiretail_schema::summary::figure::{Axis, Figure, Mark, Scale, Series, Unit};

use super::series::{self, CURVES, Curve};
use super::{Page, counted};
use crate::html::Markup;
use crate::pages::comparison;
use crate::pages::page::{figure, section};
use crate::plot::Size;

/// Full name of the factor that sets the number of packets sent back to back.
const BURST: &str = "traffic.burst";
/// Number of unfolded figures in a section; further ones are folded.
const OPEN: usize = 4;
/// Trials at least this long, in ns, get a figure of the delay over time.
const SOAK_NS: i64 = 10_000_000_000;
/// Maximum number of curves over time in one figure. Such curves are ragged, so only a few can be
/// distinguished.
const CURVES_OVER_TIME: usize = 3;

/// A series without a confidence interval.
pub fn plain(name: String, x: Vec<f64>, y: Vec<f64>) -> Series {
    Series { name, x, y, low: Vec::new(), high: Vec::new(), supported: Vec::new(), bar_width: None }
}

pub fn axis(label: &str, column: &str, unit: Unit, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), column: column.to_owned(), unit, scale }
}

/// Adds to a figure's title the settings that its curves share.
pub fn titled(what: &str, shared: &str) -> String {
    if shared.is_empty() { what.to_owned() } else { format!("{what}: {shared}") }
}

/// Draws the figures of a section, numbered consecutively across the page. If there are many, only the first
/// ones are unfolded.
pub fn draw(m: &mut Markup, figures: &[Figure], size: Size, open: usize, count: &mut usize) {
    let (shown, more) = figures.split_at(figures.len().min(open));
    granularity(m, shown, size, count);
    if !more.is_empty() {
        m.tag("details").class("more").body(|m| {
            m.tag("summary").text(counted(more.len(), "more figure"));
            granularity(m, more, size, count);
        });
    }
}

fn granularity(m: &mut Markup, figures: &[Figure], size: Size, count: &mut usize) {
    m.tag("div").class("figures").body(|m| {
        for one in figures {
            figure(m, one, size, *count);
            *count += 1;
        }
    });
}

/// The percentile plots. Each offered rate has one figure with all devices, which is split if there are many
/// devices. A single device has one figure with all rates.
pub fn percentiles(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    let curves = series::representatives(page);
    if curves.is_empty() {
        return;
    }
    let same_rate = series::apart(&curves, RATE);
    // A single device has no other device to be compared with at a rate, so its rates are compared with each
    // other.
    let alone = same_rate.iter().all(|curves| curves.len() == 1);
    let groups = if alone { vec![curves] } else { same_rate };
    let groups: Vec<_> =
        groups.into_iter().flat_map(|group| series::grouped(group, &page.run.factors, CURVES)).collect();
    let figures: Vec<Figure> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let (common, keys) = series::shared(group, &page.run.factors, &[]);
            let named: Vec<(String, &Summary)> =
                group.iter().map(|curve| (name(curve, &keys), curve.summary)).collect();
            let drawn =
                comparison::percentiles(named.iter().map(|(name, summary)| (name.as_str(), *summary)));
            Figure {
                id: format!("percentiles-{}", index + 1),
                title: titled("One-way delay by percentile", &common),
                caption: format!("{}{}", drawn.caption, series::repeats_note(group)),
                ..drawn
            }
        })
        .collect();
    section(m, "percentiles", "Percentiles of the delay", |m| {
        m.tag("p").class("hint").text(
            "The whole device under test, with a figure for each offered rate if there are several devices. Point at a \
             figure, or move through it with the arrow keys, to read its values; the CSV contains the same numbers.",
        );
        draw(m, &figures, Size::Wide, OPEN, count);
    });
}

/// A curve's name: the keys that distinguish the curves of its group, or all factors if it is the only one.
fn name(curve: &Curve<'_>, keys: &[&str]) -> String {
    if keys.is_empty() { curve.name(&["dut.kind"]) } else { curve.name(keys) }
}

/// The delay distribution for each number of packets sent back to back, with one figure per scenario.
pub fn bursts(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    if !page.run.factors.iter().any(|factor| factor == BURST) {
        return;
    }
    let others: Vec<String> = page.run.factors.iter().filter(|key| *key != BURST).cloned().collect();
    let mut groups = vec![series::representatives(page)];
    for key in &others {
        groups = groups.iter().flat_map(|group| series::apart(group, key)).collect();
    }
    let groups = groups.into_iter().filter(|group| group.len() > 1);
    let groups = groups.flat_map(|group| series::grouped(group, &page.run.factors, CURVES));
    let figures: Vec<Figure> =
        groups.enumerate().map(|(index, group)| distribution(page, index, &group)).collect();
    if figures.is_empty() {
        return;
    }
    section(m, "bursts", "Bursts", |m| {
        m.tag("p").class("hint").text(
            "Packets sent back to back wait for each other: the share of packets that wait grows with the burst, \
             and the maximum delay grows by the service time of each packet ahead.",
        );
        draw(m, &figures, Size::Half, 2 * OPEN, count);
    });
}

fn distribution(page: &Page<'_>, index: usize, group: &[Curve<'_>]) -> Figure {
    let (common, _) = series::shared(group, &page.run.factors, &[BURST]);
    let curve = |curve: &Curve<'_>| {
        let total = curve.summary.delay.count.max(1) as f64;
        let points = &curve.summary.curve;
        plain(
            curve.name(&[BURST]),
            points.iter().map(|point| point.delay_ns as f64).collect(),
            points.iter().map(|point| point.cumulative as f64 / total).collect(),
        )
    };
    Figure {
        id: format!("bursts-{}", index + 1),
        title: titled("Share of packets within a delay", &common),
        caption: format!("The exact distribution of each trial.{}", series::repeats_note(group)),
        x: axis("one-way delay", "delay_ns", Unit::Nanoseconds, Scale::Log),
        y: axis("share of packets within this delay", "share", Unit::Ratio, Scale::Linear),
        mark: Mark::Line,
        series: group.iter().map(curve).collect(),
        lines: Vec::new(),
    }
}

/// The highest delay of each interval, for trials that are long enough. Every repeat is shown, because the
/// worst case differs between repeats.
pub fn over_time(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    let long = page.run.trials.iter().filter_map(|trial| {
        let summary = page.summary(trial, 0)?;
        let end = summary.intervals.last().map(|last| last.start_ns.saturating_add(last.length_ns))?;
        let scenario = Scenario::of(page.run, trial, &[]);
        (end - summary.intervals[0].start_ns >= SOAK_NS).then_some(Curve {
            trial,
            summary,
            scenario,
            repeats: 1,
        })
    });
    let groups: Vec<_> = series::apart(&long.collect::<Vec<_>>(), RATE)
        .into_iter()
        .flat_map(|same| series::grouped(same, &page.run.factors, CURVES_OVER_TIME))
        .collect();
    if groups.is_empty() {
        return;
    }
    let figures: Vec<Figure> =
        groups.iter().enumerate().map(|(index, group)| course(page, index, group)).collect();
    section(m, "over-time", "Worst case over time", |m| draw(m, &figures, Size::Wide, OPEN, count));
}

fn course(page: &Page<'_>, index: usize, group: &[Curve<'_>]) -> Figure {
    let (common, keys) = series::shared(group, &page.run.factors, &[]);
    let curve = |curve: &Curve<'_>| {
        let intervals = &curve.summary.intervals;
        let mut name = name(curve, &keys);
        if page.repeated() {
            name.push_str(&format!(", repeat {}", curve.trial.repeat));
        }
        plain(
            name,
            intervals.iter().map(|interval| interval.start_ns as f64 / 1e9).collect(),
            intervals.iter().map(|interval| interval.max_ns as f64).collect(),
        )
    };
    let lengths = group.iter().filter_map(|curve| curve.summary.intervals.first()).map(|i| i.length_ns);
    let length = crate::format::duration_short(lengths.max().unwrap_or(0) as f64);
    Figure {
        id: format!("over-time-{}", index + 1),
        title: titled("Largest delay over time", &common),
        caption: format!(
            "The worst packet of each interval of {length}. A steady level with rare peaks indicates a \
             device that keeps up; peaks at regular distances indicate a periodic cause; a rising level \
             indicates a queue that fills."
        ),
        x: axis("time since the first egress packet", "time_s", Unit::Seconds, Scale::Linear),
        y: axis("largest one-way delay", "delay_ns", Unit::Nanoseconds, Scale::Log),
        mark: Mark::Step,
        series: group.iter().map(curve).collect(),
        lines: Vec::new(),
    }
}

/// Draws the segments of each scenario in one figure, if there are several. The figure shows which hop adds
/// the tail.
pub fn segments(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    let mut figures = Vec::new();
    for curve in series::representatives(page) {
        let segments = curve.trial.segments.iter().enumerate();
        let summaries = segments.filter_map(|(index, segment): (usize, &SegmentRecord)| {
            Some((segment.name.as_str(), page.summary(curve.trial, index)?))
        });
        let drawn = comparison::percentiles(summaries.take(CURVES));
        if drawn.series.len() > 1 {
            let keys: Vec<&str> = page.run.factors.iter().map(String::as_str).collect();
            let title = titled("Segments by percentile", &curve.name(&keys));
            figures.push(Figure { id: format!("segments-{}", figures.len() + 1), title, ..drawn });
        }
    }
    if !figures.is_empty() {
        section(m, "segment-percentiles", "Percentiles by segment", |m| {
            draw(m, &figures, Size::Wide, OPEN, count);
        });
    }
}
