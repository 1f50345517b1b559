//! An experiment: what is measured, under which load, how often. Written in TOML.
//!
//! Every key stands in one table, [`KEYS`], with its kind, its default and what it means; parsing,
//! the errors, the documentation and the JSON Schema all come from there. A key that is a *factor* may
//! hold a list: the trials are the cross product of all lists, in the order of the table.

mod document;
mod keys;
mod text;

use std::collections::HashSet;
use std::fmt;

use toml::de::{DeTable, DeValue};

pub use document::{json_schema, key_table};
pub use keys::{KEYS, KeyRow, Kind, Needs};
pub use text::parse_rate;
use text::{parse_setting, unknown, values};

use crate::run::SettingRecord;
use crate::search::{Goal, Over};
use crate::units::Duration;

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
    /// In its base unit: packets a second, ns, bytes, millionths, or the number itself; 0 for texts.
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
    /// Position of the trial that it is to be like, packet for packet: of a twin that of its traced partner, else its
    /// own.
    pub like: usize,
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
        let settings = KEYS.iter().zip(found).map(|(row, found)| match (found, row.default) {
            (Some(values), _) => Ok(values),
            (None, Some(default)) => parse_setting(row, default)
                .map(|value| vec![value])
                .map_err(|message| ExperimentError { line: 0, message }),
            (None, None) => Err(ExperimentError {
                line: 0,
                message: format!(
                    "{} is missing; expected {}: {}",
                    row.full_name(),
                    row.kind.expected(),
                    row.about
                ),
            }),
        });
        let experiment = Self { settings: settings.collect::<Result<_, _>>()? };
        match experiment.fault() {
            Some((place, message)) => Err(ExperimentError { line: lines[place], message }),
            None => Ok(experiment),
        }
    }

    /// What is wrong though every value by itself is right, and with which key.
    fn fault(&self) -> Option<(usize, String)> {
        for (place, (row, values)) in KEYS.iter().zip(&self.settings).enumerate() {
            let is_default = matches!(&values[..], [only] if Some(only.text.as_str()) == row.default);
            if is_default || row.needs.is_none_or(|needs| self.has(needs)) {
                continue;
            }
            let needs = row.needs.map(|needs| (needs.values.join(" or "), needs.table, needs.name));
            let (values, table, name) = needs.unwrap_or_default();
            let message = format!(
                "{} has no effect: {table}.{name} is nowhere {values}; add that, or leave {} out",
                row.full_name(),
                row.full_name()
            );
            return Some((place, message));
        }
        for (table, name, needed) in
            [("dut", "command", "command"), ("traffic", "replay", "replay"), ("energy", "command", "command")]
        {
            let place = place(table, name);
            let empty = self.settings[place].iter().any(|setting| setting.text.is_empty());
            if empty && KEYS[place].needs.is_some_and(|needs| self.has(needs)) {
                return Some((
                    place,
                    format!("{table}.{name} is missing: a {needed} was asked for, but not which"),
                ));
            }
        }
        if let Err(error) = Goal::list(&self.first("search", "goals").text) {
            return Some((place("search", "goals"), format!("search.goals: {error}")));
        }
        let warm_up = self.first("trial", "warm-up");
        let durations = self.values("trial", "duration");
        if let Some(short) = durations.iter().find(|duration| duration.number <= warm_up.number) {
            let (all, left_out) = (&short.text, &warm_up.text);
            let message =
                format!("trial.duration = \"{all}\" is not longer than trial.warm-up = \"{left_out}\"");
            return Some((place("trial", "duration"), message));
        }
        let over = |(place, row): (usize, &KeyRow)| {
            let most = row.most()?;
            let is_over = self.settings[place].iter().any(|setting| setting.number > most);
            is_over.then(|| (place, format!("{}: at most {most}", row.full_name())))
        };
        KEYS.iter().enumerate().find_map(over)
    }

    /// Whether any trial meets this.
    fn has(&self, needs: Needs) -> bool {
        let values = self.values(needs.table, needs.name);
        values.iter().any(|setting| needs.values.contains(&setting.text.as_str()))
    }

    /// All values of a key.
    pub fn values(&self, table: &str, name: &str) -> &[Setting] {
        &self.settings[place(table, name)]
    }

    /// The experiment as a file that says everything: each key with its value, also where that is the
    /// default. It parses to the same experiment.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut table = "";
        for (row, values) in KEYS.iter().zip(&self.settings) {
            if row.table != table {
                table = row.table;
                text.push_str(&format!("\n[{table}]\n"));
            }
            let shown = |setting: &Setting| match row.kind {
                Kind::Count(_) => setting.text.clone(),
                _ => toml_text(&setting.text),
            };
            let value = match &values[..] {
                [only] => shown(only),
                list => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
            };
            text.push_str(&format!("{} = {value}\n", row.name));
        }
        text
    }

    /// The first value of a key.
    pub fn first(&self, table: &str, name: &str) -> &Setting {
        &self.settings[place(table, name)][0]
    }

    /// Changes the texts of a key that are not empty, as when names of files become absolute.
    pub fn rebase(&mut self, table: &str, name: &str, change: impl Fn(&str) -> String) {
        for setting in self.settings[place(table, name)].iter_mut().filter(|setting| !setting.text.is_empty())
        {
            setting.text = change(&setting.text);
        }
    }

    /// Full names of the keys with several values, and of the device's kind, in the order of the table; whether a
    /// trial is traced, too, where there are twins.
    pub fn factors(&self) -> Vec<String> {
        let rows = KEYS.iter().zip(&self.settings);
        let controls = self.untraced().is_some();
        let varies = |(row, values): &(&KeyRow, &Vec<Setting>)| {
            values.len() > 1 || row.is_dut() || (controls && row.is_record())
        };
        rows.filter(varies).map(|(row, _)| row.full_name()).collect()
    }

    /// Of an experiment whose traced trials have twins that are not: what says so in a twin.
    fn untraced(&self) -> Option<Setting> {
        let row = &KEYS[place("trace", "record")];
        let all_traced = matches!(self.values("trace", "record"), [only] if only.text == "yes");
        let asked = all_traced && self.first("trace", "control").text == "yes";
        parse_setting(row, "no").ok().filter(|_| asked)
    }

    /// The trials, in the order they are done: all combinations, then all again for each repeat, so
    /// that what changes on the machine meanwhile falls on all combinations alike. Where a key has no
    /// effect (the batch of a bridge), its values make no further trials. A traced trial is followed by its untraced
    /// twin, so that both have the same machine. Trials that share a device follow one another.
    pub fn trials(&self) -> Vec<Trial> {
        let mut combinations = self.combinations();
        if self.first("trial", "device").text == "kept" {
            // Those that share a device, one behind the other.
            let devices: Vec<Vec<Setting>> =
                combinations.iter().map(|settings| of_device(settings)).collect();
            let first = |settings: &[Setting]| {
                let device = of_device(settings);
                devices.iter().position(|other| *other == device)
            };
            combinations.sort_by_cached_key(|settings| first(settings));
        }
        let untraced = self.untraced();
        let mut trials = Vec::new();
        for repeat in 1..=self.first("trial", "repeats").number {
            for settings in &combinations {
                let number = trials.len() + 1;
                trials.push(self.trial(number, repeat, settings.clone(), ""));
                if let Some(untraced) = &untraced {
                    let mut settings = settings.clone();
                    settings[place("trace", "record")] = untraced.clone();
                    let queueing = self.trial(number + 1, repeat, settings, UNTRACED);
                    trials.push(Trial { like: number, ..queueing });
                }
            }
        }
        trials
    }

    /// A trial; `more` is a word that its name gets.
    fn trial(&self, number: usize, repeat: u64, settings: Vec<Setting>, more: &str) -> Trial {
        let trial = Trial { number, repeat, name: String::new(), like: number, settings };
        let varied = KEYS.iter().zip(&self.settings).zip(&trial.settings);
        let mut words: Vec<String> = varied
            .filter(|((row, values), _)| values.len() > 1 || row.is_dut())
            .filter(|((row, _), _)| trial.applies(row))
            .map(|((row, _), value)| word(row, value))
            .collect();
        words.extend(Some(more.to_owned()).filter(|word| !word.is_empty()));
        if self.first("trial", "repeats").number > 1 {
            words.push(format!("repeat{repeat}"));
        }
        Trial { name: words.join("-"), ..trial }
    }

    fn combinations(&self) -> Vec<Vec<Setting>> {
        let mut combinations: Vec<Vec<Setting>> = vec![Vec::new()];
        for values in &self.settings {
            combinations = combinations
                .iter()
                .flat_map(|before| {
                    values.iter().map(move |value| [&before[..], std::slice::from_ref(value)].concat())
                })
                .collect();
        }
        let mut distinct: Vec<Vec<Setting>> = Vec::with_capacity(combinations.len());
        let mut seen = HashSet::new();
        for mut settings in combinations {
            for (at, row) in KEYS.iter().enumerate() {
                if !meets(&settings, row) {
                    settings[at] = self.settings[at][0].clone();
                }
            }
            if seen.insert(settings.iter().map(|setting| setting.text.clone()).collect::<Vec<_>>()) {
                distinct.push(settings);
            }
        }
        distinct
    }
}

