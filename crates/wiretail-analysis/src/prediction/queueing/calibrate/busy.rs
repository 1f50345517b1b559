//! Which packet waited for which: gaps of a busy server, and packets that found it idle.

use super::{GAPS_MIN, Gap, Isolated, Observation};
use crate::stats::list::median;

/// Where gaps right behind a packet that found the server idle are longer than the others by this factor, it is said.
const COLD: f64 = 1.05;

/// What the packets of trials say of a server that releases each at once.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// Between two departures, the second of a packet that had come before the first.
    pub gaps: Vec<Gap>,
    /// Packets that had nobody before them.
    pub isolated: Vec<Isolated>,
    /// Gaps that were left out, as the server was still cold.
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
        // Caches are cold for longer than one packet: what the device needs when it is busy is told by those behind.
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
                "{} gaps right behind a packet that found the device idle were left out: it was still slower than usual; the \
                 model does not know this",
                self.cold
            )
        })
    }
}

fn middle(gaps: &[Gap]) -> Option<f64> {
    median(gaps.iter().map(|gap| gap.ns))
}

/// Median gap of the sender within bursts, in ns; None where none were sent.
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

/// When each packet of a burst comes after the first one, in ns: medians over the whole bursts of trials that sent so many packets a
/// second. A sender does not space them evenly: the first one may wake the device up, which takes the sender's time. Empty where fewer
/// than [`GAPS_MIN`] whole bursts are told apart.
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
