//! Converts the values of an experiment file to checked texts, and composes error messages.

use toml::de::DeValue;

use super::keys::{KEYS, KeyRow};
use super::value::Kind;
use crate::host::sysctl::Sysctls;
use crate::search::Goal;

/// Returns the values of a key: a single value, or those of a list if the key is a factor.
pub(super) fn values(row: &KeyRow, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(list) if row.factor && !list.is_empty() => {
            list.iter().map(|value| one(row, value.get_ref())).collect()
        }
        DeValue::Array(_) => Err(format!(
            "{} cannot be {}; expected {}",
            row.full_name(),
            if row.factor { "an empty list" } else { "a list" },
            row.kind.expected()
        )),
        single => Ok(vec![one(row, single)?]),
    }
}

/// Returns one value of a key.
fn one(row: &KeyRow, value: &DeValue<'_>) -> Result<String, String> {
    let (name, expected) = (row.full_name(), row.kind.expected());
    match value {
        DeValue::String(text) if row.kind.is_bare() => {
            Err(format!("{name} = \"{text}\"; expected {expected}, without quotes"))
        }
        DeValue::String(text) if (row.takes)(text) => Ok(text.to_string()),
        DeValue::String(text) => {
            // In a list of goals or settings, report the one that is wrong.
            let wrong = match row.kind {
                Kind::Goals => Goal::list(text).err().map(|error| error.to_string()),
                Kind::Sysctls => text.parse::<Sysctls>().err(),
                _ => None,
            };
            Err(wrong.map_or_else(
                || format!("{name} = \"{text}\"; expected {expected}"),
                |wrong| format!("{name}: {wrong}"),
            ))
        }
        DeValue::Boolean(value) if row.kind == Kind::Bool => Ok(value.to_string()),
        DeValue::Integer(number) if matches!(row.kind, Kind::Count(..)) => {
            let text = number.as_str();
            (row.takes)(text).then(|| text.to_owned()).ok_or(format!("{name} = {text}; expected {expected}"))
        }
        DeValue::Integer(number) if row.kind != Kind::Bool => {
            Err(format!("{name} = {} has no unit; expected {expected}", number.as_str()))
        }
        other => Err(format!("{name} is {}; expected {expected}", other.type_str())),
    }
}

/// Returns the message for an unknown key, with the nearest known key.
pub(super) fn unknown(table: &str, name: &str) -> String {
    let shown = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
    let known = nearest(&shown, KEYS.iter().map(KeyRow::full_name));
    format!("unknown key {shown}; did you mean {}?", known.unwrap_or_default())
}

/// Returns the candidate that needs the fewest edits to become `wanted`; `None` if there are no candidates.
pub fn nearest(wanted: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    candidates.into_iter().min_by_key(|candidate| distance(candidate, wanted))
}

/// Returns the number of edits that turn one text into the other (Levenshtein distance).
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

/// Formats text as a TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
