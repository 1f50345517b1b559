//! Writes a percentile distribution in HdrHistogram's text format (`.hgrm`).
//!
//! The text equals the output of `AbstractHistogram.outputPercentileDistribution` in HdrHistogram 2.2 with
//! five ticks per half distance and three decimals. HdrHistogram's plotter and many other scripts read this
//! format. HdrHistogram prints the upper end of each bucket. Here every value is exact, so each distinct
//! value has its own bucket: the printed number of buckets is the number of distinct values, with one value
//! per bucket.

use std::fmt::Write;

/// Lines per halving of the distance to 100 %, the default of HdrHistogram.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;

/// Formats the distribution of values, which must be in ascending order, each with its count.
///
/// Values are divided by `unit`: 1000 converts values in ns to µs. Entries with a count of 0 are skipped. The
/// iterator is traversed three times.
pub fn percentile_distribution(values: impl Iterator<Item = (i64, u64)> + Clone, unit: f64) -> String {
    let values = values.filter(|(_, count)| *count > 0);
    let moments = Moments::of(values.clone());
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    push_lines(&mut text, values, moments.count, unit);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]\n",
        moments.mean / unit,
        moments.deviation / unit,
        moments.max as f64 / unit,
        moments.count,
        moments.distinct,
        1
    );
    text
}

/// Appends one line per tick, with the lowest value that reaches it, and a last line for all values.
fn push_lines(text: &mut String, values: impl Iterator<Item = (i64, u64)>, count: u128, unit: f64) {
    let mut level = 0.0;
    let mut seen = 0;
    let mut last = None;
    for (value, times) in values {
        let value = value as f64 / unit;
        seen += u128::from(times);
        last = Some(value);
        let reached = 100.0 * seen as f64 / count as f64;
        while reached >= level && level < 100.0 {
            let inverse = 1.0 / (1.0 - level / 100.0);
            let _ = writeln!(text, "{value:>12.3} {} {seen:>10} {inverse:>14.2}", share_text(level));
            level = next_level(level);
            // HdrHistogram leaves its loop after one line for the last value.
            if seen == count {
                break;
            }
        }
    }
    if let Some(value) = last {
        let _ = writeln!(text, "{value:>12.3} {} {seen:>10}", share_text(100.0));
    }
}

/// Formats a percentile as a share with twelve decimals, rounding halves up as Java does.
///
/// Levels are sums of 20/2^n, which are exact in binary, but shares are not. If the shares were rounded,
/// exact halves would be off by one in the last decimal.
fn share_text(level: f64) -> String {
    const ONE: u64 = 1_000_000_000_000;
    let share = (level * (ONE / 100) as f64).round() as u64;
    format!("{}.{:012}", share / ONE, share % ONE)
}

/// Returns the percentile of the line after the one for `level`. The range from 0 % is divided into equal
/// ticks, and the number of ticks doubles each time the distance to 100 % halves.
fn next_level(level: f64) -> f64 {
    let halvings = ((100.0 / (100.0 - level)).ln() / 2_f64.ln()).floor();
    let next = level + 100.0 / (TICKS_PER_HALF_DISTANCE * (halvings + 1.0).exp2());
    // After about fifty halvings, ticks are below the resolution of a double. Reaching this point takes more
    // than 10^14 values.
    if next > level { next } else { 100.0 }
}

/// Values of the last lines.
#[derive(Debug, Default)]
struct Moments {
    count: u128,
    distinct: u64,
    max: i64,
    mean: f64,
    /// Standard deviation of the population, not of a sample.
    deviation: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = (i64, u64)> + Clone) -> Self {
        let mut moments = Self::default();
        let mut sum = 0_i128;
        for (value, times) in values.clone() {
            moments.count += u128::from(times);
            moments.distinct += 1;
            moments.max = value;
            sum += i128::from(value) * i128::from(times);
        }
        if moments.count == 0 {
            return moments;
        }
        moments.mean = sum as f64 / moments.count as f64;
        let square = |(value, times): (i64, u64)| (value as f64 - moments.mean).powi(2) * times as f64;
        moments.deviation = (values.map(square).sum::<f64>() / moments.count as f64).sqrt();
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_values_match_hdrhistogram() {
        let values = (1..=10).map(|i| (i * 1000, 1));
        assert_eq!(percentile_distribution(values, 1000.0), include_str!("testdata/ten.hgrm"));
    }

    #[test]
    fn a_long_tail_matches_hdrhistogram() {
        let values = [(3100, 99_000), (3162, 900), (4275, 90), (90_000, 9), (116_762, 1)];
        assert_eq!(percentile_distribution(values.into_iter(), 1000.0), include_str!("testdata/tail.hgrm"));
    }

    #[test]
    fn formats_empty_and_single_value_distributions() {
        let none = percentile_distribution(std::iter::empty(), 1000.0);
        assert_eq!(none.lines().count(), 5);
        assert!(none.contains("#[Max     =        0.000, Total count    =            0]"), "{none}");
        assert_eq!(percentile_distribution([(5, 0)].into_iter(), 1000.0), none);
        let one = percentile_distribution([(1500, 1)].into_iter(), 1000.0);
        let lines: Vec<&str> = one.lines().skip(2).take(2).collect();
        assert_eq!(
            lines,
            [
                "       1.500 0.000000000000          1           1.00",
                "       1.500 1.000000000000          1",
            ]
        );
    }

    #[test]
    fn terminates_for_the_largest_counts() {
        let values = [(i64::MIN, u64::MAX), (0, u64::MAX), (i64::MAX, 1)];
        let text = percentile_distribution(values.into_iter(), 1000.0);
        assert!(text.lines().count() < 1000);
    }
}
