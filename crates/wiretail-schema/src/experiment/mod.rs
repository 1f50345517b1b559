//! An experiment: devices under test, loads and repeats. Written in TOML.
//!
//! The table [`keys`] defines every key with its type, limits, default and meaning: [`KEYS`]. The typed
//! values of a trial ([`Settings`]), the parser, its errors, the documentation and the JSON Schema are all
//! generated from it. A key that is a *factor* may hold a list. The trials are the cross product of all
//! lists, in the order of the table.

mod document;
mod keys;
mod table;
mod text;
mod trial;
mod value;

use std::collections::HashSet;
use std::fmt;

use toml::de::{DeTable, DeValue};

pub use document::{json_schema, key_table};
pub use keys::*;
pub use table::{Needs, Row};
use text::{quoted, unknown, values};
pub use trial::Trial;
use trial::{Combination, word};
pub use value::{FileName, Goals, Kind, RuleSet};

/// An error in an experiment file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentError {
    /// Line in the file, from 1; 0 if a required key is missing.
    pub line: usize,
    /// What was found, what was expected, and what to do.
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

/// An experiment: the values to try for every row of [`KEYS`].
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    texts: Vec<Vec<String>>,
    first: Settings,
}

impl Experiment {
    /// Parses an experiment from TOML.
    ///
    /// # Errors
    /// Returns an error that names the line, the text found and the expected value; for an unknown key, the
    /// nearest known key.
    pub fn parse(text: &str) -> Result<Self, ExperimentError> {
        let line_at = |offset: usize| {
            text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
        };
        let document = DeTable::parse(text).map_err(|error| ExperimentError {
            line: error.span().map_or(0, |span| line_at(span.start)),
            message: error.message().to_owned(),
        })?;
        let mut found: Vec<Option<Vec<String>>> = vec![None; KEYS.len()];
        let mut lines = vec![0; KEYS.len()];
        let mut take = |table: &str, name: &str, value: &DeValue<'_>, offset: usize| {
            let error = |message| ExperimentError { line: line_at(offset), message };
            let place = KEYS.iter().position(|row| row.table == table && row.name == name);
            let place = place.ok_or_else(|| error(unknown(table, name)))?;
            found[place] = Some(values(&KEYS[place], value).map_err(error)?);
            lines[place] = line_at(offset);
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
        let texts = KEYS.iter().zip(found).map(|(row, found)| match found {
            Some(texts) => Ok(texts),
            // If the key has an effect, `fault` reports that it is missing.
            None if !row.is_required() => Ok(vec![row.default.unwrap_or_default().to_owned()]),
            None => Err(ExperimentError { line: 0, message: missing(row) }),
        });
        let experiment = Self::of(texts.collect::<Result<_, _>>()?);
        match experiment.fault() {
            Some((place, message)) => Err(ExperimentError { line: lines[place], message }),
            None => Ok(experiment),
        }
    }

    fn of(texts: Vec<Vec<String>>) -> Self {
        let first = Combination::of(texts.iter().map(|texts| texts[0].clone()).collect());
        Self { texts, first: first.settings }
    }

    /// Checks whether values that are valid individually are also valid together. Returns the first error with
    /// the index of its key.
    fn fault(&self) -> Option<(usize, String)> {
        for (place, (row, texts)) in KEYS.iter().zip(&self.texts).enumerate() {
            let Some(needs) = &row.needs else { continue };
            let other = needs.full_name();
            let applies = self.each(&other).any(|one| row.applies(&one.settings));
            if applies && row.default.is_none() && texts.iter().any(String::is_empty) {
                return Some((place, missing(row)));
            }
            if !applies && texts[..] != [row.default.unwrap_or_default()] {
                let (name, values) = (row.full_name(), (needs.values)().join(" or "));
                let no_trial = if needs.is { "no trial has" } else { "every trial has" };
                let message = format!(
                    "{name} has no effect: {no_trial} {other} = {values}; change {other} or remove {name}"
                );
                return Some((place, message));
            }
        }
        let warm_up = self.first.trial.warm_up;
        let short = self.each(DURATION).find(|one| one.settings.trial.duration <= warm_up)?;
        let (duration, warm_up) = (&short.texts[place(DURATION)], &short.texts[place(WARM_UP)]);
        let message = format!("{DURATION} = \"{duration}\" is not longer than {WARM_UP} = \"{warm_up}\"");
        Some((place(DURATION), message))
    }

    /// Returns one combination for each value of `key`. All other keys have their first value.
    fn each(&self, key: &str) -> impl Iterator<Item = Combination> {
        let first: Vec<String> = self.texts.iter().map(|texts| texts[0].clone()).collect();
        let place = place(key);
        self.texts[place].iter().map(move |text| {
            let mut texts = first.clone();
            texts[place].clone_from(text);
            Combination::of(texts)
        })
    }

