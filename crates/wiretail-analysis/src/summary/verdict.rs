//! Verdicts on latency budgets, with the confidence that the number of packets allows.

use wiretail_schema::summary::{Outcome, Percentile, Verdict};
use wiretail_schema::units::{Budget, Share, thousands};

use crate::stats::quantile::dependent_share_bounds;

/// Maximum probability that the true share of failures lies beyond each bound.
const RISK: f64 = 0.05;
/// Minimum number of episodes from which their length is estimated.
const EPISODES_MIN: f64 = 5.0;

/// Verdict on one budget. Of `packets` sent, `failures` were lost or later than the limit.
///
/// Reliability follows 3GPP TR 38.913 and ITU-R M.2410: the share of packets sent that are delivered within
/// the limit. A lost packet is a failure, as is a late one. The verdict is PASS if the upper bound of the
/// share of failures is within the budget, and FAIL if the lower bound is beyond the budget. To pass 99.999
/// %, at least 300,000 independent packets without a failure are needed.
///
/// Failures that come together count as one: `dispersion` is their index of dispersion, at least 1.
pub fn verdict(budget: &Budget, packets: u64, failures: u64, dispersion: f64) -> Verdict {
    let allowed = 1.0 - budget.share.fraction();
    let (low, high) = dependent_share_bounds(failures.min(packets), packets, dispersion, RISK);
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
            "with 90 % confidence, between {} and {} fail: too few packets to decide; {}",
            percent(low),
            percent(high),
            packets_needed(allowed, packets, failures, dispersion),
        ),
    };
    let episodes = (failures as f64 / dispersion).ceil() as u64;
    let together = match episodes {
        _ if failures < 2 || episodes == failures => String::new(),
        1 => " in about one episode".to_owned(),
        _ => format!(" in about {} episodes", thousands(episodes)),
    };
    let reason = format!(
        "{} of {} lost or later than {}{together}; the budget allows {}; {bound}",
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
        dispersion,
        failures_allowed,
        failure_ratio_low: low,
        failure_ratio_high: high,
        reason,
    }
}

/// How many failures come together, for the verdict on a limit: the index of dispersion of the failures or of the
/// tail, whichever is larger.
///
/// Failures that were seen too rarely may still come together. A packet is later than the limit because the device
/// was held up for at least this time, and so were the packets that were sent in the same time. Until there are
/// enough episodes, as many packets count as one.
pub fn episode_packets(own: f64, tail: f64, failures: u64, packets_per_limit: f64) -> f64 {
    let observed = own.max(tail);
    if failures as f64 / observed >= EPISODES_MIN { observed } else { observed.max(packets_per_limit) }
}

/// Index of dispersion of the packets beyond the highest supported percentile.
pub fn tail_dispersion(percentiles: &[Percentile], dispersions: &[f64]) -> f64 {
    let supported = percentiles.iter().zip(dispersions).filter(|(percentile, _)| percentile.supported);
    supported.map(|(_, dispersion)| *dispersion).next_back().unwrap_or(1.0)
}

/// Minimum number of packets that pass without a failure: (1 - allowed)^(n / dispersion) <= 5 %.
fn packets_to_pass(allowed: f64, dispersion: f64) -> u64 {
    (RISK.ln() / (-allowed).ln_1p() * dispersion).ceil() as u64
}

/// The number of packets that decides, if their share of failures stays as it is.
fn packets_needed(allowed: f64, packets: u64, failures: u64, dispersion: f64) -> String {
    if failures == 0 {
        let enough = thousands(packets_to_pass(allowed, dispersion));
        return format!("{enough} packets without a failure would suffice");
    }
    let decides = |times: &u64| {
        let (failures, packets) = (failures.saturating_mul(*times), packets.saturating_mul(*times));
        let (low, high) = dependent_share_bounds(failures.min(packets), packets, dispersion, RISK);
        high <= allowed || low > allowed
    };
    // Doubling is exact enough for advice.
    match (1..20).map(|doublings| 1 << doublings).find(decides) {
        Some(times) => {
            let enough = thousands(packets.saturating_mul(times));
            format!("about {enough} packets would decide if failures stay as frequent")
        }
        None => {
            "failures are about as frequent as the budget allows, so more packets will not decide".to_owned()
        }
    }
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
        verdict(&budget.parse().unwrap(), packets, failures, 1.0).outcome
    }

    #[test]
    fn computes_minimum_packets_to_pass() {
        assert_eq!(packets_to_pass(1e-5, 1.0), 299_572);
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
    fn failures_that_come_together_count_once() {
        let verdict = |packets, failures, dispersion| {
            verdict(&"1ms@99.9%".parse().unwrap(), packets, failures, dispersion)
        };
        // 40 failures in two episodes of 20 are as uncertain as two failures in a twentieth of the packets.
        let (alone, together) = (verdict(20_000, 40, 1.0), verdict(20_000, 40, 20.0));
        assert_eq!((alone.outcome, together.outcome), (Outcome::Fail, Outcome::Undecided));
        let few = verdict(1000, 2, 1.0);
        assert_eq!(
            (together.failure_ratio_low, together.failure_ratio_high),
            (few.failure_ratio_low, few.failure_ratio_high)
        );
        assert!(
            together
                .reason
                .contains("40 of 20\u{202f}000 packets lost or later than 1ms in about 2 episodes")
        );
        assert!(together.reason.contains("packets would decide if failures stay as frequent"));
        assert_eq!(verdict(3000, 0, 1.0).outcome, Outcome::Pass);
        let dependent = verdict(3000, 0, 5.0);
        assert_eq!(dependent.outcome, Outcome::Undecided);
        assert!(
            dependent.reason.ends_with("14\u{202f}972 packets without a failure would suffice"),
            "{}",
            dependent.reason
        );
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
