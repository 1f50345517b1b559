//! The 275 percentiles of the published pipeline.

use super::numeric::{Decimal, numeric_div};
use super::push_line;

/// The percentiles, ascending: thirty per decade of 1/(1-p) over nine decades, and five more.
///
/// The published query contains the list as text printed by a script. This function computes it as that
/// script did, because both the sums and (x-1)/x, which differs from 1-1/x in binary, affect the digits.
pub fn percentiles() -> Vec<f64> {
    let mut percentiles = vec![0.05, 0.25, 0.5, 0.75, 0.95];
    let mut start = 1.0;
    for _ in 0..9 {
        let end: f64 = start * 10.0;
        let step = (end - start) / 30.0;
        let mut x: f64 = start;
        for _ in 0..30 {
            percentiles.push((x - 1.0) / x);
            x += step;
        }
        start = end;
    }
    percentiles.sort_unstable_by(f64::total_cmp);
    percentiles
}

/// The position, from 1, that PostgreSQL's `percentile_disc` selects among `count` sorted values: ceil(p n)
/// in double precision, at least 1. Returns 0 if `count` is 0.
pub fn percentile_disc_rank(percentile: f64, count: usize) -> usize {
    ((percentile * count as f64).ceil() as usize).clamp(count.min(1), count)
}

/// `percentiles.csv` for these sorted latencies.
pub(super) fn table(latencies: &[u64]) -> String {
    let mut csv = String::from("percentile,value,onefraconeminuspercentile\n");
    for percentile in percentiles() {
        // The shortest text that parses to the same number, with a decimal point.
        let text = format!("{percentile:?}");
        let rank = percentile_disc_rank(percentile, latencies.len());
        let value = rank.checked_sub(1).and_then(|at| latencies.get(at));
        let value = value.map(u64::to_string).unwrap_or_default();
        let distance = text.parse().ok().and_then(Decimal::one_minus);
        let inverse = distance.and_then(|distance| numeric_div(Decimal::from(1), distance));
        push_line(&mut csv, format_args!("{text},{value},{}", inverse.unwrap_or_default()));
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_contains_known_percentiles() {
        let list = percentiles();
        assert_eq!(list.len(), 275);
        assert!(list.is_sorted_by(|a, b| a < b));
        let text: Vec<String> = list.iter().map(|p| format!("{p:?}")).collect();
        assert_eq!(text[..5], ["0.0", "0.05", "0.23076923076923078", "0.25", "0.37500000000000006"]);
        assert_eq!(text[274], "0.9999999989690722");
        assert!(text.contains(&String::from("0.999")));
    }
}