/// Keys that nobody but the load generator knows of.
const OF_SENDER: [&str; 10] =
    ["rate", "pattern", "burst", "on", "off", "replay", "size", "flows", "streams", "pacing"];

/// The values of all keys that are not about what is sent.
fn of_device(settings: &[Setting]) -> Vec<Setting> {
    let of_sender = |row: &KeyRow| row.table == "traffic" && OF_SENDER.contains(&row.name);
    let both = KEYS.iter().zip(settings).filter(|(row, _)| !of_sender(row));
    both.map(|(_, setting)| setting.clone()).collect()
}

/// Whether a key has an effect beside these values of the others.
fn meets(settings: &[Setting], row: &KeyRow) -> bool {
    row.needs
        .is_none_or(|needs| needs.values.contains(&settings[place(needs.table, needs.name)].text.as_str()))
}

impl Trial {
    /// Whether a key has an effect in this trial.
    pub fn applies(&self, row: &KeyRow) -> bool {
        meets(&self.settings, row)
    }

    /// Whether the device of this trial may be kept for the other one: it is asked for, and they differ in nothing but what is sent.
    pub fn shares_device(&self, other: &Self) -> bool {
        let kept = self.get("trial", "device").text == "kept";
        kept && of_device(&self.settings) == of_device(&other.settings)
    }

