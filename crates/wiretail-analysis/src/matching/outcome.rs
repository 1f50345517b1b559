//! What became of each packet, and who observes it.

use wiretail_schema::packet::Record;

/// An ingress packet: what of it goes into every outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When it was seen at ingress, in ns.
    pub ts_ns: i64,
    /// Its key.
    pub key: u64,
    /// Position among the ingress packets that are no duplicates, from 0: the sequence number that
    /// reordering, loss runs and delay variation go by.
    pub sequence: u64,
    /// Duplicates at ingress before it.
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

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived: the delay is 0 or more and shorter than the window. The egress stamp is `sent.ts_ns + delay_ns`.
    Matched {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It arrived after the window.
    OutOfWindow {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It was seen at egress before ingress.
    Negative {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It never arrived.
    Lost {
        /// The packet.
        sent: Sent,
        /// Why it was given up, where that was not for its age.
        early: Option<GivenUp>,
    },
    /// A further copy at ingress of a packet under way.
    DuplicatePre {
        /// Its position in the ingress capture, from 0.
        index: u64,
        /// The copy.
        record: Record,
    },
    /// A further copy at egress of a packet that had arrived.
    DuplicatePost {
        /// The copy.
        record: Record,
    },
    /// Seen at egress only.
    Extra {
        /// The packet.
        record: Record,
        /// Whether it was given up because too many were waiting.
        evicted: bool,
    },
}

impl Outcome {
    /// When the packet was first seen: at ingress, or at egress where it was seen only there, in ns.
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

/// Why a packet was given up before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// Its key came again, later than the window.
    KeyReused,
    /// More than `IN_FLIGHT_MAX` packets were under way.
    TooMany,
}

/// Observes the outcomes, in their order. A closure that takes an [`Outcome`] is one.
pub trait Observer {
    /// Takes an outcome.
    fn outcome(&mut self, outcome: &Outcome);

    /// Takes the usual one, [`Outcome::Matched`]. The matcher inlines what an observer of every packet puts here.
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

/// An observer if there is one.
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

/// Two observers, one after the other.
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

/// An observer of the packets after the warm-up.
pub struct Trimmed<O> {
    /// Packets seen before are left out.
    cut_ns: i64,
    /// Observes the others.
    pub observer: O,
}

impl<O> Trimmed<O> {
    /// Leaves out `trim_ns` from the first ingress packet on, of which this is the stamp.
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
