//! Intentional faults of a forwarder, used to validate the packet accounting of a measurement.

use wiretail_schema::random::Random;

use crate::error::{DataplaneError, plan};

/// A fault that affects a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The packet is not sent.
    Drop,
    /// The packet is sent twice, back to back.
    Duplicate,
    /// The packet is sent after its successor.
    Swap,
}

/// Frequencies of random faults in a [`FaultSchedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// Number of packets in the trial.
    pub packets: u64,
    /// Drop one in this many packets; 0: none.
    pub drop_every: u64,
    /// Duplicate one in this many packets; 0: none.
    pub duplicate_every: u64,
    /// Send one in this many packets after its successor; 0: none.
    pub swap_every: u64,
    /// Seed of the random choice.
    pub seed: u64,
}

/// The faults of a trial. Packets with a signature are numbered from 0 in order of arrival; other packets
/// have no number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultSchedule {
    faults: Vec<(u64, Fault)>,
}

impl FaultSchedule {
    /// Creates a schedule from a list in ascending order of packets.
    ///
    /// # Errors
    /// Returns an error if packets are not in ascending order, or if the successor of a swapped packet has a
    /// fault, because the resulting order would be ambiguous.
    pub fn from_list(faults: Vec<(u64, Fault)>) -> Result<Self, DataplaneError> {
        for pair in faults.windows(2) {
            let ((first, fault), (second, _)) = (pair[0], pair[1]);
            if second <= first {
                return Err(plan("fault schedule", format!("{first}, then {second}"), "ascending packets"));
            }
            if fault == Fault::Swap && second == first + 1 {
                return Err(plan(
                    "fault of a swapped packet's successor",
                    second,
                    "a packet without a fault",
                ));
            }
        }
        Ok(Self { faults })
    }

    /// Places faults at random. Each block of `every` packets gets one fault, unless it is too close to
    /// another.
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
        // To leave room for swaps, faults are at least two packets apart, and the last packet has no fault.
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

    /// Number of faults of this kind.
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults.iter().filter(|(_, other)| *other == fault).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_faults_are_valid() {
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
    fn rejects_ambiguous_lists() {
        let refused = |list| FaultSchedule::from_list(list).unwrap_err().to_string();
        assert!(refused(vec![(5, Fault::Drop), (5, Fault::Swap)]).contains("ascending"));
        assert!(refused(vec![(5, Fault::Swap), (6, Fault::Drop)]).contains("successor"));
    }
}
