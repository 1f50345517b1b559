//! Trials that serve as evidence, and the conditions under which two trials can be compared.

use wiretail_schema::run::scenario::{RATE, Scenario};
use wiretail_schema::run::{HostSnapshot, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use super::RunInput;

/// Settings that do not affect the measured delay: names, timeouts, validity limits. Trials of different
/// lengths are comparable.
const ASIDE: [&str; 5] = ["title", "seed", "dut.ready", "dut.ready-timeout", "traffic.late-limit"];
/// Tables whose keys do not affect the measured delay, each with its exceptions.
const ASIDE_BUT: [(&str, &[&str]); 4] = [
    ("trial.", &["trial.ingress"]),
    ("trace.", &["trace.record", "trace.stacks", "trace.page-faults"]),
    ("search.", &[]),
    ("energy.", &[]),
];
/// Settings that describe the isolation boundary of the device.
pub const ISOLATION_BOUNDARY: [&str; 5] =
    ["dut.deployment", "dut.container", "dut.kernel", "dut.boot", "dut.network"];

/// Valid trial with results.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub input: &'a RunInput,
    pub trial: &'a TrialRecord,
    /// Results for the whole device under test.
    pub summary: &'a Summary,
}

/// Valid trials of all runs, in order.
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

/// Settings and host that two comparable trials have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    settings: Vec<(String, String)>,
    host: Vec<String>,
}

/// Parts of the host that must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameHost {
    Whole,
    /// Processor only, to compare kernels.
    Processor,
}

impl<'a> Seen<'a> {
    /// Text of a setting; "" if the trial does not have it.
    pub fn text(&self, key: &str) -> &'a str {
        self.trial.setting(key).map_or("", |setting| setting.text.as_str())
    }

    /// Offered rate, in packets per second.
    pub fn rate_pps(&self) -> u64 {
        self.trial.setting(RATE).map_or(0, |setting| setting.number)
    }

    /// Condition for a comparison: all settings except those in `without`, and the host.
    pub fn condition(&self, without: &[&str], same: SameHost) -> Condition {
        let counts = |key: &str| {
            let aside = ASIDE_BUT.iter().any(|(table, but)| key.starts_with(table) && !but.contains(&key));
            !aside && !ASIDE.contains(&key) && !without.contains(&key)
        };
        let settings = self.trial.settings.iter().filter(|setting| counts(&setting.key));
        // Compare numbers, so that "10 kpps" equals "10kpps".
        let value = |number: u64, text: &str| if number > 0 { number.to_string() } else { text.to_owned() };
        let mut settings: Vec<(String, String)> =
            settings.map(|one| (one.key.clone(), value(one.number, &one.text))).collect();
        settings.sort();
        Condition { settings, host: host(&self.input.run.host, same) }
    }

    /// Device and load as text, without the settings in `without`: "skeleton, batch 32, 10 kpps".
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

/// Groups trials by key, in the order of the first trial of each group.
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
