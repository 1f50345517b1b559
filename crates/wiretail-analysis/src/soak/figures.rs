//! Plots of a soak: those plots of an analysis that can be drawn from a soak's records.

use wiretail_schema::summary::Summary;
use wiretail_schema::summary::figure::{Figure, Mark, Scale, Unit};

use super::SoakTotals;
use crate::stats::counts::Counts;
use crate::summary::figures::{axis, cdf, histogram, interval_extremes, percentiles, series, worst};

/// All plots, in the order shown. Gaps between packets are not plotted.
pub(super) fn figures(totals: &SoakTotals, summary: &Summary, delays: &Counts) -> Vec<Figure> {
    vec![
        percentiles(summary, delays),
        worst(summary),
        cdf(summary),
        histogram(summary, delays),
        interval_extremes(summary),
        rates(totals),
    ]
}

fn rates(totals: &SoakTotals) -> Figure {
    let mut length_ns = 0;
    let curves = [("ingress", &totals.pre), ("egress", &totals.post)].map(|(name, tap)| {
        let points = tap.rate_points.result();
        length_ns = points.first().map_or(length_ns, |point| point.length_ns);
        series(
            name,
            points.iter().map(|point| point.start_ns as f64 / 1e9).collect(),
            points.iter().map(|point| point.packets as f64 * 1e9 / point.length_ns as f64).collect(),
        )
    });
    Figure {
        id: "rates".to_owned(),
        title: "Packet rate".to_owned(),
        caption: format!(
            "Mean rate on each wire, per {} s; the first and the last interval are usually incomplete.",
            length_ns as f64 / 1e9
        ),
        x: axis("time since the first second", "time_s", Unit::Seconds, Scale::Linear),
        y: axis("packet rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear),
        mark: Mark::Step,
        series: curves.into(),
        lines: vec![],
    }
}
