//! Kernel settings of a trial (`host.sysctl`), and where they are written.
//!
//! The kernel keeps most settings below `net` per network namespace. Packets of a trial cross only the
//! namespaces of the testbed, so these settings are written there, and the host keeps its own. All other
//! settings exist once. They are written on the host and restored after the trial.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use wiretail_host::{Plan, Step, is_of_namespace};
use wiretail_schema::experiment::{Trial, nearest};
use wiretail_schema::host::sysctl::{Sysctl, Sysctls};

use crate::run::testbed::topology::Topology;

/// Folder of the kernel settings.
const FOLDER: &str = "/proc/sys";
/// Setting that cannot be restored: writing to it starts an action, but it can be read.
const ACTION: &str = "vm/drop_caches";
/// Folders with one folder per link, relative to [`FOLDER`].
const PER_LINK: [&str; 4] = ["net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh"];
/// Position of the link in a path below [`PER_LINK`].
const LINK_PART: usize = 3;
/// Folder below [`PER_LINK`] whose values a new link inherits.
const DEFAULT: &str = "default";
/// Folders below [`PER_LINK`] that every namespace has.
const FOR_ANY_LINK: [&str; 3] = ["all", DEFAULT, "lo"];

/// Refuses settings that this kernel does not have, settings that it cannot restore, and settings of links
/// that the testbed does not have.
///
/// # Errors
/// Returns an error if a setting cannot be used; the message names the key, the file and, if there is a
/// similar setting, its name.
pub fn refuse(trial: &Trial) -> Result<()> {
    let topology = Topology::of(trial).plan("");
    for setting in &trial.host.sysctl.0 {
        refuse_below(Path::new(FOLDER), setting)?;
        let path = setting.path();
        let Some((_, link, _)) = of_link(&path).filter(|(_, link, _)| !FOR_ANY_LINK.contains(link)) else {
            continue;
        };
        let links: BTreeSet<&str> = links(&topology).map(|(_, link)| link).collect();
        if !links.contains(link) {
            bail!(
                "host.sysctl: {}: the testbed of this trial has no link {link}, and other links do not affect \
                 it; expected one of {}, all, default",
                setting.name,
                links.into_iter().collect::<Vec<_>>().join(", ")
            );
        }
    }
    Ok(())
}

/// Adds the setting to the error of a step that could not write it.
pub fn blame(trial: &Trial, error: anyhow::Error) -> anyhow::Error {
    let message = crate::message(&error);
    match trial.host.sysctl.0.iter().find(|setting| message.contains(&setting.path())) {
        Some(setting) => anyhow!("host.sysctl = \"{setting}\": {message}"),
        None => error,
    }
}

/// The links that a plan creates, each with its namespace.
fn links(topology: &Plan) -> impl Iterator<Item = (Option<&str>, &str)> {
    topology.steps().iter().flat_map(|step| match step {
        Step::AddVeth { a, b } => [a, b].map(|end| (end.namespace.as_deref(), end.link.as_str())).to_vec(),
        Step::AddTap { namespace, link, .. } => vec![(namespace.as_deref(), link.as_str())],
        Step::AddBridge { namespace, name, .. } => vec![(namespace.as_deref(), name.as_str())],
        _ => Vec::new(),
    })
}

fn refuse_below(folder: &Path, setting: &Sysctl) -> Result<()> {
    let (name, path) = (&setting.name, setting.path());
    // The links of the testbed do not exist yet.
    let file = folder.join(at_any_link(&path));
    let Ok(metadata) = std::fs::metadata(&file) else {
        let similar = similar(folder, &path).map(|name| format!("; did you mean {name}?"));
        bail!(
            "host.sysctl: {name} is not a setting of this kernel: {} does not exist{}",
            folder.join(&path).display(),
            similar.unwrap_or_else(|| "; sysctl --all lists the settings".to_owned())
        );
    };
    if !metadata.is_file() {
        bail!("host.sysctl: {name} is a group of settings; expected one of those in {}", file.display());
    }
    if metadata.mode() & 0o200 == 0 {
        bail!("host.sysctl: {name} is read-only ({})", file.display());
    }
    if metadata.mode() & 0o400 == 0 || path == ACTION {
        bail!(
            "host.sysctl: {name} starts an action and has no value to restore; use host.before = \"sysctl \
             {name}=...\""
        );
    }
    Ok(())
}

