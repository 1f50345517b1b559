//! Pauses of a trial: announced times at which no packet is due and the polling roles sleep.
//!
//! A busy-polling thread with real-time priority starves ordinary tasks on its core. After about a second, the
//! scheduler's fair server takes the core from it for 50 ms. A long trial therefore sends in phases. In the
//! pauses between them, ordinary tasks run, and the fair server has no reason to step in.
//!
//! All pauses of a trial follow from its start, so that load generator, device, recorder and every reader of
//! the captures know them without exchanging a list. Statistics treat a pause as absent: its time does not
//! count, and two packets on either side of it are not neighbours.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One pause of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// Start, in ns since 1970: the clock of the packet timestamps. No packet is due from here on.
    pub start_ns: i64,
    /// End, in ns since 1970. The next packet is due at this time or later.
    pub end_ns: i64,
}

/// The pauses of a trial: all equally long, with sending phases of equal length before and between them. The
/// default has no pauses.
///
/// A pause covers its start but not its end. Times are in ns of any one clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Start of the first pause.
    first_ns: i64,
    /// Length of a pause.
    length_ns: i64,
    /// Length of a sending phase.
    sending_ns: i64,
    /// Number of pauses.
    count: i64,
}

/// Words that begin the text of pauses in a capture.
const LABEL: &str = "wiretail pauses";

impl Pauses {
    /// Plans pauses of `length_ns` for a trial that starts at 0 and sends for `duration_ns` in total, so that
    /// no sending phase is longer than `sending_max_ns`. The phases are equally long; the last one may be
    /// shorter by less than a ns per phase. Lengths of 0 and durations up to `sending_max_ns` need no pauses.
    pub fn plan(duration_ns: u64, sending_max_ns: u64, length_ns: u64) -> Self {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        if sending_max_ns == 0 || length_ns == 0 || duration_ns <= sending_max_ns {
            return Self::default();
        }
        let phases = duration_ns.div_ceil(sending_max_ns);
        let sending_ns = signed(duration_ns.div_ceil(phases));
        // With very short phases, rounding up may make the last ones superfluous.
        let count = (signed(duration_ns) - 1) / sending_ns;
        Self { first_ns: sending_ns, length_ns: signed(length_ns), sending_ns, count }
    }

    /// Returns whether there are no pauses.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of pauses.
    pub fn count(&self) -> u64 {
        self.count.unsigned_abs()
    }

    /// Length of one pause, in ns.
    pub fn length_ns(&self) -> u64 {
        self.length_ns.unsigned_abs()
    }

    /// Length of a sending phase, in ns.
    pub fn sending_ns(&self) -> u64 {
        self.sending_ns.unsigned_abs()
    }

    /// Length of all pauses together, in ns.
    pub fn total_ns(&self) -> u64 {
        self.count().saturating_mul(self.length_ns())
    }

    /// Returns the same pauses `by_ns` later: on another clock, or for another start.
    #[must_use]
    pub fn shifted(&self, by_ns: i64) -> Self {
        Self { first_ns: self.first_ns.saturating_add(by_ns), ..*self }
    }

    /// Returns all pauses, in order.
    pub fn list(&self) -> impl Iterator<Item = Pause> + use<> {
        let Self { first_ns, length_ns, .. } = *self;
        let cycle_ns = self.cycle_ns();
        (0..self.count).map(move |place| {
            let start_ns = first_ns.saturating_add(place.saturating_mul(cycle_ns));
            Pause { start_ns, end_ns: start_ns.saturating_add(length_ns) }
        })
    }

    /// Returns the pause with this number, counted from 0.
    pub fn get(&self, place: u64) -> Option<Pause> {
        let place = i64::try_from(place).ok().filter(|place| *place < self.count)?;
        let start_ns = self.first_ns.saturating_add(place.saturating_mul(self.cycle_ns()));
        Some(Pause { start_ns, end_ns: start_ns.saturating_add(self.length_ns) })
    }

    /// Number of pauses that have ended at a time.
    #[inline]
    pub fn ended(&self, at_ns: i64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let since_ns = at_ns.saturating_sub(self.first_ns.saturating_add(self.length_ns));
        if since_ns < 0 { 0 } else { (since_ns / self.cycle_ns() + 1).min(self.count).unsigned_abs() }
    }

    /// Returns whether a pause ends between two times, that is, whether packets seen at these times belong to
    /// different sending phases. A packet that arrives during a pause belongs to the phase before it.
    #[inline]
    pub fn spans(&self, from_ns: i64, to_ns: i64) -> bool {
        self.count > 0 && self.ended(from_ns) != self.ended(to_ns)
    }

    /// Time on a clock that stands still during pauses, in ns: `at_ns` minus all pauses before it.
    #[inline]
    pub fn sending_time(&self, at_ns: i64) -> i64 {
        let ended = self.ended(at_ns);
        let paused_ns = (ended as i64).saturating_mul(self.length_ns);
        let current_ns = self.get(ended).map_or(0, |pause| at_ns.saturating_sub(pause.start_ns).max(0));
        at_ns.saturating_sub(paused_ns).saturating_sub(current_ns)
    }

    /// Returns whether a time lies in a pause.
    pub fn is_paused(&self, at_ns: i64) -> bool {
        self.get(self.ended(at_ns)).is_some_and(|pause| pause.start_ns <= at_ns)
    }