    /// Formats the experiment as a complete file: each key with its value, including defaults. The file
    /// parses to the same experiment.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut table = "";
        for (row, texts) in KEYS.iter().zip(&self.texts) {
            if row.table != table {
                table = row.table;
                text.push_str(&format!("\n[{table}]\n"));
            }
            let shown = |text: &String| if row.kind.is_bare() { text.clone() } else { quoted(text) };
            let value = match &texts[..] {
                [only] => shown(only),
                list => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
            };
            text.push_str(&format!("{} = {value}\n", row.name));
        }
        text
    }

    /// Returns the first value of every key. For a key that is not a factor, this is the value in all trials.
    pub fn first(&self) -> &Settings {
        &self.first
    }

    /// Changes the file names in the experiment, for example to absolute paths.
    pub fn rebase(&mut self, change: impl Fn(&str) -> String) {
        let mut texts = std::mem::take(&mut self.texts);
        for (row, texts) in KEYS.iter().zip(&mut texts).filter(|(row, _)| row.kind == Kind::File) {
            for text in texts.iter_mut().filter(|text| (row.is_file)(text)) {
                *text = change(text);
            }
        }
        *self = Self::of(texts);
    }

    /// Returns the full names of the keys with several values and of the device's kind, in the order of the
    /// table. Includes `trace.record` if there are control trials.
    pub fn factors(&self) -> Vec<String> {
        let rows = KEYS.iter().zip(&self.texts);
        let names = rows.map(|(row, texts)| (row.full_name(), texts.len() > 1));
        let is_record = |name: &str| name == RECORD && self.has_controls();
        names
            .filter(|(name, varies)| *varies || name == KIND || is_record(name))
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns whether traced trials have untraced controls. This requires that all trials are traced and that
    /// controls are requested.
    fn has_controls(&self) -> bool {
        self.first.trace.control && self.each(RECORD).all(|one| one.settings.trace.record)
    }

    /// Returns the trials in the order of execution. All combinations are executed once, and again for each
    /// repeat, so that changes in the machine over time affect all combinations equally. If a key has no
    /// effect, such as the batch size of a bridge, its values add no trials. A traced trial is followed by
    /// its untraced control, so that both run under the same conditions. Trials that share a device are
    /// consecutive.
    pub fn trials(&self) -> Vec<Trial> {
        let mut combinations = self.combinations();
        if self.first.trial.device == DeviceLifetime::Kept {
            // Combinations that share a device become consecutive.
            let all = combinations.clone();
            combinations
                .sort_by_cached_key(|one| all.iter().position(|other| other.of_device() == one.of_device()));
        }
        let has_controls = self.has_controls();
        let mut trials = Vec::new();
        for repeat in 1..=self.first.trial.repeats {
            for combination in &combinations {
                let number = trials.len() + 1;
                trials.push(self.trial(number, repeat, combination.clone(), None));
                if has_controls {
                    let mut untraced = combination.clone();
                    untraced.change(|settings| settings.trace.record = false);
                    let twin = self.trial(number + 1, repeat, untraced, Some(UNTRACED));
                    trials.push(Trial { like: number, ..twin });
                }
            }
        }
        trials
    }

    /// Creates a trial; `more` is an additional word for its name.
    fn trial(&self, number: usize, repeat: u64, combination: Combination, more: Option<&str>) -> Trial {
        let rows = KEYS.iter().zip(&self.texts).zip(&combination.texts);
        let mut words: Vec<String> = rows
            .filter(|((row, texts), _)| texts.len() > 1 || row.full_name() == KIND)
            .filter(|((row, _), _)| row.applies(&combination.settings))
            .map(|((row, _), text)| word(row, text))
            .collect();
        words.extend(more.map(str::to_owned));
        if self.first.trial.repeats > 1 {
            words.push(format!("repeat{repeat}"));
        }
        Trial { number, repeat, name: words.join("-"), like: number, combination }
    }

    /// Returns every combination of values, in the order of the table.
    fn cross_product(&self) -> Vec<Combination> {
        let mut product: Vec<Vec<String>> = vec![Vec::new()];
        for texts in &self.texts {
            let with =
                |before: &Vec<String>, text: &String| [&before[..], std::slice::from_ref(text)].concat();
            product =
                product.iter().flat_map(|before| texts.iter().map(move |text| with(before, text))).collect();
        }
        product.into_iter().map(Combination::of).collect()
    }

    /// Returns the combinations that differ in keys with an effect.
    fn combinations(&self) -> Vec<Combination> {
        let mut seen = HashSet::new();
        let mut distinct = self.cross_product();
        distinct.retain_mut(|one| {
            for (place, row) in KEYS.iter().enumerate() {
                let first = &self.texts[place][0];
                if !row.applies(&one.settings) && one.texts[place] != *first {
                    one.texts[place].clone_from(first);
                    *one = Combination::of(std::mem::take(&mut one.texts));
                }
            }
            seen.insert(one.texts.clone())
        });
        distinct
    }
}

