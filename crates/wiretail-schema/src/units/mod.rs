//! Durations, percentiles and budgets, parsed from text with a unit. The printed text parses to the same
//! value.

pub mod cores;
pub mod rate;
pub mod sizes;

use std::fmt;
use std::str::FromStr;

/// Error for text that is not a value of the expected kind. The message shows the text and the expected
/// format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    /// The text as given.
    pub text: String,
    /// Expected format, with an example.
    pub expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.text, self.expected)
    }
}

impl std::error::Error for UnitError {}

/// A signed time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration {
    /// Length, in ns.
    pub ns: i64,
}

const DURATION: &str = "a duration: a number and its unit (ns, us, ms, s, min, h), such as 350us or 1.5s";

impl Duration {
    /// Creates a span of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self { ns }
    }

    /// Creates a span of `s` seconds.
    pub const fn from_s(s: i64) -> Self {
        Self { ns: s * 1_000_000_000 }
    }

    /// Returns the length in ns; 0 if the span is negative.
    pub fn ns_unsigned(self) -> u64 {
        u64::try_from(self.ns).unwrap_or(0)
    }
}

impl From<Duration> for std::time::Duration {
    /// Converts the span; a negative one becomes zero.
    fn from(span: Duration) -> Self {
        Self::from_nanos(span.ns_unsigned())
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: DURATION };
        let trimmed = text.trim();
        let (number, unit) = split_unit(trimmed);
        let scale = match unit {
            "ns" => 0,
            "us" | "µs" | "μs" => 3,
            "ms" => 6,
            "s" => 9,
            "min" | "h" => 9,
            _ => return Err(error()),
        };
        let factor = match unit {
            "min" => 60,
            "h" => 3600,
            _ => 1,
        };
        let scaled = parse_decimal(number, scale).ok_or_else(error)?;
        let ns = scaled.checked_mul(factor).and_then(|ns| i64::try_from(ns).ok()).ok_or_else(error)?;
        Ok(Self { ns })
    }
}

impl fmt::Display for Duration {
    /// Prints the span in the largest unit that needs at most three decimals, without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
            if self.ns.abs() >= size && self.ns % (size / 1000) == 0 {
                return write!(f, "{}{unit}", self.ns as f64 / size as f64);
            }
        }
        write!(f, "{}ns", self.ns)
    }
}

/// A fraction in billionths. Percentiles are stored exactly, because 0.99999 has no exact binary
/// representation and a nearest rank computed from it can be off by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    billionths: u64,
}

const PERCENTILE: &str = "a percentile: above 0 and below 100 %, at most seven decimals, such as 99.999%";

impl Share {
    /// The whole, in billionths.
    pub const ONE: u64 = 1_000_000_000;

    /// The median. For an even number of values, the lower of the two middle ones, because every percentile
    /// is a measured value.
    pub const MEDIAN: Self = Self { billionths: 500_000_000 };
    /// 5 %.
    pub const P5: Self = Self { billionths: 50_000_000 };
    /// 25 %, the lower quartile.
    pub const P25: Self = Self { billionths: 250_000_000 };
    /// 75 %, the upper quartile.
    pub const P75: Self = Self { billionths: 750_000_000 };
    /// 95 %.
    pub const P95: Self = Self { billionths: 950_000_000 };
    /// 99 %.
    pub const P99: Self = Self { billionths: 990_000_000 };
    /// 99.9 %.
    pub const P99_9: Self = Self { billionths: 999_000_000 };

    /// 99.99 %.
    pub const P99_99: Self = Self { billionths: 999_900_000 };
    /// 99.999 %.
    pub const P99_999: Self = Self { billionths: 999_990_000 };
    /// 100 %, the maximum.
    pub const ALL: Self = Self { billionths: Self::ONE };

    /// Creates a fraction of `billionths`; `None` if it exceeds the whole.
    pub const fn from_billionths(billionths: u64) -> Option<Self> {
        if billionths <= Self::ONE { Some(Self { billionths }) } else { None }
    }

    /// Returns the fraction in billionths.
    pub const fn billionths(self) -> u64 {
        self.billionths
    }

    /// Returns the fraction as a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        self.billionths as f64 / Self::ONE as f64
    }

    /// Returns the fraction in percent, from 0 to 100.
    pub fn percent(self) -> f64 {
        self.billionths as f64 / 1e7
    }

    /// Returns the nearest rank of this percentile among `count` values: ceil(p n), from 1 to `count`, or 0
    /// if `count` is 0. (Hyndman and Fan 1996, definition 1.)
    pub fn rank(self, count: u64) -> u64 {
        let product = u128::from(self.billionths) * u128::from(count);
        let rank = product.div_ceil(u128::from(Self::ONE)) as u64;
        rank.clamp(count.min(1), count)
    }

    /// Returns the value at this percentile of values in ascending order; `None` if there are no values.
    pub fn of<T>(self, ascending: &[T]) -> Option<&T> {
        ascending.get(self.rank(ascending.len() as u64).checked_sub(1)? as usize)
    }

    /// Returns the value at this percentile of values in ascending order, each with its number of
    /// occurrences; `None` if there are no values.
    pub fn of_counted<T>(self, ascending: impl Iterator<Item = (T, u64)> + Clone) -> Option<T> {
        let count = ascending.clone().fold(0_u64, |sum, (_, times)| sum.saturating_add(times));
        let mut left = self.rank(count).checked_sub(1)?;
        let mut values = ascending;
        values
            .find(|(_, times)| {
                *times > left || {
                    left -= times;
                    false
                }
            })
            .map(|(value, _)| value)
    }

    /// Returns whether at least ten of `count` values are expected above this percentile: n (1 - p) >= 10.
    pub fn is_supported_by(self, count: u64) -> bool {
        u128::from(Self::ONE - self.billionths) * u128::from(count) >= 10 * u128::from(Self::ONE)
    }
}

