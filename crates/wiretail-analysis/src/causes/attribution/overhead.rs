//! Overhead of an interruption beyond the time between its tracepoints. The head is the time before the first
//! tracepoint, while the processor or a hypervisor delivers the interrupt. The tail is the time after the last
//! tracepoint.

use wiretail_schema::causes::trace::{Gap, TraceNames, TraceRoles};
use wiretail_schema::causes::{Certainty, EventCost};
use wiretail_schema::units::Share;

use super::host_tick::HostTick;
use super::timeline::{Edge, JOIN_NS, LATEST_NS, NO_SENDER, Raw, Span, Timelines};
use crate::stats::list::percentiles;

/// An overhead is used only if it is based on at least this many gaps.
const GAPS_MIN: usize = 5;
/// Minimum length of a piece of a stall, in ns. Shorter pieces cannot be distinguished from the time that it
/// takes to read the clock.
const PIECE_NS: u64 = 500;

/// Heads and tails, indexed by edge number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Median and 95th percentile in ns, and the number of gaps they are based on.
    heads: Vec<Cost>,
    tails: Vec<Cost>,
    /// Gaps without an event: their number, total time and longest time in ns.
    pub paused: [u64; 3],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    median_ns: u64,
    p95_ns: u64,
    gaps: usize,
}

impl Cost {
    fn of(mut samples: Vec<u64>) -> Self {
        if samples.len() < GAPS_MIN {
            return Self { gaps: samples.len(), ..Self::default() };
        }
        let [median_ns, p95_ns] = percentiles(&mut samples, [Share::MEDIAN, Share::P95]).unwrap_or_default();
        Self { median_ns, p95_ns, gaps: samples.len() }
    }
}

/// Returns those spans of an ordered list that overlap a window.
pub fn within(spans: &[Span], from_ns: u64, to_ns: u64) -> &[Span] {
    let first = spans.partition_point(|span| span.to_ns <= from_ns);
    let len = spans[first..].partition_point(|span| span.from_ns < to_ns);
    &spans[first..first + len]
}

/// Like [`within`], but processes millions of windows in one pass. The windows must be in almost ascending
/// order.
pub struct Sweep<'a> {
    spans: &'a [Span],
    first: usize,
    from_ns: u64,
}

impl<'a> Sweep<'a> {
    /// Creates a sweep over an ordered list.
    pub fn new(spans: &'a [Span]) -> Self {
        Self { spans, first: 0, from_ns: 0 }
    }

    /// Spans that overlap a window.
    pub fn within(&mut self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &'a Span> + use<'a> {
        if from_ns < self.from_ns {
            self.first = self.spans.partition_point(|span| span.to_ns <= from_ns);
        }
        self.from_ns = from_ns;
        self.first += self.spans[self.first..].iter().take_while(|span| span.to_ns <= from_ns).count();
        self.spans[self.first..].iter().take_while(move |span| span.from_ns < to_ns)
    }
}

impl Overheads {
    /// Calibrates from the gaps of a loop that only reads the clock. A gap with a single absence shows the
    /// head of its first event and the tail of its last one.
    pub fn calibrate(lines: &Timelines, roles: &TraceRoles) -> Self {
        let edges = lines.edges.values().len();
        let (mut heads, mut tails) = (vec![Vec::new(); edges], vec![Vec::new(); edges]);
        let mut paused = [0; 3];
        for gap in roles.spin.iter().flat_map(|spin| &spin.gaps) {
            let spans = within(&lines.device, gap.from_ns, gap.to_ns);
            let joined = spans.windows(2).all(|pair| pair[1].from_ns - pair[0].to_ns <= JOIN_NS);
            match spans {
                [] => {
                    let length_ns = gap.to_ns.saturating_sub(gap.from_ns);
                    paused =
                        [paused[0] + 1, u64::saturating_add(paused[1], length_ns), paused[2].max(length_ns)];
                }
                [first, .., last] | [first @ last] if joined => {
                    heads[usize::from(first.edge)]
                        .push(first.from_ns.saturating_sub(gap.from_ns).min(LATEST_NS));
                    tails[usize::from(last.edge)].push(gap.to_ns.saturating_sub(last.to_ns).min(LATEST_NS));
                }
                _ => {}
            }
        }
        let overheads = |samples: Vec<Vec<u64>>| samples.into_iter().map(Cost::of).collect();
        Self { heads: overheads(heads), tails: overheads(tails), paused }
    }

    fn head(&self, edge: u16) -> Cost {
        self.heads.get(usize::from(edge)).copied().unwrap_or_default()
    }

    fn tail(&self, edge: u16) -> Cost {
        self.tails.get(usize::from(edge)).copied().unwrap_or_default()
    }

    /// Longest 95th percentile of the known heads, in ns.
    pub fn max_head_ns(&self) -> Option<u64> {
        self.heads.iter().filter(|head| head.gaps >= GAPS_MIN).map(|head| head.p95_ns).max()
    }

