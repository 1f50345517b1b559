//! Measured effects of the settings of a profile, from trials with and without them. Method and limits:
//! `docs/ablation.md`.
//!
//! - this module: the configurations, their order, and the host keys of each trial;
//! - [`effect`]: differences between two configurations, their intervals, and the ranking.

mod effect;

use wiretail_schema::experiment::{CoreIdle, HostKeys, ProfileChoice};
use wiretail_schema::host::ablation::{Configuration, ConfigurationKind, Factor};
use wiretail_schema::host::plan::{Profile, Rules, Setting, SettingState, TakesEffect, Target, TuningPlan};
use wiretail_schema::random::Random;

pub use effect::{judge, repeats_needed};

/// Key of an experiment's `host` table that is tested as a factor, in addition to the settings of the
/// profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKey {
    Fifo,
    Isolate,
    Idle,
}

impl HostKey {
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Isolate, Self::Idle];

    /// Name of the factor.
    fn name(self) -> &'static str {
        match self {
            Self::Fifo => "host.fifo",
            Self::Isolate => "host.isolate",
            Self::Idle => "host.idle",
        }
    }

    /// Effect of the key, and its drawback.
    fn title_and_cost(self) -> (&'static str, &'static str) {
        match self {
            Self::Fifo => (
                "real-time priority (SCHED_FIFO) for load generator and device",
                "other threads on their cores wait; a thread that hangs blocks its core",
            ),
            Self::Isolate => {
                ("other tasks are moved off the packet cores", "the other cores run these tasks")
            }
            Self::Idle => ("cores poll instead of sleeping", "higher power consumption"),
        }
    }

    /// Value of the key without the factor, and with it.
    fn texts(self) -> [&'static str; 2] {
        match self {
            Self::Fifo | Self::Isolate => ["false", "true"],
            Self::Idle => [CoreIdle::Sleep.name(), CoreIdle::Poll.name()],
        }
    }

    fn set(self, host: &mut HostKeys, on: bool) {
        match self {
            Self::Fifo => host.fifo = on,
            Self::Isolate => host.isolate = on,
            Self::Idle => host.idle = if on { CoreIdle::Poll } else { CoreIdle::Sleep },
        }
    }
}

/// Factors of a plan: the settings that can change at run time, one factor per audit rule, and the host keys
/// in `keys`.
pub fn factors(plan: &TuningPlan, keys: &[HostKey]) -> Vec<Factor> {
    let mut factors: Vec<Factor> = Vec::new();
    for key in keys {
        let (title, cost) = key.title_and_cost();
        let [off, on] = key.texts();
        factors.push(Factor {
            name: key.name().to_owned(),
            title: title.to_owned(),
            cost: cost.to_owned(),
            changes: vec![format!("{} {off} -> {on}", key.name())],
        });
    }
    for (setting, path) in plan.settings.iter().filter_map(|setting| Some((setting, now(setting)?))) {
        let rule = setting.rule.as_deref().unwrap_or(path);
        let value = |text: &Option<String>| text.clone().unwrap_or_default();
        let change = format!("{path} {} -> {}", value(&setting.now), value(&setting.wanted));
        match factors.iter_mut().find(|factor| factor.name == rule) {
            Some(factor) => factor.changes.push(change),
            None => factors.push(Factor {
                name: rule.to_owned(),
                title: setting.title.clone(),
                cost: setting.cost.clone(),
                changes: vec![change],
            }),
        }
    }
    factors
}

/// File that a setting changes. `None` if the setting is already in effect, or takes effect later.
fn now(setting: &Setting) -> Option<&str> {
    match &setting.target {
        Target::File { path } if setting.state == SettingState::Change => Some(path),
        _ => None,
    }
}

/// Changes in a plan that trials cannot test, because they need a reboot or because another program applies
/// them.
pub fn not_tried(plan: &TuningPlan) -> Vec<String> {
    let is_later = |setting: &&Setting| {
        setting.state == SettingState::Change
            && (setting.takes_effect == TakesEffect::Reboot
                || matches!(setting.target, Target::Service { .. } | Target::Nic { .. }))
    };
    plan.settings.iter().filter(is_later).map(|setting| setting.target.name().into_owned()).collect()
}

/// Configurations to compare: the host as it is, all factors, all factors except one (for each factor), and on
/// request each factor alone.
pub fn configurations(factors: &[Factor], alone: bool) -> Vec<Configuration> {
    let configuration = |kind, factor: Option<&Factor>| Configuration { kind, factor: factor.cloned() };
    let mut configurations =
        vec![configuration(ConfigurationKind::AsIs, None), configuration(ConfigurationKind::All, None)];
    configurations
        .extend(factors.iter().map(|factor| configuration(ConfigurationKind::Without, Some(factor))));
    if alone {
        configurations
            .extend(factors.iter().map(|factor| configuration(ConfigurationKind::Alone, Some(factor))));
    }
    configurations
}

