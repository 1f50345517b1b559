//! Renders data points as SVG paths. Each curve is one path regardless of its number of points, so that 5,000
//! points add only one element to the page.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use wiretail_schema::summary::figure::Series;

use crate::csv::length;
use crate::plot::scale::Ruler;

/// Position of a data point in the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position, counted downwards.
    pub y: f64,
    /// Whether the value is based on enough packets.
    pub supported: bool,
}

/// Path data of a curve, split into its supported and unsupported parts.
#[derive(Debug, Default, PartialEq)]
pub struct Paths {
    /// Supported part: based on enough packets.
    pub firm: String,
    /// Unsupported part.
    pub weak: String,
}

/// Returns the positions of a series' points; `None` for a point that a scale cannot show. Zeros on a
/// logarithmic scale are placed on `floor` if one is given.
pub fn spots(series: &Series, x: &Ruler, y: &Ruler, floor: Option<f64>) -> Vec<Option<Spot>> {
    let spot = |i: usize| {
        let supported = series.supported.get(i).copied().unwrap_or(true);
        Some(Spot {
            x: x.at(series.x[i])?,
            y: y.at(series.y[i]).or(floor.filter(|_| series.y[i] == 0.0))?,
            supported,
        })
    };
    (0..length(series)).map(spot).collect()
}

/// A line through the points, interrupted at points without a position. The piece that leads to an
/// unsupported point is drawn as unsupported.
pub fn line(spots: &[Option<Spot>]) -> Paths {
    let mut paths = Paths::default();
    let mut last_weak = None;
    for pair in spots.windows(2) {
        let [Some(a), Some(b)] = pair else {
            last_weak = None;
            continue;
        };
        let path = if b.supported { &mut paths.firm } else { &mut paths.weak };
        if last_weak != Some(!b.supported) {
            let _ = write!(path, "M{} {}", n(a.x), n(a.y));
        }
        let _ = write!(path, "L{} {}", n(b.x), n(b.y));
        last_weak = Some(!b.supported);
    }
    paths
}

/// A step line that holds each value until the next point. The last value is held for as long as the previous
/// one, but not beyond `right`. If the distance to the next point exceeds `longest`, intervals without
/// packets were left out, and the line is interrupted.
pub fn step(spots: &[Option<Spot>], right: f64, longest: f64) -> Paths {
    let mut paths = Paths::default();
    let mut open = None;
    for (index, spot) in spots.iter().enumerate() {
        let Some(a) = spot else {
            open = None;
            continue;
        };
        let path = if a.supported { &mut paths.firm } else { &mut paths.weak };
        if open == Some(a.supported) {
            let _ = write!(path, "V{}", n(a.y));
        } else {
            let _ = write!(path, "M{} {}", n(a.x), n(a.y));
        }
        let next = spots.get(index + 1).copied().flatten().map(|b| b.x);
        let before = index.checked_sub(1).and_then(|i| spots[i]).map(|b| 2.0 * a.x - b.x);
        let gap = next.is_some_and(|next| next - a.x > longest * 1.5);
        let end = next.filter(|_| !gap).or(before).unwrap_or(a.x + 1.0);
        let end = end.min(right).min(if gap || next.is_none() { a.x + longest } else { f64::INFINITY });
        let _ = write!(path, "H{}", n(end));
        open = (!gap).then_some(a.supported);
    }
    paths
}

/// Smallest distance between neighboring points. This is the regular distance, because some points may be
/// missing.
pub fn spacing(spots: &[Option<Spot>]) -> f64 {
    let pairs = spots.windows(2).filter_map(|pair| Some(pair[1]?.x - pair[0]?.x));
    pairs.fold(f64::INFINITY, f64::min)
}

/// Dots, drawn as strokes of zero length with round caps. Points that fall on the same tenth of a unit are
/// drawn once.
pub fn points(spots: &[Option<Spot>]) -> Paths {
    let mut paths = Paths::default();
    let mut seen = HashSet::new();
    for spot in spots.iter().flatten() {
        let path = if spot.supported { &mut paths.firm } else { &mut paths.weak };
        let (x, y) = (n(spot.x), n(spot.y));
        if seen.insert((x.clone(), y.clone())) {
            let _ = write!(path, "M{x} {y}h0");
        }
    }
    paths
}

