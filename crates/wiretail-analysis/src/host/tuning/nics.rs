//! NIC settings of the profiles. `apply` does not change them: the plan prints the command for each setting,
//! and the output files include a service that applies all of them at boot.

use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::plan::{Profile, Setting, SettingState, TakesEffect, Target};
use wiretail_schema::host::record::ETHTOOL;

use super::{Ask, setting};
use crate::host::audit::rules::ring_entries;
use crate::host::tuning::outputs::nics::{command, is_link};

/// NIC setting, by its name in a record.
struct Wish {
    name: &'static str,
    rule: &'static str,
    /// Requested value, computed from the NIC's settings. `None` keeps the current value.
    wanted: fn(&Ask<'_>, &str) -> Option<String>,
}

const fn wish(name: &'static str, rule: &'static str, wanted: fn(&Ask<'_>, &str) -> Option<String>) -> Wish {
    Wish { name, rule, wanted }
}

/// In the order in which they are applied: some drivers reset the other settings when the number of queues
/// changes.
const WISHES: &[Wish] = &[
    wish("combined-channels", "nic-queues", |ask, nic| {
        let now: usize = value(nic, "combined-channels")?.parse().ok()?;
        Some(now.min(ask.housekeeping.cores().len()).to_string()).filter(|_| now > 0)
    }),
    wish("rx-ring", "nic-rings", |_, nic| {
        let number = |name| value(nic, name)?.parse::<u64>().ok();
        let (now, most) = (number("rx-ring")?, number("rx-ring-max")?);
        let needed = number("speed-mbps").and_then(ring_entries)?.next_power_of_two();
        Some(now.max(needed.min(most)).to_string())
    }),
    wish("adaptive-rx", "nic-coalescing", |_, _| Some("off".to_owned())),
    wish("rx-usecs", "nic-coalescing", |_, _| Some("0".to_owned())),
    wish("rx-pause", "nic-pause", |_, _| Some("off".to_owned())),
    wish("tx-pause", "nic-pause", |_, _| Some("off".to_owned())),
    wish("eee", "nic-eee", |ask, _| (ask.profile == Profile::Optimized).then(|| "off".to_owned())),
];

/// Settings of each NIC that supports them. A container's NICs belong to its host and are skipped.
pub(super) fn settings(ask: &Ask<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if !ask.isolates() || ask.view.role() == HostRole::Container {
        return settings;
    }
    for (link, _) in ask.view.each("/sys/class/net/", "/device/driver") {
        let Some(nic) = ask.view.text(&format!("{ETHTOOL}{link}")).filter(|_| is_link(link)) else {
            continue;
        };
        for wish in WISHES {
            let (Some(now), Some(wanted)) = (value(nic, wish.name), (wish.wanted)(ask, nic)) else {
                continue;
            };
            let target = Target::Nic { link: link.to_owned(), setting: wish.name.to_owned() };
            let mut found = setting(target, wish.rule, TakesEffect::Now);
            if now != wanted {
                found.state = SettingState::Change;
                if let Some(command) = command(link, wish.name, &wanted) {
                    found.detail = format!("run: {command}");
                }
            }
            found.now = Some(now.to_owned());
            found.wanted = Some(wanted);
            settings.push(found);
        }
    }
    settings
}

fn value<'a>(nic: &'a str, name: &str) -> Option<&'a str> {
    nic.lines().find_map(|line| line.split_once(' ').filter(|(one, _)| *one == name)).map(|(_, value)| value)
}
