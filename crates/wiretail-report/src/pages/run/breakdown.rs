//! Breakdown of the delay into devices and infrastructure, and the delay that a device adds to that of the
//! skeleton.

use std::borrow::Cow;

use wiretail_schema::run::breakdown::{AddedDelay, Addition, Breakdown, BreakdownDelays};
use wiretail_schema::run::scenario::Scenario;
use wiretail_schema::run::{TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;
use wiretail_schema::summary::figure::{Figure, Mark, Scale, Series, Unit};
use wiretail_schema::units::Share;

use super::figures::{axis, draw, plain, titled};
use super::numbers::{in_order, none};
use super::series::{self, CURVES};
use super::{Page, counted};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::comparison::percentile_cell;
use crate::pages::page;
use crate::pages::tables::above;
use crate::plot::Size;

/// Percentiles in the table of the breakdown.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// Percentiles in the table of added delays.
const ADDED: [f64; 3] = [50.0, 99.0, 99.9];
const ROWS: usize = 45;
/// Number of figures of either kind that are unfolded.
const OPEN: usize = 4;
/// Maximum number of curves that are drawn with confidence intervals. With more curves, the intervals would
/// hide each other.
const BANDS: usize = 3;

/// The section; empty if no trial has a breakdown.
pub fn section(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    if page.run.trials.iter().all(|trial| trial.breakdown.is_empty()) {
        return;
    }
    page::section(m, "shares", "Infrastructure and devices", |m| {
        m.tag("p").class("hint").text(
            "The delay of each packet that passes a switch has two parts. The time in the devices (VNFs) \
             lasts from the tap upstream of each device to the tap downstream of it. The rest is \
             infrastructure: switch, links and their queues. Both parts are exact for each packet. Means add \
             up; percentiles do not, because the worst packets of the parts are not the same.",
        );
        draw(m, &distributions(page), Size::Half, OPEN, count);
        folded(m, "Breakdown of each trial", breakdown_rows(page), &breakdown_head());
        m.tag("p").class("rests").text(
            "Packets not seen at every tap are counted, but excluded from all three distributions. Point at \
             a percentile for its 95\u{a0}% confidence interval and the number of packets beyond it. \
             Percentiles in italics are based on fewer than ten packets.",
        );
    });
    additions(m, page, count);
}

/// A table, folded if it is long.
fn folded(m: &mut Markup, caption: &str, rows: Vec<Row>, names: &[Cow<'_, str>]) {
    if rows.len() <= ROWS {
        m.tag("div").class("broad").body(|m| table(m, caption, names, rows));
        return;
    }
    m.tag("details").body(|m| {
        m.tag("summary").body(|m| {
            m.tag("strong").text(caption);
            m.text(format_args!(": {}", counted(rows.len(), "row")));
        });
        m.tag("div").class("broad").body(|m| table(m, caption, names, rows));
    });
    m.line();
}

fn breakdown_head() -> Vec<Cow<'static, str>> {
    let mut names = head(["scenario", "direction", "share", "packets", "left out", "mean"]).to_vec();
    names.extend(PERCENTILES.map(|p| Cow::Owned(format!("p{}", format::short(p)))));
    names.push("max".into());
    names
}

fn breakdown_rows(page: &Page<'_>) -> Vec<Row> {
    let trials = in_order(page).into_iter();
    let mut rows = Vec::new();
    for (trial, breakdown) in
        trials.flat_map(|trial| trial.breakdown.iter().map(move |breakdown| (trial, breakdown)))
    {
        for (name, delays) in parts(breakdown) {
            let scenario = Cell::text(Scenario::of(page.run, trial, &[]));
            let scenario = if page.repeated() {
                scenario.note(format_args!("repeat {}", trial.repeat))
            } else {
                scenario
            };
            let mut cells = vec![scenario, Cell::text(&breakdown.segment), Cell::text(name)];
            cells.extend([Cell::count(breakdown.packets), left_out(breakdown)]);
            cells.extend(numbers(breakdown, delays));
            let class = if trial.state == TrialState::Invalid { "void" } else { "" };
            rows.push(Row { cells, class, beneath: Vec::new() });
        }
    }
    rows
}

fn parts(breakdown: &Breakdown) -> [(String, &BreakdownDelays); 3] {
    let devices = counted(breakdown.devices, "device");
    [
        ("whole".to_owned(), &breakdown.whole),
        ("infrastructure".to_owned(), &breakdown.infrastructure),
        (devices, &breakdown.vnf),
    ]
}

fn left_out(breakdown: &Breakdown) -> Cell {
    let all = breakdown.left_out + breakdown.contradictory;
    let cell = Cell::count(all).class(if all == 0 { "number zero" } else { "number" });
    match breakdown.contradictory {
        0 => cell,
        some => cell.exact(format_args!("{some} of them because their timestamps contradict each other")),
    }
}

fn numbers(breakdown: &Breakdown, delays: &BreakdownDelays) -> Vec<Cell> {
    if breakdown.packets == 0 {
        return (0..PERCENTILES.len() + 2).map(|_| none()).collect();
    }
    let mut cells = vec![Cell::ns_mean(delays.mean_ns)];
    cells.extend(PERCENTILES.map(|wanted| {
        let found = delays.percentiles.iter().find(|p| p.percentile == wanted);
        found.map_or_else(none, |p| {
            let high = p.high_ns.map_or("open".to_owned(), format::exact_ns);
            let (value, low) = (format::exact_ns(p.value_ns), format::exact_ns(p.low_ns));
            let beyond = above(wanted, breakdown.packets);
            percentile_cell(p)
                .exact(format_args!("{value}; 95 % CI {low} to {high}; n(1−p) = {beyond} packets"))
        })
    }));
    cells.push(Cell::ns(delays.max_ns));
    cells
}

/// The three distributions in one figure, for each scenario and direction.
fn distributions(page: &Page<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let curves = series::representatives(page);
    for curve in &curves {
        let Some(found) = page.curves.iter().find(|c| c.trial == curve.trial.number) else { continue };
        for (curves, breakdown) in found.curves.iter().zip(&curve.trial.breakdown) {
            let keys: Vec<&str> = page.run.factors.iter().map(String::as_str).collect();
            let mut title = curve.name(&keys);
            if found.curves.len() > 1 || curves.segment != "forward" {
                title = format!("{title}, {}", curves.segment);
            }
            let devices = if breakdown.devices == 1 { "the device" } else { "the devices" };
            let series = vec![
                distribution("whole path", &curves.whole, &breakdown.whole, breakdown.packets),
                distribution(
                    "infrastructure",
                    &curves.infrastructure,
                    &breakdown.infrastructure,
                    breakdown.packets,
                ),
                distribution(devices, &curves.vnf, &breakdown.vnf, breakdown.packets),
            ];
            figures.push(Figure {
                id: format!("shares-{}", figures.len() + 1),
                title: titled("Breakdown of the delay", title.trim_start_matches(", ")),
                caption: format!(
                    "{} packets; nines are equally spaced. Where the curve of the whole path follows one \
                     of the others, that part causes the tail.{}",
                    format::count(breakdown.packets),
                    series::repeats_note(std::slice::from_ref(curve))
                ),
                x: axis("percentile", "percentile", Unit::Percentile, Scale::Nines),
                y: axis("delay", "delay_ns", Unit::Nanoseconds, Scale::Log),
                mark: Mark::Line,
                series,
                lines: Vec::new(),
            });
        }
    }
    figures
}

/// A curve that ends at the largest delay. The largest delay is drawn above the last share below 100 %.
fn distribution(name: &str, points: &[Percentile], delays: &BreakdownDelays, packets: u64) -> Series {
    let mut points: Vec<(f64, i64, bool)> =
        points.iter().map(|p| (p.percentile, p.value_ns, p.supported)).collect();
    if packets > 1 {
        let last = 100.0 * (packets - 1) as f64 / packets as f64;
        points.retain(|(percentile, ..)| *percentile < last);
        points.push((last, delays.max_ns, false));
    }
    let (x, y) = points.iter().map(|(percentile, ns, _)| (*percentile, *ns as f64)).unzip();
    Series { supported: points.iter().map(|p| p.2).collect(), ..plain(name.to_owned(), x, y) }
}

/// The delay that devices add to the skeleton, by percentile.
fn additions(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    if page.additions.is_empty() {
        return;
    }
    page::section(m, "added", "Delay that the VNF adds to the skeleton", |m| added(m, page, count));
}

fn added(m: &mut Markup, page: &Page<'_>, count: &mut usize) {
    m.tag("p").class("hint").text(
        "Each percentile of the devices' delay minus the same percentile of the skeleton application's \
         delay; the skeleton ran in the same place under the same load. It forwards packets and does nothing \
         else, so the difference is the cost of the work itself.",
    );
    draw(m, &added_figures(page), Size::Wide, OPEN, count);
    let rows: Vec<Row> = page.additions.iter().filter_map(|addition| added_row(page, addition)).collect();
    let mut names = head(["scenario", "direction", "beyond"]).to_vec();
    names.extend(ADDED.map(|p| Cow::Owned(format!("p{}", format::short(p)))));
    names.push("max".into());
    folded(m, "Delay added to the skeleton", rows, &names);
    m.tag("p").class("rests").text(
        "The interval below each difference holds with at least 95\u{a0}% confidence. Its bounds are the \
         extreme differences that the distribution-free 97.5\u{a0}% intervals of the two percentiles allow. \
         The interval is conservative, and holds for each percentile individually. Maxima are single packets \
         and have no interval.",
    );
}

fn trial<'a>(page: &Page<'a>, number: usize) -> Option<&'a TrialRecord> {
    page.run.trials.iter().find(|trial| trial.number == number)
}

