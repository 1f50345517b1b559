//! Packets in a first-come, first-served device: when each service interval began, which packets would have
//! waited anyway, and the delays that remain without a cause (Lindley's recursion; D. V. Lindley, "The theory
//! of queues with a single server", 1952).

/// Times of a packet, in ns of the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residence {
    /// Position in the ingress capture.
    pub index: u64,
    /// Arrival time.
    pub in_ns: u64,
    /// Departure time.
    pub out_ns: u64,
    /// Start of its service: its arrival, or the departure of the previous packet if that is later.
    pub start_ns: u64,
    /// Whether this packet left before an earlier one and therefore did not wait for it.
    pub passed: bool,
    /// Position of the packet that found the device empty and began this busy period.
    pub busy_from: usize,
}

impl Residence {
    pub fn delay_ns(&self) -> u64 {
        self.out_ns - self.in_ns
    }

    /// Time from the start of service to the departure, in ns.
    pub fn service_interval_ns(&self) -> u64 {
        self.out_ns - self.start_ns
    }
}

/// Residence times of packets `(index, in, out)` in the order of arrival.
pub fn residences(packets: impl IntoIterator<Item = (u64, u64, u64)>) -> Vec<Residence> {
    let mut all: Vec<Residence> = Vec::new();
    let (mut left_ns, mut busy_from) = (0, 0);
    for (index, in_ns, out_ns) in packets {
        let out_ns = out_ns.max(in_ns);
        if in_ns >= left_ns {
            busy_from = all.len();
        }
        let passed = left_ns > out_ns;
        let start_ns = if passed { in_ns } else { in_ns.max(left_ns) };
        left_ns = left_ns.max(out_ns);
        all.push(Residence { index, in_ns, out_ns, start_ns, passed, busy_from });
    }
    all
}

/// Delays that would result if the service interval of each packet were shorter by `less_ns(place)`, in ns.
pub fn delays_without(residences: &[Residence], mut less_ns: impl FnMut(usize) -> u64) -> Vec<u64> {
    let mut left_ns = 0;
    let mut delay = |(place, residence): (usize, &Residence)| {
        let service_interval_ns = residence.service_interval_ns().saturating_sub(less_ns(place));
        let start_ns = if residence.passed { residence.in_ns } else { residence.in_ns.max(left_ns) };
        let out_ns = start_ns + service_interval_ns;
        left_ns = left_ns.max(out_ns);
        out_ns - residence.in_ns
    };
    residences.iter().enumerate().map(&mut delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn computes_waiting_and_passing_packets() {
        let all = residences([(0, 100, 200), (1, 150, 260), (2, 300, 310), (3, 301, 305)]);
        let starts: Vec<u64> = all.iter().map(|residence| residence.start_ns).collect();
        assert_eq!(starts, [100, 200, 300, 301]);
        assert_eq!(all.iter().map(|residence| residence.busy_from).collect::<Vec<_>>(), [0, 0, 2, 2]);
        assert!(all[3].passed && !all[1].passed);
    }

    proptest! {
        /// A simulated server delays packets by known vacations. Without these vacations, the delays equal
        /// the delays of an undisturbed server.
        #[test]
        fn removing_vacations_gives_delays_of_undisturbed_server(
            packets in prop::collection::vec((1..200u64, 1..100u64, 0..5000u64, 0..10u8), 1..300)
        ) {
            let (mut now, mut left, mut left_without) = (0, 0, 0);
            let (mut seen, mut less, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            for (index, (gap, service, vacation, rare)) in packets.into_iter().enumerate() {
                now += gap;
                let vacation = if rare == 0 { vacation } else { 0 };
                left = left.max(now) + service + vacation;
                left_without = left_without.max(now) + service;
                seen.push((index as u64, now, left));
                less.push(vacation);
                expected.push(left_without - now);
            }
            prop_assert_eq!(delays_without(&residences(seen), |place| less[place]), expected);
        }
    }
}
