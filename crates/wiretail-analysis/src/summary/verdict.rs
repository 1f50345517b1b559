//! Verdicts on latency budgets, with the confidence that the number of packets allows.

use wiretail_schema::summary::{Outcome, Verdict};
use wiretail_schema::units::{Budget, Share, thousands};

use crate::stats::quantile::share_bounds;

/// Maximum probability that the true share of failures lies beyond each bound.
const RISK: f64 = 0.05;

/// Verdict on one budget. Of `packets` sent, `failures` were lost or later than the limit.
///
/// Reliability follows 3GPP TR 38.913 and ITU-R M.2410: the share of packets sent that are delivered within
/// the limit. A lost packet is a failure, as is a late one. The verdict is PASS if the upper bound of the
/// share of failures is within the budget, and FAIL if the lower bound is beyond the budget. To pass 99.999
/// %, at least 300,000 packets without a failure are needed.
pub fn verdict(budget: &Budget, packets: u64, failures: u64) -> Verdict {
    let allowed = 1.0 - budget.share.fraction();
    let (low, high) = share_bounds(failures.min(packets), packets, RISK);
    let outcome = if high <= allowed {
        Outcome::Pass
    } else if low > allowed {
        Outcome::Fail
    } else {
        Outcome::Undecided
    };
    let failures_allowed = packets as f64 * (Share::ONE - budget.share.billionths()) as f64 / 1e9;
    let bound = match outcome {
        Outcome::Pass => format!("with 95 % confidence, at most {} fail", percent(high)),
        Outcome::Fail => format!("with 95 % confidence, at least {} fail", percent(low)),
        Outcome::Undecided => format!(
            "between {} and {} fail: too few packets to decide{}",
            percent(low),
            percent(high),
            if failures == 0 {
                format!("; {} packets without a failure would suffice", thousands(packets_to_pass(allowed)))
            } else {
                String::new()
            },
        ),
    };
    let reason = format!(
        "{} of {} lost or later than {}; the budget allows {}; {bound}",
        thousands(failures),
        self::packets(packets),
        budget.limit,
        percent(allowed),
    );
    Verdict {
        budget: budget.to_string(),
        limit_ns: budget.limit.ns,
        percentile: budget.share.percent(),
        outcome,
        packets,
        failures,
        failures_allowed,
        failure_ratio_low: low,
        failure_ratio_high: high,
        reason,
    }
}

/// Minimum number of packets that pass without a failure: (1 - allowed)^n <= 5 %.
fn packets_to_pass(allowed: f64) -> u64 {
    (RISK.ln() / (-allowed).ln_1p()).ceil() as u64
}

/// Formats a share in percent with three significant digits.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value == 0.0 {
        return "0 %".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Formats a number of packets with its noun: "1 packet", "300 000 packets".
pub fn packets(count: u64) -> String {
    format!("{} packet{}", thousands(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(budget: &str, packets: u64, failures: u64) -> Outcome {
        verdict(&budget.parse().unwrap(), packets, failures).outcome
    }

    #[test]
    fn computes_minimum_packets_to_pass() {
        assert_eq!(packets_to_pass(1e-5), 299_572);
        assert_eq!(outcome("1ms@99.999%", 299_572, 0), Outcome::Pass);
        assert_eq!(outcome("1ms@99.999%", 299_571, 0), Outcome::Undecided);
    }

    #[test]
    fn verdicts_follow_confidence_bounds() {
        assert_eq!(outcome("1ms@99.999%", 300_000, 1), Outcome::Undecided);
        assert_eq!(outcome("1ms@99.999%", 300_000, 30), Outcome::Fail);
        assert_eq!(outcome("1ms@99%", 300_000, 30), Outcome::Pass);
        assert_eq!(outcome("1ms@99%", 0, 0), Outcome::Undecided);
        assert_eq!(outcome("1ms@50%", 3, 3), Outcome::Undecided);
    }

    #[test]
    fn formats_numbers_for_reading() {
        assert_eq!(percent(1e-5), "0.001 %");
        assert_eq!(percent(0.123456), "12.3 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(9.985_8e-6), "0.000999 %");
        assert_eq!((packets(1), packets(2)), ("1 packet".to_owned(), "2 packets".to_owned()));
    }
}
