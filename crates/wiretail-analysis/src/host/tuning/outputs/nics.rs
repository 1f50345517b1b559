//! Network cards: a service of systemd that sets them with ethtool(8) when they are there.

use std::fmt::Write;

use wiretail_schema::host::plan::{Profile, SettingState, Target, TuningPlan};

use super::{Output, heading};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    if plan.profile == Profile::Regular {
        return Vec::new();
    }
    let mut links: Vec<&str> = Vec::new();
    let mut commands: Vec<String> = Vec::new();
    for one in plan.settings.iter().filter(|one| one.state != SettingState::NotHere) {
        let (Target::Nic { link, setting }, Some(wanted)) = (&one.target, &one.wanted) else { continue };
        let Some(command) = command(link, setting, wanted) else { continue };
        if !commands.contains(&command) {
            commands.push(command);
        }
        if !links.contains(&link.as_str()) {
            links.push(link);
        }
    }
    if commands.is_empty() {
        return Vec::new();
    }
    let devices: Vec<String> = links.iter().map(|link| device(link)).collect();
    let devices = devices.join(" ");
    let mut text = format!(
        "# {}.\n\
         [Unit]\n\
         Description=Cards that interrupt at once and do not pause\n\
         Wants={devices}\n\
         After={devices}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n",
        heading(plan)
    );
    for command in commands {
        // What a driver refuses does not keep the others from being set. Writing to a String does not fail.
        let _ = writeln!(text, "ExecStart=-/usr/sbin/{command}");
    }
    vec![
        Output::new(
            "etc/systemd/system/wiretail-cards.service",
            text,
            "systemd: sets the network cards, at each start",
        )
        .installed(),
        Output::new(
            "etc/systemd/system/multi-user.target.d/99-wiretail-cards.conf",
            format!("# {}.\n[Unit]\nWants=wiretail-cards.service\n", heading(plan)),
            "systemd: starts that service",
        )
        .installed(),
    ]
}

/// What sets a card so: a command without its path. None for what is not set by one, or no link's name.
pub(in crate::host::tuning) fn command(link: &str, setting: &str, wanted: &str) -> Option<String> {
    let is_word = !wanted.is_empty() && wanted.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_word || !is_link(link) {
        return None;
    }
    Some(match setting {
        "combined-channels" => format!("ethtool -L {link} combined {wanted}"),
        "rx-ring" => format!("ethtool -G {link} rx {wanted}"),
        "adaptive-rx" | "rx-usecs" => format!("ethtool -C {link} {setting} {wanted}"),
        // As long as they are negotiated, drivers refuse one of them alone.
        "rx-pause" | "tx-pause" => format!("ethtool -A {link} autoneg off rx {wanted} tx {wanted}"),
        "eee" => format!("ethtool --set-eee {link} eee {wanted}"),
        _ => return None,
    })
}

/// Whether a name can stand in a command: what others have recorded becomes one that root executes.
pub(in crate::host::tuning) fn is_link(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter);
    (1..16).contains(&name.len()) && !name.starts_with(['-', '.']) && name.chars().all(is_letter)
}

/// The unit of a link, with its name as systemd.unit(5) escapes it.
fn device(link: &str) -> String {
    format!("sys-subsystem-net-devices-{}.device", link.replace('-', "\\x2d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_words_become_commands() {
        assert_eq!(command("eth0", "rx-usecs", "0").as_deref(), Some("ethtool -C eth0 rx-usecs 0"));
        assert_eq!(command("eth0", "rx-usecs", "0; x"), None);
        for link in ["", "-C", "a b", "$(x)", "a-name-of-16-byte"] {
            assert_eq!(command(link, "eee", "off"), None, "{link:?}");
        }
        assert_eq!(device("en-p1"), "sys-subsystem-net-devices-en\\x2dp1.device");
    }
}