/// Splits the path of a setting of one link: the folder, the link and the rest.
fn of_link(path: &str) -> Option<(&str, &str, &str)> {
    PER_LINK.iter().find_map(|folder| {
        let (link, rest) = path.strip_prefix(folder)?.strip_prefix('/')?.split_once('/')?;
        Some((*folder, link, rest))
    })
}

/// Replaces the name of a link in a path by the folder of the defaults, which has the same settings.
fn at_any_link(path: &str) -> String {
    match of_link(path) {
        Some((folder, link, rest)) if !FOR_ANY_LINK.contains(&link) => format!("{folder}/{DEFAULT}/{rest}"),
        _ => path.to_owned(),
    }
}

/// Returns the name of the existing setting that is most similar, from the top folder down.
fn similar(folder: &Path, path: &str) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    for part in at_any_link(path).split('/') {
        let place = folder.join(found.join("/"));
        let entries = std::fs::read_dir(place).ok()?.flatten();
        found.push(nearest(part, entries.filter_map(|entry| entry.file_name().into_string().ok()))?);
    }
    if !folder.join(found.join("/")).is_file() {
        return None;
    }
    if let Some((_, link, _)) = of_link(path) {
        link.clone_into(&mut found[LINK_PART]);
    }
    // A slash within a part stands for a dot in the notation with dots.
    let name = found.iter().map(|part| part.replace('.', "/")).collect::<Vec<_>>();
    Some(name.join("."))
}

/// The settings of a trial, each with the place where it is written.
pub struct Placed {
    of_host: Vec<Sysctl>,
    of_namespaces: Vec<Sysctl>,
    /// Whether the kernel was asked which settings belong to a namespace. If this process lacks the privilege
    /// to ask, those in `net/core` are taken for settings of the host, and the other ones below `net` for
    /// settings of a namespace.
    pub is_certain: bool,
}

impl Placed {
    /// Determines where each setting is written.
    pub fn of(settings: &Sysctls) -> Self {
        let mut placed = Self { of_host: Vec::new(), of_namespaces: Vec::new(), is_certain: true };
        for setting in &settings.0 {
            let path = at_any_link(&setting.path());
            let in_namespace = is_of_namespace(&Path::new(FOLDER).join(&path)).unwrap_or_else(|_| {
                placed.is_certain = false;
                !path.starts_with("net/core/")
            });
            let place = if in_namespace { &mut placed.of_namespaces } else { &mut placed.of_host };
            place.push(setting.clone());
        }
        placed
    }

    /// Returns the steps that change the host. They come first, because links inherit some of the settings,
    /// such as the queueing discipline.
    pub fn of_host(&self) -> impl Iterator<Item = Step> {
        let write = |setting: &Sysctl| Step::WriteFile {
            path: PathBuf::from(FOLDER).join(setting.path()),
            value: setting.value.clone(),
            may_refuse: false,
        };
        self.of_host.iter().map(write)
    }

    /// Returns the steps for namespaces whose links do not exist yet: the defaults that new links inherit.
    pub fn of_new_links(&self, namespaces: &[String]) -> Vec<Step> {
        let set = |setting: &Sysctl| {
            let path = setting.path();
            let is_default = of_link(&path).is_some_and(|(_, link, _)| link == DEFAULT);
            let namespaces = namespaces.iter().filter(|_| is_default);
            namespaces.map(|namespace| inside(namespace, setting)).collect::<Vec<_>>()
        };
        self.of_namespaces.iter().flat_map(set).collect()
    }