    /// Every key that has an effect, with its value.
    pub fn records(&self) -> Vec<SettingRecord> {
        let rows = KEYS.iter().zip(&self.settings);
        let record = |(row, setting): (&KeyRow, &Setting)| SettingRecord {
            key: row.full_name(),
            text: setting.text.clone(),
            number: setting.number,
        };
        rows.filter(|(row, _)| self.applies(row)).map(record).collect()
    }

    /// Whether a yes-or-no key says yes.
    pub fn is(&self, table: &str, name: &str) -> bool {
        self.get(table, name).text == "yes"
    }

    /// The same trial under another load, as a search does it: with this number and name, so many packets a second or back to
    /// back, for so long, in ns.
    #[must_use]
    pub fn at_load(&self, number: usize, name: String, (over, load): (Over, u64), duration_ns: u64) -> Self {
        let mut trial = Self { number, name, like: number, ..self.clone() };
        let mut set = |table, name, text, number| {
            trial.settings[place(table, name)] = Setting { text, number };
        };
        match (over, load) {
            (Over::Rate, 0..1000) => set("traffic", "rate", format!("{load} pps"), load),
            (Over::Rate, _) => set("traffic", "rate", format!("{} kpps", load as f64 / 1e3), load),
            (Over::Burst, _) => set("traffic", "burst", load.to_string(), load),
        }
        set("trial", "duration", Duration::from_ns(duration_ns as i64).to_string(), duration_ns);
        trial
    }

    /// The same trial with other values of some keys, as a proof does it: with this number, repeat and name; each key as table, name
    /// and text.
    ///
    /// # Errors
    /// A text that is no value of its key.
    pub fn with(
        &self,
        number: usize,
        repeat: u64,
        name: String,
        keys: &[(&str, &str, &str)],
    ) -> Result<Self, String> {
        let mut trial = Self { number, repeat, name, like: number, ..self.clone() };
        for (table, name, text) in keys {
            let place = place(table, name);
            trial.settings[place] = parse_setting(&KEYS[place], text)?;
        }
        Ok(trial)
    }

    /// The value of a key.
    pub fn get(&self, table: &str, name: &str) -> &Setting {
        &self.settings[place(table, name)]
    }
}

