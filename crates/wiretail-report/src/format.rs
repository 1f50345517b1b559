//! Formats numbers for display: in a suitable unit, with four significant digits and a thin space as
//! thousands separator.
//!
//! Every rounded number is also available unrounded: titles and tooltips use [`exact_ns`], and programs can
//! read the CSV files and `summary.json`.

use std::fmt::Write;

use wiretail_schema::units::{group, thousands};

/// No-break space between a number and its unit.
pub const SPACE: char = '\u{a0}';

const MINUS: char = '\u{2212}';

/// Formats an integer with thousands separators.
pub fn count(value: u64) -> String {
    thousands(value)
}

/// Formats a signed integer with thousands separators and a Unicode minus sign.
pub fn signed(value: i64) -> String {
    let digits = thousands(value.unsigned_abs());
    if value < 0 { format!("{MINUS}{digits}") } else { digits }
}

/// Formats a duration in whole nanoseconds: "12 345 ns".
pub fn exact_ns(ns: i64) -> String {
    format!("{}{SPACE}ns", signed(ns))
}

/// Formats a duration with four significant digits in the largest fitting unit: "12.34 µs".
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() {
        return "unknown".to_owned();
    }
    let (size, unit) = time_unit(ns.abs());
    let whole = size == 1.0 && ns.fract() == 0.0;
    format!("{}{SPACE}{unit}", if whole { signed(ns as i64) } else { digits(ns / size, 4) })
}

/// Formats a difference of durations with its sign: "+1.250 ms".
pub fn difference(ns: i64) -> String {
    format!("{}{}", if ns > 0 { "+" } else { "" }, duration(ns as f64))
}

/// Joins up to three names. For longer lists, it returns the first name and the number of others.
pub fn first_of(names: &[String]) -> String {
    match names {
        [first, _, _, _, ..] => format!("{first} and {} others", names.len() - 1),
        few => few.join(", "),
    }
}

/// Formats a duration for running text, with three significant digits and no trailing zeros: "612 µs", "1.25
/// ms".
pub fn about(ns: f64) -> String {
    // The value is rounded before the unit is chosen, so that 999.6 µs becomes 1 ms and not 1 000 µs.
    let rounded: f64 = format!("{ns:.2e}").parse().unwrap_or(ns);
    let (size, unit) = time_unit(rounded.abs());
    format!("{}{SPACE}{unit}", trimmed(&digits(rounded / size, 3)))
}

/// Formats a drift in time per second with three significant digits: "0.42 ns/s".
pub fn slope(ns_per_s: f64) -> String {
    let (size, unit) = time_unit(ns_per_s.abs());
    format!("{}{SPACE}{unit}/s", digits(ns_per_s / size, 3))
}

/// Formats a duration as briefly as possible, for limits and ticks: "350 µs", "1 ms".
pub fn duration_short(ns: f64) -> String {
    let (size, unit) = time_unit(ns.abs());
    format!("{}{SPACE}{unit}", short(ns / size))
}