/// The skeleton's factors except for the load: "skeleton, batch 32".
fn device_name(page: &Page<'_>, trial: &TrialRecord) -> String {
    let settings = Scenario::of(page.run, trial, &[]).settings.into_iter();
    let own = Scenario { settings: settings.filter(|s| s.key.starts_with("dut.")).collect() };
    own.to_string()
}

fn added_row(page: &Page<'_>, addition: &Addition) -> Option<Row> {
    let (of, base) = (trial(page, addition.trial)?, trial(page, addition.skeleton)?);
    let scenario = Cell::text(Scenario::of(page.run, of, &[]));
    let scenario =
        if page.repeated() { scenario.note(format_args!("repeat {}", of.repeat)) } else { scenario };
    let mut cells = vec![scenario, Cell::text(&addition.segment)];
    cells.push(Cell::text(device_name(page, base)).class("meaning"));
    cells.extend(ADDED.map(|wanted| at(addition, wanted).map_or_else(none, added_cell)));
    let max = addition.max_ns;
    cells.push(Cell::number(more(max as f64)).exact(format::exact_ns(max)));
    Some(cells.into())
}

fn at(addition: &Addition, percentile: f64) -> Option<&AddedDelay> {
    addition.points.iter().find(|point| point.percentile == percentile)
}

