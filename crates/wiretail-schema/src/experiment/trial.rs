//! A trial: one combination of the values that an experiment lists, typed, beside the texts that the file has.

use std::ops::Deref;

use super::keys::{DeviceLifetime, KEYS, KeyRow, Settings, TrafficKeys};
use super::value::Kind;
use crate::run::SettingRecord;

/// A value of every key, with its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Combination {
    /// The values.
    pub settings: Settings,
    /// Their texts in the order of [`KEYS`]: as the file has them, which keeps its unit.
    pub texts: Vec<String>,
}

impl Combination {
    /// Of texts that their rows take.
    pub fn of(texts: Vec<String>) -> Self {
        let settings = Settings::read(texts.iter().map(String::as_str));
        Self { settings: settings.expect("texts that the rows of the table take"), texts }
    }

    /// Changes values, and the texts of those that are changed.
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

    /// What a device of this combination is made and measured by: all but what the load generator alone knows of. Whoever
    /// adds a key of traffic decides here which of the two it is.
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

/// One combination of the factors, done once. Its values are the fields of [`Settings`]: `trial.dut.batch`.
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
/// Nor does code that leaves out a value:
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
    /// Which repeat it is, from 1.
    pub repeat: u64,
    /// Its factors, for people and for directory names: "skeleton-10kpps".
    pub name: String,
    /// Position of the trial that it is to be like, packet for packet: of a twin that of its traced partner, else its
    /// own.
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
    /// Whether the device of this trial may be kept for the other one: it is asked for, and they differ in nothing but what is sent.
    pub fn shares_device(&self, other: &Self) -> bool {
        self.trial.device == DeviceLifetime::Kept
            && self.combination.of_device() == other.combination.of_device()
    }

    /// Every key that has an effect, with its value.
    pub fn records(&self) -> Vec<SettingRecord> {
        let rows = KEYS.iter().zip(&self.combination.texts);
        let record = |(row, text): (&KeyRow, &String)| SettingRecord {
            key: row.full_name(),
            text: text.clone(),
            number: (row.number)(self),
        };
        rows.filter(|(row, _)| row.applies(self)).map(record).collect()
    }

    /// The same trial with other values, as a search or an ablation does it, under a number, repeat and name of its own.
    #[must_use]
    pub fn with(&self, number: usize, repeat: u64, name: String, change: impl FnOnce(&mut Settings)) -> Self {
        let mut trial = Self { number, repeat, name, like: number, ..self.clone() };
        trial.combination.change(change);
        trial
    }
}

/// Longest word that a factor gives to a directory's name, in characters.
const WORD_MAX: usize = 24;

/// A word for a directory's name: "10kpps"; with the key where the value alone says nothing: "batch32", "isolate", "no-isolate".
pub(super) fn word(row: &KeyRow, text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Of the path of a file, its own name.
    let named = if row.kind == Kind::File { text.rsplit('/').next() } else { None };
    let short: String = named.unwrap_or(text).chars().filter(plain).take(WORD_MAX).collect();
    match row.kind {
        Kind::Count(..) => format!("{}{short}", row.name),
        Kind::Bool if text == "true" => row.name.to_owned(),
        Kind::Bool => format!("no-{}", row.name),
        Kind::Text | Kind::File | Kind::Goals if short.is_empty() => row.name.to_owned(),
        _ => short,
    }
}
