//! Tallies everything about the packets of one measurement, in one pass over the matcher's outcomes.

use std::collections::VecDeque;

use wiretail_schema::summary::{Event, EventKind, Matching};

use crate::matching::{GivenUp, Observer, Outcome, Sent};
use crate::metrics::batches::BatchTally;
use crate::metrics::intervals::IntervalTally;
use crate::metrics::reordering::ReorderingTally;
use crate::metrics::variation::VariationTally;
use crate::metrics::worst::{Candidate, WorstTally};
use crate::stats::counts::Counts;

/// Maximum number of events kept per kind.
const EVENTS_MAX: u64 = 100;
/// Number of timestamps of lost packets that are kept, to find packets that were in flight when a capture
/// ended.
const LOST_TIMESTAMPS: usize = 1 << 16;
/// Number of flows, by order of appearance, whose delays are stored separately. For later flows, only sums
/// and extremes are stored.
const FLOWS_WITH_DELAYS: usize = 32;
/// Maximum number of flows that are distinguished, equal to the size of a tap's flow table.
pub const FLOWS_MAX: usize = 4096;
/// Maximum number of pages for the delays of one flow: 1 MiB. Further delays are stored as runs.
const FLOW_PAGES: usize = 512;

/// Counts for one flow.
#[derive(Debug, Clone)]
pub struct FlowTally {
    pub lost: u64,
    pub reordered: u64,
    /// Packets that arrived outside the window.
    pub outside: u64,
    pub delays: FlowDelays,
}

/// Delays of one flow's matched packets.
#[derive(Debug, Clone)]
pub enum FlowDelays {
    /// All delays.
    Each(Counts),
    /// Only the values shown in a table; [`Measurement`] holds the delays together with those of other flows.
    Sums {
        /// Number of packets.
        count: u64,
        /// Sum of the delays, in ns.
        sum_ns: i128,
        /// Smallest delay, in ns.
        min_ns: i64,
        /// Largest delay, in ns.
        max_ns: i64,
    },
}

impl FlowTally {
    fn new(place: usize) -> Self {
        let delays = if place < FLOWS_WITH_DELAYS {
            FlowDelays::Each(Counts::new(FLOW_PAGES))
        } else {
            FlowDelays::Sums { count: 0, sum_ns: 0, min_ns: i64::MAX, max_ns: i64::MIN }
        };
        Self { lost: 0, reordered: 0, outside: 0, delays }
    }

    /// Packets that arrived within the window.
    pub fn matched(&self) -> u64 {
        match &self.delays {
            FlowDelays::Each(counts) => counts.count(),
            FlowDelays::Sums { count, .. } => *count,
        }
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.matched() + self.lost + self.outside
    }
}

/// Runs of consecutive lost packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossRuns {
    /// Number of runs.
    pub runs: u64,
    /// Length of the longest run, in packets.
    pub longest: u64,
    /// Position in the ingress capture of the longest run's first packet.
    pub longest_start: Option<u64>,
    /// The current run, which may still grow: sequence number of its last packet, length, start.
    current: Option<(u64, u64, u64)>,
}

impl LossRuns {
    /// Adds a lost packet. Packets must come in the order sent.
    pub fn lose(&mut self, sent: &Sent) {
        let run = match self.current {
            Some((last, len, start)) if last + 1 == sent.sequence => (sent.sequence, len + 1, start),
            _ => {
                self.runs += 1;
                (sent.sequence, 1, sent.index())
            }
        };
        self.current = Some(run);
        if run.1 > self.longest {
            self.longest = run.1;
            self.longest_start = Some(run.2);
        }
    }

    /// Returns the counts since the last call and resets them. An unfinished run keeps its length.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self { current: self.current, ..Self::default() })
    }
}

/// Tallies of one measurement. Feed it the matcher's outcomes in order.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// Counts and events.
    pub matching: Matching,
    /// Flows by their number at the ingress tap. The entry at [`FLOWS_MAX`] holds all other flows.
    pub flows: Vec<FlowTally>,
    /// Delays of the flows that have no separate [`Counts`].
    other_delays: Counts,
    pub loss_runs: LossRuns,
    /// Reordering by RFC 4737.
    pub reordering: ReorderingTally,
    /// Delay variation by RFC 3393 and RFC 3550.
    pub variation: VariationTally,
    /// Packets with the highest delays.
    pub worst: WorstTally,
    /// Smallest and largest delay over time.
    pub intervals: IntervalTally,
    /// Delays per batch, to estimate dependence.
    pub batches: BatchTally,
    events_of_kind: [u64; 8],
    /// Ingress timestamps of the last packets that were lost before the last arrival.
    lost_timestamps: VecDeque<i64>,
    first_pre_ns: i64,
    last_post_ns: i64,
}