/// Returns the largest of ns, µs, ms and s that does not exceed `ns`, and its size in ns.
pub fn time_unit(ns: f64) -> (f64, &'static str) {
    match ns {
        // The threshold is one part in 10,000 below the unit because 999.96 µs would round to 1000 µs.
        ns if ns >= 0.999_95e9 => (1e9, "s"),
        ns if ns >= 0.999_95e6 => (1e6, "ms"),
        ns if ns >= 0.999_95e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

/// Formats a ratio between 0 and 1 in percent with three significant digits: "0.0333 %".
pub fn ratio(share: f64) -> String {
    let percent = share * 100.0;
    if share == 0.0 {
        format!("0{SPACE}%")
    } else if percent.abs() < 1e-5 {
        format!("{}{SPACE}%", scientific(percent, 3))
    } else if (99.9..100.0).contains(&percent) {
        format!("{}{SPACE}%", trimmed(&format!("{percent:.7}")))
    } else {
        format!("{}{SPACE}%", trimmed(&digits(percent, 3)))
    }
}

/// Formats a percentile in percent without rounding it: "99.999 %".
pub fn percentile(percent: f64) -> String {
    format!("{}{SPACE}%", short(percent))
}

pub fn rate(pps: f64) -> String {
    let (size, unit) = rate_unit(pps.abs());
    format!("{}{SPACE}{unit}", trimmed(&digits(pps / size, 4)))
}

/// Formats an energy with four significant digits: "12.34 J". Values below one microjoule, which no meter
/// resolves, are shown as zero.
pub fn joules(joules: f64) -> String {
    let joules = if joules.abs() < 1e-6 { 0.0 } else { joules };
    let (size, unit) = match joules.abs() {
        joules if joules >= 999_950.0 => (1e6, "MJ"),
        joules if joules >= 999.95 => (1e3, "kJ"),
        joules if joules >= 0.999_95 || joules == 0.0 => (1.0, "J"),
        _ => (1e-3, "mJ"),
    };
    format!("{}{SPACE}{unit}", digits(joules / size, 4))
}

/// Formats a power with four significant digits: "50.25 W".
pub fn watts(watts: f64) -> String {
    format!("{}{SPACE}W", digits(watts, 4))
}

/// Returns the largest of pps, kpps and Mpps that does not exceed `pps`, and its size.
pub fn rate_unit(pps: f64) -> (f64, &'static str) {
    match pps {
        pps if pps >= 1e6 => (1e6, "Mpps"),
        pps if pps >= 1e3 => (1e3, "kpps"),
        _ => (1.0, "pps"),
    }
}

/// Formats a number with `significant` digits and thousands separators.
pub fn digits(value: f64, significant: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    // The exponent is computed after rounding, so that 0.99996 with four digits is 1.000 and not 1.0000.
    let rounded = format!("{:.*e}", significant.saturating_sub(1), value);
    let magnitude: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let decimals = (significant as i32 - 1 - magnitude).clamp(0, 12) as usize;
    fixed(value, decimals)
}

/// Formats a number without trailing zeros: "12.5", "99.999", "10 000".
pub fn short(value: f64) -> String {
    // Rounding to nine decimals hides errors of the binary representation, such as 0.30000000000000004.
    let text = format!("{:.9}", value.abs());
    let text = trimmed(&text);
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    fixed(if text == "0" { 0.0 } else { value }, decimals)
}

/// Formats a number with thousands separators and `decimals` decimals. All labels of an axis have the same
/// number of decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    // More decimals would exceed the precision of a double or the width of a label.
    if value.abs() >= 1e16 || decimals > 12 {
        return scientific(value, 4);
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if value < 0.0 { MINUS.to_string() } else { String::new() };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", group(whole))
}

/// Formats a large number as a multiple of a power of ten: "10⁶", "2·10⁶".
pub fn power_of_ten(value: f64) -> String {
    let text = scientific(value, 1);
    text.strip_prefix("1·").map_or(text.clone(), str::to_owned)
}

/// Formats a number in scientific notation: "1.2·10⁻⁷".
pub fn scientific(value: f64, significant: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{:.*e}", significant.saturating_sub(1), value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}·10{}", trimmed(mantissa).replace('-', "\u{2212}"), superscript(exponent))
}

/// Returns digits and sign as superscripts.
pub fn superscript(digits: &str) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |c: char| match c {
        '-' => '⁻',
        c => c.to_digit(10).map_or(c, |d| RAISED[d as usize]),
    };
    digits.chars().map(raise).collect()
}

