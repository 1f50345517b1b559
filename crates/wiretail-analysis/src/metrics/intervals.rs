//! Smallest and largest delay over time, in at most about a thousand intervals for any duration.

use wiretail_schema::summary::Interval;

/// Maximum number of intervals. If a measurement needs more, neighboring intervals merge and their length
/// doubles.
const INTERVALS_MAX: usize = 1024;
/// Initial length of an interval: 100 ms.
const LENGTH_NS: i64 = 100_000_000;
/// Minimum number of intervals for a drift estimate.
const DRIFT_INTERVALS_MIN: usize = 10;

#[derive(Debug, Clone, Copy)]
struct Cell {
    packets: u64,
    min_ns: i64,
    max_ns: i64,
}

const EMPTY: Cell = Cell { packets: 0, min_ns: i64::MAX, max_ns: i64::MIN };

impl Cell {
    fn merge(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            min_ns: self.min_ns.min(other.min_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }
}

/// Smallest and largest delay per interval of egress time.
#[derive(Debug, Clone)]
pub struct IntervalTally {
    start_ns: Option<i64>,
    length_ns: i64,
    cells: Vec<Cell>,
    /// Start and end time of the last packet's interval, and the index of its cell.
    current: (i64, i64, usize),
}

impl Default for IntervalTally {
    fn default() -> Self {
        Self { start_ns: None, length_ns: LENGTH_NS, cells: Vec::new(), current: (0, 0, 0) }
    }
}

impl IntervalTally {
    /// Creates a tally with intervals that are initially `length_ns` long.
    pub fn with_length(length_ns: i64) -> Self {
        Self { length_ns: length_ns.max(1), ..Self::default() }
    }

    /// Adds `packets` packets with delays from `min_ns` to `max_ns`. They arrived from `post_ns` on, within
    /// one initial interval length.
    pub fn take_many(&mut self, post_ns: i64, packets: u64, min_ns: i64, max_ns: i64) {
        if post_ns < self.current.0 || post_ns >= self.current.1 {
            self.seek(post_ns);
        }
        let cell = &mut self.cells[self.current.2];
        *cell = cell.merge(Cell { packets, min_ns, max_ns });
    }

    /// Adds a packet that arrived at `post_ns`.
    #[inline]
    pub fn take(&mut self, post_ns: i64, delay_ns: i64) {
        if post_ns < self.current.0 || post_ns >= self.current.1 {
            self.seek(post_ns);
        }
        let cell = &mut self.cells[self.current.2];
        cell.packets += 1;
        cell.min_ns = cell.min_ns.min(delay_ns);
        cell.max_ns = cell.max_ns.max(delay_ns);
    }

    #[inline(never)]
    fn seek(&mut self, post_ns: i64) {
        let start = *self.start_ns.get_or_insert(post_ns);
        // A timestamp before the first one (a backward step) belongs to the first interval.
        let elapsed = post_ns.saturating_sub(start).max(0);
        while elapsed / self.length_ns >= INTERVALS_MAX as i64 {
            self.halve();
        }
        let index = (elapsed / self.length_ns) as usize;
        if self.cells.len() <= index {
            self.cells.resize(index + 1, EMPTY);
        }
        let begin = if index == 0 { i64::MIN } else { start.saturating_add(index as i64 * self.length_ns) };
        let end = start.saturating_add((index as i64 + 1).saturating_mul(self.length_ns));
        self.current = (begin, end, index);
    }

    fn halve(&mut self) {
        self.length_ns = self.length_ns.saturating_mul(2);
        self.cells = self.cells.chunks(2).map(|pair| pair.iter().fold(EMPTY, |a, b| a.merge(*b))).collect();
    }

    /// Intervals that contain packets.
    pub fn result(&self) -> Vec<Interval> {
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| cell.packets > 0);
        cells
            .map(|(i, cell)| Interval {
                start_ns: i as i64 * self.length_ns,
                length_ns: self.length_ns,
                packets: cell.packets,
                min_ns: cell.min_ns,
                max_ns: cell.max_ns,
            })
            .collect()
    }
}

/// Slope of the smallest delay per interval over time, and the half width of its 95 % confidence interval,
/// both in ns per second, by least squares. `None` for fewer than ten intervals.
///
/// The packet with the smallest delay was usually neither queued nor interrupted, so the slope shows clock
/// drift or a change of the path. See Moon, Skelly and Towsley, "Estimation and removal of clock skew",
/// INFOCOM 1999, for the lower envelope.
pub fn drift(intervals: &[Interval]) -> Option<(f64, f64)> {
    // In an interval with few packets, the smallest delay may include queueing or interruption.
    let packets: u64 = intervals.iter().map(|interval| interval.packets).sum();
    let enough = packets / (4 * intervals.len().max(1) as u64);
    let points: Vec<(f64, f64)> = intervals
        .iter()
        .filter(|interval| interval.packets >= enough)
        .map(|i| ((i.start_ns as f64 + i.length_ns as f64 / 2.0) / 1e9, i.min_ns as f64))
        .collect();
    if points.len() < DRIFT_INTERVALS_MIN {
        return None;
    }
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = sxy / sxx;
    let residual: f64 = points.iter().map(|p| (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2)).sum();
    let error = (residual / (n - 2.0) / sxx).sqrt();
    Some((slope, student_t_975(n - 2.0) * error))
}

/// 97.5 % quantile of Student's t distribution for `freedom` >= 8, accurate to 0.5 % (Abramowitz and Stegun
/// 26.7.5).
fn student_t_975(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every packet lies within its interval, even if time jumps.
        #[test]
        fn holds_every_packet(times in prop::collection::vec(prop_oneof![0..10_000_000_000i64, any::<i64>()], 1..200)) {
            let mut tally = IntervalTally::default();
            for (i, &time) in times.iter().enumerate() {
                tally.take(time, i as i64);
            }
            let result = tally.result();
            prop_assert!(result.len() <= INTERVALS_MAX);
            prop_assert_eq!(result.iter().map(|i| i.packets).sum::<u64>(), times.len() as u64);
            for (i, &time) in times.iter().enumerate() {
                let elapsed = time.saturating_sub(times[0]).max(0);
                let at = result.iter().find(|cell| elapsed / cell.length_ns == cell.start_ns / cell.length_ns).unwrap();
                prop_assert!(at.min_ns <= i as i64 && i as i64 <= at.max_ns);
            }
        }
    }

    #[test]
    fn drift_recovers_injected_slope() {
        let interval = |i: i64| Interval {
            start_ns: i * 100_000_000,
            length_ns: 100_000_000,
            packets: 1,
            // 50 ns per second plus a sawtooth of 3 ns.
            min_ns: 3000 + 5 * i + i % 3,
            max_ns: 0,
        };
        let (slope, error) = drift(&(0..300).map(interval).collect::<Vec<_>>()).unwrap();
        assert!((slope - 50.0).abs() < error && error < 0.1, "{slope} {error}");
        assert_eq!(drift(&(0..9).map(interval).collect::<Vec<_>>()), None);
        assert!((student_t_975(8.0) - 2.306).abs() < 1e-2);
    }
}
