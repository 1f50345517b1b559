//! Simulation loop: packets pass through ring and server.

use wiretail_schema::prediction::queueing::{Arrivals, QueueingModel, Release};

use super::arrivals::Stream;
use super::random::{Draw, Wakes, generator};
use super::vacations::{Vacations, later};

/// Totals of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    pub sent: u64,
    /// Packets that arrived at a full ring.
    pub lost: u64,
    /// Batches served.
    pub batches: u64,
    /// Maximum number of packets that waited in the ring.
    pub queue_max: u64,
    /// Total work for packets and batches, in ns.
    pub work_ns: f64,
    /// Time from the first arrival to the end of the last service, in ns.
    pub span_ns: f64,
}

impl Totals {
    /// Adds the totals of another simulation.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.batches += other.batches;
        self.queue_max = self.queue_max.max(other.queue_max);
        self.work_ns += other.work_ns;
        self.span_ns += other.span_ns;
    }
}

/// Arrival times of the next packets to be served, including packets that have not arrived yet, in a
/// preallocated ring buffer.
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
    fn pop(&mut self) {
        self.head = (self.head + 1) & (self.times.len() - 1);
        self.len -= 1;
    }
}

/// Simulates a model that was checked.
///
/// The loop looks ahead by the largest number of packets that have ever waited. A single comparison with one
/// arrival then shows whether more packets wait than before, or more than fit into the ring. This leaves few
/// unpredictable branches, each of which costs as much as all the arithmetic for a packet.
pub(super) fn serve(
    model: &QueueingModel,
    arrivals: &Arrivals,
    packets: u64,
    seed: u64,
    mut outcome: impl FnMut(f64, Option<f64>),
) -> Totals {
    let mut stream = Stream::new(arrivals, packets, generator(seed, 0));
    let mut service = Draw::new(&model.service, generator(seed, 1));
    let mut overhead = Draw::new(&model.batch_overhead, generator(seed, 2));
    let mut vacations = Vacations::new(&model.interrupts, seed);
    let mut wakes = Wakes::new(&model.wake, seed);
    let transfer_ns = model.transfer_ns;
    let room = model.ring.min(packets.max(1)) as usize;
    let batch = model.batch.min(room as u64) as usize;
    let immediate = model.release == Release::Immediate;
    let mut ring = Ring { times: vec![0.0; room.next_power_of_two()], head: 0, len: 0 };
    let mut totals = Totals::default();

    ring.push(stream.next());
    let begun_ns = ring.get(0);
    // First arrival that is not in the ring.
    let mut arrival = stream.next();
    // Before the first packet, the server has been idle forever.
    let mut free_ns = f64::NEG_INFINITY;
    loop {
        let head_ns = ring.get(0);
        if head_ns == f64::INFINITY {
            break;
        }
        // A server that polls an empty ring finds the next packet on arrival.
        let idle_ns = head_ns - free_ns;
        free_ns = later(free_ns, head_ns);
        if let Some(wake_ns) = wakes.next(idle_ns) {
            let present_ns = vacations.present(free_ns);
            free_ns = vacations.done(present_ns, wake_ns);
        }
        let start_ns = vacations.present(free_ns);
        // Taking a batch frees slots of the ring. Packets that arrive before the next batch is taken share
        // the slots that are free at this point.
        while arrival <= start_ns {
            if ring.len < room {
                ring.push(arrival);
            } else {
                totals.lost += 1;
                outcome(arrival, None);
            }
            arrival = stream.next();
        }
        totals.batches += 1;
        let work_ns = overhead.next();
        totals.work_ns += work_ns;
        let mut done_ns = vacations.done(start_ns, work_ns);
        let most = ring.len.min(batch);
        let mut taken = 0;
        while taken < most && ring.get(taken) <= start_ns {
            let work_ns = service.next();
            totals.work_ns += work_ns;
            done_ns = vacations.done(done_ns, work_ns);
            if immediate {
                let at = ring.get(taken);
                outcome(at, Some(done_ns - at + transfer_ns));
            }
            taken += 1;
        }
        totals.sent += taken as u64;
        for _ in 0..taken {
            if !immediate {
                let at = ring.get(0);
                outcome(at, Some(done_ns - at + transfer_ns));
            }
            ring.pop();
            ring.push(arrival);
            arrival = stream.next();
        }
        free_ns = done_ns;
    }
    totals.sent += totals.lost;
    if totals.sent > 0 {
        totals.queue_max = ring.len as u64;
        totals.span_ns = free_ns - begun_ns;
    }
    totals
}
