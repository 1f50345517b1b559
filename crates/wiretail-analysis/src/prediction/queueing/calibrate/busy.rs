//! Gaps of a busy server, and packets that found the server idle.

use super::{GAPS_MIN, Gap, Isolated, Observation};
use crate::stats::list::median;

/// If the first gaps after an idle period exceed later gaps by this factor, the first gaps are left out, with a
/// remark.
const COLD: f64 = 1.05;

/// Observations of a server that releases each packet as soon as it is served.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Gaps between two departures; the second packet arrived before the first one departed.
    pub gaps: Vec<Gap>,
    /// Packets that found the server idle.
    pub isolated: Vec<Isolated>,
    /// Number of gaps left out because the server's caches were cold.
    cold: usize,
}

impl Busy {
    pub(super) fn of(observations: &[Observation<'_>]) -> Self {
        let mut all = Self::default();
        for mut one in observations.iter().map(Self::of_trial) {
            all.gaps.append(&mut one.gaps);
            all.isolated.append(&mut one.isolated);
            all.cold += one.cold;
        }
        all
    }

    fn of_trial(one: &Observation<'_>) -> Self {
        let mut found = Self::default();
        let (mut second, mut later) = (Vec::new(), Vec::new());
        let mut position = 0;
        for pair in one.packets.windows(2) {
            let (left, leaves) = (pair[0].0 + pair[0].1, pair[1].0 + pair[1].1);
            if pair[1].0 >= left {
                position = 0;
                found.isolated.push(Isolated { idle_ns: pair[1].0 - left, delay_ns: pair[1].1 });
                continue;
            }
            position += 1;
            let gaps = if position == 1 { &mut second } else { &mut later };
            gaps.push(Gap { ns: (leaves - left).max(0.0), together: one.burst > 1 });
        }
        // Caches stay cold for more than one packet, so later gaps represent the service time of a busy
        // device.
        if later.len() >= GAPS_MIN {
            let slower =
                middle(&second).zip(middle(&later)).is_some_and(|(second, other)| second > COLD * other);
            found.cold += if slower { second.len() } else { 0 };
        } else {
            found.gaps.append(&mut second);
        }
        found.gaps.append(&mut later);
        found
    }

    pub(super) fn remark(&self) -> Option<String> {
        (self.cold > 0).then(|| {
            format!(
                "{} gaps were left out, because each directly follows a packet that found the device idle: the \
                device was still slower than usual, which the model ignores",
                self.cold
            )
        })
    }
}

fn middle(gaps: &[Gap]) -> Option<f64> {
    median(gaps.iter().map(|gap| gap.ns))
}

/// Median gap of the sender within bursts, in ns. `None` without bursts.
pub fn spacing(observations: &[Observation<'_>]) -> Option<f64> {
    let mut gaps = Vec::new();
    for one in observations.iter().filter(|one| one.burst > 1) {
        let arrivals: Vec<f64> = one.packets.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        // The gaps between bursts are the longest ones.
        let mut sorted = arrivals;
        sorted.sort_unstable_by(f64::total_cmp);
        let within = sorted.len() - sorted.len() / one.burst as usize;
        gaps.extend_from_slice(&sorted[..within.min(sorted.len())]);
    }
    median(gaps)
}

/// Offset of each packet of a burst from the first one, in ns: medians over the complete bursts of trials at
/// this rate. Senders do not space packets evenly: the first packet may wake up the device, which delays the
/// sender. Empty if fewer than [`GAPS_MIN`] complete bursts are found.
pub fn burst_offsets(observations: &[Observation<'_>], rate_pps: f64) -> Vec<f64> {
    let burst = observations.first().map_or(1, |one| one.burst) as usize;
    let apart_ns = burst as f64 * 0.5e9 / rate_pps;
    let mut offsets: Vec<Vec<f64>> = vec![Vec::new(); burst];
    for one in observations {
        for whole in one.packets.chunk_by(|a, b| b.0 - a.0 < apart_ns).filter(|whole| whole.len() == burst) {
            offsets.iter_mut().zip(whole).for_each(|(offset, packet)| offset.push(packet.0 - whole[0].0));
        }
    }
    if burst < 2 || offsets[0].len() < GAPS_MIN {
        return Vec::new();
    }
    offsets.into_iter().map(|offset| median(offset).unwrap_or(0.0)).collect()
}