impl Measurement {
    /// Creates empty tallies for delays up to `window_ns` that keep the `worst_max` highest delays.
    ///
    /// The caller leaves out the packets of the first `trim_ns`. `first_pre_ns` is the first ingress
    /// timestamp; packets seen earlier at egress are counted separately.
    pub fn new(window_ns: i64, trim_ns: i64, worst_max: usize, first_pre_ns: i64) -> Self {
        Self {
            matching: Matching { window_ns, trim_ns, ..Matching::default() },
            flows: Vec::new(),
            other_delays: Counts::new(4 * FLOW_PAGES),
            loss_runs: LossRuns::default(),
            reordering: ReorderingTally::default(),
            variation: VariationTally::default(),
            worst: WorstTally::new(worst_max),
            intervals: IntervalTally::default(),
            batches: BatchTally::default(),
            events_of_kind: [0; 8],
            lost_timestamps: VecDeque::new(),
            first_pre_ns,
            last_post_ns: i64::MIN,
        }
    }

    #[inline]
    fn arrive(&mut self, sent: &Sent, post_ns: i64) {
        if let Some(overtaker) = self.reordering.arrive(sent.sequence) {
            self.reordered(sent, post_ns, overtaker);
        }
    }

    #[inline(never)]
    fn reordered(&mut self, sent: &Sent, post_ns: i64, overtaker: u64) {
        self.flow(sent.flow).reordered += 1;
        let overtaker_ns = self.variation.arrival_ns(overtaker);
        self.reordering.late_by(overtaker_ns.map(|overtaker_ns| post_ns.saturating_sub(overtaker_ns)));
        self.event(EventKind::Reordered, sent.key, Some(sent), Some(post_ns));
    }

    #[cold]
    fn rare(&mut self, sent: &Sent, delay_ns: i64) {
        self.matching.lost_at_end = 0;
        if delay_ns == 0 {
            self.matching.zero += 1;
            self.event(EventKind::Zero, sent.key, Some(sent), Some(sent.ts_ns));
        }
    }

    fn arrived_outside(&mut self, kind: EventKind, sent: &Sent, delay_ns: i64) {
        let post_ns = sent.ts_ns.saturating_add(delay_ns);
        self.flow(sent.flow).outside += 1;
        self.matching.lost_at_end = 0;
        self.last_post_ns = self.last_post_ns.max(post_ns);
        self.event(kind, sent.key, Some(sent), Some(post_ns));
        self.variation.arrive_outside(sent.sequence, post_ns);
        self.arrive(sent, post_ns);
    }

    fn lost(&mut self, sent: &Sent, early: Option<GivenUp>) {
        self.matching.lost += 1;
        self.batches.fail(sent.ts_ns);
        match early {
            Some(GivenUp::KeyReused) => self.matching.reused += 1,
            Some(GivenUp::TooMany) => self.matching.evicted += 1,
            None => {}
        }
        // A later arrival resets this counter, because it shows that the capture had not ended yet.
        if sent.ts_ns > self.last_post_ns {
            self.matching.lost_at_end += 1;
        } else {
            if self.lost_timestamps.len() == LOST_TIMESTAMPS {
                self.lost_timestamps.pop_front();
            }
            self.lost_timestamps.push_back(sent.ts_ns);
        }
        self.flow(sent.flow).lost += 1;
        self.loss_runs.lose(sent);
        self.event(EventKind::Lost, sent.key, Some(sent), None);
    }

    #[inline]
    fn flow(&mut self, flow: u32) -> &mut FlowTally {
        let place = (flow as usize).min(FLOWS_MAX);
        if place >= self.flows.len() {
            self.add_flows(place);
        }
        &mut self.flows[place]
    }

    #[cold]
    fn add_flows(&mut self, place: usize) {
        self.flows.extend((self.flows.len()..=place).map(FlowTally::new));
    }

