//! The device's baseline: the time that each cause usually takes. If a service interval was longer than usual
//! and no event explains it, the excess time gets a span of its own. If later packets had to wait because of
//! it, their wait is attributed to this span.

use wiretail_schema::causes::Certainty;
use wiretail_schema::causes::trace::TraceRoles;
use wiretail_schema::units::Share;

use super::queue::Residence;
use super::timeline::{Edge, NO_SENDER, Raw, Span, Timelines};
use crate::causes::attribution::overhead::{Sweep, merge, within};
use crate::stats::list;

/// Minimum time, in ns, by which a service interval must exceed the usual one. A smaller excess is
/// indistinguishable from normal variation. The device's loop logs stalls of at least this length.
const EXCESS_NS: u64 = 5_000;
/// Time in ns after a packet's timestamp during which the sending core may still be working on the packet.
const HANDOVER_NS: u64 = 3_000;

/// Time in ns after a packet's departure during which the device may still be working on the packet.
const AFTER_NS: u64 = 10_000;

/// Delays between these percentiles count as usual.
const QUARTILES: [Share; 2] = [Share::P25, Share::P75];

/// Usual time that each cause takes per packet, by cause number. The device's own sending is also a softirq.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Usual time until the packet has left.
    of_packet_ns: Vec<u64>,
    /// Usual total time. A tap takes a packet's timestamp before or during the softirq that delivers it.
    whole_ns: Vec<u64>,
}

impl Baseline {
    /// Computes the means over the packets whose delay lies between the quartiles. A cause that affects at
    /// most half of these packets gets 0.
    pub fn of(residences: &[Residence], spans: &[Span], causes: usize) -> Self {
        let mut baseline = Self { of_packet_ns: vec![0; causes], whole_ns: vec![0; causes] };
        let mut delays: Vec<u64> = residences.iter().map(Residence::delay_ns).collect();
        let Some([low, high]) = list::percentiles(&mut delays, QUARTILES) else { return baseline };
        let (mut met, mut met_whole, mut packets) = (vec![0u64; causes], vec![0u64; causes], 0u64);
        let mut next = residences.iter().skip(1);
        let mut sweep = Sweep::new(spans);
        for residence in residences {
            let next_ns = next.next().map_or(u64::MAX, |next| next.in_ns);
            if !(low..=high).contains(&residence.delay_ns()) {
                continue;
            }
            packets += 1;
            let after_ns = next_ns.min(residence.out_ns + AFTER_NS).max(residence.out_ns);
            for span in sweep.within(residence.in_ns, after_ns) {
                let cause = usize::from(span.cause);
                let within_ns = overlap_ns(span, residence.in_ns, residence.out_ns);
                baseline.of_packet_ns[cause] = baseline.of_packet_ns[cause].saturating_add(within_ns);
                met[cause] += u64::from(within_ns > 0);
                let whole_ns = overlap_ns(span, residence.in_ns, after_ns);
                baseline.whole_ns[cause] = baseline.whole_ns[cause].saturating_add(whole_ns);
                met_whole[cause] += 1;
            }
        }
        for (list, met) in [(&mut baseline.of_packet_ns, met), (&mut baseline.whole_ns, met_whole)] {
            for (sum, met) in list.iter_mut().zip(met) {
                *sum = if met * 2 > packets { *sum / packets } else { 0 };
            }
        }
        baseline
    }

    /// Usual time of a cause while a packet is in the device and `served` other packets are served, in ns.
    /// Returns 0 for a cause that was added later.
    pub fn ns(&self, cause: u16, served: u64) -> u64 {
        let at = |list: &[u64]| list.get(usize::from(cause)).copied().unwrap_or(0);
        at(&self.of_packet_ns).saturating_add(served.saturating_mul(at(&self.whole_ns)))
    }

    /// Usual time of a cause while `served` packets are served, in ns.
    pub fn whole_ns(&self, cause: u16, served: u64) -> u64 {
        self.ns(cause, served) - self.ns(cause, 0)
    }
}

