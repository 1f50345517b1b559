//! An experiment: what is measured, under which load, how often. Written in TOML.
//!
//! Every key stands in one table, [`KEYS`], with its kind, its default and what it means; parsing,
//! the errors, the documentation and the JSON Schema all come from there. A key that is a *factor* may
//! hold a list: the trials are the cross product of all lists, in the order of the table.

use std::fmt;

use toml::de::{DeTable, DeValue};

use crate::run::SettingRecord;
use crate::units::{Duration, UnitError};

/// What kind of value a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number of at least this much.
    Count(u64),
    /// Packets a second: "10 kpps".
    Rate,
    /// A span of time: "2 s".
    Duration,
    /// Bytes of a frame on the wire, without the frame check sequence: "100 B".
    Size,
}

impl Kind {
    /// What is expected, with an example.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Count(least) => format!("a whole number of {least} or more"),
            Self::Rate => "a rate in quotes, with its unit, such as \"10 kpps\"".to_owned(),
            Self::Duration => "a duration in quotes, with its unit, such as \"2 s\"".to_owned(),
            Self::Size => "a frame size in quotes, with its unit, such as \"100 B\"".to_owned(),
        }
    }
}

/// A key of an experiment file.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// The table it stands in; empty for the top.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its value where the file has none; None where the file must have one.
    pub default: Option<&'static str>,
    /// Whether it may hold a list.
    pub factor: bool,
    /// What it means.
    pub about: &'static str,
}

const fn row(
    table: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    factor: bool,
    about: &'static str,
) -> KeyRow {
    KeyRow { table, name, kind, default, factor, about }
}

/// Every key there is.
pub const KEYS: [KeyRow; 14] = [
    row("", "title", Kind::Text, None, false, "What the experiment shows, in a line."),
    row("", "seed", Kind::Count(0), None, false, "Seed of everything random."),
    row("dut", "kind", Kind::Choice(&["wire", "bridge", "skeleton"]), None, true, "The device under test."),
    row(
        "dut",
        "batch",
        Kind::Count(1),
        Some("1"),
        true,
        "Packets that the skeleton takes together, up to 64.",
    ),
    row(
        "dut",
        "release",
        Kind::Choice(&["immediate", "batch"]),
        Some("immediate"),
        true,
        "Whether the skeleton sends each packet at once or a batch together.",
    ),
    row("dut", "delay", Kind::Duration, Some("0 s"), true, "Delay that the skeleton adds to some packets."),
    row(
        "dut",
        "delay-every",
        Kind::Count(0),
        Some("0"),
        true,
        "Every how many packets it does so; 0 for never.",
    ),
    row("traffic", "rate", Kind::Rate, None, true, "Offered load."),
    row("traffic", "burst", Kind::Count(1), Some("1"), true, "Packets sent back to back."),
    row("traffic", "size", Kind::Size, Some("100 B"), true, "Frame size without the frame check sequence."),
    row("traffic", "flows", Kind::Count(1), Some("1"), true, "Flows, told apart by their source port."),
    row("trial", "duration", Kind::Duration, Some("2 s"), true, "How long each trial sends."),
    row(
        "trial",
        "warm-up",
        Kind::Duration,
        Some("200 ms"),
        false,
        "First part of each trial that is left out.",
    ),
    row("trial", "repeats", Kind::Count(1), Some("1"), false, "How often each trial is done."),
];

/// What is wrong with an experiment file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentError {
    /// Line in the file, from 1; 0 where the fault is that something is missing.
    pub line: usize,
    /// What was found, what was expected, what to do.
    pub message: String,
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for ExperimentError {}

/// A value with the text it is shown by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As the file has it.
    pub text: String,
    /// In its base unit: packets a second, ns, bytes, or the number itself; 0 for texts.
    pub number: u64,
}

/// An experiment: for every row of [`KEYS`], the values to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experiment {
    settings: Vec<Vec<Setting>>,
}

/// One combination of the factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Which repeat it is, from 1.
    pub repeat: u64,
    /// Its factors, for people and for directory names: "skeleton-10kpps".
    pub name: String,
    settings: Vec<Setting>,
}

