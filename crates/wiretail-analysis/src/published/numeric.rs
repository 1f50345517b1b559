//! Division as in PostgreSQL's type `numeric`.
//!
//! The quotient is exact up to its last decimal, rounded half away from zero. The number of decimals follows
//! `select_div_scale` in PostgreSQL's `src/backend/utils/adt/numeric.c`: enough for 16 significant digits by
//! an estimate from the first base-10000 digit of both operands, and at least as many as either operand has.
//! Because of this estimate, 9994/9992 prints 16 decimals and 19992/20001 prints 20.

use std::str::FromStr;

/// A non-negative decimal number: `coefficient` / 10^`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    coefficient: u128,
    scale: u32,
}

/// The text is not a decimal number of at most 37 digits without sign and exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotADecimal;

/// Maximum number of digits of a coefficient: ten times any such number still fits in 128 bits.
const DIGITS_MAX: usize = 37;

/// PostgreSQL's `NUMERIC_MIN_SIG_DIGITS`.
const SIGNIFICANT_DIGITS: i64 = 16;

impl Decimal {
    /// One minus this number, with the same number of decimals; `None` if this number is above one.
    pub fn one_minus(self) -> Option<Self> {
        let one = 10_u128.checked_pow(self.scale)?;
        Some(Self { coefficient: one.checked_sub(self.coefficient)?, scale: self.scale })
    }

    /// Exponent and value of the most significant base-10000 digit; both zero if the number is zero.
    fn first_base_10000_digit(self) -> (i64, u128) {
        let Some(log10) = self.coefficient.checked_ilog10() else { return (0, 0) };
        let weight = (i64::from(log10) - i64::from(self.scale)).div_euclid(4);
        let shift = weight * 4 + i64::from(self.scale);
        let power = |exponent: i64| 10_u128.pow(exponent.unsigned_abs() as u32);
        let digit = if shift < 0 { self.coefficient * power(shift) } else { self.coefficient / power(shift) };
        (weight, digit)
    }
}

impl From<u64> for Decimal {
    fn from(integer: u64) -> Self {
        Self { coefficient: u128::from(integer), scale: 0 }
    }
}

impl FromStr for Decimal {
    type Err = NotADecimal;

    /// Parses digits with at most one decimal point. All decimals are included in the scale, even zeros.
    fn from_str(text: &str) -> Result<Self, NotADecimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotADecimal);
        }
        let coefficient = digits.parse().map_err(|_| NotADecimal)?;
        Ok(Self { coefficient, scale: fraction.len() as u32 })
    }
}

/// `dividend / divisor` as PostgreSQL prints it; `None` if `divisor` is zero.
pub fn numeric_div(dividend: Decimal, divisor: Decimal) -> Option<String> {
    if divisor.coefficient == 0 {
        return None;
    }
    let scale = quotient_scale(dividend, divisor);
    // dividend / divisor * 10^scale = dividend.coefficient * 10^zeros / divisor.coefficient.
    let zeros = (scale + divisor.scale - dividend.scale) as usize;
    let mut digits = Vec::with_capacity(DIGITS_MAX + zeros + 1);
    // Room for the carry.
    digits.push(b'0');
    let mut remainder = 0;
    for digit in dividend.coefficient.to_string().bytes().chain(std::iter::repeat_n(b'0', zeros)) {
        let value = remainder * 10 + u128::from(digit - b'0');
        digits.push(b'0' + (value / divisor.coefficient) as u8);
        remainder = value % divisor.coefficient;
    }
    if remainder * 2 >= divisor.coefficient {
        increment(&mut digits);
    }
    Some(with_point(&digits, scale as usize))
}

/// `select_div_scale`: number of decimals of the quotient.
fn quotient_scale(dividend: Decimal, divisor: Decimal) -> u32 {
    let (weight_dividend, digit_dividend) = dividend.first_base_10000_digit();
    let (weight_divisor, digit_divisor) = divisor.first_base_10000_digit();
    let borrow = i64::from(digit_dividend <= digit_divisor);
    let weight = weight_dividend - weight_divisor - borrow;
    let wanted = u32::try_from(SIGNIFICANT_DIGITS - weight * 4).unwrap_or(0);
    wanted.max(dividend.scale).max(divisor.scale)
}

fn increment(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

/// Inserts the decimal point before the last `scale` digits and after at least one digit.
fn with_point(digits: &[u8], scale: usize) -> String {
    let digits: String = digits.iter().map(|digit| char::from(*digit)).collect();
    let digits = format!("{:0>width$}", digits.trim_start_matches('0'), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn div(dividend: &str, divisor: &str) -> Option<String> {
        numeric_div(dividend.parse().unwrap(), divisor.parse().unwrap())
    }

    #[test]
    fn number_of_decimals_depends_on_first_digits() {
        assert_eq!(div("9994", "9992").as_deref(), Some("1.0002001601281025"));
        assert_eq!(div("19992", "20001").as_deref(), Some("0.99955002249887505625"));
        assert_eq!(div("0", "2").as_deref(), Some("0.00000000000000000000"));
        assert_eq!(div("1", "1.0").as_deref(), Some("1.00000000000000000000"));
        assert_eq!(div("10000000000000000000000000", "2").as_deref(), Some("5000000000000000000000000"));
    }

    #[test]
    fn rounding_carries_through() {
        assert_eq!(div("2", "3").as_deref(), Some("0.66666666666666666667"));
        assert_eq!(div("19999999999999999999999", "2").as_deref(), Some("10000000000000000000000"));
    }

    #[test]
    fn division_by_zero_returns_none() {
        assert_eq!(div("1", "0"), None);
        assert_eq!(div("1", "0.000"), None);
    }

    #[test]
    fn parses_only_plain_decimals() {
        for wrong in ["", ".", "-1", "1e3", "1.2.3", "12345678901234567890123456789012345678"] {
            assert_eq!(wrong.parse::<Decimal>(), Err(NotADecimal), "{wrong}");
        }
        assert_eq!("2".parse::<Decimal>().unwrap().one_minus(), None);
        assert_eq!("0.25".parse::<Decimal>().unwrap().one_minus(), "0.75".parse().ok());
    }
}