/// Overlap of a span with a window, in ns.
pub fn overlap_ns(span: &Span, from_ns: u64, to_ns: u64) -> u64 {
    span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns))
}

/// Time beyond the baseline that causes took from the packets' service intervals.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// `(packet's position, cause, ns)`, ordered by position.
    pub entries: Vec<(u32, u16, u64)>,
    /// Each packet's service interval minus its times in `entries`, in ns.
    pub own_ns: Vec<u64>,
}

impl Taken {
    /// Computes the times from the spans of the device's core.
    pub fn of(residences: &[Residence], spans: &[Span], baseline: &Baseline) -> Self {
        let mut taken = Self::default();
        let mut sums: Vec<(u16, u64)> = Vec::new();
        let mut sweep = Sweep::new(spans);
        for (place, residence) in residences.iter().enumerate() {
            sums.clear();
            for span in sweep.within(residence.start_ns, residence.out_ns) {
                let ns = overlap_ns(span, residence.start_ns, residence.out_ns);
                match sums.iter_mut().find(|(cause, _)| *cause == span.cause) {
                    Some((_, sum_ns)) => *sum_ns += ns,
                    None => sums.push((span.cause, ns)),
                }
            }
            let mut own_ns = residence.service_interval_ns();
            for (cause, sum_ns) in &sums {
                // If the packet waited, its service interval also contains the time that was still needed to
                // send the previous packet.
                let baseline_ns = match residence.start_ns > residence.in_ns {
                    true => baseline.whole_ns(*cause, 1),
                    false => baseline.ns(*cause, 0),
                };
                let beyond_ns = sum_ns.saturating_sub(baseline_ns);
                if beyond_ns > 0 {
                    taken.entries.push((place as u32, *cause, beyond_ns));
                    own_ns -= beyond_ns;
                }
            }
            taken.own_ns.push(own_ns);
        }
        taken
    }
}

/// Returns the spans, with a new span for each service interval that was longer than usual although no event
/// explains it. `feeding` contains the interrupts of the sending core.
pub fn add_excess(
    residences: &[Residence],
    spans: &[Span],
    baseline: &Baseline,
    roles: &TraceRoles,
    lines: &mut Timelines,
    feeding: &[Span],
) -> Vec<Span> {
    let taken = Taken::of(residences, spans, baseline);
    let turns = BaselineService::of(residences, &taken.own_ns);
    // A loop that logs its stalls was working at all other times. A loop that sleeps while idle was working
    // whenever it ran. For a loop that polls without logging stalls, the cause is unknown.
    let whose = if roles.logs_stalls || !roles.polls { Raw::Device } else { Raw::Unknown };
    let mut pieces: Vec<Span> = Vec::new();
    let edge = lines.edges.of(Edge::Other) as u16;
    let fault = lines.causes.of(Raw::PageFault) as u16;
    for (place, (residence, own_ns)) in residences.iter().zip(&taken.own_ns).enumerate() {
        let excess_ns = own_ns.saturating_sub(turns.ns(residence));
        if excess_ns < EXCESS_NS {
            continue;
        }
        let (cause, ns, sender) = if let Some((fed, ns)) = held_by_sender(residence, feeding) {
            (lines.causes.of(Raw::Feeding(fed.cause)), ns.min(excess_ns), fed.sender)
        } else if roles.batch > 1 && leave_together(residences, place) > 0 {
            (lines.causes.of(Raw::Batch), excess_ns, NO_SENDER)
        } else if within(spans, residence.start_ns, residence.out_ns).iter().any(|span| span.cause == fault) {
            // The trace contains only the start of a page fault. If the fault took long, the rest of the
            // service interval is attributed to it.
            (u32::from(fault), excess_ns, NO_SENDER)
        } else {
            (lines.causes.of(whose), excess_ns, NO_SENDER)
        };
        let certainty = Certainty::Inferred;
        let like = Span { from_ns: 0, to_ns: 0, sender, cause: cause as u16, edge, certainty };
        let free_from_ns = pieces.last().map_or(0, |last| last.to_ns).max(residence.start_ns);
        fill(spans, free_from_ns, residence.out_ns, ns, like, &mut pieces);
    }
    merge(spans, &pieces)
}

