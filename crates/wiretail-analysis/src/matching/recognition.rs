//! Examines the first packets of both captures: which key identifies them, and whether the clocks agree.

use std::collections::HashMap;

use wiretail_schema::summary::KeyTrial;
use wiretail_schema::units::{Share, thousands};

use crate::matching::KeyHasher;

/// Minimum share of the first packets in which a key rule must find a key.
const WITH_KEY_MIN: f64 = 0.5;
/// Maximum share of keys that may repeat.
const REPEATED_MAX: f64 = 0.01;
/// Minimum share of keys that must also be found at egress. It is low, because the captures may start at
/// different times.
const MATCHED_MIN: f64 = 0.1;

/// A packet as seen by a key rule: its timestamp in ns, and its key if the rule finds one.
pub type Sighting = (i64, Option<u64>);

/// Result of one key rule on the first packets of both captures.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub report: KeyTrial,
    /// Whether the rule identifies packets: most packets have a key, keys rarely repeat, and many are found
    /// at egress.
    pub suitable: bool,
    /// Delays of the packets seen at both taps, in ns, ascending.
    pub delays_ns: Vec<i64>,
}

/// Tries the rule named `rule` on the first packets of both captures.
pub fn try_rule(rule: &str, pre: &[Sighting], post: &[Sighting]) -> Trial {
    let mut first_seen: HashMap<u64, i64, KeyHasher> =
        HashMap::with_capacity_and_hasher(pre.len(), KeyHasher::default());
    let (mut with_key, mut repeated) = (0u64, 0u64);
    for &(ts_ns, key) in pre {
        let Some(key) = key else { continue };
        with_key += 1;
        if first_seen.insert(key, ts_ns).is_some() {
            repeated += 1;
        }
    }
    let mut delays_ns = Vec::new();
    for &(ts_ns, key) in post {
        if let Some(sent_ns) = key.and_then(|key| first_seen.remove(&key)) {
            delays_ns.push(ts_ns.saturating_sub(sent_ns));
        }
    }
    delays_ns.sort_unstable();
    let matched = delays_ns.len() as u64;
    let share = |part: u64, whole: usize| part as f64 / whole.max(1) as f64;
    let problem = if share(with_key, pre.len()) < WITH_KEY_MIN {
        Some("rejected: most packets have no such key")
    } else if share(repeated, with_key as usize) > REPEATED_MAX {
        Some("rejected: the key repeats")
    } else if share(matched, with_key.min(post.len() as u64) as usize) < MATCHED_MIN {
        Some("rejected: few keys are found at egress")
    } else {
        None
    };
    let report = KeyTrial {
        rule: rule.to_owned(),
        packets: pre.len() as u64,
        with_key,
        repeated,
        matched,
        outcome: problem.unwrap_or("suitable").to_owned(),
    };
    Trial { report, suitable: problem.is_none(), delays_ns }
}

/// Explains why no delays can be computed from the captures, what was observed and how to solve the problem.
/// Returns `None` if delays can be computed.
pub fn clock_problem(delays_ns: &[i64], window_ns: i64) -> Option<String> {
    let (first, last) = (*delays_ns.first()?, *delays_ns.last()?);
    let median = *Share::MEDIAN.of(delays_ns)?;
    let rests_on = format!(
        "median {} ms over the first {} packets",
        median as f64 / 1e6,
        thousands(delays_ns.len() as u64)
    );
    if last < 0 && median >= -window_ns {
        return Some(format!(
            "every latency is negative ({rests_on}): are the files swapped? PRE is the ingress capture. If not, \
             the taps' clocks disagree: shift the egress clock, for example with --post-offset {}ns, which makes the \
             median latency zero",
            median.saturating_neg()
        ));
    }
    if last < 0 || first >= window_ns {
        let advice = median.saturating_neg();
        let window = if first > 0 {
            format!("Either the window of {} ms is too short (--window), or the", window_ns as f64 / 1e6)
        } else {
            "The".to_owned()
        };
        return Some(format!(
            "every latency is outside the window ({rests_on}). {window} taps' clocks disagree: to correct \
             them, shift the egress clock, for example with --post-offset {advice}ns, which makes the median latency \
             zero"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sightings(keys: impl Iterator<Item = Option<u64>>, delay: i64) -> Vec<Sighting> {
        keys.enumerate().map(|(i, key)| (i as i64 * 1000 + delay, key)).collect()
    }

    #[test]
    fn accepts_and_rejects_key_rules() {
        let unique = |delay| sightings((0..1000).map(Some), delay);
        let good = try_rule("moonsniff", &unique(0), &unique(50));
        assert!(good.suitable);
        assert_eq!((good.report.matched, good.delays_ns[0], good.delays_ns[999]), (1000, 50, 50));
        let outcome = |pre: &[Sighting], post: &[Sighting]| try_rule("x", pre, post).report.outcome;
        assert!(outcome(&sightings((0..1000).map(|_| None), 0), &unique(0)).contains("no such key"));
        assert!(outcome(&sightings((0..1000).map(|i| Some(i / 2)), 0), &unique(0)).contains("repeats"));
        assert!(outcome(&sightings((5000..6000).map(Some), 0), &unique(0)).contains("few keys"));
        assert!(!try_rule("x", &[], &[]).suitable);
    }

    #[test]
    fn reports_clocks_that_differ() {
        let window = 5_000_000_000;
        assert_eq!(clock_problem(&[-5, 3, 9], window), None);
        assert_eq!(clock_problem(&[], window), None);
        assert!(clock_problem(&[-9, -5, -3], window).unwrap().contains("swapped?"));
        let hour = 3_600_000_000_000;
        assert!(clock_problem(&[hour, hour + 4], window).unwrap().contains("--post-offset -3600000000000ns"));
        assert!(
            clock_problem(&[-hour, -hour + 4], window).unwrap().contains("--post-offset 3600000000000ns")
        );
    }
}
