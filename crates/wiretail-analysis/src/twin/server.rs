//! The loop: packets through ring and server.

use wiretail_schema::predict::twin::{Arrivals, Release, TwinModel};

use super::arrivals::Stream;
use super::random::{Draw, Random, Wakes};
use super::vacations::Vacations;

/// What a simulation counts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Packets that arrived.
    pub sent: u64,
    /// Packets that found the ring full.
    pub lost: u64,
    /// Batches served.
    pub batches: u64,
    /// Most packets that waited in the ring at once.
    pub queue_max: u64,
    /// Work for packets and batches, in ns.
    pub work_ns: f64,
    /// From the first arrival to the end of the last service, in ns.
    pub span_ns: f64,
}

impl Totals {
    /// Adds those of another simulation.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.batches += other.batches;
        self.queue_max = self.queue_max.max(other.queue_max);
        self.work_ns += other.work_ns;
        self.span_ns += other.span_ns;
    }
}

/// Packets that wait, by their arrival times: a ring that is made once.
struct Ring {
    times: Vec<f64>,
    head: usize,
    len: usize,
}

impl Ring {
    #[inline]
    fn push(&mut self, at_ns: f64) {
        let slot = (self.head + self.len) & (self.times.len() - 1);
        self.times[slot] = at_ns;
        self.len += 1;
    }

    #[inline]
    fn get(&self, index: usize) -> f64 {
        self.times[(self.head + index) & (self.times.len() - 1)]
    }

    #[inline]
    fn pop(&mut self, count: usize) {
        self.len -= count;
        // From the start again where nothing waits: a large ring then stays in the cache.
        self.head = if self.len == 0 { 0 } else { (self.head + count) & (self.times.len() - 1) };
    }
}

/// The simulation itself, of a model that was checked.
pub(super) fn serve(
    model: &TwinModel,
    arrivals: &Arrivals,
    packets: u64,
    seed: u64,
    mut outcome: impl FnMut(f64, Option<f64>),
) -> Totals {
    let mut stream = Stream::new(arrivals, packets, Random::new(seed, 0));
    let mut service = Draw::new(&model.service, Random::new(seed, 1));
    let mut overhead = Draw::new(&model.batch_overhead, Random::new(seed, 2));
    let mut vacations = Vacations::new(&model.interrupts, seed, 3);
    let mut wakes = Wakes::new(&model.wake, seed);
    let transfer_ns = model.transfer_ns;
    let room = model.ring.min(packets.max(1)) as usize;
    let batch = model.batch.min(room as u64) as usize;
    let immediate = model.release == Release::Immediate;
    let mut ring = Ring { times: vec![0.0; room.next_power_of_two()], head: 0, len: 0 };
    let mut totals = Totals::default();

    let mut arrival = stream.next();
    let first_ns = if arrival.is_finite() { arrival } else { 0.0 };
    // Before its first packet it has been idle for ever.
    let mut free_ns = f64::NEG_INFINITY;
    loop {
        // Who polls an empty ring finds the next packet when it is there.
        if ring.len == 0 {
            if arrival == f64::INFINITY {
                break;
            }
            if arrival > free_ns {
                let idle_ns = arrival - free_ns;
                free_ns = arrival;
                if let Some(wake_ns) = wakes.next(idle_ns) {
                    let present_ns = vacations.present(arrival);
                    free_ns = vacations.done(present_ns, wake_ns);
                }
            }
        }
        let start_ns = vacations.present(free_ns);
        // Slots become free when a batch is taken: what came since then shares those that were free behind it.
        while arrival <= start_ns {
            totals.sent += 1;
            if ring.len < room {
                ring.push(arrival);
            } else {
                totals.lost += 1;
                outcome(arrival, None);
            }
            arrival = stream.next();
        }
        totals.queue_max = totals.queue_max.max(ring.len as u64);
        let taken = ring.len.min(batch);
        totals.batches += 1;
        let work_ns = overhead.next();
        totals.work_ns += work_ns;
        let mut done_ns = vacations.done(start_ns, work_ns);
        for index in 0..taken {
            let work_ns = service.next();
            totals.work_ns += work_ns;
            done_ns = vacations.done(done_ns, work_ns);
            if immediate {
                let at = ring.get(index);
                outcome(at, Some(done_ns - at + transfer_ns));
            }
        }
        if !immediate {
            for index in 0..taken {
                let at = ring.get(index);
                outcome(at, Some(done_ns - at + transfer_ns));
            }
        }
        ring.pop(taken);
        free_ns = done_ns;
    }
    totals.span_ns = if totals.sent > 0 { free_ns - first_ns } else { 0.0 };
    totals
}