/// Baseline service intervals: of packets that found the device empty, and of packets that waited.
struct BaselineService {
    empty_ns: u64,
    waited_ns: u64,
}

impl BaselineService {
    fn of(residences: &[Residence], own_ns: &[u64]) -> Self {
        let median = |waited: bool| {
            let turns = residences.iter().zip(own_ns);
            let turns: Vec<u64> =
                turns.filter(|(p, _)| (p.start_ns > p.in_ns) == waited).map(|(_, own)| *own).collect();
            // A meaningful median needs at least ten packets.
            if turns.len() >= 10 { list::median(turns) } else { None }
        };
        let (empty, waited) = (median(false), median(true));
        let empty_ns = empty.or(waited).unwrap_or(u64::MAX);
        Self { empty_ns, waited_ns: waited.unwrap_or(empty_ns) }
    }

    fn ns(&self, residence: &Residence) -> u64 {
        if residence.start_ns > residence.in_ns { self.waited_ns } else { self.empty_ns }
    }
}

/// Returns the span that occupied the sending core just before it handed the packet over, and how much longer
/// the core remained occupied.
fn held_by_sender<'a>(residence: &Residence, feeding: &'a [Span]) -> Option<(&'a Span, u64)> {
    let first = within(feeding, residence.in_ns, residence.in_ns + HANDOVER_NS).first()?;
    let mut to_ns = first.to_ns;
    let at = feeding.partition_point(|span| span.from_ns < first.from_ns);
    for next in &feeding[at..] {
        if next.from_ns > to_ns {
            break;
        }
        to_ns = next.to_ns;
    }
    let together = feeding[at..].iter().take_while(|span| span.to_ns <= to_ns);
    let named = together.into_iter().find(|span| span.certainty == Certainty::Observed);
    let ns = to_ns.min(residence.out_ns).saturating_sub(residence.in_ns);
    (ns > 0).then_some((named.unwrap_or(first), ns))
}

/// Number of packets that arrived while this packet was in the device, and that left immediately after it.
fn leave_together(residences: &[Residence], place: usize) -> usize {
    /// Maximum time between the departures of two packets of a batch, in ns.
    const APART_NS: u64 = 3_000;
    let mut left_ns = residences[place].out_ns;
    let behind = residences[place + 1..].iter().take_while(|other| other.in_ns < residences[place].out_ns);
    behind
        .take_while(|other| {
            let together = other.out_ns <= left_ns + APART_NS;
            left_ns = other.out_ns;
            together
        })
        .count()
}

/// Adds copies of `like` that together cover `ns` of the free time in a window. The latest free time is
/// filled first, because the packet was present until it left.
fn fill(spans: &[Span], from_ns: u64, to_ns: u64, ns: u64, like: Span, pieces: &mut Vec<Span>) {
    let (mut left_ns, mut until_ns) = (ns, to_ns);
    let first = pieces.len();
    let mut add = |from_ns: u64, to_ns: u64, left_ns: &mut u64| {
        let length_ns = to_ns.saturating_sub(from_ns).min(*left_ns);
        if length_ns > 0 {
            pieces.push(Span { from_ns: to_ns - length_ns, to_ns, ..like });
            *left_ns -= length_ns;
        }
    };
    for span in within(spans, from_ns, to_ns).iter().rev() {
        add(span.to_ns.max(from_ns), until_ns, &mut left_ns);
        until_ns = span.from_ns;
    }
    add(from_ns, until_ns.max(from_ns), &mut left_ns);
    pieces[first..].reverse();
}
