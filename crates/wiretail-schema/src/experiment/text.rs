//! From the texts of an experiment file to values, and the messages where that fails.

use toml::de::DeValue;

use super::Setting;
use super::keys::{KEYS, KeyRow, Kind};
use crate::units::sizes::FrameSizes;
use crate::units::{Duration, UnitError};

/// The values of a key: one, or those of a list where the key is a factor.
pub(super) fn values(row: &KeyRow, value: &DeValue<'_>) -> Result<Vec<Setting>, String> {
    let one = |value: &DeValue<'_>| {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if matches!(row.kind, Kind::Count(_)) => number.as_str().to_owned(),
            DeValue::Integer(number) => {
                return Err(format!(
                    "{} = {} has no unit; expected {}",
                    row.full_name(),
                    number.as_str(),
                    row.kind.expected()
                ));
            }
            other => {
                return Err(format!(
                    "{} is {}; expected {}",
                    row.full_name(),
                    other.type_str(),
                    row.kind.expected()
                ));
            }
        };
        parse_setting(row, &text)
    };
    match value {
        DeValue::Array(list) if row.factor && !list.is_empty() => {
            list.iter().map(|value| one(value.get_ref())).collect()
        }
        DeValue::Array(_) => Err(format!(
            "{} can't be a list{}; expected {}",
            row.full_name(),
            if row.factor { " without values" } else { "" },
            row.kind.expected()
        )),
        single => Ok(vec![one(single)?]),
    }
}

/// One value of a key from its text.
pub(super) fn parse_setting(row: &KeyRow, text: &str) -> Result<Setting, String> {
    let error = || format!("{} = \"{text}\"; expected {}", row.full_name(), row.kind.expected());
    let number = match row.kind {
        Kind::Text => Some(0),
        Kind::Choice(words) => words.iter().position(|word| *word == text).map(|place| place as u64),
        Kind::Count(least) => text.parse().ok().filter(|number| *number >= least),
        Kind::Rate => parse_rate(text).ok(),
        Kind::Duration => text.parse::<Duration>().ok().and_then(|duration| u64::try_from(duration.ns).ok()),
        Kind::Size => text.parse::<FrameSizes>().ok().map(|sizes| sizes.mean().round() as u64),
        Kind::Percent => parse_percent(text),
    };
    Ok(Setting { text: text.to_owned(), number: number.ok_or_else(error)? })
}

/// Millionths from a text such as "1 %"; 100 % at most.
fn parse_percent(text: &str) -> Option<u64> {
    let percent: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
    let millionths = percent * 1e4;
    ((0.0..=1e6).contains(&millionths) && millionths.fract() == 0.0).then_some(millionths as u64)
}

/// Packets a second from a text with its unit: pps, kpps or Mpps.
///
/// # Errors
/// For a text without a unit, or no packet a second.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: "a rate: a number and its unit (pps, kpps, Mpps), such as 10 kpps",
    };
    let number = text.trim().strip_suffix("pps").ok_or_else(error)?;
    let (digits, factor) = match number.as_bytes().last() {
        Some(b'k') => (&number[..number.len() - 1], 1e3),
        Some(b'M') => (&number[..number.len() - 1], 1e6),
        _ => (number, 1.0),
    };
    let rate = digits
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|rate| (1.0..=1e9).contains(rate) && rate.fract() == 0.0);
    rate.map(|rate| rate as u64).ok_or_else(error)
}

/// The message for an unknown key, with the nearest known one.
pub(super) fn unknown(table: &str, name: &str) -> String {
    let shown = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
    let nearest = KEYS.iter().map(KeyRow::full_name).min_by_key(|known| distance(known, &shown));
    format!("unknown key {shown}; did you mean {}?", nearest.unwrap_or_default())
}

/// Edits that turn one text into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut before: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut now = vec![i + 1];
        for (j, y) in b.bytes().enumerate() {
            let change = before[j] + usize::from(x != y);
            now.push(change.min(before[j + 1] + 1).min(now[j] + 1));
        }
        before = now;
    }
    before[b.len()]
}