/// Formats a timestamp in ns since the Unix epoch as date and time in UTC. Returns `None` for numbers of
/// fewer than 19 digits (before September 2001), which come from clocks with another epoch.
pub fn utc(ns: i64) -> Option<String> {
    if ns < 1_000_000_000_000_000_000 {
        return None;
    }
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let mut text = format!("{year}-{month:02}-{day:02} ");
    write!(text, "{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60).ok()?;
    Some(text)
}

/// Converts days since 1970-01-01 to year, month and day in the proleptic Gregorian calendar. It uses eras of
/// 400 years that start in March, so that the leap day is the last day of the year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Removes trailing zeros after the decimal point, and the point if nothing follows it.
fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::units::THIN;

    use super::*;

    /// Replaces spaces by `_` to make them visible in assertions.
    fn seen(text: String) -> String {
        text.replace([THIN, SPACE], "_")
    }

    #[test]
    fn durations_use_the_largest_fitting_unit() {
        for (ns, text) in [
            (0.0, "0_ns"),
            (12.5, "12.50_ns"),
            (999.0, "999_ns"),
            (1000.0, "1.000_µs"),
            (12_345.0, "12.35_µs"),
            (999_949.0, "999.9_µs"),
            (999_996.0, "1.000_ms"),
            (5_000_000_001.0, "5.000_s"),
            (123_456_000_000_000.0, "123_456_s"),
            (-100.0, "\u{2212}100_ns"),
            (-2_500.0, "\u{2212}2.500_µs"),
        ] {
            assert_eq!(seen(duration(ns)), text, "{ns}");
        }
        assert_eq!(seen(duration_short(350_000.0)), "350_µs");
        assert_eq!(seen(duration_short(1e6)), "1_ms");
        for (ns, text) in [
            (612_345.0, "612_µs"),
            (10_000.0, "10_µs"),
            (999_600.0, "1_ms"),
            (1_254_000.0, "1.25_ms"),
            (7.0, "7_ns"),
        ] {
            assert_eq!(seen(about(ns)), text, "{ns}");
        }
        assert_eq!(seen(exact_ns(-1_234_567)), "\u{2212}1_234_567_ns");
    }

    #[test]
    fn shares_keep_their_digits_at_both_ends() {
        for (share, text) in [
            (0.0, "0_%"),
            (1.0, "100_%"),
            (0.5, "50_%"),
            (0.000_333_3, "0.0333_%"),
            (0.999_99, "99.999_%"),
            (1e-9, "1·10⁻⁷_%"),
        ] {
            assert_eq!(seen(ratio(share)), text, "{share}");
        }
        assert_eq!(seen(percentile(99.999_99)), "99.99999_%");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(seen(count(300_000)), "300_000");
        assert_eq!(seen(count(999)), "999");
        assert_eq!(seen(signed(-5_000)), "\u{2212}5_000");
        assert_eq!(seen(rate(10_031.9)), "10.03_kpps");
        assert_eq!(seen(short(0.1 + 0.2)), "0.3");
        assert_eq!(seen(short(-12_000.5)), "\u{2212}12_000.5");
        assert_eq!(scientific(0.000_012, 3), "1.2·10⁻⁵");
    }

    #[test]
    fn energy_uses_the_largest_fitting_unit() {
        for (value, text) in [
            (0.0, "0_J"),
            (-3e-12, "0_J"),
            (0.0542, "54.20_mJ"),
            (0.999_96, "1.000_J"),
            (12.345_6, "12.35_J"),
            (-5.5, "\u{2212}5.500_J"),
            (5_078.4, "5.078_kJ"),
            (2.5e6, "2.500_MJ"),
        ] {
            assert_eq!(seen(joules(value)), text, "{value}");
        }
        assert_eq!(seen(watts(50.25)), "50.25_W");
    }

    #[test]
    fn timestamps_become_dates() {
        assert_eq!(utc(1_700_000_000_000_000_000).as_deref(), Some("2023-11-14 22:13:20 UTC"));
        assert_eq!(utc(1_709_164_800_000_000_000).as_deref(), Some("2024-02-29 00:00:00 UTC"));
        assert_eq!(utc(4_000_000_000), None);
    }
}