/// Key that is part of every trial's name.
const KIND: &str = "dut.kind";
/// Key that distinguishes a traced trial from its control.
const RECORD: &str = "trace.record";
const DURATION: &str = "trial.duration";
const WARM_UP: &str = "trial.warm-up";
/// Word in the name of a control trial.
const UNTRACED: &str = "untraced";

/// Returns the index of a key in [`KEYS`].
fn place(key: &str) -> usize {
    KEYS.iter().position(|row| row.full_name() == key).expect("a key of the table")
}

/// Returns the message for a missing required key.
fn missing(row: &KeyRow) -> String {
    format!("{} is missing; expected {}: {}", row.full_name(), row.kind.expected(), row.about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::SettingRecord;
    use crate::units::rate::Rate;

    const FILE: &str = "title = \"t\"\nseed = 1\n\n[dut]\nkind = [\"wire\", \"skeleton\"]\n[traffic]\nrate = [\"1 kpps\", \"0.5 Mpps\"]\n";

    #[test]
    fn factors_multiply_to_trials() {
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
        assert_eq!(trials[3].traffic.rate.pps, 500_000);
        assert_eq!(trials[3].trial.duration.ns, 2_000_000_000);
        assert_eq!((trials[4].number, trials[4].repeat), (5, 2));
    }

    #[test]
    fn trial_name_uses_file_name_without_path() {
        let kind = "kind = [\"wire\", \"skeleton\"]";
        let text =
            FILE.replace(kind, "kind = \"suricata\"\nrules = [\"none\", \"/some/where/else/my.rules\"]");
        let names: Vec<String> =
            Experiment::parse(&text).unwrap().trials().into_iter().map(|trial| trial.name).collect();
        assert_eq!(names[1..3], ["suricata-none-0.5Mpps", "suricata-my.rules-1kpps"]);
    }

    #[test]
    fn trial_name_contains_booleans() {
        let names = |host: &str| -> Vec<String> {
            let text = FILE.replace("[\"wire\", \"skeleton\"]", "\"wire\"").replace(", \"0.5 Mpps\"", "");
            let experiment = Experiment::parse(&format!("{text}[host]\n{host}\n")).unwrap();
            experiment.trials().into_iter().map(|trial| trial.name).collect()
        };
        assert_eq!(names("isolate = [true, false]"), ["wire-isolate", "wire-no-isolate"]);
        assert_eq!(names("isolate = false"), ["wire"]);
    }

    #[test]
    fn changed_values_have_new_texts() {
        let trials = Experiment::parse(FILE).unwrap().trials();
        let changed = trials[3].with(9, 1, "x".to_owned(), |settings| {
            settings.traffic.rate = Rate { pps: 1500 };
            settings.host.fifo = false;
        });
        assert_eq!((changed.number, changed.like, changed.traffic.rate.pps), (9, 9, 1500));
        let differs =
            |(old, new): (SettingRecord, SettingRecord)| (old != new).then_some((old.text, new.text));
        let all = trials[3].records().into_iter().zip(changed.records());
        let changes: Vec<(String, String)> = all.filter_map(differs).collect();
        let expected = [("0.5 Mpps", "1.5 kpps"), ("true", "false")];
        assert_eq!(changes, expected.map(|(old, new)| (old.to_owned(), new.to_owned())));
    }

    #[test]
    fn conditions_refer_to_existing_keys_and_values() {
        for needs in KEYS.iter().filter_map(|row| row.needs.as_ref()) {
            let row = &KEYS[place(&needs.full_name())];
            assert!((needs.values)().iter().all(|value| (row.takes)(value)), "{}", row.full_name());
        }
    }

    #[test]
    fn errors_name_line_and_expectation() {
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
        assert!(error(&FILE.replace("seed = 1", "seed = [1, 2]")).contains("cannot be a list"));
        assert!(error(&format!("{FILE}[trial]\nduration = \"2\"\n")).starts_with("line 9: trial.duration"));
        let host = |line: &str| error(&format!("{FILE}[host]\n{line}\n"));
        assert_eq!(
            host("fifo = \"yes\""),
            "line 9: host.fifo = \"yes\"; expected true or false, without quotes"
        );
        assert_eq!(host("fifo = 1"), "line 9: host.fifo is integer; expected true or false");
        assert!(host("fifo = [true, \"no\"]").contains("host.fifo = \"no\"; expected true or false"));
        assert!(
            host("[search]\ngoals = \"ndr, fast\"").contains("line 10: search.goals: 'fast' is not a goal")
        );
    }

    #[test]
    fn values_without_effect_add_no_trials() {
        let text = FILE.replace("[traffic]", "batch = [1, 4, 32]\n[traffic]");
        let experiment = Experiment::parse(&text).unwrap();
        let names: Vec<String> = experiment.trials().into_iter().map(|trial| trial.name).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        assert_eq!(names[..3], ["wire-1kpps", "wire-0.5Mpps", "skeleton-batch1-1kpps"]);
        let error = Experiment::parse(&text.replace(", \"skeleton\"", "")).unwrap_err().to_string();
        assert!(
            error.starts_with("line 6: dut.batch has no effect: no trial has dut.kind = skeleton or"),
            "{error}"
        );
    }

    #[test]
    fn traced_trials_have_controls() {
        let told = |more: &str| {
            let experiment = Experiment::parse(&format!("{FILE}[trace]\n{more}")).unwrap();
            let resolved = Experiment::parse(&experiment.to_toml()).unwrap();
            assert_eq!(resolved.trials(), experiment.trials());
            (experiment.trials(), experiment.factors())
        };
        let (trials, factors) = told("record = true\npage-faults = true\n[trial]\nrepeats = 2\n");
        let names: Vec<&str> = trials[..4].iter().map(|trial| trial.name.as_str()).collect();
        let expected = [
            "wire-1kpps-repeat1",
            "wire-1kpps-untraced-repeat1",
            "wire-0.5Mpps-repeat1",
            "wire-0.5Mpps-untraced-repeat1",
        ];
        assert_eq!((trials.len(), names), (16, expected.to_vec()));
        let numbers: Vec<(usize, usize)> = trials.iter().map(|trial| (trial.number, trial.like)).collect();
        assert_eq!(numbers[..4], [(1, 1), (2, 1), (3, 3), (4, 3)]);
        assert!(trials[2].trace.record && !trials[3].trace.record);
        assert_eq!(factors, ["dut.kind", "traffic.rate", "trace.record"]);
        // All other settings are equal, except those without effect in an untraced trial.
        let mut same = trials[2].records();
        same.retain(|record| !record.key.starts_with("trace."));
        let mut controls = trials[3].records();
        controls.retain(|record| record.key != "trace.record");
        assert_eq!(same, controls);

        for (more, record) in [
            ("record = true\ncontrol = false\n", None),
            ("record = false\n", None),
            ("record = [false, true]\n", Some("trace.record")),
        ] {
            let (trials, factors) = told(more);
            assert_eq!(trials.len(), if record.is_some() { 8 } else { 4 }, "{more}");
            assert!(trials.iter().all(|trial| trial.like == trial.number && !trial.name.contains(UNTRACED)));
            assert_eq!(factors.get(2).map(String::as_str), record, "{more}");
        }
    }

    #[test]
    fn rejects_contradictions() {
        let error = |text: &str| Experiment::parse(text).unwrap_err().to_string();
        assert!(error(&FILE.replace("wire", "command")).contains("dut.command is missing"));
        let replay = FILE.replace("rate", "pattern = \"replay\"\nrate");
        assert!(error(&replay).contains("traffic.replay is missing"));
        let short = format!("{FILE}[trial]\nduration = \"200 ms\"\n");
        assert!(error(&short).starts_with("line 9: trial.duration = \"200 ms\" is not longer than"));
        assert!(
            error(&FILE.replace("[traffic]", "batch = 65\n[traffic]"))
                .contains("line 6: dut.batch = 65; expected a whole number from 1 to 64")
        );
    }

    #[test]
    fn resolved_file_round_trips() {
        let text = FILE.replace("\"t\"", "'a \"quoted\" \\ title\u{7f}'").replace("\u{7f}", "");
        let experiment = Experiment::parse(&text).unwrap();
        let resolved = experiment.to_toml();
        assert_eq!(Experiment::parse(&resolved).unwrap(), experiment, "{resolved}");
        assert!(resolved.contains("late-share = \"1 %\""), "{resolved}");
    }

    #[test]
    fn every_default_parses() {
        for row in KEYS {
            if let Some(default) = row.default {
                assert!((row.takes)(default), "{}", row.full_name());
            }
        }
    }
}
