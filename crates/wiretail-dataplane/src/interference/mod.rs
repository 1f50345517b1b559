//! Disturbances on purpose, at known times: the ground truth for whoever says what delayed a packet.
//!
//! [`InterferencePlan`] says what happens when; [`own`] is what the forwarder's loop does to itself, [`injectors`] what other
//! threads do to its core. Each writes down what it did, with the times that it read itself ([`Injected`]).
//!
//! | kind | who does it | what the device's core sees |
//! |---|---|---|
//! | shootdown | `wt-unmap`, on the housekeeping core | interrupts that flush addresses (TLB shootdown) |
//! | timer | `wt-timer`, long before | the timer's interrupt |
//! | hog | `wt-hog`, on the device's core | another task |
//! | page-faults | the loop itself | page faults |
//! | softirq | `wt-flood`, on the housekeeping core | packets of another network, received here |
//! | ipi | `wt-storm`, on the housekeeping core | interrupts that run a function (membarrier(2)) |
//! | pause | the loop itself | nothing |

pub mod injectors;
pub mod own;

use wiretail_schema::random::Random;
use wiretail_schema::run::interference::InterferenceKind;

/// What is to happen when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterferencePlan {
    /// What kinds take turns.
    pub kinds: Vec<InterferenceKind>,
    /// From one disturbance to the next, in ns.
    pub every_ns: u64,
    /// How long, in ns.
    pub duration_ns: u64,
    /// Seed of the times, where several kinds take turns.
    pub seed: u64,
}

impl InterferencePlan {
    /// When each disturbance begins, in ns since the first moment of the plan; in order. A single kind comes exactly
    /// every so often. Several ones vary by up to a quarter of that, so that none of them keeps time with packets
    /// that are evenly spaced.
    pub fn times(&self) -> Vec<(u64, InterferenceKind)> {
        let (every, kinds) = (self.every_ns, self.kinds.len());
        if every == 0 || kinds == 0 {
            return Vec::new();
        }
        let mut random = Random::new(self.seed);
        let mut at = |number: u64| match kinds {
            1 => number * every,
            _ => number * every - every / 4 + random.below(every / 2 + 1),
        };
        let turns = (1..=self.duration_ns / every).zip(self.kinds.iter().cycle());
        turns.map(|(number, kind)| (at(number), *kind)).take_while(|(at, _)| *at < self.duration_ns).collect()
    }

    /// The times of one kind.
    pub fn times_of(&self, kind: InterferenceKind) -> Vec<u64> {
        self.times().into_iter().filter(|(_, other)| *other == kind).map(|(at, _)| at).collect()
    }
}

/// A disturbance that took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// What.
    pub kind: InterferenceKind,
    /// When it began, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// When it ended, CLOCK_MONOTONIC in ns.
    pub end_ns: u64,
    /// The thread that did it.
    pub pid: i32,
    /// Its name.
    pub task: String,
}

/// Number and name of the calling thread.
pub(crate) fn this_thread() -> (i32, String) {
    let name = rustix::thread::name().map(|name| name.to_string_lossy().into_owned());
    (rustix::thread::gettid().as_raw_nonzero().get(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_is_exactly_periodic() {
        let plan = InterferencePlan {
            kinds: vec![InterferenceKind::Pause],
            every_ns: 4_000_000,
            duration_ns: 20_000_001,
            seed: 3,
        };
        let at: Vec<u64> = plan.times().into_iter().map(|(at, _)| at).collect();
        assert_eq!(at, [4_000_000, 8_000_000, 12_000_000, 16_000_000, 20_000_000]);
        assert!(InterferencePlan { every_ns: 0, ..plan.clone() }.times().is_empty());
        assert!(InterferencePlan { kinds: Vec::new(), ..plan }.times().is_empty());
    }

    #[test]
    fn kinds_take_turns_at_times_of_the_seed() {
        let plan = InterferencePlan {
            kinds: InterferenceKind::ALL.to_vec(),
            every_ns: 10_000_000,
            duration_ns: 7_000_000_000,
            seed: 3,
        };
        let times = plan.times();
        assert_eq!(times, plan.times());
        assert_ne!(times, InterferencePlan { seed: 4, ..plan.clone() }.times());
        assert!(times.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 5_000_000));
        let off: Vec<i64> =
            times.iter().zip(1i64..).map(|((at, _), n)| *at as i64 - n * 10_000_000).collect();
        assert!(off.iter().all(|off| off.abs() <= 2_500_000));
        assert!(off.iter().any(|off| *off > 1_500_000) && off.iter().any(|off| *off < -1_500_000));
        for kind in InterferenceKind::ALL {
            assert!(plan.times_of(kind).len() >= 99, "{}", kind.name());
        }
    }
}
