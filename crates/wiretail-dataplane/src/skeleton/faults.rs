//! Faults that a forwarder commits on purpose, so that the accounting of a measurement can be compared
//! with what really happened.

use wiretail_schema::random::Random;

use crate::error::{DataplaneError, plan};

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not sent.
    Drop,
    /// It is sent twice, the copies one behind the other.
    Duplicate,
    /// It is sent behind the packet that follows it.
    Swap,
}

/// How many faults a [`FaultSchedule`] plants at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// Number of packets in the trial.
    pub packets: u64,
    /// One packet in so many is dropped; 0: none.
    pub drop_every: u64,
    /// One packet in so many is sent twice; 0: none.
    pub duplicate_every: u64,
    /// One packet in so many is sent behind its successor; 0: none.
    pub swap_every: u64,
    /// Seed of the choice.
    pub seed: u64,
}

/// Which of the signed packets, counted from 0 as they arrive, meet which fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultSchedule {
    faults: Vec<(u64, Fault)>,
}

impl FaultSchedule {
    /// The faults of a list in ascending order of packets.
    ///
    /// # Errors
    /// Packets that do not ascend; a fault of the packet right behind a swapped one, whose order could
    /// not be told.
    pub fn from_list(faults: Vec<(u64, Fault)>) -> Result<Self, DataplaneError> {
        for pair in faults.windows(2) {
            let ((first, fault), (second, _)) = (pair[0], pair[1]);
            if second <= first {
                return Err(plan("fault schedule", format!("{first}, then {second}"), "ascending packets"));
            }
            if fault == Fault::Swap && second == first + 1 {
                return Err(plan("fault of a swapped packet's successor", second, "a packet without fault"));
            }
        }
        Ok(Self { faults })
    }

    /// Faults at random places: each block of `every` packets has one, if the place is free.
    pub fn seeded(options: &FaultPlan) -> Self {
        let mut random = Random::new(options.seed);
        let mut faults = Vec::new();
        let kinds = [
            (Fault::Drop, options.drop_every),
            (Fault::Duplicate, options.duplicate_every),
            (Fault::Swap, options.swap_every),
        ];
        for (fault, every) in kinds.into_iter().filter(|(_, every)| *every > 0) {
            for block in 0..options.packets / every {
                faults.push((block * every + random.below(every), fault));
            }
        }
        faults.sort_by_key(|(packet, _)| *packet);
        // Room for a swap: a fault is at least two packets behind the one before it, and not the last packet.
        let mut free_from = 0;
        faults.retain(|(packet, _)| {
            let free = *packet >= free_from && packet + 1 < options.packets;
            if free {
                free_from = packet + 2;
            }
            free
        });
        Self { faults }
    }

    /// The faults in ascending order of packets.
    pub fn faults(&self) -> &[(u64, Fault)] {
        &self.faults
    }

    /// How many of a kind.
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults.iter().filter(|(_, other)| *other == fault).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_faults_can_all_be_carried_out() {
        let plan = FaultPlan { packets: 10_000, drop_every: 10, duplicate_every: 25, swap_every: 7, seed: 3 };
        let schedule = FaultSchedule::seeded(&plan);
        assert_eq!(FaultSchedule::from_list(schedule.faults().to_vec()).unwrap(), schedule);
        assert_eq!(schedule, FaultSchedule::seeded(&plan));
        for fault in [Fault::Drop, Fault::Duplicate, Fault::Swap] {
            assert!(schedule.count(fault) > 200, "{fault:?}: {}", schedule.count(fault));
        }
        assert!(schedule.faults().iter().all(|(packet, _)| *packet < 9_999));
    }

    #[test]
    fn lists_that_cannot_be_distinguished_are_refused() {
        let refused = |list| FaultSchedule::from_list(list).unwrap_err().to_string();
        assert!(refused(vec![(5, Fault::Drop), (5, Fault::Swap)]).contains("ascending"));
        assert!(refused(vec![(5, Fault::Swap), (6, Fault::Drop)]).contains("successor"));
    }
}