    /// Returns the steps for namespaces with the links of this plan. They come last, so that they replace what
    /// the testbed sets. The setting of a link is written where a link of this name exists.
    pub fn of_namespaces(&self, namespaces: &[String], topology: &Plan) -> Vec<Step> {
        let set = |setting: &Sysctl| {
            let path = setting.path();
            let has = |namespace: &&String| match of_link(&path) {
                Some((_, DEFAULT, _)) => false,
                Some((_, link, _)) if !FOR_ANY_LINK.contains(&link) => {
                    links(topology).any(|own| own == (Some(namespace.as_str()), link))
                }
                _ => true,
            };
            let namespaces = namespaces.iter().filter(has);
            namespaces.map(|namespace| inside(namespace, setting)).collect::<Vec<_>>()
        };
        self.of_namespaces.iter().flat_map(set).collect()
    }
}

fn inside(namespace: &str, setting: &Sysctl) -> Step {
    Step::SetSysctl { namespace: namespace.to_owned(), name: setting.path(), value: setting.value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::experiment::Experiment;

    /// A folder like `/proc/sys`.
    fn tree() -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt;

        let tree = tempfile::tempdir().expect("a folder");
        for (path, mode) in [
            ("net/core/busy_poll", 0o644),
            ("net/core/busy_read", 0o644),
            ("net/ipv4/conf/default/rp_filter", 0o644),
            ("net/ipv4/conf/eth0.5/rp_filter", 0o644),
            ("net/ipv4/route/flush", 0o200),
            ("net/ipv4/tcp_available_congestion_control", 0o444),
            ("vm/drop_caches", 0o644),
        ] {
            let file = tree.path().join(path);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(&file, "0\n").expect("written");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
        }
        tree
    }

    #[test]
    fn refusals_name_the_file_and_a_similar_setting() {
        let tree = tree();
        let refusal = |name: &str| {
            let setting = Sysctl { name: name.to_owned(), value: "1".to_owned() };
            refuse_below(tree.path(), &setting).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let file = |path: &str| tree.path().join(path).display().to_string();
        assert_eq!(
            refusal("net.core.busy_pool"),
            format!(
                "host.sysctl: net.core.busy_pool is not a setting of this kernel: {} does not exist; did you mean \
                 net.core.busy_poll?",
                file("net/core/busy_pool")
            )
        );
        assert!(refusal("net/cor/busy_reed").ends_with("; did you mean net.core.busy_read?"));
        assert!(refusal("net.core").contains("is a group of settings; expected one of those in"));
        assert!(refusal("net.core.busy_poll.x").ends_with("; sysctl --all lists the settings"));
        assert!(refusal("net.ipv4.tcp_available_congestion_control").contains("is read-only"));
        for action in ["vm.drop_caches", "net.ipv4.route.flush"] {
            let expected = format!("use host.before = \"sysctl {action}=...\"");
            assert!(refusal(action).contains(&expected), "{}", refusal(action));
        }
        for fine in ["net.core.busy_poll", "net/core/busy_poll", "net.ipv4.conf.in.rp_filter"] {
            assert_eq!(refusal(fine), "");
        }
        assert!(refusal("net.ipv4.conf.in.rp_filtre").ends_with("did you mean net.ipv4.conf.in.rp_filter?"));
    }

    #[test]
    fn settings_of_other_links_are_refused() {
        let refusal = |sysctl: &str| {
            let text = format!(
                "title = \"t\"\nseed = 1\n[dut]\nkind = \"bridge\"\n[traffic]\nrate = \"1 kpps\"\n[host]\n\
                 sysctl = \"{sysctl}\"\n"
            );
            let trial = Experiment::parse(&text).expect("an experiment").trials().remove(0);
            refuse(&trial).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for fine in ["in", "out", "bridge", "lo", "all", "default"] {
            assert_eq!(refusal(&format!("net.ipv4.conf.{fine}.rp_filter=0")), "");
        }
        assert_eq!(
            refusal("net.ipv4.conf.eth0.rp_filter=0"),
            "host.sysctl: net.ipv4.conf.eth0.rp_filter: the testbed of this trial has no link eth0, and other links \
             do not affect it; expected one of bridge, in, out, all, default"
        );
    }
}