/// The word that a twin's name has.
const UNTRACED: &str = "untraced";
/// Longest word that a factor gives to a directory's name, in characters.
const WORD_MAX: usize = 24;

/// A word for a directory's name: "10kpps"; with the key where the value alone says nothing: "batch32".
fn word(row: &KeyRow, value: &Setting) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Of the path of a file, its own name.
    let named = if matches!(row.name, "replay" | "rules") { value.text.rsplit('/').next() } else { None };
    let text: String = named.unwrap_or(&value.text).chars().filter(plain).take(WORD_MAX).collect();
    match row.kind {
        Kind::Count(_) | Kind::Choice(["yes", "no"]) => format!("{}{text}", row.name),
        Kind::Text if text.is_empty() => row.name.to_owned(),
        _ => text,
    }
}

/// A basic string of TOML.
fn toml_text(text: &str) -> String {
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

fn place(table: &str, name: &str) -> usize {
    let found = KEYS.iter().position(|row| row.table == table && row.name == name);
    found.expect("a key of the table")
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
    fn a_file_gives_its_own_name() {
        let kind = "kind = [\"wire\", \"skeleton\"]";
        let text =
            FILE.replace(kind, "kind = \"suricata\"\nrules = [\"none\", \"/some/where/else/my.rules\"]");
        let names: Vec<String> =
            Experiment::parse(&text).unwrap().trials().into_iter().map(|trial| trial.name).collect();
        assert_eq!(names[1..3], ["suricata-none-0.5Mpps", "suricata-my.rules-1kpps"]);
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
    fn what_has_no_effect_makes_no_trials() {
        let text = FILE.replace("[traffic]", "batch = [1, 4, 32]\n[traffic]");
        let experiment = Experiment::parse(&text).unwrap();
        let names: Vec<String> = experiment.trials().into_iter().map(|trial| trial.name).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        assert_eq!(names[..3], ["wire-1kpps", "wire-0.5Mpps", "skeleton-batch1-1kpps"]);
        let error = Experiment::parse(&text.replace(", \"skeleton\"", "")).unwrap_err().to_string();
        assert!(
            error.starts_with("line 6: dut.batch has no effect: dut.kind is nowhere skeleton"),
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
        let (trials, factors) = told("record = \"yes\"\npage-faults = \"yes\"\n[trial]\nrepeats = 2\n");
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
        assert!(trials[2].is("trace", "record") && !trials[3].is("trace", "record"));
        assert_eq!(factors, ["dut.kind", "traffic.rate", "trace.record"]);
        // All else is the same, but for what has no effect without a trace.
        let mut same = trials[2].records();
        same.retain(|record| !record.key.starts_with("trace."));
        let mut controls = trials[3].records();
        controls.retain(|record| record.key != "trace.record");
        assert_eq!(same, controls);

        for (more, record) in [
            ("record = \"yes\"\ncontrol = \"no\"\n", None),
            ("record = \"no\"\n", None),
            ("record = [\"no\", \"yes\"]\n", Some("trace.record")),
        ] {
            let (trials, factors) = told(more);
            assert_eq!(trials.len(), if record.is_some() { 8 } else { 4 }, "{more}");
            assert!(trials.iter().all(|trial| trial.like == trial.number && !trial.name.contains(UNTRACED)));
            assert_eq!(factors.get(2).map(String::as_str), record, "{more}");
        }
    }

    #[test]
    fn contradictions_are_told() {
        let error = |text: &str| Experiment::parse(text).unwrap_err().to_string();
        assert!(error(&FILE.replace("wire", "command")).contains("dut.command is missing"));
        let replay = FILE.replace("rate", "pattern = \"replay\"\nrate");
        assert!(error(&replay).contains("traffic.replay is missing"));
        let short = format!("{FILE}[trial]\nduration = \"200 ms\"\n");
        assert!(error(&short).starts_with("line 9: trial.duration = \"200 ms\" is not longer than"));
        assert!(
            error(&FILE.replace("[traffic]", "batch = 65\n[traffic]"))
                .contains("line 6: dut.batch: at most 64")
        );
    }

    #[test]
    fn the_resolved_file_is_the_same_experiment() {
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
                assert!(parse_setting(row, default).is_ok(), "{}", row.full_name());
            }
        }
    }
}
