//! Text notation of a recurring interrupt: `LOC 250/s 3.2us`.

use std::str::FromStr;

use crate::units::{Duration, UnitError};

/// A recurring interrupt: rate, duration and optional phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptSpec {
    /// Name of the interrupt; empty if not given.
    pub name: String,
    /// Rate of the interrupt.
    pub rate: InterruptRate,
    /// Duration of each interrupt.
    pub length: Duration,
    /// Time of the first interrupt; `None` if not given.
    pub phase: Option<Duration>,
}

/// Rate of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptRate {
    /// Exact rate, in millionths of an interrupt per second.
    Exact(u64),
    /// Number of interrupts counted during this time. The rate has the uncertainty of a Poisson count.
    Counted(u64, Duration),
}

impl InterruptRate {
    /// Returns the rate in interrupts per second.
    pub fn hz(self) -> f64 {
        match self {
            Self::Exact(uhz) => uhz as f64 / 1e6,
            Self::Counted(count, time) => count as f64 * 1e9 / time.ns as f64,
        }
    }

    /// Returns the rate in millionths of an interrupt per second.
    pub fn uhz(self) -> u64 {
        match self {
            Self::Exact(uhz) => uhz,
            Self::Counted(..) => (self.hz() * 1e6).round() as u64,
        }
    }
}

/// Highest rate accepted, in interrupts per second.
const RATE_HZ_MAX: f64 = 1e7;

const EXPECTED: &str = "an interrupt: a name, a rate, a length and (only to predict interrupts) a phase, such as 'LOC \
                        250/s 3.2us', 'IWI 7500/90s 4us' (7500 counted in 90 s) or '250Hz 12us 0us'";

impl FromStr for InterruptSpec {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: EXPECTED };
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let mut length: Duration = words.pop().ok_or_else(error)?.parse().map_err(|_| error())?;
        let mut phase = None;
        let mut word = words.pop().ok_or_else(error)?;
        // If both words are durations, the first is the length and the second the phase.
        if let Ok(before) = word.parse::<Duration>() {
            phase = Some(length);
            length = before;
            word = words.pop().ok_or_else(error)?;
        }
        let rate = match word {
            // The unit follows after a space.
            "Hz" => rate(&format!("{}Hz", words.pop().ok_or_else(error)?)),
            word => rate(word),
        };
        let rate = rate.ok_or_else(error)?;
        let possible = rate.hz() <= RATE_HZ_MAX && length.ns >= 0 && phase.is_none_or(|phase| phase.ns >= 0);
        if !possible {
            return Err(error());
        }
        Ok(Self { name: words.join(" "), rate, length, phase })
    }
}

/// Parses a rate: `250Hz`, `250/s` and `3/min` are exact, `7500/30s` is counted.
fn rate(text: &str) -> Option<InterruptRate> {
    let exact = |number: &str, per_s: f64| {
        let number: f64 = number.parse().ok()?;
        let hz = number / per_s;
        (number >= 0.0 && hz.is_finite()).then(|| InterruptRate::Exact((hz * 1e6).round() as u64))
    };
    if let Some(number) = text.strip_suffix("Hz") {
        return exact(number, 1.0);
    }
    let (number, per) = text.split_once('/')?;
    if per.starts_with(|c: char| c.is_ascii_digit()) {
        let time: Duration = per.parse().ok().filter(|time: &Duration| time.ns > 0)?;
        return Some(InterruptRate::Counted(number.parse().ok()?, time));
    }
    let unit: Duration = format!("1{per}").parse().ok()?;
    exact(number, unit.ns as f64 * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_interrupts_with_units() {
        let read = |text: &str| text.parse::<InterruptSpec>().unwrap();
        let timer = read("LOC 250/s 3.2us");
        assert_eq!(
            (timer.name.as_str(), timer.rate, timer.length.ns),
            ("LOC", InterruptRate::Exact(250_000_000), 3_200)
        );
        assert_eq!(read("Local timer 0.1/s 600us").name, "Local timer");
        assert_eq!(read("LOC 250 Hz 12us"), read("LOC 250/s 12us"));
        assert_eq!(read("250Hz 12us 0us").phase, Some(Duration::from_ns(0)));
        assert_eq!(read("3/min 1ms").rate.hz(), 0.05);
        let counted = read("IWI 7500/90s 4us").rate;
        assert_eq!(counted, InterruptRate::Counted(7500, Duration::from_s(90)));
        assert_eq!(counted.uhz(), 83_333_333);
        for wrong in [
            "",
            "LOC",
            "LOC 250 3us",
            "LOC 250/s 3",
            "LOC 250/s",
            "LOC -1/s 3us",
            "x 1/0s 3us",
            "x NaN/s 1us",
            "x 1e9/s 1us",
            "Hz 1us",
            "x Hz 1us",
        ] {
            assert!(wrong.parse::<InterruptSpec>().is_err(), "{wrong}");
        }
    }
}
