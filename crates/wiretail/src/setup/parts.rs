//! Installable parts, as data. A part is something that a trial may require and that a user can install by
//! its name.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::cli::setup::PartName;
use clap::ValueEnum;
use wiretail_host::deploy::vm::{Kernel, kernel_cached};

/// Folder for fetched rules and for the lists of Wiretail's package sources.
pub const CACHE: &str = "/var/cache/wiretail";

/// File with all rules of [`PartName::SuricataRules`].
pub const EMERGING_RULES: &str = "/var/cache/wiretail/rules/emerging/emerging.rules";

/// Additional search path for programs: the PATH of an ordinary user does not include sbin.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An installable part.
#[derive(Debug)]
pub struct Part {
    /// Name on the command line.
    pub name: PartName,
    /// Features of Wiretail that use the part.
    pub used_by: &'static str,
    /// Debian packages; the version of the first one is the part's version.
    pub packages: &'static [&'static str],
    /// Conflicting packages, which are removed.
    pub replaces: &'static [&'static str],
    /// Whether the part is taken from [`super::sources::Sources::suite`] if the host's Debian release does
    /// not contain it.
    pub from_extra_suite: bool,
    /// Files (absolute paths) and programs. The part is installed if all of them exist.
    pub probes: &'static [&'static str],
    /// Services that the packages would start on installation and at boot.
    pub services: &'static [&'static str],
    /// Data to fetch in addition to packages.
    pub fetch: Option<Fetch>,
    /// Manual installation steps if there is no package; otherwise empty.
    pub by_hand: &'static str,
}

/// Data that is downloaded into [`CACHE`] but not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// The rule set that is included in Suricata's source package.
    EmergingRules,
    /// Kernels for virtual machines.
    Kernels,
}

/// Values that most parts have in common.
const PLAIN: Part = Part {
    name: PartName::Tools,
    used_by: "",
    packages: &[],
    replaces: &[],
    from_extra_suite: false,
    probes: &[],
    services: &[],
    fetch: None,
    by_hand: "",
};

/// All parts, in display order.
pub const PARTS: &[Part] = &[
    Part {
        name: PartName::Tools,
        used_by: "manual setup of testbeds (namespaces, offloads), drop counters",
        packages: &["iproute2", "ethtool"],
        probes: &["ip", "tc", "ethtool"],
        ..PLAIN
    },
    Part {
        name: PartName::Dpdk,
        used_by: "dpdk-testpmd, dpdk-l2fwd; builds of wiretail with the feature dpdk",
        packages: &["dpdk", "dpdk-dev", "libdpdk-dev", "pkg-config", "gcc", "libc6-dev"],
        probes: &["dpdk-testpmd", "pkg-config", "gcc", "/usr/include/dpdk/rte_eal.h"],
        services: &["dpdk"],
        ..PLAIN
    },
    Part {
        name: PartName::Suricata,
        used_by: "suricata, in AF_PACKET and in DPDK mode",
        packages: &["suricata"],
        from_extra_suite: true,
        probes: &["suricata", "/etc/suricata/rules"],
        services: &["suricata"],
        ..PLAIN
    },
    Part {
        name: PartName::SuricataRules,
        used_by: "suricata, with its largest rule set",
        packages: &["tar", "xz-utils"],
        probes: &[EMERGING_RULES],
        fetch: Some(Fetch::EmergingRules),
        ..PLAIN
    },
    Part {
        name: PartName::Ovs,
        used_by: "ovs; the switch between the VNFs of a chain",
        packages: &["openvswitch-switch", "openvswitch-switch-dpdk"],
        probes: &["ovs-vsctl", "ovs-vswitchd", "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"],
        services: &["openvswitch-switch", "ovs-record-hostname"],
        ..PLAIN
    },
    Part {
        name: PartName::Container,
        used_by: "deployment \"container\"",
        packages: &["lxc", "runc"],
        probes: &["lxc-start", "runc"],
        services: &["lxc", "lxc-net", "lxc-monitord"],
        ..PLAIN
    },
    Part {
        name: PartName::Vm,
        used_by: "deployment \"vm\"",
        packages: &["qemu-system-x86", "busybox-static", "kmod"],
        replaces: &["busybox"],
        probes: &["qemu-system-x86_64", "busybox", "depmod"],
        fetch: Some(Fetch::Kernels),
        ..PLAIN
    },
    Part {
        name: PartName::Snort,
        used_by: "snort3",
        probes: &["snort"],
        by_hand: "\
Build LibDAQ (with its afpacket module, and the dpdk module for DPDK), then Snort 3, each from its project's
  release and following its instructions, with a prefix such as /usr/local. Wiretail looks for the program `snort`
  on the PATH and in /usr/local/bin; `snort --daq-list` must list afpacket, or dpdk.",
        ..PLAIN
    },
];

