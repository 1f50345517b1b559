//! When the server is away: all sources of interrupts as one sequence.
//!
//! An interrupt that comes while another one is served waits for it, as it does on a core that masks interrupts
//! meanwhile. So what the server loses is the sum of all lengths, whichever source they are of.

use wiretail_schema::prediction::queueing::Interrupts;
use wiretail_schema::random::Random;

use super::random::{Draw, generator};
use crate::stats::random::exponential;

/// First stream of random numbers of the first source.
const STREAM: u64 = 3;

#[derive(Debug)]
struct Source<'a> {
    kind: Kind<'a>,
    /// Start of the next one, in ns; infinity behind the last one.
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

/// The later one of two times, neither of them NaN: one instruction, where `f64::max` has to look for NaN.
#[inline]
pub(super) fn later(a_ns: f64, b_ns: f64) -> f64 {
    if a_ns > b_ns { a_ns } else { b_ns }
}

/// All interrupts in order of their starts, and the clock of a server that they take away.
#[derive(Debug)]
pub(super) struct Vacations<'a> {
    sources: Vec<Source<'a>>,
    /// Which source has the next interrupt.
    next: usize,
    /// When it starts, in ns; infinity where there is none.
    start_ns: f64,
    /// End of those that came while the server had nothing to do, in ns.
    away_until_ns: f64,
}

impl<'a> Vacations<'a> {
    /// Sources with their numbers: each has streams of random numbers of its own.
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

    /// Length of the next interrupt, which is over with this.
    fn take(&mut self) -> f64 {
        let source = &mut self.sources[self.next];
        let length = source.length_ns;
        source.advance();
        self.choose();
        length
    }

    /// From when on an idle server is there, at `at_ns` or later.
    #[inline]
    pub(super) fn present(&mut self, at_ns: f64) -> f64 {
        let mut present = later(at_ns, self.away_until_ns);
        while self.start_ns <= present {
            self.away_until_ns = self.away_until_ns.max(self.start_ns) + self.take();
            present = present.max(self.away_until_ns);
        }
        present
    }

    /// When work that starts at `at_ns` and takes `work_ns` is done: what comes before its end delays it by its length
    /// (preemptive-resume). The server must be [`present`](Self::present) at `at_ns`.
    #[inline]
    pub(super) fn done(&mut self, at_ns: f64, work_ns: f64) -> f64 {
        let mut done = at_ns + work_ns;
        while self.start_ns < done {
            done += self.take();
        }
        done
    }
}