fn added_cell(point: &AddedDelay) -> Cell {
    let bound = |ns: Option<i64>| ns.map_or("open".to_owned(), |ns| more(ns as f64));
    let class = if point.supported { "number" } else { "number weak" };
    Cell::number(more(point.value_ns as f64))
        .exact(format::exact_ns(point.value_ns))
        .note(format_args!("{} to {}", bound(point.low_ns), bound(point.high_ns)))
        .class(class)
}

/// A figure for each skeleton scenario and direction, with a curve per device; several figures if there are
/// many devices.
fn added_figures(page: &Page<'_>) -> Vec<Figure> {
    let mut groups: Vec<(Scenario, &str, Vec<&Addition>)> = Vec::new();
    for addition in representatives(page) {
        let Some(base) = trial(page, addition.skeleton) else { continue };
        let scenario = Scenario::of(page.run, base, &[]);
        match groups.iter_mut().find(|(s, way, _)| *s == scenario && *way == addition.segment) {
            Some((.., group)) => group.push(addition),
            None => groups.push((scenario, &addition.segment, vec![addition])),
        }
    }
    let both = groups.iter().any(|(_, way, _)| *way != "forward");
    let mut figures = Vec::new();
    for (scenario, way, group) in &groups {
        for group in group.chunks(CURVES) {
            let way = if both { format!(", {}", way) } else { String::new() };
            let number = figures.len() + 1;
            figures.push(added_figure(page, number, &format!("beyond {scenario}{way}"), group));
        }
    }
    figures
}

