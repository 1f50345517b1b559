//! The plan of a load generator.

use std::sync::Arc;

use wiretail_schema::random::Random;
use wiretail_schema::run::pauses::Pauses;
use wiretail_schema::units::sizes::{CYCLE_MAX, FrameSizes, NAMED_MIXES};

use crate::error::{DataplaneError, plan};
use crate::generator::frame::{Addresses, FRAME_LEN_MAX, FRAME_LEN_MIN, PORT_FIRST};
use crate::generator::marks::Marks;
use crate::generator::recording::Recording;

/// Maximum rate in packets per second.
pub const RATE_PPS_MAX: u64 = 100_000_000;

/// What a load generator sends: either a recording, or streams that take turns, with departure times that
/// follow a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorPlan {
    /// The streams, at least one. They take turns packet by packet. Empty if there is a recording.
    pub streams: Vec<Stream>,
    /// Recorded packets to send instead of the streams, with their own timing instead of the pattern. The
    /// recording is sent once, or up to [`GeneratorPlan::end`].
    pub recording: Option<Arc<Recording>>,
    /// Which packets of the streams carry a text; `None` means no packets.
    pub marks: Option<Marks>,
    /// Departure times of packets.
    pub pattern: Pattern,
    /// End of sending.
    pub end: End,
    /// Seed of all random choices.
    pub seed: u64,
    /// Time of the first departure, CLOCK_MONOTONIC in ns; `None` means as soon as the generator is ready.
    pub start_ns: Option<u64>,
    /// How to wait for a departure.
    pub pacing: Pacing,
    /// Pauses relative to the start. The time of the pattern stands still in them, and the generator sleeps.
    pub pauses: Pauses,
    /// Reaction to missed departures.
    pub late_policy: LatePolicy,
    /// A packet is late if it departs more than this many ns after the intended time.
    pub late_limit_ns: u64,
    /// Id of the first packet. Generators in the same trial must use different ids.
    pub id_first: u32,
}

/// How a load generator waits for a departure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Read the clock continuously. Packets depart within tens of nanoseconds of the intended time, but no
    /// other thread can use the core.
    #[default]
    Spin,
    /// Sleep until the departure, so that other threads can use the core. The kernel wakes the generator 10
    /// to 60 µs late.
    Sleep,
}

/// Reaction of a load generator to a stall, such as a timer interrupt or a pause by the hypervisor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LatePolicy {
    /// All packets that became due leave at once, back to back. The number of packets and the schedule are
    /// kept, but a burst arrives at the device that the pattern does not contain.
    #[default]
    CatchUp,
    /// Packets that missed their departure are not sent. The schedule is kept, and there is no burst. A skipped
    /// packet keeps its number. A departure is missed if it would take place more than half a gap late (at
    /// least 2 us; 100 us with [`Pacing::Sleep`]). The gap is the mean gap between intended times, without
    /// silent phases; for a recording, it is the median gap. Packets with the same intended time are sent or
    /// skipped together.
    Skip,
    /// All further departures move by the delay. The number of packets and the gaps are kept, and there is no
    /// burst, but sending takes longer by the sum of the delays, also if the plan ends after a duration. Delays
    /// up to 0.5 us (100 us with [`Pacing::Sleep`]) do not move departures.
    Shift,
}

/// A stream of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Stream number in the signature.
    pub id: u16,
    /// Index of the port to send through, from 0.
    pub port: usize,
    /// Source and destination.
    pub addresses: Addresses,
    /// Number of flows. They take turns and are distinguished by their source port.
    pub flows: u16,
    /// Lengths of the frames.
    pub sizes: Sizes,
}

/// Lengths of frames in bytes, without the frame check sequence of 4 bytes. What is usually called a 64-byte
/// packet therefore has length 60.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All frames have this length.
    Fixed(u16),
    /// Frame lengths, each with its number of frames per cycle. The order within the cycle is shuffled once,
    /// so that every cycle has the exact mix.
    Imix(Vec<(u16, u32)>),
}

impl Sizes {
    /// The mix of FD.io CSIT: 7 frames of 64 bytes, 4 of 570 and 1 of 1518, including the frame check
    /// sequence.
    pub fn imix_csit() -> Self {
        Self::Imix(NAMED_MIXES[0].1.to_vec())
    }

    /// One cycle of lengths, in sending order.
    pub(crate) fn cycle(&self, seed: u64) -> Vec<u16> {
        match self {
            Self::Fixed(len) => vec![*len],
            Self::Imix(parts) => {
                let mut cycle: Vec<u16> = parts
                    .iter()
                    .flat_map(|(len, count)| std::iter::repeat_n(*len, *count as usize))
                    .collect();
                let mut random = Random::new(seed);
                // Fisher-Yates shuffle.
                for last in (1..cycle.len()).rev() {
                    cycle.swap(last, random.below(last as u64 + 1) as usize);
                }
                cycle
            }
        }
    }

    /// The shortest length.
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
                     (the whole signature needs 65 bytes)",
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

/// Departure times of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Evenly spaced.
    Constant {
        /// Packets per second.
        rate_pps: u64,
    },
    /// Evenly spaced bursts of packets that depart back to back.
    Bursts {
        /// Mean rate in packets per second.
        rate_pps: u64,
        /// Packets per burst.
        burst: u32,
    },
    /// Independent, exponentially distributed gaps.
    Poisson {
        /// Mean rate in packets per second.
        rate_pps: u64,
    },
    /// Evenly spaced packets for a period, then silence, repeated.
    OnOff {
        /// Packets per second during the on period.
        rate_pps: u64,
        /// Length of the on period, in ns.
        on_ns: u64,
        /// Length of the off period, in ns.
        off_ns: u64,
    },
}

impl Pattern {
    /// Packets per second; for [`Pattern::OnOff`], during the on period.
    pub fn rate_pps(&self) -> u64 {
        match *self {
            Self::Constant { rate_pps }
            | Self::Bursts { rate_pps, .. }
            | Self::Poisson { rate_pps }
            | Self::OnOff { rate_pps, .. } => rate_pps,
        }
    }
}

/// When sending ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After this many packets.
    Packets(u64),
    /// Before the first departure that is planned at least this many ns after the start, not counting pauses.
    DurationNs(u64),
}

impl GeneratorPlan {
    /// Checks that the plan is valid.
    ///
    /// # Errors
    /// Returns an error with the first value that is out of its range, and the range.
    pub fn check(&self) -> Result<(), DataplaneError> {
        if let Some(recording) = &self.recording {
            return match (recording.packets(), self.streams.len()) {
                (0, _) => Err(plan("number of packets in the recording", 0, "at least one")),
                (_, 0) => Ok(()),
                (_, streams) => Err(plan("number of streams with a recording", streams, "none")),
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
            return Err(plan("rate in packets per second", rate, "1 to 100,000,000"));
        }
        match self.pattern {
            Pattern::Bursts { burst: 0, .. } => Err(plan("packets per burst", 0, "at least one")),
            Pattern::OnOff { on_ns, .. } if u128::from(on_ns) * u128::from(rate) < 1_000_000_000 => {
                Err(plan("length of the on period in ns", on_ns, "at least the time of one packet"))
            }
            _ => Ok(()),
        }
    }
}
