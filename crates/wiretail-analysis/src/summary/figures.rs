//! The plots of a report, as data.

use wiretail_schema::run::interval::{bucket, bucket_bounds};
use wiretail_schema::summary::Summary;
use wiretail_schema::summary::figure::{Axis, AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};
use wiretail_schema::units::{Share, thousands};

use crate::metrics::tap::TapTally;
use crate::stats::counts::Counts;
use crate::stats::quantile::{curve_shares, percentiles_at};

/// Maximum number of bars in a histogram.
const BARS_MAX: f64 = 80.0;
/// Longest silence, in seconds, that the rate shows as zeros.
const SILENCE_MAX_S: i64 = 600;

/// All plots, in the order shown.
pub fn figures(summary: &Summary, delays: &Counts, pre: &TapTally, post: &TapTally) -> Vec<Figure> {
    vec![
        percentiles(summary, delays),
        worst(summary),
        cdf(summary),
        histogram(summary, delays),
        interval_extremes(summary),
        gaps(summary, pre, post),
        rates(summary),
    ]
}

pub(crate) fn axis(label: &str, column: &str, unit: Unit, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), column: column.to_owned(), unit, scale }
}

fn delay_axis(scale: Scale) -> Axis {
    axis("one-way delay", "delay_ns", Unit::Nanoseconds, scale)
}

pub(crate) fn series(name: &str, x: Vec<f64>, y: Vec<f64>) -> Series {
    Series { name: name.to_owned(), x, y, low: vec![], high: vec![], supported: vec![], bar_width: None }
}

/// Budgets as reference lines. A budget that would compress the data is left out. On a logarithmic axis, this
/// is a budget above a hundred times the largest value; on a linear axis, above twice the largest value.
fn budget_lines(summary: &Summary, on: AxisName, scale: Scale) -> Vec<ReferenceLine> {
    let reach = if scale == Scale::Log { 100 } else { 2 };
    let near = |limit: i64| limit <= summary.delay.max_ns.saturating_mul(reach);
    let verdicts = summary.verdicts.iter().filter(|verdict| near(verdict.limit_ns));
    verdicts
        .map(|verdict| ReferenceLine { on, value: verdict.limit_ns as f64, label: verdict.budget.clone() })
        .collect()
}

pub(crate) fn percentiles(summary: &Summary, delays: &Counts) -> Figure {
    let n = delays.count();
    let points = percentiles_at(delays, &curve_shares(n));
    let mut line = series(
        "one-way delay",
        points.iter().map(|p| p.percentile).collect(),
        points.iter().map(|p| p.value_ns as f64).collect(),
    );
    line.low = points.iter().map(|p| p.low_ns as f64).collect();
    line.high = points.iter().map(|p| p.high_ns.map_or(f64::INFINITY, |high| high as f64)).collect();
    line.supported = points.iter().map(|p| p.supported).collect();
    Figure {
        id: "percentiles".to_owned(),
        title: "Percentile distribution".to_owned(),
        caption: format!(
            "Each additional nine has the same width, at position log10(1/(1-p)). Nearest-rank percentiles of {} \
             packets. The band is the distribution-free 95 % confidence interval. It is open at the top where it reaches \
             the largest value, and faint where fewer than ten packets lie above it.",
            thousands(n),
        ),
        x: axis("percentile", "percentile", Unit::Percentile, Scale::Nines),
        y: delay_axis(Scale::Log),
        mark: Mark::Step,
        series: vec![line],
        lines: budget_lines(summary, AxisName::Y, Scale::Log),
    }
}

pub(crate) fn worst(summary: &Summary) -> Figure {
    let seconds = |ns: i64| (ns - summary.post.first_ns) as f64 / 1e9;
    let mut by_time: Vec<_> = summary.worst.iter().collect();
    by_time.sort_by_key(|worst| worst.post_ns);
    let points = series(
        "worst packets",
        by_time.iter().map(|worst| seconds(worst.post_ns)).collect(),
        by_time.iter().map(|worst| worst.delay_ns as f64).collect(),
    );
    Figure {
        id: "worst".to_owned(),
        title: format!("The {} worst packets over time", thousands(summary.worst.len() as u64)),
        caption:
            "Each point is a packet at its arrival time. Horizontal lines show regular interruptions; a \
                  drifting pattern shows a timer that beats against the packet rate."
                .to_owned(),
        x: axis("time since the first egress packet", "time_s", Unit::Seconds, Scale::Linear),
        y: delay_axis(Scale::Log),
        mark: Mark::Point,
        series: vec![points],
        lines: budget_lines(summary, AxisName::Y, Scale::Log),
    }
}

pub(crate) fn cdf(summary: &Summary) -> Figure {
    let n = summary.delay.count as f64;
    let line = series(
        "one-way delay",
        summary.curve.iter().map(|point| point.delay_ns as f64).collect(),
        summary.curve.iter().map(|point| point.cumulative as f64 / n).collect(),
    );
    Figure {
        id: "cdf".to_owned(),
        title: "Cumulative distribution".to_owned(),
        caption: "Share of the arrived packets at or below each delay.".to_owned(),
        x: delay_axis(Scale::Log),
        y: axis("share of packets", "share", Unit::Ratio, Scale::Linear),
        mark: Mark::Step,
        series: vec![line],
        lines: vec![],
    }
}

