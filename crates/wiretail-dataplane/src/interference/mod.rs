//! Injected interference at known times: the ground truth for validating explanations of delays.
//!
//! [`InterferencePlan`] defines the times. [`own`] implements the interference that the forwarder's loop
//! causes itself. [`injectors`] implements the interference that other threads cause on the loop's core. Both
//! record the actual times ([`Injected`]).
//!
//! | kind | caused by | effect on the device's core |
//! |---|---|---|
//! | shootdown | `wt-unmap`, on the housekeeping core | interrupts that flush address translations (TLB shootdown) |
//! | timer | `wt-timer`, armed in advance | timer interrupts |
//! | hog | `wt-hog`, on the device's core | another task |
//! | page-faults | the loop itself | page faults |
//! | softirq | `wt-flood`, on the housekeeping core | packets of another network namespace, received on this core |
//! | ipi | `wt-storm`, on the housekeeping core | interrupts that run a function (membarrier(2)) |
//! | pause | the loop itself | nothing |

pub mod injectors;
pub mod own;

use wiretail_schema::random::Random;
use wiretail_schema::run::interference::InterferenceKind;

/// The planned interference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterferencePlan {
    /// The kinds of interference, which take turns.
    pub kinds: Vec<InterferenceKind>,
    /// Interval between injections, in ns.
    pub every_ns: u64,
    /// Duration of the plan, in ns.
    pub duration_ns: u64,
    /// Seed of the times. Only used with several kinds.
    pub seed: u64,
}

impl InterferencePlan {
    /// Start times of all injections, in ns since the start of the plan, in order. A single kind is exactly
    /// periodic. With several kinds, times vary by up to a quarter of the interval, so that they are not
    /// synchronized with evenly spaced packets.
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

    /// Start times of one kind.
    pub fn times_of(&self, kind: InterferenceKind) -> Vec<u64> {
        self.times().into_iter().filter(|(_, other)| *other == kind).map(|(at, _)| at).collect()
    }
}

/// An injection that took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    pub kind: InterferenceKind,
    /// Start, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// End, CLOCK_MONOTONIC in ns.
    pub end_ns: u64,
    /// TID of the thread that caused it.
    pub pid: i32,
    /// Name of that thread.
    pub task: String,
}

/// TID and name of the calling thread.
pub(crate) fn this_thread() -> (i32, String) {
    let name = rustix::thread::name().map(|name| name.to_string_lossy().into_owned());
    (rustix::thread::gettid().as_raw_nonzero().get(), name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_kind_is_exactly_periodic() {
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
    fn kinds_take_turns_at_seeded_times() {
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