/// Bars that extend upwards from the axis. If several bars fall into the same half unit, only the highest is
/// drawn.
pub fn bars(series: &Series, x: &Ruler, y: &Ruler) -> String {
    let width = series.bar_width.unwrap_or(0.0);
    let base = y.clamped(0.0);
    let mut columns: BTreeMap<i64, (f64, f64, f64)> = BTreeMap::new();
    for (&left, &value) in series.x.iter().zip(&series.y) {
        let Some(top) = y.at(value).filter(|_| value != 0.0) else { continue };
        let (from, to) = (x.clamped(left), x.clamped(left + width));
        let bar = columns.entry((from * 2.0).round() as i64).or_insert((from, to, top));
        *bar = (from, bar.1.max(to), bar.2.min(top));
    }
    let mut path = String::new();
    for (from, to, top) in columns.into_values() {
        // Leave a small gap between bars if there is room, and keep every bar wide enough to be visible.
        let width = (to - from - if to - from > 4.0 { 0.8 } else { 0.0 }).max(0.6);
        let _ = write!(path, "M{} {}V{}h{}V{}z", n(from), n(base), n(top), n(width), n(base));
    }
    path
}

/// The area between the bounds of the confidence interval, as two paths. The first path covers the points
/// with a known upper bound. The second covers the points without one; its area extends to the end of `y`.
/// With `stepped`, each bound is held until the next point, as in the curve.
pub fn band(series: &Series, x: &Ruler, y: &Ruler, stepped: bool) -> (String, String) {
    let count = length(series).min(series.low.len()).min(series.high.len());
    let place = |i: usize| {
        let low = series.low[i];
        let at = x.at(series.x[i])?;
        low.is_finite().then(|| (at, y.clamped(low), series.high[i]))
    };
    let mut closed = String::new();
    let mut open = String::new();
    for i in 1..count {
        let (Some((x0, low0, high0)), Some((x1, low1, high1))) = (place(i - 1), place(i)) else { continue };
        let (low1, high1) = if stepped { (low0, high0) } else { (low1, high1) };
        let bounded = high0.is_finite() && high1.is_finite();
        let high0 = if high0.is_finite() { y.clamped(high0) } else { y.end };
        let high1 = if high1.is_finite() { y.clamped(high1) } else { y.end };
        let path = if bounded { &mut closed } else { &mut open };
        let _ =
            write!(path, "M{} {}L{} {}V{}L{} {}z", n(x0), n(low0), n(x1), n(low1), n(high1), n(x0), n(high0));
    }
    (closed, open)
}

/// Thins out points without changing the line: keeps the first, last, highest and lowest point of each unit
/// of width.
pub fn thinned(spots: Vec<Option<Spot>>) -> Vec<Option<Spot>> {
    const ENOUGH: usize = 3000;
    if spots.len() <= ENOUGH {
        return spots;
    }
    let mut kept = Vec::new();
    for column in spots.chunk_by(|a, b| match (a, b) {
        (Some(a), Some(b)) => a.x.floor() == b.x.floor(),
        _ => false,
    }) {
        let height = |i: &usize| column[*i].map_or(0.0, |s| s.y);
        let highest = (0..column.len()).min_by(|a, b| height(a).total_cmp(&height(b)));
        let lowest = (0..column.len()).max_by(|a, b| height(a).total_cmp(&height(b)));
        let mut indices = vec![0, column.len() - 1];
        indices.extend(highest);
        indices.extend(lowest);
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|i| column[i]));
    }
    kept
}

/// Shapes that distinguish curves without color. They are drawn at points along the curve that are at least
/// `apart` from each other.
pub fn shapes(spots: &[Option<Spot>], index: usize, apart: f64) -> String {
    let mut path = String::new();
    let mut next = f64::NEG_INFINITY;
    for (position, spot) in spots.iter().flatten().enumerate() {
        if position == 0 {
            next = spot.x + apart * (0.35 + 0.25 * (index % 4) as f64);
        }
        if spot.x >= next {
            path.push_str(&shape(index, spot.x, spot.y));
            next = spot.x + apart;
        }
    }
    path
}

/// The shape for the curve with this index, repeating circle, square, triangle, diamond.
pub fn shape(index: usize, x: f64, y: f64) -> String {
    let at = |dx: f64, dy: f64| format!("M{} {}", n(x + dx), n(y + dy));
    match index % 4 {
        0 => format!("{}a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z", at(-3.4, 0.0)),
        1 => format!("{}h6v6h-6z", at(-3.0, -3.0)),
        2 => format!("{}l4 6.8h-8z", at(0.0, -4.2)),
        _ => format!("{}l4.2 4.2l-4.2 4.2l-4.2 -4.2z", at(0.0, -4.2)),
    }
}