/// Sets the keys of an experiment's `host` table for a configuration. Changes only the factors in `keys` and
/// the two keys that select the profile and its rules.
pub fn apply(configuration: &Configuration, profile: Profile, keys: &[HostKey], host: &mut HostKeys) {
    let factor = configuration.factor.as_ref().map_or("", |factor| factor.name.as_str());
    let is_on = |name: &str| match configuration.kind {
        ConfigurationKind::AsIs => false,
        ConfigurationKind::All => true,
        ConfigurationKind::Without => name != factor,
        ConfigurationKind::Alone => name == factor,
    };
    for key in keys {
        key.set(host, is_on(key.name()));
    }
    let is_key = HostKey::ALL.iter().any(|key| key.name() == factor);
    let rules = match configuration.kind {
        ConfigurationKind::AsIs => None,
        ConfigurationKind::Alone if is_key => None,
        ConfigurationKind::Alone => Some(Rules::Only(vec![factor.to_owned()])),
        ConfigurationKind::Without if !is_key => Some(Rules::AllBut(vec![factor.to_owned()])),
        ConfigurationKind::All | ConfigurationKind::Without => Some(Rules::AllBut(Vec::new())),
    };
    host.profile = match profile {
        _ if rules.is_none() => ProfileChoice::None,
        Profile::Regular => ProfileChoice::Regular,
        Profile::EnergySaving => ProfileChoice::EnergySaving,
        Profile::Optimized => ProfileChoice::Optimized,
    };
    if let Some(rules) = rules {
        host.settings = rules;
    }
}

/// Order of the configurations in a repeat under a load. The seed shuffles it, so that no configuration
/// always follows the same other configuration.
pub fn order(configurations: usize, seed: u64, load: usize, repeat: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..configurations).collect();
    order.sort_by_key(|configuration| {
        [load as u64, repeat, *configuration as u64]
            .iter()
            .fold(seed, |state, word| Random::new(state ^ word).bits())
    });
    order
}

#[cfg(test)]
mod tests {
    use wiretail_schema::experiment::Experiment;
    use wiretail_schema::host::audit::HostRole;
    use wiretail_schema::host::plan::PLAN_SCHEMA;

    use super::*;

    fn setting(path: &str, rule: &str, state: SettingState) -> Setting {
        Setting {
            target: Target::File { path: path.to_owned() },
            title: String::new(),
            rule: Some(rule.to_owned()),
            now: Some("0".to_owned()),
            wanted: Some("1".to_owned()),
            state,
            detail: String::new(),
            takes_effect: TakesEffect::Now,
            cost: String::new(),
        }
    }

    fn plan() -> TuningPlan {
        let word = Setting {
            target: Target::BootWord { name: "isolcpus".to_owned() },
            takes_effect: TakesEffect::Reboot,
            ..setting("", "isolcpus", SettingState::Change)
        };
        TuningPlan {
            schema: PLAN_SCHEMA.to_owned(),
            wiretail_version: String::new(),
            profile: Profile::Optimized,
            role: HostRole::Bare,
            cores: "1".to_owned(),
            housekeeping: "0".to_owned(),
            settings: vec![
                word,
                setting("/a", "irq-affinity", SettingState::Change),
                setting("/b", "thp", SettingState::InEffect),
                setting("/c", "ksm", SettingState::Change),
                setting("/d", "irq-affinity", SettingState::Change),
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn factors_are_changed_rules_and_host_keys() {
        let factors = factors(&plan(), &[HostKey::Fifo, HostKey::Idle]);
        let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
        assert_eq!(names, ["host.fifo", "host.idle", "irq-affinity", "ksm"]);
        assert_eq!(factors[2].changes, ["/a 0 -> 1", "/d 0 -> 1"]);
        assert_eq!(not_tried(&plan()), ["isolcpus"]);
    }

    #[test]
    fn configuration_sets_only_its_own_keys() {
        let keys = [HostKey::Fifo, HostKey::Isolate];
        // Values that no factor changes.
        let text = "title = \"a\"\nseed = 1\n[dut]\nkind = \"wire\"\n[traffic]\nrate = \"1 kpps\"\n\
                    [host]\nfifo = true\nisolate = true\nprofile = \"regular\"\nsettings = \"thp\"\n";
        let host = Experiment::parse(text).unwrap().trials()[0].host.clone();
        let configurations = configurations(&factors(&plan(), &keys), true);
        let shown: Vec<String> = configurations
            .iter()
            .map(|configuration| {
                let mut host = host.clone();
                apply(configuration, Profile::Optimized, &keys, &mut host);
                let HostKeys { fifo, isolate, profile, settings, .. } = host;
                format!("{}: {fifo} {isolate} {profile} {settings}", configuration.name())
            })
            .collect();
        let expected = [
            "as it is: false false none thp",
            "all settings: true true optimized all",
            "without host.fifo: false true optimized all",
            "without host.isolate: true false optimized all",
            "without irq-affinity: true true optimized all but irq-affinity",
            "without ksm: true true optimized all but ksm",
            "host.fifo alone: true false none thp",
            "host.isolate alone: false true none thp",
            "irq-affinity alone: false false optimized irq-affinity",
            "ksm alone: false false optimized ksm",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn order_has_each_configuration_once_at_random_positions() {
        let mut first = [0; 5];
        for repeat in 1..=500 {
            let order = order(5, 7, 0, repeat);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            first[order[0]] += 1;
        }
        // Each is expected 100 times; 60 would be 4.5 standard deviations off.
        assert!(first.iter().all(|times| (60..140).contains(times)), "{first:?}");
        assert_eq!(order(5, 7, 0, 1), order(5, 7, 0, 1));
        assert_ne!(order(12, 7, 0, 1), order(12, 8, 0, 1));
    }
}