impl FromStr for Share {
    type Err = UnitError;

    /// Parses a percentile in percent, with or without the percent sign: `99.999%`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: PERCENTILE };
        let trimmed = text.trim();
        let number = trimmed.strip_suffix('%').unwrap_or(trimmed).trim_end();
        let billionths = parse_decimal(number, 7).ok_or_else(error)?;
        match u64::try_from(billionths) {
            Ok(billionths) if billionths > 0 && billionths < Self::ONE => Ok(Self { billionths }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.percent())
    }
}

/// A latency budget: a given fraction of the packets sent must arrive within a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Highest delay allowed.
    pub limit: Duration,
    /// Fraction of packets that must arrive within the limit.
    pub share: Share,
}

const BUDGET: &str = "a budget: a duration, @ and a percentile, such as 1ms@99.999%";

impl FromStr for Budget {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: BUDGET };
        let (limit, share) = text.split_once('@').ok_or_else(error)?;
        let budget =
            Self { limit: limit.parse().map_err(|_| error())?, share: share.parse().map_err(|_| error())? };
        if budget.limit.ns > 0 { Ok(budget) } else { Err(error()) }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}%", self.limit, self.share)
    }
}

/// Thousands separator: a narrow no-break space.
pub const THIN: char = '\u{202f}';

/// Formats a count with separated thousands.
pub fn thousands(count: u64) -> String {
    group(&count.to_string())
}

/// Groups digits by three from the right, separated by [`THIN`] (ISO 80000-1, 7.3.1).
pub fn group(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(THIN);
        }
        text.push(digit);
    }
    text
}

/// Splits `350us` into `350` and `us`, with optional white space between them.
fn split_unit(text: &str) -> (&str, &str) {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Returns the decimal number times 10^`decimals`, exactly; `None` if it is not a number or has more
/// decimals.
fn parse_decimal(text: &str, decimals: usize) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole)
        || !all_digits(fraction)
        || whole.is_empty()
        || whole.len() > 19
        || fraction.len() > decimals
    {
        return None;
    }
    let mut value: i128 = whole.parse().ok()?;
    for place in 0..decimals {
        let digit = fraction.as_bytes().get(place).map_or(0, |b| i128::from(b - b'0'));
        value = value * 10 + digit;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_only_with_unit() {
        let ns = |text: &str| text.parse::<Duration>().map(|d| d.ns);
        assert_eq!(ns("350us"), Ok(350_000));
        assert_eq!(ns("1.5 s"), Ok(1_500_000_000));
        assert_eq!(ns("12.5us"), Ok(12_500));
        assert_eq!(ns("-3ms"), Ok(-3_000_000));
        assert_eq!(ns("40h"), Ok(144_000_000_000_000));
        for wrong in ["5", "", "us", "1.5ns", "1e3us", "99999999999h", "1..2s", ".5s"] {
            assert!(ns(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_round_trip() {
        for text in ["350us", "1ms", "5s", "12.5us", "1.001s", "1234.567us", "0ns", "-3ms"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn ranks_are_exact_for_decimal_fractions() {
        let rank = |p: &str, n| p.parse::<Share>().unwrap().rank(n);
        // 0.99999 * 300000 is exactly 299997; in f64 it is 299996.99999999994.
        assert_eq!(rank("99.999", 300_000), 299_997);
        assert_eq!(rank("99.9%", 1000), 999);
        assert_eq!(rank("99.9", 1001), 1000);
        assert_eq!(rank("50", 1), 1);
        assert_eq!(rank("50", 0), 0);
        assert_eq!(rank("0.0000001", 5), 1);
        assert_eq!(rank("99.99999", u64::MAX), 18_446_742_229_035_144_245);
    }

    #[test]
    fn percentiles_are_values_of_nearest_rank() {
        assert_eq!((Share::MEDIAN.of(&[3, 5, 8]), Share::MEDIAN.of(&[3, 5, 8, 9])), (Some(&5), Some(&5)));
        assert_eq!((Share::P99.of(&[1, 2]), Share::P99.of::<u8>(&[])), (Some(&2), None));
        let counted = [(5, 90), (6, 0), (7, 9), (9, 1)];
        let of = |share: Share| share.of_counted(counted.into_iter());
        assert_eq!(
            (of(Share::MEDIAN), of(Share::P95), of(Share::P99), of(Share::ALL)),
            (Some(5), Some(7), Some(7), Some(9))
        );
        assert_eq!(Share::MEDIAN.of_counted([(1, 0)].into_iter()), None);
    }

    #[test]
    fn support_needs_ten_values_above() {
        let p: Share = "99.99".parse().unwrap();
        assert!(p.is_supported_by(100_000));
        assert!(!p.is_supported_by(99_999));
    }

    #[test]
    fn separates_thousands() {
        assert_eq!(thousands(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((thousands(12).as_str(), thousands(123_456).as_str()), ("12", "123\u{202f}456"));
    }

    #[test]
    fn budgets_round_trip() {
        for text in ["1ms@99.999%", "350us@99.999%", "10us@50%"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
        for wrong in ["1ms", "1ms@", "@99%", "0s@99%", "-1ms@99%", "1@99%", "1ms@100%", "1ms@99.99999999%"] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }
}