impl Experiment {
    /// Reads an experiment from TOML text.
    ///
    /// # Errors
    /// Names the line, what was found, what was expected; for an unknown key the nearest known one.
    pub fn parse(text: &str) -> Result<Self, ExperimentError> {
        let line_at = |offset: usize| {
            text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
        };
        let document = DeTable::parse(text).map_err(|error| ExperimentError {
            line: error.span().map_or(0, |span| line_at(span.start)),
            message: error.message().to_owned(),
        })?;
        let mut found: Vec<Option<Vec<Setting>>> = vec![None; KEYS.len()];
        let mut take = |table: &str, name: &str, value: &DeValue<'_>, offset: usize| {
            let error = |message| ExperimentError { line: line_at(offset), message };
            let place = KEYS.iter().position(|row| row.table == table && row.name == name);
            let place = place.ok_or_else(|| error(unknown(table, name)))?;
            found[place] = Some(values(&KEYS[place], value).map_err(error)?);
            Ok(())
        };
        for (key, value) in document.get_ref() {
            let name = key.get_ref().as_ref();
            match value.get_ref() {
                DeValue::Table(table) if KEYS.iter().any(|row| row.table == name) => {
                    for (inner, value) in table {
                        take(name, inner.get_ref(), value.get_ref(), inner.span().start)?;
                    }
                }
                other => take("", name, other, key.span().start)?,
            }
        }
        let settings = KEYS.iter().zip(found).map(|(row, found)| match (found, row.default) {
            (Some(values), _) => Ok(values),
            (None, Some(default)) => parse_setting(row, default)
                .map(|value| vec![value])
                .map_err(|message| ExperimentError { line: 0, message }),
            (None, None) => Err(ExperimentError {
                line: 0,
                message: format!(
                    "{} is missing; expected {}: {}",
                    full_name(row),
                    row.kind.expected(),
                    row.about
                ),
            }),
        });
        Ok(Self { settings: settings.collect::<Result<_, _>>()? })
    }

    /// The first value of a key.
    pub fn first(&self, table: &str, name: &str) -> &Setting {
        &self.settings[place(table, name)][0]
    }

    /// Full names of the keys with several values, and of the device's kind, in the order of the table.
    pub fn factors(&self) -> Vec<String> {
        let rows = KEYS.iter().zip(&self.settings);
        let varies = |(row, values): &(&KeyRow, &Vec<Setting>)| values.len() > 1 || is_dut(row);
        rows.filter(varies).map(|(row, _)| full_name(row)).collect()
    }

    /// The trials, in the order they are done: all combinations, then all again for each repeat, so
    /// that what changes on the machine meanwhile falls on all combinations alike.
    pub fn trials(&self) -> Vec<Trial> {
        let mut combinations: Vec<Vec<Setting>> = vec![Vec::new()];
        for values in &self.settings {
            combinations = combinations
                .iter()
                .flat_map(|before| {
                    values.iter().map(move |value| [&before[..], std::slice::from_ref(value)].concat())
                })
                .collect();
        }
        let repeats = self.first("trial", "repeats").number;
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            for settings in &combinations {
                let varied = KEYS.iter().zip(&self.settings).zip(settings);
                let mut words: Vec<String> = varied
                    .filter(|((row, values), _)| values.len() > 1 || is_dut(row))
                    .map(|((row, _), value)| word(row, value))
                    .collect();
                if repeats > 1 {
                    words.push(format!("repeat{repeat}"));
                }
                let number = trials.len() + 1;
                trials.push(Trial { number, repeat, name: words.join("-"), settings: settings.clone() });
            }
        }
        trials
    }
}

impl Trial {
    /// Every key with its value.
    pub fn records(&self) -> Vec<SettingRecord> {
        let rows = KEYS.iter().zip(&self.settings);
        let record = |(row, setting): (&KeyRow, &Setting)| SettingRecord {
            key: full_name(row),
            text: setting.text.clone(),
            number: setting.number,
        };
        rows.map(record).collect()
    }

    /// The value of a key.
    pub fn get(&self, table: &str, name: &str) -> &Setting {
        &self.settings[place(table, name)]
    }
}

/// A word for a directory's name: "10kpps"; with the key where the value alone says nothing: "batch32".
fn word(row: &KeyRow, value: &Setting) -> String {
    let text = value.text.replace(' ', "");
    if matches!(row.kind, Kind::Count(_)) { format!("{}{text}", row.name) } else { text }
}

fn is_dut(row: &KeyRow) -> bool {
    (row.table, row.name) == ("dut", "kind")
}

