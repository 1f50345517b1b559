//! Times when the server is unavailable: all sources of interrupts, merged into one sequence.
//!
//! An interrupt that arrives during another one waits for it, as on a core that masks interrupts in handlers.
//! The server therefore loses the sum of all lengths, regardless of their sources.

use wiretail_schema::prediction::queueing::Interrupts;
use wiretail_schema::random::Random;

use super::random::{Draw, generator};
use crate::stats::random::exponential;

/// First random number stream of the first source.
const STREAM: u64 = 3;

#[derive(Debug)]
struct Source<'a> {
    kind: Kind<'a>,
    /// Start of the next interrupt, in ns; infinity after the last one.
    start_ns: f64,
    length_ns: f64,
}

#[derive(Debug)]
enum Kind<'a> {
    Periodic { phase_ns: f64, period_ns: f64, number: u64, draw: Draw<'a> },
    Poisson { gap_ns: f64, random: Random, draw: Draw<'a> },
    Recorded { rest: std::slice::Iter<'a, (f64, f64)> },
}

impl<'a> Source<'a> {
    fn new(interrupts: &'a Interrupts, seed: u64, stream: u64) -> Self {
        let mut random = generator(seed, stream);
        let lengths = generator(seed, stream + 1);
        let kind = match interrupts {
            Interrupts::Periodic { period_ns, phase_ns, length } => Kind::Periodic {
                phase_ns: phase_ns.unwrap_or_else(|| random.uniform() * period_ns),
                period_ns: *period_ns,
                number: 0,
                draw: Draw::new(length, lengths),
            },
            Interrupts::Poisson { per_second, length } => {
                Kind::Poisson { gap_ns: 1e9 / per_second, random, draw: Draw::new(length, lengths) }
            }
            Interrupts::Recorded { spans } => Kind::Recorded { rest: spans.iter() },
        };
        let mut source = Self { kind, start_ns: 0.0, length_ns: 0.0 };
        source.advance();
        source
    }

    fn advance(&mut self) {
        (self.start_ns, self.length_ns) = match &mut self.kind {
            Kind::Periodic { phase_ns, period_ns, number, draw } => {
                let start = *phase_ns + *number as f64 * *period_ns;
                *number += 1;
                (start, draw.next())
            }
            Kind::Poisson { gap_ns, random, draw } => {
                (self.start_ns + exponential(random) * *gap_ns, draw.next())
            }
            Kind::Recorded { rest } => rest.next().copied().unwrap_or((f64::INFINITY, 0.0)),
        };
    }
}

/// Maximum of two times that are not NaN. This takes one instruction; `f64::max` also checks for NaN.
#[inline]
pub(super) fn later(a_ns: f64, b_ns: f64) -> f64 {
    if a_ns > b_ns { a_ns } else { b_ns }
}

/// All interrupts, ordered by their start, and the clock of the server that they interrupt.
#[derive(Debug)]
pub(super) struct Vacations<'a> {
    sources: Vec<Source<'a>>,
    /// Index of the source with the next interrupt.
    next: usize,
    /// Start of the next interrupt, in ns; infinity without one.
    start_ns: f64,
    /// End of the interrupts that arrived while the server was idle, in ns.
    away_until_ns: f64,
}

impl<'a> Vacations<'a> {
    /// Creates the sources; each has its own random number streams.
    pub(super) fn new(sources: &'a [Interrupts], seed: u64) -> Self {
        let numbered = sources.iter().zip(0..);
        let sources = numbered.map(|(one, number)| Source::new(one, seed, STREAM + 2 * number)).collect();
        let mut vacations =
            Self { sources, next: 0, start_ns: f64::INFINITY, away_until_ns: f64::NEG_INFINITY };
        vacations.choose();
        vacations
    }

    fn choose(&mut self) {
        self.start_ns = f64::INFINITY;
        for (index, source) in self.sources.iter().enumerate() {
            if source.start_ns < self.start_ns {
                (self.next, self.start_ns) = (index, source.start_ns);
            }
        }
    }

    /// Consumes the next interrupt and returns its length.
    fn take(&mut self) -> f64 {
        let source = &mut self.sources[self.next];
        let length = source.length_ns;
        source.advance();
        self.choose();
        length
    }

    /// Earliest time, not before `at_ns`, at which an idle server is available.
    #[inline]
    pub(super) fn present(&mut self, at_ns: f64) -> f64 {
        let mut present = later(at_ns, self.away_until_ns);
        while self.start_ns <= present {
            self.away_until_ns = self.away_until_ns.max(self.start_ns) + self.take();
            present = present.max(self.away_until_ns);
        }
        present
    }

    /// Completion time of work that starts at `at_ns` and takes `work_ns`. Each interrupt before the
    /// completion delays the completion by the length of the interrupt (preemptive-resume). The server must
    /// be [`present`](Self::present) at `at_ns`.
    #[inline]
    pub(super) fn done(&mut self, at_ns: f64, work_ns: f64) -> f64 {
        let mut done = at_ns + work_ns;
        while self.start_ns < done {
            done += self.take();
        }
        done
    }
}