    /// Time of pauses between two times, in ns.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> i64 {
        let sending_ns = self.sending_time(to_ns).saturating_sub(self.sending_time(from_ns));
        to_ns.saturating_sub(from_ns).saturating_sub(sending_ns)
    }

    fn cycle_ns(&self) -> i64 {
        self.sending_ns.saturating_add(self.length_ns).max(1)
    }
}

impl fmt::Display for Pauses {
    /// Formats the pauses as one line, which a capture carries as a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_ns, length_ns, sending_ns, count } = self;
        write!(f, "{LABEL}: count={count} first_ns={first_ns} length_ns={length_ns} sending_ns={sending_ns}")
    }
}

impl FromStr for Pauses {
    type Err = ();

    /// Parses the output of [`Display`](fmt::Display). Any other text is an error, because a capture may carry
    /// comments of its user.
    fn from_str(text: &str) -> Result<Self, ()> {
        let fields = text.trim_end_matches('\0').strip_prefix(LABEL).and_then(|rest| rest.strip_prefix(": "));
        let mut fields = fields.ok_or(())?.split(' ');
        let mut field = |name: &str| -> Result<i64, ()> {
            let field = fields.next().and_then(|field| field.strip_prefix(name));
            field.and_then(|field| field.strip_prefix('=')?.parse().ok()).ok_or(())
        };
        let [count, first_ns, length_ns, sending_ns] =
            [field("count")?, field("first_ns")?, field("length_ns")?, field("sending_ns")?];
        let pauses = Self { first_ns, length_ns, sending_ns, count };
        (count > 0 && length_ns > 0 && sending_ns > 0 && fields.next().is_none()).then_some(pauses).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Three pauses of 100 in phases of 700, after a start at 1000.
    fn example() -> Pauses {
        Pauses::plan(2800, 700, 100).shifted(1000)
    }

    #[test]
    fn plans_equal_phases_that_cover_the_duration() {
        for (duration_ns, phases) in
            [(700 * MS, 1), (700 * MS + 1, 2), (1400 * MS, 2), (2000 * MS, 3), (10_000 * MS, 15)]
        {
            let pauses = Pauses::plan(duration_ns, 700 * MS, 100 * MS);
            assert_eq!(pauses.count() + 1, phases, "{duration_ns}");
            assert_eq!(pauses.is_empty(), phases == 1);
            if phases > 1 {
                let (before, last) = ((phases - 1) * pauses.sending_ns(), pauses.sending_ns());
                assert!(before < duration_ns && duration_ns <= before + last && last <= 700 * MS);
            }
        }
        assert!(Pauses::plan(10, 0, 1).is_empty() && Pauses::plan(10, 1, 0).is_empty());
        assert_eq!(Pauses::plan(10, 1, 5).count(), 9);
    }

    #[test]
    fn times_equal_a_walk_through_the_pauses() {
        for pauses in [example(), Pauses::plan(50, 7, 3).shifted(-31), Pauses::default()] {
            let list: Vec<Pause> = pauses.list().collect();
            assert_eq!(list.len() as u64, pauses.count());
            let is_paused = |at| list.iter().any(|pause| (pause.start_ns..pause.end_ns).contains(&at));
            // The sending clock advances by one for every ns outside a pause.
            let mut clock = pauses.sending_time(-100);
            assert_eq!(clock, -100);
            for at in -100..5000 {
                assert_eq!(pauses.sending_time(at), clock, "{at}");
                assert_eq!(pauses.between(-100, at), at - clock);
                assert_eq!(pauses.is_paused(at), is_paused(at));
                clock += i64::from(!is_paused(at));
                let ended = list.iter().filter(|pause| pause.end_ns <= at).count() as u64;
                assert_eq!(pauses.ended(at), ended);
                assert_eq!(pauses.get(ended), list.get(ended as usize).copied());
                let crossed = list.iter().any(|pause| at - 90 < pause.end_ns && pause.end_ns <= at);
                assert_eq!(pauses.spans(at - 90, at), crossed);
            }
        }
        assert_eq!(example().list().map(|pause| pause.start_ns).collect::<Vec<_>>(), [1700, 2500, 3300]);
        // Neither overflows.
        assert!(example().spans(i64::MIN, i64::MAX));
        assert_eq!(example().sending_time(i64::MAX), i64::MAX - 300);
    }

    #[test]
    fn text_round_trips() {
        let text = example().to_string();
        assert_eq!(text, "wiretail pauses: count=3 first_ns=1700 length_ns=100 sending_ns=700");
        assert_eq!(text.parse(), Ok(example()));
        assert_eq!(format!("{text}\0\0").parse(), Ok(example()));
        let wrong = [
            "",
            "a comment of the user",
            "wiretail pauses: count=3",
            "wiretail pauses: count=0 first_ns=1 length_ns=1 sending_ns=1",
            "wiretail pauses: count=1 first_ns=1 length_ns=0 sending_ns=1",
            "wiretail pauses: count=1 first_ns=1 length_ns=1 sending_ns=-5",
            "wiretail pauses: count=1 first_ns=1 length_ns=1 sending_ns=1 more=1",
        ];
        wrong.iter().for_each(|wrong| assert_eq!(wrong.parse::<Pauses>(), Err(()), "{wrong}"));
    }
}