impl Part {
    pub fn of(name: PartName) -> &'static Self {
        PARTS.iter().find(|part| part.name == name).expect("a test checks that each name has a part")
    }

    /// Returns a description of the part, which is the help text of its name.
    pub fn what(&self) -> String {
        let help = self.name.to_possible_value().and_then(|name| name.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// Returns the part's files and programs that do not exist below `root`.
    pub fn absent(&self, root: &Path) -> Vec<&'static str> {
        let probes = self.probes.iter().copied().filter(|probe| find(root, probe).is_none());
        let kernels = Kernel::ALL.iter().filter(|_| self.fetch == Some(Fetch::Kernels));
        let lacking = kernels.filter(|kernel| kernel_cached(**kernel).is_none());
        probes.chain(lacking.map(|kernel| kernel.package())).collect()
    }

    /// Returns the command that installs the part.
    pub fn command(&self) -> String {
        format!("sudo wiretail setup {}", self.name)
    }
}

impl std::fmt::Display for PartName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.to_possible_value();
        f.write_str(name.as_ref().map_or("?", |name| name.get_name()))
    }
}

/// Finds a program or a file below `root`. A program is searched on the PATH and in the system's folders. A
/// file is given by its absolute path.
fn find(root: &Path, probe: &str) -> Option<PathBuf> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    if probe.starts_with('/') {
        return Some(below(Path::new(probe))).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::split_paths(OsStr::new(SYSTEM_PATH)));
    folders.map(|folder| below(&folder.join(probe))).find(|path| path.is_file())
}

/// Returns why a trial that needs this part cannot run; `None` if the part is installed.
pub fn missing(name: PartName) -> Option<String> {
    missing_below(Path::new("/"), name)
}

fn missing_below(root: &Path, name: PartName) -> Option<String> {
    let part = Part::of(name);
    let absent = part.absent(root);
    not_installed(&absent, part)
}

/// Returns why a program of a part cannot be started; `None` if the program is installed or does not belong
/// to a part.
pub fn missing_program(argv: &[String]) -> Option<String> {
    missing_program_below(Path::new("/"), argv)
}

fn missing_program_below(root: &Path, argv: &[String]) -> Option<String> {
    // stdbuf(1) starts another program, so that program is checked instead.
    let program = argv.iter().find(|word| *word != "stdbuf" && !word.starts_with('-'))?.as_str();
    let part = PARTS.iter().find(|part| part.probes.contains(&program))?;
    let absent = if find(root, program).is_some() { &[][..] } else { &[program] };
    not_installed(absent, part)
}

fn not_installed(absent: &[&str], part: &Part) -> Option<String> {
    let are = if absent.len() == 1 { "is" } else { "are" };
    let names = absent.join("`, `");
    (!absent.is_empty()).then(|| format!("`{names}` {are} not installed; run: {}", part.command()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_part_with_description_and_source() {
        assert_eq!(PARTS.len(), PartName::value_variants().len());
        for name in PartName::value_variants() {
            let part = Part::of(*name);
            assert!(!part.probes.is_empty() && !part.what().is_empty() && !part.used_by.is_empty(), "{name}");
            assert_eq!(
                part.packages.is_empty(),
                !part.by_hand.is_empty(),
                "{name}: packages or manual steps"
            );
        }
    }

    #[test]
    fn missing_parts_are_named_with_install_command() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(
            missing_below(root.path(), PartName::Snort).as_deref(),
            Some("`snort` is not installed; run: sudo wiretail setup snort")
        );
        let text = missing_below(root.path(), PartName::Container).expect("nothing is there");
        assert_eq!(text, "`lxc-start`, `runc` are not installed; run: sudo wiretail setup container");
        std::fs::create_dir_all(root.path().join("usr/sbin")).expect("made");
        std::fs::write(root.path().join("usr/sbin/runc"), "").expect("made");
        let text = missing_below(root.path(), PartName::Container).expect("one is there");
        assert!(text.starts_with("`lxc-start` is not"), "{text}");
        std::fs::write(root.path().join("usr/sbin/lxc-start"), "").expect("made");
        assert_eq!(missing_below(root.path(), PartName::Container), None);
    }

    #[test]
    fn names_missing_program_after_its_launcher() {
        let root = tempfile::tempdir().expect("a folder");
        let told = |argv: &str| {
            let argv: Vec<String> = argv.split(' ').map(str::to_owned).collect();
            missing_program_below(root.path(), &argv)
        };
        let text = "`dpdk-testpmd` is not installed; run: sudo wiretail setup dpdk";
        assert_eq!(told("stdbuf -oL dpdk-testpmd --no-pci").as_deref(), Some(text));
        assert_eq!(told("./forwarder suricata"), None, "a program of the user's");
        std::fs::create_dir_all(root.path().join("usr/bin")).expect("made");
        std::fs::write(root.path().join("usr/bin/suricata"), "").expect("made");
        assert_eq!(told("suricata -c x.yaml"), None);
    }
}
