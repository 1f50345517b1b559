//! Trials whose numbers may be used, and which of them can be compared.

use wiretail_schema::run::scenario::{RATE, Scenario};
use wiretail_schema::run::{HostSnapshot, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use super::RunInput;

/// Settings that are no part of what is measured: names, patience, when a trial is invalid. Trials of different lengths
/// measure the same.
const ASIDE: [&str; 5] = ["title", "seed", "dut.ready", "dut.ready-timeout", "traffic.late-limit"];
/// Tables of which the same holds, with those keys of them that do change what is measured.
const ASIDE_BUT: [(&str, &[&str]); 4] = [
    ("trial.", &["trial.ingress"]),
    ("trace.", &["trace.record", "trace.stacks", "trace.page-faults"]),
    ("search.", &[]),
    ("energy.", &[]),
];
/// Settings that say what is around the device.
pub const ISOLATION_BOUNDARY: [&str; 5] =
    ["dut.deployment", "dut.container", "dut.kernel", "dut.boot", "dut.network"];

/// A valid trial that was analysed.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Its run.
    pub input: &'a RunInput,
    /// What became of it.
    pub trial: &'a TrialRecord,
    /// The numbers of the whole device under test.
    pub summary: &'a Summary,
}

/// All of them, in their order.
pub fn all(runs: &[RunInput]) -> Vec<Seen<'_>> {
    runs.iter().flat_map(of).collect()
}

fn of(input: &RunInput) -> Vec<Seen<'_>> {
    let valid = input.run.trials.iter().filter(|trial| trial.state == TrialState::Valid);
    let seen = valid.filter_map(|trial| {
        let result = input.results.iter().find(|r| r.trial == trial.number && r.segment == 0)?;
        Some(Seen { input, trial, summary: &result.summary })
    });
    seen.collect()
}

/// What has to be the same for two trials to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    settings: Vec<(String, String)>,
    host: Vec<String>,
}

/// Which part of the host has to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameHost {
    /// Processor, kernel and boot line.
    Whole,
    /// Processor alone: kernels are compared.
    Processor,
}

impl<'a> Seen<'a> {
    /// A setting as it is written; "" where the trial has none.
    pub fn text(&self, key: &str) -> &'a str {
        self.trial.setting(key).map_or("", |setting| setting.text.as_str())
    }

    /// The offered rate, in packets a second.
    pub fn rate_pps(&self) -> u64 {
        self.trial.setting(RATE).map_or(0, |setting| setting.number)
    }

    /// What it has in common with those that it is compared with: all but the settings `without`.
    pub fn condition(&self, without: &[&str], same: SameHost) -> Condition {
        let counts = |key: &str| {
            let aside = ASIDE_BUT.iter().any(|(table, but)| key.starts_with(table) && !but.contains(&key));
            !aside && !ASIDE.contains(&key) && !without.contains(&key)
        };
        let settings = self.trial.settings.iter().filter(|setting| counts(&setting.key));
        // "10 kpps" and "10kpps" are the same.
        let value = |number: u64, text: &str| if number > 0 { number.to_string() } else { text.to_owned() };
        let mut settings: Vec<(String, String)> =
            settings.map(|one| (one.key.clone(), value(one.number, &one.text))).collect();
        settings.sort();
        Condition { settings, host: host(&self.input.run.host, same) }
    }

    /// Device and load in words, without the settings `without`: "skeleton, batch 32, 10 kpps".
    pub fn words(&self, without: &[&str]) -> String {
        let aside = |key: &str| without.contains(&key) || ["dut.kind", RATE].contains(&key);
        let mut scenario = Scenario::of(&self.input.run, self.trial, without);
        scenario.settings.retain(|setting| !aside(&setting.key));
        let between = scenario.settings.iter().map(|setting| setting.words());
        let rate = Some(self.text(RATE)).filter(|text| !text.is_empty() && !without.contains(&RATE));
        let words =
            [self.text("dut.kind").to_owned()].into_iter().chain(between).chain(rate.map(str::to_owned));
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

fn host(host: &HostSnapshot, same: SameHost) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut parts = vec![text(&host.cpu_model), text(&host.machine), host.hypervisor.to_string()];
    if same == SameHost::Whole {
        parts.extend([text(&host.kernel), text(&host.kernel_build), text(&host.command_line)]);
    }
    parts
}

/// Trials that can be compared, in the order of their first.
pub fn grouped<'s, 'a, K: PartialEq>(
    seen: impl IntoIterator<Item = &'s Seen<'a>>,
    key: impl Fn(&Seen<'a>) -> K,
) -> Vec<(K, Vec<&'s Seen<'a>>)>
where
    'a: 's,
{
    let mut groups: Vec<(K, Vec<&'s Seen<'a>>)> = Vec::new();
    for one in seen {
        let found = key(one);
        match groups.iter_mut().find(|(other, _)| *other == found) {
            Some((_, group)) => group.push(one),
            None => groups.push((found, vec![one])),
        }
    }
    groups
}
