//! A trial: one combination of the values of an experiment, typed, with the texts from the file.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;

use super::keys::{DeviceLifetime, KEYS, KeyRow, Settings, TrafficKeys};
use super::value::Kind;
use crate::run::SettingRecord;

/// A value and its text for every key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Combination {
    /// Typed values.
    pub settings: Settings,
    /// Texts in the order of [`KEYS`], as written in the file, with their unit.
    pub texts: Vec<String>,
}

impl Combination {
    /// Creates a combination from valid texts.
    pub fn of(texts: Vec<String>) -> Self {
        let settings = Settings::read(texts.iter().map(String::as_str));
        Self { settings: settings.expect("texts that are valid for the rows of the table"), texts }
    }

    /// Changes values, and the texts of those that changed.
    pub fn change(&mut self, change: impl FnOnce(&mut Settings)) {
        let before = self.settings.clone();
        change(&mut self.settings);
        for (row, text) in KEYS.iter().zip(&mut self.texts) {
            let now = (row.text)(&self.settings);
            if now != (row.text)(&before) {
                *text = now;
            }
        }
    }

    /// Returns everything that the device and its measurement depend on: all keys except those that only
    /// concern the load generator. A new traffic key must be assigned to one of these two groups in this
    /// function.
    pub fn of_device(&self) -> impl PartialEq + '_ {
        let Settings { title: _, seed: _, dut, traffic, trial, host, trace, search, energy } = &self.settings;
        let TrafficKeys {
            rate: _,
            pattern: _,
            burst: _,
            on: _,
            off: _,
            replay: _,
            size: _,
            flows: _,
            streams: _,
            pacing: _,
            late_policy: _,
            directions,
            mark_every,
            mark,
            port,
            socket,
            late_limit,
        } = traffic;
        ((dut, trial, host, trace, search, energy), (directions, mark_every, mark, port, socket, late_limit))
    }
}

/// One combination of the factors, executed once. Its values are the fields of [`Settings`]: `trial.dut.batch`.
///
/// ```
/// use wiretail_schema::experiment::{SkeletonSocket, Trial};
///
/// fn batch(trial: &Trial) -> u32 {
///     trial.dut.batch
/// }
/// fn is_xdp(trial: &Trial) -> bool {
///     match trial.dut.socket {
///         SkeletonSocket::Packet => false,
///         SkeletonSocket::Xdp => true,
///     }
/// }
/// ```
///
/// A misspelt key does not compile:
///
/// ```compile_fail,E0609
/// use wiretail_schema::experiment::Trial;
///
/// fn batch(trial: &Trial) -> u32 {
///     trial.dut.bach
/// }
/// ```
///
/// A `match` that omits a value does not compile either:
///
/// ```compile_fail,E0004
/// use wiretail_schema::experiment::{SkeletonSocket, Trial};
///
/// fn is_xdp(trial: &Trial) -> bool {
///     match trial.dut.socket {
///         SkeletonSocket::Packet => false,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Number of the repeat, from 1.
    pub repeat: u64,
    /// Name made of the factor values, for display and for directory names: "skeleton-10kpps".
    pub name: String,
    /// Number of the trial that sends the same packets. For a control trial, this is its traced partner; for
    /// any other trial, it is the trial itself.
    pub like: usize,
    pub(super) combination: Combination,
}

impl Deref for Trial {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.combination.settings
    }
}

impl Trial {
    /// Returns whether the device of this trial may be kept for the other trial. The experiment must request
    /// this, and the trials may only differ in the packets sent.
    pub fn shares_device(&self, other: &Self) -> bool {
        self.trial.device == DeviceLifetime::Kept
            && self.combination.of_device() == other.combination.of_device()
    }

    /// Returns every key that has an effect, with its value.
    pub fn records(&self) -> Vec<SettingRecord> {
        let rows = KEYS.iter().zip(&self.combination.texts);
        let record = |(row, text): (&KeyRow, &String)| SettingRecord {
            key: row.full_name(),
            text: text.clone(),
            number: (row.number)(self),
        };
        rows.filter(|(row, _)| row.applies(self)).map(record).collect()
    }

    /// Returns a copy of the trial with changed values and a new number, repeat and name, for a search or an
    /// ablation.
    #[must_use]
    pub fn with(&self, number: usize, repeat: u64, name: String, change: impl FnOnce(&mut Settings)) -> Self {
        let mut trial = Self { number, repeat, name, like: number, ..self.clone() };
        trial.combination.change(change);
        trial
    }
}

/// Longest word that a factor adds to a directory name, in characters.
const WORD_MAX: usize = 24;

/// Returns a word for each value of a key. Different values have different words: if long values have the
/// same beginning and end, their words are numbered.
pub(super) fn words(row: &KeyRow, texts: &[String]) -> HashMap<String, String> {
    let mut texts = texts.to_vec();
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    let words = distinct(texts.iter().map(|text| word(row, text)).collect());
    texts.into_iter().zip(words).collect()
}

/// Numbers the texts that occur more than once: "a", "b", "a" become "a-1", "b", "a-2".
pub(super) fn distinct(texts: Vec<String>) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    texts.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let mut taken: HashSet<String> = texts.iter().cloned().collect();
    let number = |text: &String| {
        if counts[text.as_str()] == 1 {
            return text.clone();
        }
        let mut numbered = (1..).map(|number| format!("{text}-{number}"));
        numbered.find(|name| taken.insert(name.clone())).unwrap_or_default()
    };
    texts.iter().map(number).collect()
}

/// Returns a word for a directory name: "10kpps". Includes the key if the value alone is unclear: "batch32",
/// "isolate", "no-isolate", "no-sysctl".
fn word(row: &KeyRow, text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // For a file, the file name without its path.
    let named = if row.kind == Kind::File { text.rsplit('/').next() } else { None };
    let named = named.unwrap_or(text);
    let short = match row.kind {
        // Words of a text stay apart: "a=1; b" becomes "a-1-b".
        Kind::Text | Kind::Sysctls => {
            named.split(|c| !plain(c)).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
        }
        _ => named.chars().filter(|c| plain(*c)).collect(),
    };
    match row.kind {
        Kind::Count(..) => format!("{}{short}", row.name),
        Kind::Bool if text == "true" => row.name.to_owned(),
        Kind::Bool => format!("no-{}", row.name),
        Kind::Text | Kind::Sysctls if short.is_empty() || short == "none" => format!("no-{}", row.name),
        Kind::File | Kind::Goals if short.is_empty() => row.name.to_owned(),
        _ => shortened(&short),
    }
}

/// Cuts the middle out of a long word, because values of one key often differ at the end.
fn shortened(word: &str) -> String {
    const CUT: &str = "..";
    if word.len() <= WORD_MAX {
        return word.to_owned();
    }
    // The word is ASCII, so every index is a character boundary.
    let kept = (WORD_MAX - CUT.len()) / 2;
    format!("{}{CUT}{}", &word[..kept], &word[word.len() - kept..])
}
