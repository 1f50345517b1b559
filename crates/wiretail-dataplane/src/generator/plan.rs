//! What a load generator is to send.

use std::sync::Arc;

use wiretail_schema::random::Random;
use wiretail_schema::units::sizes::{CYCLE_MAX, FrameSizes, NAMED_MIXES};

use crate::error::{DataplaneError, plan};
use crate::generator::frame::{Addresses, FRAME_LEN_MAX, FRAME_LEN_MIN, PORT_FIRST};
use crate::generator::marks::Marks;
use crate::generator::recording::Recording;

/// Highest rate in packets a second that can be planned.
pub const RATE_PPS_MAX: u64 = 100_000_000;

/// What a load generator is to send: streams that take turns, at the times of one pattern; or a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorPlan {
    /// The streams, at least one; they take turns packet by packet. None of them with a recording.
    pub streams: Vec<Stream>,
    /// Sent in place of the streams, as it was recorded, and at its own times in place of the pattern's.
    /// It is sent once, or up to [`GeneratorPlan::end`].
    pub recording: Option<Arc<Recording>>,
    /// Which packets of the streams carry a text; None: none.
    pub marks: Option<Marks>,
    /// When packets depart.
    pub pattern: Pattern,
    /// When it ends.
    pub end: End,
    /// Seed of everything random.
    pub seed: u64,
    /// Time of the first departure, CLOCK_MONOTONIC in ns; None: as soon as everything is ready.
    pub start_ns: Option<u64>,
    /// How it waits for a departure.
    pub pacing: Pacing,
    /// A packet that departs more than this later than intended counts as late, in ns.
    pub late_limit_ns: u64,
    /// Id of the first packet: for several generators in one trial, whose ids must differ.
    pub id_first: u32,
}

/// How a load generator waits for a departure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pacing {
    /// It reads the clock all the time: packets leave within some ten nanoseconds of their time, and nobody else
    /// has the core.
    #[default]
    Spin,
    /// It sleeps until the departure, so that others can use the core: the kernel wakes it some 10 to 60 us late.
    Sleep,
}

/// One stream of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its number in the signature.
    pub id: u16,
    /// Number of the port that it leaves through, from 0.
    pub port: usize,
    /// Who sends to whom.
    pub addresses: Addresses,
    /// Number of flows, told apart by their source port, taking turns.
    pub flows: u16,
    /// Lengths of the frames.
    pub sizes: Sizes,
}

/// Lengths of frames in bytes, without the frame check sequence of 4 bytes: what is commonly called
/// a 64-byte packet has 60 here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(u16),
    /// Lengths and how many frames of each make a cycle, the order within which is shuffled once:
    /// the mix is exact in every cycle.
    Imix(Vec<(u16, u32)>),
}

impl Sizes {
    /// The mix of FD.io CSIT: 7 of 64, 4 of 570 and 1 of 1518 bytes, frame check sequence included.
    pub fn imix_csit() -> Self {
        Self::Imix(NAMED_MIXES[0].1.to_vec())
    }

    /// The lengths in the order in which they are sent, again and again.
    pub(crate) fn cycle(&self, seed: u64) -> Vec<u16> {
        match self {
            Self::Fixed(len) => vec![*len],
            Self::Imix(parts) => {
                let mut cycle: Vec<u16> = parts
                    .iter()
                    .flat_map(|(len, count)| std::iter::repeat_n(*len, *count as usize))
                    .collect();
                let mut random = Random::new(seed);
                // Fisher and Yates.
                for last in (1..cycle.len()).rev() {
                    cycle.swap(last, random.below(last as u64 + 1) as usize);
                }
                cycle
            }
        }
    }

    /// The shortest of them.
    fn least(&self) -> u16 {
        match self {
            Self::Fixed(len) => *len,
            Self::Imix(parts) => parts.iter().map(|(len, _)| *len).min().unwrap_or(0),
        }
    }

    fn check(&self) -> Result<(), DataplaneError> {
        let parts: &[(u16, u32)] = match self {
            Self::Fixed(len) => &[(*len, 1)],
            Self::Imix(parts) => parts,
        };
        for (len, _) in parts {
            if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(len) {
                return Err(plan(
                    "frame length",
                    len,
                    "60 to 1514 bytes, counted without the frame check sequence \
                     (from 65 bytes on the whole signature fits)",
                ));
            }
        }
        let frames: u64 = parts.iter().map(|(_, count)| u64::from(*count)).sum();
        if !(1..=u64::from(CYCLE_MAX)).contains(&frames) {
            return Err(plan("number of frames in a cycle of the mix", frames, "1 to 4096"));
        }
        Ok(())
    }
}

impl From<&FrameSizes> for Sizes {
    fn from(sizes: &FrameSizes) -> Self {
        match sizes {
            FrameSizes::Fixed(len) => Self::Fixed(*len),
            FrameSizes::Mix { parts, .. } => Self::Imix(parts.clone()),
        }
    }
}

/// When packets depart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Evenly spaced.
    Constant {
        /// Packets a second.
        rate_pps: u64,
    },
    /// Back to back in bursts, the bursts evenly spaced.
    Bursts {
        /// Packets a second on average.
        rate_pps: u64,
        /// Packets of a burst.
        burst: u32,
    },
    /// Independent, exponentially distributed gaps.
    Poisson {
        /// Packets a second on average.
        rate_pps: u64,
    },
    /// Evenly spaced for a while, then silence, and again.
    OnOff {
        /// Packets a second while it is on.
        rate_pps: u64,
        /// How long it is on, in ns.
        on_ns: u64,
        /// How long it is off, in ns.
        off_ns: u64,
    },
}

impl Pattern {
    /// Packets a second while it is on.
    pub fn rate_pps(&self) -> u64 {
        match *self {
            Self::Constant { rate_pps }
            | Self::Bursts { rate_pps, .. }
            | Self::Poisson { rate_pps }
            | Self::OnOff { rate_pps, .. } => rate_pps,
        }
    }
}

/// When a trial ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After this many packets.
    Packets(u64),
    /// Before the first departure that is this many ns after the start, or later.
    DurationNs(u64),
}

impl GeneratorPlan {
    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// The first value out of its range, with the range.
    pub fn check(&self) -> Result<(), DataplaneError> {
        if let Some(recording) = &self.recording {
            return match (recording.packets(), self.streams.len()) {
                (0, _) => Err(plan("number of packets in the recording", 0, "at least one")),
                (_, 0) => Ok(()),
                (_, streams) => Err(plan("number of streams beside a recording", streams, "none")),
            };
        }
        if self.streams.is_empty() {
            return Err(plan("number of streams", 0, "at least one"));
        }
        for stream in &self.streams {
            if !(1..=u16::MAX - PORT_FIRST).contains(&stream.flows) {
                return Err(plan("number of flows", stream.flows, "1 to 64511"));
            }
            stream.sizes.check()?;
            if let Some(marks) = &self.marks {
                marks.check(stream.sizes.least())?;
            }
        }
        let rate = self.pattern.rate_pps();
        if !(1..=RATE_PPS_MAX).contains(&rate) {
            return Err(plan("rate in packets a second", rate, "1 to 100,000,000"));
        }
        match self.pattern {
            Pattern::Bursts { burst: 0, .. } => Err(plan("packets of a burst", 0, "at least one")),
            Pattern::OnOff { on_ns, .. } if u128::from(on_ns) * u128::from(rate) < 1_000_000_000 => {
                Err(plan("time on in ns", on_ns, "time for a packet at least"))
            }
            _ => Ok(()),
        }
    }
}
