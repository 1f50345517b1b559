//! The table of parts and the installation plan, as text and as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use wiretail_host::deploy::vm::Kernel;

use super::Status;
use super::parts::{EMERGING_RULES, Fetch};
use super::sources::Sources;

/// Formats a part for `wiretail setup --json`.
pub fn json(one: &Status) -> Value {
    let part = one.part;
    json!({
        "part": part.name,
        "what": part.what(),
        "used_by": part.used_by,
        "installed": one.is_installed(),
        "version": one.version.as_ref().filter(|_| one.is_installed()),
        "missing": one.absent,
        "packages": part.packages,
        "command": part.by_hand.is_empty().then(|| part.command()),
    })
}

/// Prints the table of parts.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn table(out: &mut impl Write, status: &[Status]) -> io::Result<()> {
    let states: Vec<String> = status.iter().map(state).collect();
    let width =
        states.iter().map(|state| state.chars().count()).max().unwrap_or_default().max("installed".len());
    writeln!(out, "  {:<16}{:<width$}  used by", "part", "installed")?;
    for (one, state) in status.iter().zip(&states) {
        writeln!(out, "  {:<16}{state:<width$}  {}", one.part.name.to_string(), one.part.used_by)?;
    }
    let missing: Vec<&Status> = status.iter().filter(|one| !one.is_installed()).collect();
    if !missing.is_empty() {
        writeln!(out)?;
    }
    for one in missing {
        let how =
            if one.part.by_hand.is_empty() { "" } else { "   # prints instructions: there is no package" };
        writeln!(out, "  {}{how}", one.part.command())?;
    }
    Ok(())
}

fn state(one: &Status) -> String {
    match (&one.version, one.absent.as_slice()) {
        (Some(version), []) => version.clone(),
        (None, []) => "yes".to_owned(),
        (None, _) => "no".to_owned(),
        (Some(_), absent) => format!("no: {} missing", absent.join(", ")),
    }
}

/// Prints the plan for one part. `versions` are the versions of packages in apt's lists.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn plan(
    out: &mut impl Write,
    one: &Status,
    sources: Option<&Sources>,
    versions: &[(String, String)],
) -> io::Result<()> {
    let part = one.part;
    if one.is_installed() {
        let version = one.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        return writeln!(out, "{}: installed{version}; nothing to do", part.name);
    }
    writeln!(out, "{}: {}, for {}", part.name, part.what(), part.used_by)?;
    if !part.by_hand.is_empty() {
        return writeln!(out, "  {}", part.by_hand);
    }
    let package = |name: &&str| {
        let version = versions.iter().find(|(known, _)| known == name);
        version.map_or_else(|| (*name).to_owned(), |(_, version)| format!("{name} {version}"))
    };
    writeln!(out, "  packages  {}", part.packages.iter().map(package).collect::<Vec<_>>().join(", "))?;
    if !part.replaces.is_empty() {
        writeln!(out, "  replaces  {}, if installed", part.replaces.join(", "))?;
    }
    if let Some(Sources { suite, mirror, added, .. }) = sources {
        let extra = match (part.from_extra_suite || part.fetch == Some(Fetch::EmergingRules), added) {
            (true, true) => format!(", and {suite} of {mirror} for this part only"),
            (true, false) => format!(", {suite} of {mirror}"),
            (false, _) => String::new(),
        };
        writeln!(out, "  sources   /etc/apt{extra}")?;
    }
    match part.fetch {
        Some(Fetch::EmergingRules) => {
            writeln!(
                out,
                "  fetches   the source archive of suricata (18 MB); keeps {EMERGING_RULES} (13 MB)"
            )?;
        }
        Some(Fetch::Kernels) => {
            let names = Kernel::ALL.map(|kernel| kernel.package()).join(", ");
            writeln!(out, "  fetches   {names} (some 60 MB each), unpacked into the cache")?;
        }
        None => {}
    }
    if !part.services.is_empty() {
        writeln!(out, "  services  not started, now or at boot: {}", part.services.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use crate::cli::setup::PartName;

    fn sources() -> Sources {
        Sources {
            files: Vec::new(),
            entry: (String::new(), "list"),
            suite: "bookworm-backports".into(),
            mirror: "http://mirror.example/debian".into(),
            added: true,
        }
    }

    fn status(name: PartName, absent: &[&'static str], version: Option<&str>) -> Status {
        Status { part: Part::of(name), absent: absent.to_vec(), version: version.map(str::to_owned) }
    }

    fn planned(one: &Status, versions: &[(String, String)]) -> String {
        let mut text = Vec::new();
        plan(&mut text, one, Some(&sources()), versions).expect("written");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn plan_names_packages_versions_sources_and_services() {
        let text = planned(
            &status(PartName::Suricata, &["suricata"], None),
            &[("suricata".to_owned(), "1:7.0.10-1~bpo12+1".to_owned())],
        );
        assert_eq!(
            text,
            "suricata: Suricata 7, for suricata, in AF_PACKET and in DPDK mode\n  \
             packages  suricata 1:7.0.10-1~bpo12+1\n  \
             sources   /etc/apt, and bookworm-backports of http://mirror.example/debian for this part only\n  \
             services  not started, now or at boot: suricata\n"
        );
        let text = planned(&status(PartName::SuricataRules, &[EMERGING_RULES], None), &[]);
        assert!(text.contains("fetches   ") && !text.contains("services"), "{text}");
        let text = planned(&status(PartName::Vm, &["busybox"], None), &[]);
        assert!(
            text.contains("packages  qemu-system-x86, busybox-static, kmod\n  replaces  busybox, if"),
            "{text}"
        );
        assert!(text.contains("\n  sources   /etc/apt\n"), "{text}");
        assert!(text.ends_with("unpacked into the cache\n"), "{text}");
    }

    #[test]
    fn plan_has_no_steps_for_installed_or_manual_parts() {
        let text = planned(&status(PartName::Dpdk, &[], Some("22.11")), &[]);
        assert_eq!(text, "dpdk: installed (22.11); nothing to do\n");
        let text = planned(&status(PartName::Snort, &["snort"], None), &[]);
        assert!(text.contains("no package") && text.contains("snort --daq-list"), "{text}");
        assert!(!text.contains("packages  "), "{text}");
    }

    #[test]
    fn table_has_each_part_and_commands_for_missing_ones() {
        let all = [
            status(PartName::Dpdk, &[], Some("22.11")),
            status(PartName::Container, &["runc"], Some("5.0")),
            status(PartName::Snort, &["snort"], None),
        ];
        let mut text = Vec::new();
        table(&mut text, &all).expect("written");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains("  dpdk            22.11             "), "{text}");
        assert!(text.contains("no: runc missing  deployment"), "{text}");
        assert!(text.ends_with(
            "\n\n  sudo wiretail setup container\n  sudo wiretail setup snort   # prints instructions: there is no package\n"
        ));
        let json: Vec<Value> = all.iter().map(json).collect();
        assert_eq!(json[0]["part"], "dpdk");
        assert_eq!((&json[0]["installed"], &json[0]["version"]), (&true.into(), &"22.11".into()));
        assert_eq!((&json[1]["missing"][0], &json[1]["version"]), (&"runc".into(), &Value::Null));
        assert_eq!(json[2]["command"], Value::Null);
    }
}
