//! Arrival times of packets.

use wiretail_schema::prediction::queueing::Arrivals;
use wiretail_schema::random::Random;

use crate::stats::random::exponential;

const SECOND_NS: f64 = 1e9;

/// Arrival times in ascending order, in ns; infinity after the last one.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    kind: Kind<'a>,
    number: u64,
    packets: u64,
}

#[derive(Debug)]
enum Kind<'a> {
    Constant { gap_ns: f64 },
    Bursts { period_ns: f64, spacing_ns: f64, packets: u64, burst: u64, within: u64 },
    Poisson { gap_ns: f64, random: Random, before_ns: f64 },
    Recorded(&'a [f64]),
}

impl<'a> Stream<'a> {
    /// Creates `packets` arrivals, or the number of recorded arrivals if that is smaller.
    pub(super) fn new(arrivals: &'a Arrivals, packets: u64, random: Random) -> Self {
        let gap = |rate_pps: f64| SECOND_NS / rate_pps;
        let kind = match *arrivals {
            Arrivals::Constant { rate_pps } => Kind::Constant { gap_ns: gap(rate_pps) },
            Arrivals::Bursts { rate_pps, packets, spacing_ns } => Kind::Bursts {
                period_ns: packets as f64 * gap(rate_pps),
                spacing_ns,
                packets,
                burst: 0,
                within: 0,
            },
            Arrivals::Poisson { rate_pps } => Kind::Poisson { gap_ns: gap(rate_pps), random, before_ns: 0.0 },
            Arrivals::Recorded { ref times_ns } => Kind::Recorded(times_ns),
        };
        let packets = match arrivals {
            Arrivals::Recorded { times_ns } => packets.min(times_ns.len() as u64),
            _ => packets,
        };
        Self { kind, number: 0, packets }
    }

    #[inline]
    pub(super) fn next(&mut self) -> f64 {
        if self.number >= self.packets {
            return f64::INFINITY;
        }
        let number = self.number;
        self.number += 1;
        match &mut self.kind {
            // Products instead of sums, so that rounding errors do not accumulate.
            Kind::Constant { gap_ns } => number as f64 * *gap_ns,
            Kind::Bursts { period_ns, spacing_ns, packets, burst, within } => {
                let at = *burst as f64 * *period_ns + *within as f64 * *spacing_ns;
                *within += 1;
                if *within == *packets {
                    (*burst, *within) = (*burst + 1, 0);
                }
                at
            }
            Kind::Poisson { gap_ns, random, before_ns } => {
                *before_ns += exponential(random) * *gap_ns;
                *before_ns
            }
            Kind::Recorded(times) => times[number as usize],
        }
    }
}
