//! Packet rates and percentages in experiment files and on the command line.

use std::fmt;
use std::str::FromStr;

use super::{UnitError, parse_decimal};

/// A packet rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// Packets per second.
    pub pps: u64,
}

const RATE: &str = "a rate: a number and its unit (pps, kpps, Mpps), such as 10 kpps";
/// Highest rate, in packets per second.
const PPS_MAX: i128 = 1_000_000_000;

impl FromStr for Rate {
    type Err = UnitError;

    /// Parses a number with the unit pps, kpps or Mpps; at least 1 pps.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: RATE };
        let number = text.trim().strip_suffix("pps").ok_or_else(error)?;
        let (digits, decimals) = match number.as_bytes().last() {
            Some(b'k') => (&number[..number.len() - 1], 3),
            Some(b'M') => (&number[..number.len() - 1], 6),
            _ => (number, 0),
        };
        let pps = parse_decimal(digits.trim(), decimals).filter(|pps| (1..=PPS_MAX).contains(pps));
        pps.map(|pps| Self { pps: pps as u64 }).ok_or_else(error)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pps {
            0..1000 => write!(f, "{} pps", self.pps),
            pps => write!(f, "{} kpps", pps as f64 / 1e3),
        }
    }
}

/// A percentage from 0 to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    /// The fraction in millionths: 10,000 is 1 %.
    pub millionths: u64,
}

const PERCENT: &str = "a share of 0 to 100 %, at most four decimals, such as 1 %";

impl Percent {
    /// The whole, 100 %.
    pub const ALL: Self = Self { millionths: 1_000_000 };

    /// Returns the fraction as a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        self.millionths as f64 / 1e6
    }
}

impl FromStr for Percent {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = text.strip_suffix('%').and_then(|number| parse_decimal(number.trim_end(), 4));
        let millionths = number.filter(|number| (0..=Self::ALL.millionths as i128).contains(number));
        let error = || UnitError { text: text.to_owned(), expected: PERCENT };
        millionths.map(|millionths| Self { millionths: millionths as u64 }).ok_or_else(error)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.millionths as f64 / 1e4)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_need_a_unit_and_whole_packets() {
        let pps = |text: &str| text.parse::<Rate>().map(|rate| rate.pps);
        assert_eq!(pps("1pps"), Ok(1));
        assert_eq!(pps(" 0.5 Mpps "), Ok(500_000));
        // In binary floating point, 1.001 × 1000 is 1000.9999999999999.
        assert_eq!(pps("1.001 kpps"), Ok(1001));
        for wrong in ["", "10", "0 pps", "1.5 pps", "0.0001 kpps", "-1 kpps", "1001 Mpps", "1 kbps", "pps"] {
            assert!(pps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rejects_percentages_above_100() {
        let millionths = |text: &str| text.parse::<Percent>().map(|share| share.millionths);
        assert_eq!(millionths("1 %"), Ok(10_000));
        assert_eq!(millionths("0.0001%"), Ok(1));
        assert_eq!(millionths("100 %"), Ok(Percent::ALL.millionths));
        for wrong in ["1", "100.0001 %", "-1 %", "0.00001 %", "%"] {
            assert!(millionths(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn rates_and_percentages_round_trip(pps in 1..=PPS_MAX as u64, millionths in 0..=1_000_000u64) {
            prop_assert_eq!(Rate { pps }.to_string().parse(), Ok(Rate { pps }));
            prop_assert_eq!(Percent { millionths }.to_string().parse(), Ok(Percent { millionths }));
        }
    }
}
