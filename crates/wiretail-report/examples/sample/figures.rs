//! The figures of the sample, from its numbers.

use std::collections::BTreeMap;

use wiretail_schema::figure::*;
use wiretail_schema::summary::{Capture, Summary};

use crate::numbers::Packets;

fn axis(label: &str, column: &str, unit: Unit, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), column: column.to_owned(), unit, scale }
}

fn delay(scale: Scale) -> Axis {
    axis("one-way delay", "delay_ns", Unit::Nanoseconds, scale)
}

fn time() -> Axis {
    axis("time since the first packet", "time_s", Unit::Seconds, Scale::Linear)
}

fn series(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let (x, y) = points.into_iter().unzip();
    Series {
        name: name.to_owned(),
        x,
        y,
        low: Vec::new(),
        high: Vec::new(),
        supported: Vec::new(),
        bar_width: None,
    }
}

fn figure(id: &str, title: &str, caption: &str, axes: [Axis; 2], mark: Mark, series: Vec<Series>) -> Figure {
    let [x, y] = axes;
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        x,
        y,
        mark,
        series,
        lines: Vec::new(),
    }
}

fn budgets(summary: &Summary, on: AxisName) -> Vec<ReferenceLine> {
    let line = |v: &wiretail_schema::summary::Verdict| ReferenceLine {
        on,
        value: v.limit_ns as f64,
        label: format!("budget {}", v.budget),
    };
    summary.verdicts.iter().map(line).collect()
}

/// All figures, in the order shown.
pub fn all(summary: &Summary, packets: &Packets) -> Vec<Figure> {
    vec![
        percentiles(summary),
        worst(summary),
        cdf(summary),
        histogram(packets),
        gaps("gaps-pre", "Time between packets at ingress", &packets.pre_ns),
        gaps("gaps-post", "Time between packets at egress", &post(packets)),
        rates(summary),
        interval_max(summary),
    ]
}

fn percentiles(summary: &Summary) -> Figure {
    let all = &summary.delay.percentiles;
    let points = series("delay", all.iter().map(|p| (p.percentile, p.value_ns as f64)));
    let points = Series {
        low: all.iter().map(|p| p.low_ns as f64).collect(),
        high: all.iter().map(|p| p.high_ns.map_or(f64::INFINITY, |h| h as f64)).collect(),
        supported: all.iter().map(|p| p.supported).collect(),
        ..points
    };
    let caption = "Each further nine takes the same space. The band is the distribution-free 95 % confidence \
                   interval; where it has no upper end, no packet of this capture bounds the percentile from above.";
    let axes = [axis("percentile", "percentile", Unit::Percentile, Scale::Nines), delay(Scale::Log)];
    let figure =
        figure("percentiles", "One-way delay by percentile", caption, axes, Mark::Line, vec![points]);
    Figure { lines: budgets(summary, AxisName::Y), ..figure }
}

fn worst(summary: &Summary) -> Figure {
    let first = summary.pre.first_ns;
    let points = summary.worst.iter().map(|w| ((w.pre_ns - first) as f64 / 1e9, w.delay_ns as f64));
    let caption = "The 5000 packets with the highest delay, at the time they were sent. Columns at even distances \
                   point to something periodic.";
    let axes = [time(), delay(Scale::Linear)];
    let figure = figure(
        "worst",
        "The worst packets over time",
        caption,
        axes,
        Mark::Point,
        vec![series("delay", points)],
    );
    Figure { lines: budgets(summary, AxisName::Y), ..figure }
}

fn cdf(summary: &Summary) -> Figure {
    let n = summary.delay.count as f64;
    let points = summary.curve.iter().map(|p| (p.delay_ns as f64, p.cumulative as f64 / n));
    let caption = "Share of packets that arrived within each delay.";
    let axes = [delay(Scale::Log), axis("share of packets", "share", Unit::Ratio, Scale::Linear)];
    let figure =
        figure("cdf", "Cumulative distribution", caption, axes, Mark::Step, vec![series("delay", points)]);
    Figure { lines: budgets(summary, AxisName::X), ..figure }
}

fn buckets(values: impl Iterator<Item = i64>, width: i64) -> Series {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value.div_euclid(width) * width).or_default() += 1;
    }
    let points = counts.into_iter().map(|(bucket, count)| (bucket as f64, count as f64));
    Series { bar_width: Some(width as f64), ..series("packets", points) }
}

fn histogram(packets: &Packets) -> Figure {
    let bars = buckets(packets.delay_ns.iter().copied(), 100);
    let caption = "Packets in each 100 ns, both axes logarithmic so that single late packets stay visible.";
    let axes = [delay(Scale::Log), axis("packets", "packets", Unit::Packets, Scale::Log)];
    figure("histogram", "Histogram of the delay", caption, axes, Mark::Bar, vec![bars])
}

fn post(packets: &Packets) -> Vec<i64> {
    let mut all: Vec<i64> = packets.pre_ns.iter().zip(&packets.delay_ns).map(|(p, d)| p + d).collect();
    all.sort_unstable();
    all
}

fn gaps(id: &str, title: &str, stamps: &[i64]) -> Figure {
    let bars = buckets(stamps.windows(2).map(|w| w[1] - w[0]), 100);
    let axes = [
        axis("time to the next packet", "gap_ns", Unit::Nanoseconds, Scale::Linear),
        axis("gaps", "packets", Unit::Packets, Scale::Log),
    ];
    figure(id, title, "Gaps in each 100 ns.", axes, Mark::Bar, vec![bars])
}

fn rates(summary: &Summary) -> Figure {
    let one = |name: &str, capture: &Capture| {
        // The last second is not a whole one.
        let whole = &capture.rate[..capture.rate.len() - 1];
        series(name, whole.iter().map(|s| (s.second as f64, s.packets as f64)))
    };
    let axes = [time(), axis("packet rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear)];
    let both = vec![one("ingress", &summary.pre), one("egress", &summary.post)];
    figure("rates", "Packet rate", "Packets in each second at both taps.", axes, Mark::Step, both)
}

fn interval_max(summary: &Summary) -> Figure {
    let at = |start: i64| start as f64 / 1e9;
    let both = vec![
        series("largest", summary.intervals.iter().map(|i| (at(i.start_ns), i.max_ns as f64))),
        series("smallest", summary.intervals.iter().map(|i| (at(i.start_ns), i.min_ns as f64))),
    ];
    let caption = "Largest and smallest delay of each 250 ms. A slope of the lower curve is a drift between the clocks.";
    figure("interval-max", "Delay over time", caption, [time(), delay(Scale::Log)], Mark::Line, both)
}