/// Counts in bins of equal width, from `from_ns` up to and including the bin of `to_ns`.
struct Bins {
    from_ns: i64,
    width_ns: i64,
    counts: Vec<u64>,
    beyond: u64,
}

impl Bins {
    /// Creates bins of a round width: 1, 2 or 5 times a power of ten, and a multiple of the timestamp
    /// granularity.
    fn new(counts: &Counts, from_ns: i64, to_ns: i64, granularity_ns: f64) -> Self {
        let width_ns = round_width((to_ns - from_ns) as f64 / BARS_MAX, granularity_ns);
        let from_ns = from_ns.div_euclid(width_ns) * width_ns;
        let bins = (to_ns - from_ns) / width_ns + 1;
        let mut bins = Self { from_ns, width_ns, counts: vec![0; bins as usize], beyond: 0 };
        counts.for_each(|value, count| {
            let bin = (value - bins.from_ns).div_euclid(bins.width_ns);
            match usize::try_from(bin).ok().and_then(|bin| bins.counts.get_mut(bin)) {
                Some(cell) => *cell += count,
                None => bins.beyond += count,
            }
        });
        bins
    }

    fn lefts(&self) -> Vec<f64> {
        (0..self.counts.len() as i64).map(|i| (self.from_ns + i * self.width_ns) as f64).collect()
    }

    fn heights(&self) -> Vec<f64> {
        self.counts.iter().map(|count| *count as f64).collect()
    }
}

/// The smallest width of at least `least` that is 1, 2 or 5 times a power of ten ns. If that is not a
/// multiple of the timestamp granularity, it is multiplied by the granularity. The reason is that bins with
/// unequal numbers of possible timestamps would show a pattern that is not in the data.
fn round_width(least: f64, granularity_ns: f64) -> i64 {
    let decades = (0..19).map(|decade| 10f64.powi(decade));
    let steps = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * decade));
    let fits = |width: f64| granularity_ns <= 1.0 || (width / granularity_ns).fract() == 0.0;
    let widths = steps.map(|step| if fits(step) { step } else { step * granularity_ns });
    widths.filter(|width| *width >= least.max(1.0) && width.fract() == 0.0).fold(i64::MAX as f64, f64::min)
        as i64
}

fn at_percentile(percentiles: &[wiretail_schema::summary::Percentile], wanted: f64) -> Option<i64> {
    percentiles.iter().find(|p| p.percentile == wanted).map(|p| p.value_ns)
}

/// Granularity of the delays. It is at best the finer one of the two taps' granularities.
fn finer_granularity(summary: &Summary) -> f64 {
    summary.pre.clock.granularity_ns.min(summary.post.clock.granularity_ns)
}

/// Range of most delays (from, to) and the percentile of its upper end. The upper end is the 99.9th
/// percentile, or lower if a few distant packets would leave only a handful of bars for the others.
fn body(delays: &Counts) -> (i64, i64, f64) {
    let reaches = [999, 995, 990, 950, 900].map(|thousandths| thousandths * (Share::ONE / 1000));
    let at = |share: u64| percentiles_at(delays, &[share]).first().map_or(0, |p| p.value_ns);
    let range = |reach: u64| (at(Share::ONE - reach), at(reach));
    let (low, high) = range(reaches[4]);
    let wide = 10 * (high - low).max(1);
    let chosen = reaches.into_iter().find(|reach| {
        let (from, to) = range(*reach);
        to - from <= wide
    });
    let reach = chosen.unwrap_or(reaches[4]);
    let (from, to) = range(reach);
    (from, to, reach as f64 * 100.0 / Share::ONE as f64)
}

fn nth(percent: f64) -> String {
    let percent = (percent * 10.0).round() / 10.0;
    let ending = if percent == 0.1 || percent == 1.0 { "st" } else { "th" };
    format!("{percent}{ending}")
}

pub(crate) fn histogram(summary: &Summary, delays: &Counts) -> Figure {
    let (from, to, percent) = body(delays);
    // Bins narrower than the buckets of the delays would leave gaps between the bars.
    let bucket_ns = summary.delay.resolution.map_or(0.0, |_| {
        let (low, high) = bucket_bounds(bucket(to));
        (high - low + 1) as f64
    });
    let bins = Bins::new(delays, from, to, finer_granularity(summary).max(bucket_ns));
    let mut bars = series("one-way delay", bins.lefts(), bins.heights());
    bars.bar_width = Some(bins.width_ns as f64);
    Figure {
        id: "histogram".to_owned(),
        title: "Histogram".to_owned(),
        caption: format!(
            "Packets in bins of {} ns, from the {} to the {} percentile; {} packets beyond are shown \
             only in the percentile distribution.",
            thousands(bins.width_ns as u64),
            nth(100.0 - percent),
            nth(percent),
            thousands(bins.beyond),
        ),
        x: delay_axis(Scale::Linear),
        y: axis("packets", "packets", Unit::Packets, Scale::Linear),
        mark: Mark::Bar,
        series: vec![bars],
        lines: vec![],
    }
}