    fn room_for(&mut self, kind: EventKind) -> bool {
        let seen = &mut self.events_of_kind[kind as usize];
        *seen += 1;
        *seen <= EVENTS_MAX
    }

    fn event(&mut self, kind: EventKind, key: u64, sent: Option<&Sent>, post_ns: Option<i64>) {
        if self.room_for(kind) {
            self.matching.events.push(Event {
                kind,
                key: format!("{key:#x}"),
                pre_index: sent.map(|sent| sent.index()),
                pre_ns: sent.map(|sent| sent.ts_ns),
                post_ns,
            });
        }
    }

    /// Delays of all matched packets.
    pub fn delays(&self) -> Counts {
        let mut all = Counts::new(4096);
        all.absorb(&self.other_delays);
        for flow in &self.flows {
            if let FlowDelays::Each(delays) = &flow.delays {
                all.absorb(delays);
            }
        }
        all
    }

    /// Number of lost packets that were sent less than `limit_ns` before the egress capture ended, so that
    /// they may have arrived after it.
    pub fn lost_unseen(&self, limit_ns: i64) -> u64 {
        let end = self.last_post_ns;
        let in_flight = |timestamp: &&i64| **timestamp <= end && timestamp.saturating_add(limit_ns) > end;
        self.matching.lost_at_end + self.lost_timestamps.iter().filter(in_flight).count() as u64
    }

    /// Number of packets sent without duplicates: matched, negative, out of window and lost.
    pub fn sent(&self) -> u64 {
        self.flows.iter().map(FlowTally::sent).sum()
    }
}

impl Observer for Measurement {
    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        let post_ns = sent.ts_ns + delay_ns;
        self.matching.matched += 1;
        match &mut self.flow(sent.flow).delays {
            FlowDelays::Each(delays) => delays.add(delay_ns),
            FlowDelays::Sums { count, sum_ns, min_ns, max_ns } => {
                *count += 1;
                *sum_ns += i128::from(delay_ns);
                *min_ns = delay_ns.min(*min_ns);
                *max_ns = delay_ns.max(*max_ns);
                self.other_delays.add(delay_ns);
            }
        }
        self.worst.take(Candidate { delay_ns, pre_ns: sent.ts_ns, pre_index: sent.index(), flow: sent.flow });
        self.intervals.take(post_ns, delay_ns);
        self.batches.arrive(post_ns, delay_ns);
        self.variation.arrive(sent.sequence, delay_ns, post_ns);
        if self.matching.lost_at_end > 0 || delay_ns == 0 {
            self.rare(sent, delay_ns);
        }
        self.last_post_ns = post_ns;
        self.arrive(sent, post_ns);
    }

    #[inline(never)]
    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Matched { sent, delay_ns } => self.matched(sent, *delay_ns),
            Outcome::OutOfWindow { sent, delay_ns } => {
                self.matching.out_of_window += 1;
                self.batches.fail(sent.ts_ns.saturating_add(*delay_ns));
                self.arrived_outside(EventKind::OutOfWindow, sent, *delay_ns);
            }
            Outcome::Negative { sent, delay_ns } => {
                self.matching.negative += 1;
                self.arrived_outside(EventKind::Negative, sent, *delay_ns);
            }
            Outcome::Lost { sent, early } => self.lost(sent, *early),
            Outcome::DuplicatePre { index, record } => {
                self.matching.duplicates_pre += 1;
                if self.room_for(EventKind::DuplicatePre) {
                    self.matching.events.push(Event {
                        kind: EventKind::DuplicatePre,
                        key: format!("{:#x}", record.key),
                        pre_index: Some(*index),
                        pre_ns: Some(record.ts_ns),
                        post_ns: None,
                    });
                }
            }
            Outcome::DuplicatePost { record } => {
                self.matching.duplicates_post += 1;
                self.last_post_ns = self.last_post_ns.max(record.ts_ns);
                self.event(EventKind::DuplicatePost, record.key, None, Some(record.ts_ns));
            }
            Outcome::Extra { record, evicted } => {
                self.matching.extra += 1;
                self.matching.evicted += u64::from(*evicted);
                self.matching.extra_at_start += u64::from(record.ts_ns < self.first_pre_ns);
                self.event(EventKind::Extra, record.key, None, Some(record.ts_ns));
            }
        }
    }
}