fn place(table: &str, name: &str) -> usize {
    let found = KEYS.iter().position(|row| row.table == table && row.name == name);
    found.expect("a key of the table")
}

fn full_name(row: &KeyRow) -> String {
    if row.table.is_empty() { row.name.to_owned() } else { format!("{}.{}", row.table, row.name) }
}

fn values(row: &KeyRow, value: &DeValue<'_>) -> Result<Vec<Setting>, String> {
    let one = |value: &DeValue<'_>| {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if matches!(row.kind, Kind::Count(_)) => number.as_str().to_owned(),
            DeValue::Integer(number) => {
                return Err(format!(
                    "{} = {} has no unit; expected {}",
                    full_name(row),
                    number.as_str(),
                    row.kind.expected()
                ));
            }
            other => {
                return Err(format!(
                    "{} is {}; expected {}",
                    full_name(row),
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
            full_name(row),
            if row.factor { " without values" } else { "" },
            row.kind.expected()
        )),
        single => Ok(vec![one(single)?]),
    }
}

fn parse_setting(row: &KeyRow, text: &str) -> Result<Setting, String> {
    let error = || format!("{} = \"{text}\"; expected {}", full_name(row), row.kind.expected());
    let number = match row.kind {
        Kind::Text => Some(0),
        Kind::Choice(words) => words.iter().position(|word| *word == text).map(|place| place as u64),
        Kind::Count(least) => text.parse().ok().filter(|number| *number >= least),
        Kind::Rate => parse_rate(text).ok(),
        Kind::Duration => text.parse::<Duration>().ok().and_then(|duration| u64::try_from(duration.ns).ok()),
        Kind::Size => text
            .strip_suffix('B')
            .and_then(|number| number.trim_end().parse().ok())
            .filter(|bytes| (60..=9000).contains(bytes)),
    };
    Ok(Setting { text: text.to_owned(), number: number.ok_or_else(error)? })
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
fn unknown(table: &str, name: &str) -> String {
    let shown = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
    let nearest = KEYS.iter().map(full_name).min_by_key(|known| distance(known, &shown));
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "title = \"t\"\nseed = 1\n\n[dut]\nkind = [\"wire\", \"skeleton\"]\n[traffic]\nrate = [\"1 kpps\", \"0.5 Mpps\"]\n";

    #[test]
    fn factors_multiply() {
        let experiment = Experiment::parse(&format!("{FILE}[trial]\nrepeats = 2\n")).unwrap();
        let trials = experiment.trials();
        assert_eq!(trials.len(), 8);
        let names: Vec<&str> = trials[..4].iter().map(|trial| trial.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "wire-1kpps-repeat1",
                "wire-0.5Mpps-repeat1",
                "skeleton-1kpps-repeat1",
                "skeleton-0.5Mpps-repeat1"
            ]
        );
        assert_eq!(trials[3].get("traffic", "rate").number, 500_000);
        assert_eq!(trials[3].get("trial", "duration").number, 2_000_000_000);
        assert_eq!((trials[4].number, trials[4].repeat), (5, 2));
    }

    #[test]
    fn errors_name_the_line_and_what_is_right() {
        let error = |text: &str| Experiment::parse(text).unwrap_err().to_string();
        assert_eq!(
            error(&FILE.replace("kind", "kynd")),
            "line 5: unknown key dut.kynd; did you mean dut.kind?"
        );
        assert_eq!(
            error(&FILE.replace("\"1 kpps\"", "1000")),
            "line 7: traffic.rate = 1000 has no unit; expected a rate in quotes, with its unit, such as \"10 kpps\""
        );
        assert!(error(&FILE.replace("wire", "router")).contains("expected one of wire, bridge, skeleton"));
        assert!(error("title = \"t\"").contains("seed is missing"));
        assert!(error("title = ").starts_with("line 1: "));
        assert!(error(&FILE.replace("seed = 1", "seed = [1, 2]")).contains("can't be a list"));
        assert!(error(&format!("{FILE}[trial]\nduration = \"2\"\n")).starts_with("line 9: trial.duration"));
    }

    #[test]
    fn every_default_parses() {
        for row in KEYS {
            if let Some(default) = row.default {
                assert!(parse_setting(&row, default).is_ok(), "{}", full_name(&row));
            }
        }
    }
}