/// Selects the repeat with the median p99.9 of the added delay.
fn representatives<'a>(page: &Page<'a>) -> Vec<&'a Addition> {
    let scenario = |number| trial(page, number).map(|trial| Scenario::of(page.run, trial, &[]));
    let same = |a: &Addition, b: &Addition| {
        a.segment == b.segment
            && scenario(a.trial) == scenario(b.trial)
            && scenario(a.skeleton) == scenario(b.skeleton)
    };
    let mut groups: Vec<Vec<&Addition>> = Vec::new();
    for addition in page.additions {
        match groups.iter_mut().find(|group| same(group[0], addition)) {
            Some(repeats) => repeats.push(addition),
            None => groups.push(vec![addition]),
        }
    }
    let median = |mut repeats: Vec<&'a Addition>| {
        repeats.sort_by_key(|addition| at(addition, 99.9).map_or(addition.max_ns, |point| point.value_ns));
        Share::MEDIAN.of(&repeats).copied()
    };
    groups.into_iter().filter_map(median).collect()
}

fn added_figure(page: &Page<'_>, number: usize, title: &str, group: &[&Addition]) -> Figure {
    let bands = group.len() <= BANDS;
    let curve = |addition: &&Addition| {
        let points = &addition.points;
        let bound = |of: &dyn Fn(&AddedDelay) -> f64| -> Vec<f64> {
            if bands { points.iter().map(of).collect() } else { Vec::new() }
        };
        let name = trial(page, addition.trial).map_or_else(String::new, |trial| device_name(page, trial));
        Series {
            low: bound(&|p| p.low_ns.map_or(f64::NEG_INFINITY, |ns| ns as f64)),
            high: bound(&|p| p.high_ns.map_or(f64::INFINITY, |ns| ns as f64)),
            supported: points.iter().map(|p| p.supported).collect(),
            ..plain(
                name,
                points.iter().map(|p| p.percentile).collect(),
                points.iter().map(|p| p.value_ns as f64).collect(),
            )
        }
    };
    // Differences of zero or below cannot be drawn on a logarithmic axis.
    let positive = group.iter().flat_map(|addition| &addition.points).all(|point| point.value_ns > 0);
    let band = match bands {
        true => {
            " The band is an interval of at least 95\u{a0}% at each percentile, open where no packet bounds it."
        }
        false => " The table contains the intervals.",
    };
    let repeats = if page.repeated() {
        " Among repeats, the one with the median p99.9 is shown; repeats are not pooled."
    } else {
        ""
    };
    Figure {
        id: format!("added-{number}"),
        title: titled("Delay that the VNF adds to the skeleton, by percentile", title),
        caption: format!(
            "Quantile function of the devices' delay minus the skeleton's delay.{band}{repeats}"
        ),
        x: axis("percentile", "percentile", Unit::Percentile, Scale::Nines),
        y: axis(
            "added delay",
            "added_ns",
            Unit::Nanoseconds,
            if positive { Scale::Log } else { Scale::Linear },
        ),
        mark: Mark::Line,
        series: group.iter().map(curve).collect(),
        lines: Vec::new(),
    }
}

/// A difference with its sign: "+1.2 µs".
fn more(ns: f64) -> String {
    let shown = format::duration(ns);
    if ns > 0.0 { format!("+{shown}") } else { shown }
}