pub(crate) fn interval_extremes(summary: &Summary) -> Figure {
    let x: Vec<f64> = summary.intervals.iter().map(|i| i.start_ns as f64 / 1e9).collect();
    let length = summary.intervals.first().map_or(0, |i| i.length_ns);
    Figure {
        id: "interval-max".to_owned(),
        title: "Largest and smallest delay over time".to_owned(),
        caption: format!(
            "Per interval of {} s. A rising lower line shows clock drift; a rising upper line shows a queue that fills.",
            length as f64 / 1e9,
        ),
        x: axis("time since the first egress packet", "time_s", Unit::Seconds, Scale::Linear),
        y: delay_axis(Scale::Log),
        mark: Mark::Step,
        series: vec![
            series("largest", x.clone(), summary.intervals.iter().map(|i| i.max_ns as f64).collect()),
            series("smallest", x, summary.intervals.iter().map(|i| i.min_ns as f64).collect()),
        ],
        lines: vec![],
    }
}

fn gaps(summary: &Summary, pre: &TapTally, post: &TapTally) -> Figure {
    let taps = [("ingress", &summary.pre, pre), ("egress", &summary.post, post)];
    let to = taps.iter().filter_map(|(_, capture, _)| at_percentile(&capture.gaps.percentiles, 99.9)).max();
    let from = taps.iter().map(|(_, capture, _)| capture.gaps.min_ns).min();
    let granularity = finer_granularity(summary);
    let (from, to) = (from.unwrap_or(0), to.unwrap_or(0).max(from.unwrap_or(0)));
    let mut width_ns = 0;
    let curves = taps.map(|(name, _, tap)| {
        let bins = Bins::new(tap.gap_counts(), from, to, granularity);
        width_ns = bins.width_ns;
        series(name, bins.lefts(), bins.heights())
    });
    Figure {
        id: "gaps".to_owned(),
        title: "Gaps between packets".to_owned(),
        caption: format!(
            "Time from each packet to the next on either wire, in bins of {} ns, up to the 99.9th percentile. The \
             device under test causes any difference between the curves.",
            thousands(width_ns as u64),
        ),
        x: axis("gap", "gap_ns", Unit::Nanoseconds, Scale::Linear),
        y: axis("gaps", "gaps", Unit::Packets, Scale::Log),
        mark: Mark::Step,
        series: curves.into(),
        lines: vec![],
    }
}

fn rates(summary: &Summary) -> Figure {
    let curves = [("ingress", &summary.pre), ("egress", &summary.post)].map(|(name, capture)| {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let mut next = capture.rate.first().map_or(0, |first| first.second);
        for second in &capture.rate {
            // Short silences are plotted as zeros; a longer silence leaves a gap in the plot.
            if second.second - next <= SILENCE_MAX_S {
                (next..second.second).for_each(|silent| {
                    x.push(silent as f64);
                    y.push(0.0);
                });
            }
            x.push(second.second as f64);
            y.push(second.packets as f64);
            next = second.second + 1;
        }
        series(name, x, y)
    });
    Figure {
        id: "rates".to_owned(),
        title: "Packet rate".to_owned(),
        caption: "Packets in each second since the first packet of either wire; the last second is usually incomplete."
            .to_owned(),
        x: axis("time since the first packet", "time_s", Unit::Seconds, Scale::Linear),
        y: axis("packet rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear),
        mark: Mark::Step,
        series: curves.into(),
        lines: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bin_width_is_round_and_a_multiple_of_the_granularity() {
        assert_eq!(round_width(0.3, 1.0), 1);
        assert_eq!(round_width(37.0, 1.0), 50);
        assert_eq!(round_width(37.0, 12.5), 50);
        assert_eq!(round_width(6.0, 12.5), 25);
        assert_eq!(round_width(3.0, 6.4), 32);
        assert_eq!(round_width(10.0, 1000.0), 1000);
    }

    #[test]
    fn outliers_do_not_flatten_the_histogram() {
        let mut counts = Counts::new(10);
        (0..10_000).for_each(|i| counts.add(3000 + i % 100));
        assert_eq!(body(&counts).2, 99.9);
        (0..20).for_each(|_| counts.add(700_000));
        let (from, to, percent) = body(&counts);
        assert_eq!((from, to, percent), (3000, 3099, 99.5));
        assert_eq!((nth(99.5), nth(100.0 - 99.9)), ("99.5th".to_owned(), "0.1st".to_owned()));
        assert_eq!(nth(100.0 - 99.0), "1st");
    }

    #[test]
    fn bins_count_every_value() {
        let mut counts = Counts::new(10);
        (0..1000).for_each(|i| counts.add(i * 7));
        let bins = Bins::new(&counts, 0, 5000, 1.0);
        assert_eq!(bins.counts.iter().sum::<u64>() + bins.beyond, 1000);
        assert_eq!(bins.width_ns, 100);
        // 0, 7, ... 98: fifteen values below 100.
        assert_eq!(bins.counts[0], 15);
    }
}
