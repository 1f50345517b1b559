//! Outcomes of packets, and their observers.

use wiretail_schema::packet::Record;

/// An ingress packet, as reported in outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Ingress timestamp, in ns.
    pub ts_ns: i64,
    pub key: u64,
    /// Position among the ingress packets, not counting duplicates, from 0. Reordering, loss runs and delay
    /// variation use it as the sequence number.
    pub sequence: u64,
    /// Number of duplicates at ingress before this packet.
    pub duplicates_before: u32,
    /// Flow, as an index into the flow table of the ingress tap.
    pub flow: u32,
}

impl Sent {
    /// Position in the ingress capture, from 0.
    pub fn index(&self) -> u64 {
        self.sequence + u64::from(self.duplicates_before)
    }
}

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The packet arrived with a delay of at least 0 and less than the window. The egress timestamp is
    /// `sent.ts_ns + delay_ns`.
    Matched {
        sent: Sent,
        /// Egress timestamp minus ingress timestamp, in ns.
        delay_ns: i64,
    },
    /// The packet arrived after the window.
    OutOfWindow {
        sent: Sent,
        /// Egress timestamp minus ingress timestamp, in ns.
        delay_ns: i64,
    },
    /// The packet was seen at egress before it was seen at ingress.
    Negative {
        sent: Sent,
        /// Egress timestamp minus ingress timestamp, in ns.
        delay_ns: i64,
    },
    /// The packet never arrived.
    Lost {
        sent: Sent,
        /// Why the packet was given up, if not because of its age.
        early: Option<GivenUp>,
    },
    /// A further copy, at ingress, of a packet in flight.
    DuplicatePre {
        /// Position in the ingress capture, from 0.
        index: u64,
        record: Record,
    },
    /// A further copy, at egress, of a packet that had already arrived.
    DuplicatePost { record: Record },
    /// The packet was seen at egress only.
    Extra {
        record: Record,
        /// Whether it was given up because too many packets were waiting.
        evicted: bool,
    },
}

impl Outcome {
    /// When the packet was first seen, in ns: at ingress, or at egress if it was seen only there.
    pub fn seen_ns(&self) -> i64 {
        match self {
            Self::Matched { sent, .. }
            | Self::OutOfWindow { sent, .. }
            | Self::Negative { sent, .. }
            | Self::Lost { sent, .. } => sent.ts_ns,
            Self::DuplicatePre { record, .. }
            | Self::DuplicatePost { record }
            | Self::Extra { record, .. } => record.ts_ns,
        }
    }
}

/// Why a packet was given up early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// Its key was reused after more than the window.
    KeyReused,
    /// More than `IN_FLIGHT_MAX` packets were in flight.
    TooMany,
}

/// Observes the outcomes in their order. A closure that takes an [`Outcome`] is an observer.
pub trait Observer {
    fn outcome(&mut self, outcome: &Outcome);

    /// Called for the most frequent outcome, [`Outcome::Matched`]. The matcher inlines the implementation.
    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        self.outcome(&Outcome::Matched { sent: *sent, delay_ns });
    }
}

impl<F: FnMut(&Outcome)> Observer for F {
    fn outcome(&mut self, outcome: &Outcome) {
        self(outcome);
    }
}

/// An optional observer.
impl<O: Observer + ?Sized> Observer for Option<&mut O> {
    #[inline]
    fn outcome(&mut self, outcome: &Outcome) {
        if let Some(observer) = self {
            observer.outcome(outcome);
        }
    }

    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        if let Some(observer) = self {
            observer.matched(sent, delay_ns);
        }
    }
}

/// Two observers, called one after the other.
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn outcome(&mut self, outcome: &Outcome) {
        self.0.outcome(outcome);
        self.1.outcome(outcome);
    }

    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        self.0.matched(sent, delay_ns);
        self.1.matched(sent, delay_ns);
    }
}

/// Passes on the outcomes of packets that were first seen after the warm-up.
pub struct Trimmed<O> {
    /// Time in ns; packets first seen before it are excluded.
    cut_ns: i64,
    pub observer: O,
}

impl<O> Trimmed<O> {
    /// Leaves out packets seen in the first `trim_ns` after `first_ns`, the timestamp of the first ingress
    /// packet.
    pub fn new(first_ns: i64, trim_ns: i64, observer: O) -> Self {
        Self { cut_ns: if trim_ns > 0 { first_ns.saturating_add(trim_ns) } else { i64::MIN }, observer }
    }
}

impl<O: Observer> Observer for Trimmed<O> {
    fn outcome(&mut self, outcome: &Outcome) {
        if outcome.seen_ns() >= self.cut_ns {
            self.observer.outcome(outcome);
        }
    }

    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        if sent.ts_ns >= self.cut_ns {
            self.observer.matched(sent, delay_ns);
        }
    }
}