/// Formats a coordinate with one decimal; a tenth of a unit is below the resolution of a screen.
pub fn n(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Adding zero turns -0 into 0.
    format!("{}", rounded + 0.0)
}

#[cfg(test)]
mod tests {
    use wiretail_schema::summary::figure::Scale;

    use super::*;
    use crate::plot::scale::Extent;

    fn spot(x: f64, y: f64, supported: bool) -> Option<Spot> {
        Some(Spot { x, y, supported })
    }

    fn rulers() -> (Ruler, Ruler) {
        let domain = Extent { low: 0.0, high: 10.0 };
        (Ruler::new(Scale::Linear, domain, 0.0, 100.0), Ruler::new(Scale::Linear, domain, 100.0, 0.0))
    }

    #[test]
    fn lines_break_at_missing_points_and_weaken_at_unsupported_ones() {
        let spots = [
            spot(0.0, 1.0, true),
            spot(1.0, 2.0, true),
            None,
            spot(3.0, 4.0, true),
            spot(4.0, 5.0, true),
            spot(5.0, 6.0, false),
        ];
        let paths = line(&spots);
        assert_eq!(paths.firm, "M0 1L1 2M3 4L4 5");
        assert_eq!(paths.weak, "M4 5L5 6");
    }

    #[test]
    fn steps_hold_every_value_including_the_last() {
        let spots = [spot(0.0, 5.0, true), spot(10.0, 7.0, true), spot(20.0, 6.0, true)];
        assert_eq!(step(&spots, 100.0, f64::INFINITY).firm, "M0 5H10V7H20V6H30");
        assert_eq!(step(&spots, 25.0, f64::INFINITY).firm, "M0 5H10V7H20V6H25");
    }

    #[test]
    fn steps_do_not_bridge_omitted_intervals() {
        let spots = [0.0, 10.0, 20.0, 50.0, 60.0].map(|x| spot(x, 5.0, true));
        assert_eq!(spacing(&spots), 10.0);
        assert_eq!(step(&spots, 100.0, 10.0).firm, "M0 5H10V5H20V5H30M50 5H60V5H70");
        let spots = [0.0, 10.0, 50.0].map(|x| spot(x, 5.0, true));
        assert_eq!(step(&spots, 100.0, 10.0).firm, "M0 5H10V5H20M50 5H60");
    }

    #[test]
    fn coinciding_dots_are_drawn_once() {
        let spots = [spot(1.0, 1.0, true), spot(1.01, 1.0, true), spot(2.0, 1.0, false)];
        let paths = points(&spots);
        assert_eq!((paths.firm.as_str(), paths.weak.as_str()), ("M1 1h0", "M2 1h0"));
    }

    #[test]
    fn bars_rise_from_zero_and_an_open_band_reaches_the_top() {
        let (x, y) = rulers();
        let mut series = Series {
            name: String::new(),
            x: vec![1.0, 2.0],
            y: vec![5.0, 0.0],
            low: Vec::new(),
            high: Vec::new(),
            supported: Vec::new(),
            bar_width: Some(1.0),
        };
        assert_eq!(bars(&series, &x, &y), "M10 100V50h9.2V100z");
        series.low = vec![4.0, 0.0];
        series.high = vec![6.0, f64::NAN];
        assert_eq!(band(&series, &x, &y, false), (String::new(), "M10 60L20 100V0L10 40z".to_owned()));
        assert_eq!(band(&series, &x, &y, true), ("M10 60L20 60V40L10 40z".to_owned(), String::new()));
    }

    #[test]
    fn zeros_are_drawn_on_the_log_axis() {
        let domain = Extent { low: 0.5, high: 100.0 };
        let (x, y) = (rulers().0, Ruler::new(Scale::Log, domain, 100.0, 0.0));
        let series = Series {
            name: String::new(),
            x: vec![1.0, 2.0],
            y: vec![0.0, -1.0],
            low: Vec::new(),
            high: Vec::new(),
            supported: Vec::new(),
            bar_width: None,
        };
        assert_eq!(spots(&series, &x, &y, None), [None, None]);
        assert_eq!(spots(&series, &x, &y, Some(100.0)), [spot(10.0, 100.0, true), None]);
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut spots: Vec<_> = (0..10_000).map(|i| spot(f64::from(i) / 100.0, 50.0, true)).collect();
        spots[4321] = spot(43.21, 3.0, true);
        let kept = thinned(spots.clone());
        assert!(kept.len() < 500, "{}", kept.len());
        assert!(kept.contains(&spots[4321]) && kept.contains(&spots[9999]));
    }
}