    /// The overheads as a table.
    pub fn table(&self, lines: &Timelines, names: &dyn TraceNames) -> Vec<EventCost> {
        let name = |edge: &Edge| match edge {
            Edge::Vector(name) => names.name(*name).unwrap_or("an interrupt").to_owned(),
            Edge::Irq => "device interrupt".to_owned(),
            Edge::Switch => "switch of tasks".to_owned(),
            Edge::Softirq => "softirq".to_owned(),
            Edge::Other => "other".to_owned(),
        };
        let rows = lines.edges.values().iter().zip(self.heads.iter().zip(&self.tails));
        rows.filter(|(_, (head, tail))| head.gaps + tail.gaps > 0)
            .map(|(edge, (head, tail))| EventCost {
                event: name(edge),
                gaps: head.gaps.max(tail.gaps) as u64,
                head_ns: [head.median_ns, head.p95_ns],
                tail_ns: [tail.median_ns, tail.p95_ns],
            })
            .collect()
    }

    /// Extends the spans by their heads and tails, and fills the time between two spans of one absence.
    pub fn widen(&self, spans: &[Span], lines: &Timelines) -> Vec<Span> {
        let mut wide: Vec<Span> = Vec::with_capacity(spans.len() * 2);
        for span in spans {
            if let Some(before) = wide.last().copied() {
                let between_ns = span.from_ns.saturating_sub(before.to_ns);
                let ends_softirq = lines.edges.values()[usize::from(before.edge)] == Edge::Softirq;
                let tail_ns = if between_ns <= JOIN_NS && !ends_softirq {
                    between_ns
                } else {
                    self.tail(before.edge).median_ns.min(between_ns)
                };
                add(&mut wide, before, before.to_ns, before.to_ns + tail_ns, Certainty::Modelled);
            }
            let free_from_ns = wide.last().map_or(0, |before| before.to_ns);
            let head_from_ns = span.from_ns.saturating_sub(self.head(span.edge).median_ns).max(free_from_ns);
            add(&mut wide, *span, head_from_ns, span.from_ns, Certainty::Modelled);
            wide.push(*span);
        }
        if let Some(last) = wide.last().copied() {
            add(
                &mut wide,
                last,
                last.to_ns,
                last.to_ns + self.tail(last.edge).median_ns,
                Certainty::Modelled,
            );
        }
        wide
    }

    /// Adds the parts of a polling device's logged stalls that no event covers. If an interrupt directly
    /// follows such a part, the part belongs to the interrupt's head, unless the head would then be unusually
    /// long. All other parts are pauses of the core. They are attributed to the host's tick if they coincide
    /// with it.
    pub fn add_stalls(&self, spans: &[Span], stalls: &[Gap], lines: &mut Timelines) -> Vec<Span> {
        let paused = lines.causes.of(Raw::Paused) as u16;
        let edge = lines.edges.of(Edge::Other) as u16;
        let mut pieces: Vec<Span> = Vec::new();
        for stall in stalls {
            // If the log is out of order, use only the part that does not overlap.
            let from_ns = pieces.last().map_or(0, |last| last.to_ns).max(stall.from_ns);
            let to_ns = stall.to_ns.min(LATEST_NS);
            let inside = within(spans, from_ns, to_ns);
            let mut at = from_ns;
            for span in inside {
                let length_ns = span.from_ns.saturating_sub(at);
                if length_ns >= PIECE_NS {
                    let head = self.head(span.edge);
                    let is_head = length_ns <= head.p95_ns.saturating_sub(head.median_ns);
                    let piece = Span { from_ns: at, to_ns: span.from_ns, ..*span };
                    pieces.push(if is_head {
                        Span { certainty: Certainty::Modelled, ..piece }
                    } else {
                        Span { cause: paused, sender: NO_SENDER, certainty: Certainty::Inferred, ..piece }
                    });
                }
                at = at.max(span.to_ns);
            }
            if to_ns.saturating_sub(at) >= PIECE_NS {
                let (sender, certainty) = (NO_SENDER, Certainty::Inferred);
                pieces.push(Span { from_ns: at, to_ns, sender, cause: paused, edge, certainty });
            }
        }
        let is_pause = |piece: &&Span| piece.cause == paused;
        let pauses: Vec<(u64, u64)> = pieces.iter().filter(is_pause).map(|p| (p.from_ns, p.to_ns)).collect();
        if let Some(tick) = HostTick::find(&pauses) {
            let cause = lines.causes.of(Raw::HostTick(tick.hz)) as u16;
            let of_tick = |piece: &&mut Span| piece.cause == paused && tick.has(piece.from_ns, piece.to_ns);
            pieces.iter_mut().filter(of_tick).for_each(|piece| piece.cause = cause);
        }
        merge(spans, &pieces)
    }
}

fn add(spans: &mut Vec<Span>, like: Span, from_ns: u64, to_ns: u64, certainty: Certainty) {
    if to_ns > from_ns {
        spans.push(Span { from_ns, to_ns, certainty, ..like });
    }
}

/// Merges two ordered lists of spans that do not overlap.
pub fn merge(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut all = Vec::with_capacity(spans.len() + others.len());
    let mut others = others.iter().peekable();
    for span in spans {
        while let Some(other) = others.next_if(|other| other.from_ns < span.from_ns) {
            all.push(*other);
        }
        all.push(*span);
    }
    all.extend(others);
    all
}
