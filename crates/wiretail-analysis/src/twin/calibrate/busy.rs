//! Which packet waited for which: gaps of a busy server, and packets that found it idle.

use super::service::median;
use super::{GAPS_MIN, Lone, Observation};

/// Gaps right behind a packet that found the server idle are left out where their median is so much above that of the others: the
/// caches are cold for longer than one packet.
const COLD: f64 = 1.05;

/// What the packets of trials say of a server that releases each at once.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Times between two departures, the second of a packet that had come before the first, in ns.
    pub gaps: Vec<f64>,
    /// Packets that had nobody before them.
    pub lone: Vec<Lone>,
    /// Gaps that were left out, as the server was still cold.
    cold: usize,
}

impl Busy {
    pub(super) fn of(observations: &[Observation<'_>]) -> Self {
        let mut all = Self::default();
        observations.iter().for_each(|one| all.add(one.packets));
        all
    }

    fn add(&mut self, packets: &[(f64, f64)]) {
        let (mut second, mut later) = (Vec::new(), Vec::new());
        let mut position = 0;
        for pair in packets.windows(2) {
            let (left, leaves) = (pair[0].0 + pair[0].1, pair[1].0 + pair[1].1);
            if pair[1].0 >= left {
                position = 0;
                self.lone.push(Lone { idle_ns: pair[1].0 - left, delay_ns: pair[1].1 });
                continue;
            }
            position += 1;
            let gaps = if position == 1 { &mut second } else { &mut later };
            gaps.push((leaves - left).max(0.0));
        }
        let cold = match (median(&mut second), median(&mut later)) {
            (Some(second), Some(other)) => later.len() >= GAPS_MIN && second.value > COLD * other.value,
            _ => false,
        };
        if cold {
            self.cold += second.len();
        } else {
            self.gaps.append(&mut second);
        }
        self.gaps.append(&mut later);
    }

    pub(super) fn remark(&self) -> Option<String> {
        (self.cold > 0).then(|| {
            format!(
                "{} gaps right behind a packet that found the device idle were left out: it was still slower than usual; the \
                 model does not know this",
                self.cold
            )
        })
    }
}

/// Median gap of the sender within bursts, in ns; None where none were sent.
pub(super) fn spacing(observations: &[Observation<'_>]) -> Option<f64> {
    let mut gaps = Vec::new();
    for one in observations.iter().filter(|one| one.burst > 1) {
        let arrivals: Vec<f64> = one.packets.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        // The gaps between bursts are the longest ones.
        let mut sorted = arrivals;
        sorted.sort_unstable_by(f64::total_cmp);
        let within = sorted.len() - sorted.len() / one.burst as usize;
        gaps.extend_from_slice(&sorted[..within.min(sorted.len())]);
    }
    median(&mut gaps).map(|found| found.value)
}
