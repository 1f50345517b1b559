//! The figures of the sample, from its numbers.

use std::collections::BTreeMap;

use wiretail_schema::summary::figure::*;
use wiretail_schema::summary::{Capture, Summary};

use crate::numbers::{Packets, percentiles as percentiles_of};

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

/// All figures, in the order in which the page shows them.
pub fn all(summary: &Summary, packets: &Packets) -> Vec<Figure> {
    vec![
        percentiles(summary, packets),
        worst(summary),
        cdf(summary),
        histogram(packets),
        gaps(packets),
        rates(summary),
        interval_max(summary),
    ]
}

fn percentiles(summary: &Summary, packets: &Packets) -> Figure {
    let mut sorted = packets.delay_ns.clone();
    sorted.sort_unstable();
    // The percentiles of the tables, and thirty more per nine in between, which show the shape of the curve.
    let mut wanted: Vec<f64> = summary.delay.percentiles.iter().map(|p| p.percentile).collect();
    wanted.extend((1..165).map(|i| ((1.0 - 10_f64.powf(-f64::from(i) / 30.0)) * 1e9).round() / 1e7));
    wanted.sort_by(f64::total_cmp);
    let all = percentiles_of(&sorted, &wanted);
    let points = series("one-way delay", all.iter().map(|p| (p.percentile, p.value_ns as f64)));
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
        figure("percentiles", "One-way delay by percentile", caption, axes, Mark::Step, vec![points]);
    Figure { lines: budgets(summary, AxisName::Y), ..figure }
}

fn worst(summary: &Summary) -> Figure {
    let first = summary.post.first_ns;
    let mut by_time: Vec<_> = summary.worst.iter().collect();
    by_time.sort_by_key(|w| w.post_ns);
    let points = by_time.iter().map(|w| ((w.post_ns - first) as f64 / 1e9, w.delay_ns as f64));
    let caption = "The 5000 packets with the highest delay, at the time of their arrival. Columns at even distances \
                   point to something periodic.";
    let axes = [time(), delay(Scale::Log)];
    let all = vec![series("worst packets", points)];
    let figure = figure("worst", "The worst packets over time", caption, axes, Mark::Point, all);
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

fn gaps(packets: &Packets) -> Figure {
    let one = |name: &str, timestamps: &[i64]| {
        let counts = buckets(timestamps.windows(2).map(|w| w[1] - w[0]), 1000);
        // Every bucket between the first and the last, including empty buckets.
        let (first, last) = (counts.x[0] as i64, counts.x[counts.x.len() - 1] as i64);
        let count = |x: i64| counts.x.iter().position(|&at| at == x as f64).map_or(0.0, |i| counts.y[i]);
        series(name, (first..=last).step_by(1000).map(|x| (x as f64, count(x))))
    };
    let axes = [
        axis("gap", "gap_ns", Unit::Nanoseconds, Scale::Linear),
        axis("gaps", "gaps", Unit::Packets, Scale::Log),
    ];
    let both = vec![one("ingress", &packets.pre_ns), one("egress", &post(packets))];
    let caption = "Time from each packet to the next on either wire, in buckets of 1 µs.";
    figure("gaps", "Gaps between packets", caption, axes, Mark::Step, both)
}

fn rates(summary: &Summary) -> Figure {
    let one = |name: &str, capture: &Capture| {
        // The last second is incomplete.
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
    figure(
        "interval-max",
        "Largest and smallest delay over time",
        caption,
        [time(), delay(Scale::Log)],
        Mark::Step,
        both,
    )
}
