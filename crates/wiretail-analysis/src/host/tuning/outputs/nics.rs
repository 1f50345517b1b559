//! NICs: a systemd service that configures them with ethtool(8) once they exist.

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
         Description=NICs that interrupt immediately and do not pause\n\
         Wants={devices}\n\
         After={devices}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n",
        heading(plan)
    );
    for command in commands {
        // With `-`, a command that a driver rejects does not stop the service. Writing to a String cannot
        // fail.
        let _ = writeln!(text, "ExecStart=-/usr/sbin/{command}");
    }
    vec![
        Output::new(
            "etc/systemd/system/wiretail-cards.service",
            text,
            "systemd: configures the NICs at every boot",
        )
        .installed(),
        Output::new(
            "etc/systemd/system/multi-user.target.d/99-wiretail-cards.conf",
            format!("# {}.\n[Unit]\nWants=wiretail-cards.service\n", heading(plan)),
            "systemd: starts wiretail-cards.service",
        )
        .installed(),
    ]
}

/// ethtool command, without a path, that applies a setting. `None` for other settings, or if the link name or
/// the value is unsafe.
pub(in crate::host::tuning) fn command(link: &str, setting: &str, wanted: &str) -> Option<String> {
    let is_word = !wanted.is_empty() && wanted.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_word || !is_link(link) {
        return None;
    }
    Some(match setting {
        "combined-channels" => format!("ethtool -L {link} combined {wanted}"),
        "rx-ring" => format!("ethtool -G {link} rx {wanted}"),
        "adaptive-rx" | "rx-usecs" => format!("ethtool -C {link} {setting} {wanted}"),
        // While pause frames are negotiated, drivers reject a change that affects only one direction.
        "rx-pause" | "tx-pause" => format!("ethtool -A {link} autoneg off rx {wanted} tx {wanted}"),
        "eee" => format!("ethtool --set-eee {link} eee {wanted}"),
        _ => return None,
    })
}

/// Whether a name is safe in a command: it comes from a record and root executes the command.
pub(in crate::host::tuning) fn is_link(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter);
    (1..16).contains(&name.len()) && !name.starts_with(['-', '.']) && name.chars().all(is_letter)
}

/// systemd device unit of a link, with the name escaped as in systemd.unit(5).
fn device(link: &str) -> String {
    format!("sys-subsystem-net-devices-{}.device", link.replace('-', "\\x2d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unsafe_names_and_values() {
        assert_eq!(command("eth0", "rx-usecs", "0").as_deref(), Some("ethtool -C eth0 rx-usecs 0"));
        assert_eq!(command("eth0", "rx-usecs", "0; x"), None);
        for link in ["", "-C", "a b", "$(x)", "a-name-of-16-byte"] {
            assert_eq!(command(link, "eee", "off"), None, "{link:?}");
        }
        assert_eq!(device("en-p1"), "sys-subsystem-net-devices-en\\x2dp1.device");
    }
}
