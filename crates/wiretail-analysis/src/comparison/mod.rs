//! Comparison of several results.
//!
//! The interval of a difference of percentiles is computed from the confidence intervals of both percentiles
//! by MOVER, the method of variance estimates recovery (Zou and Donner, Statistics in Medicine 27, 2008,
//! formula 3). It only assumes that the two measurements are independent.

pub mod overhead;
pub mod overload;
pub mod ranking;

use wiretail_schema::summary::{Percentile, Summary};

/// One metric of several results. The first result is the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the metric, such as "p99.9".
    pub name: String,
    /// Whether the values are times in ns; otherwise they are ratios or counts.
    pub is_time: bool,
    /// One cell per result.
    pub cells: Vec<Cell>,
}

/// One value and its difference from the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub value: f64,
    /// Bounds of the value's 95 % confidence interval, if it has one.
    pub interval: Option<(f64, f64)>,
    /// Whether the sample is large enough for the value.
    pub supported: bool,
    /// Value minus the baseline's value; `None` for the baseline itself.
    pub difference: Option<f64>,
    /// Bounds of the 95 % confidence interval of the difference.
    pub difference_interval: Option<(f64, f64)>,
}

impl Cell {
    fn new(value: f64, interval: Option<(f64, f64)>, supported: bool) -> Self {
        Self { value, interval, supported, difference: None, difference_interval: None }
    }

    /// Whether the interval of the difference excludes zero.
    pub fn differs(&self) -> bool {
        self.difference_interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Whether the value exceeds the baseline's by more than the fraction `tolerance`, with 95 % confidence.
    /// Returns false without an interval, because a single packet, such as the one with the largest delay,
    /// proves nothing.
    pub fn is_worse_by(&self, tolerance: f64) -> bool {
        let (Some(difference), Some((low, _))) = (self.difference, self.difference_interval) else {
            return false;
        };
        low > (self.value - difference).abs() * tolerance
    }
}

/// Builds the table: minimum, mean, percentiles, maximum, loss ratio, reordered ratio.
pub fn compare(summaries: &[&Summary]) -> Vec<Row> {
    let mut rows = vec![
        row("min", true, summaries, |s| Cell::new(s.delay.min_ns as f64, None, true)),
        row("mean", true, summaries, |s| {
            // The mean of n values is approximately normal. Its interval has the half width 1.96 sigma /
            // sqrt(n).
            let half = 1.96 * s.delay.stddev_ns / (s.delay.count as f64).sqrt();
            Cell::new(
                s.delay.mean_ns,
                Some((s.delay.mean_ns - half, s.delay.mean_ns + half)),
                s.delay.count >= 30,
            )
        }),
    ];
    let shown = summaries.first().map_or(&[][..], |first| &first.delay.percentiles);
    for percentile in shown {
        let find = |s: &Summary| s.delay.percentile(percentile.percentile).copied();
        if summaries.iter().all(|s| find(s).is_some_and(|p| !p.supported)) {
            continue;
        }
        rows.push(row(&format!("p{}", percentile.percentile), true, summaries, |s| match find(s) {
            Some(found) => percentile_cell(&found),
            None => Cell::new(f64::NAN, None, false),
        }));
    }
    rows.push(row("max", true, summaries, |s| Cell::new(s.delay.max_ns as f64, None, true)));
    rows.push(row("loss ratio", false, summaries, |s| {
        Cell::new(s.loss.ratio, Some((s.loss.ratio_low, s.loss.ratio_high)), true)
    }));
    rows.push(row("reordered ratio", false, summaries, |s| Cell::new(s.reordering.ratio, None, true)));
    rows
}

fn percentile_cell(found: &Percentile) -> Cell {
    let interval = found.high_ns.map(|high| (found.low_ns as f64, high as f64));
    Cell::new(found.value_ns as f64, interval, found.supported)
}

fn row(name: &str, is_time: bool, summaries: &[&Summary], cell: impl Fn(&Summary) -> Cell) -> Row {
    let mut cells: Vec<Cell> = summaries.iter().map(|summary| cell(summary)).collect();
    if let Some((baseline, others)) = cells.split_first_mut() {
        for other in others {
            other.difference = Some(other.value - baseline.value);
            other.difference_interval = mover(other, baseline);
        }
    }
    Row { name: name.to_owned(), is_time, cells }
}

/// The interval of `a` - `b`, from the intervals of both.
fn mover(a: &Cell, b: &Cell) -> Option<(f64, f64)> {
    let ((a_low, a_high), (b_low, b_high)) = (a.interval?, b.interval?);
    let difference = a.value - b.value;
    let low = difference - (a.value - a_low).hypot(b_high - b.value);
    let high = difference + (a_high - a.value).hypot(b.value - b_low);
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_intervals_match_hand_computed_values() {
        let cell = |value, low, high| Cell::new(value, Some((low, high)), true);
        // Computed by hand: 10 - 4 with half widths 3 and 4 is 6 +- 5.
        assert_eq!(mover(&cell(10.0, 7.0, 13.0), &cell(4.0, 0.0, 8.0)), Some((1.0, 11.0)));
        assert_eq!(mover(&Cell::new(1.0, None, true), &cell(4.0, 0.0, 8.0)), None);
    }

    #[test]
    fn is_worse_only_with_confidence() {
        let mut cell = Cell::new(110.0, Some((100.0, 120.0)), true);
        cell.difference = Some(10.0);
        cell.difference_interval = Some((-2.0, 22.0));
        assert!(!cell.differs() && !cell.is_worse_by(0.0));
        cell.difference_interval = Some((6.0, 14.0));
        assert!(cell.differs() && cell.is_worse_by(0.05) && !cell.is_worse_by(0.1));
    }
}
