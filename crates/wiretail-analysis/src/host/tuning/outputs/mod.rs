//! Output files of a plan, for the tools that configure hosts. Each format is a module, which [`all`] calls.
//!
//! Paths are those on the host, relative to an output directory: `etc/default/grub.d/99-wiretail.cfg`. Files
//! for a single guest or program are in separate directories: `libvirt/`, `lxc/`, `oci/`, `systemd/`,
//! `resctrl/`.

mod boot_line;
mod grub;
mod irqbalance;
mod libvirt;
mod lxc;
pub mod nics;
mod oci;
mod resctrl;
mod sysctl;
mod systemd;
mod tuned;

use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::plan::{Profile, Setting, SettingState, Target, TuningPlan};
use wiretail_schema::units::cores::CoreSet;

/// Generated configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Path, relative to the output directory.
    pub path: String,
    pub text: String,
    /// Tool that reads the file, and how to use it.
    pub use_it: &'static str,
    /// Whether `apply --files` installs the file on this host.
    pub is_installed: bool,
}

impl Output {
    fn new(path: impl Into<String>, text: String, use_it: &'static str) -> Self {
        Self { path: path.into(), text, use_it, is_installed: false }
    }

    fn installed(mut self) -> Self {
        self.is_installed = true;
        self
    }
}

/// Facts about the host that the files need in addition to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Whether the host uses control groups version 2.
    pub has_cgroup2: bool,
}

pub fn all(plan: &TuningPlan, place: Place) -> Vec<Output> {
    let mut files = boot_line::files(plan);
    files.extend(grub::files(plan));
    files.extend(sysctl::files(plan));
    files.extend(systemd::files(plan));
    files.extend(nics::files(plan));
    files.extend(irqbalance::files(plan));
    files.extend(tuned::files(plan));
    if plan.profile == Profile::Regular {
        return files;
    }
    match plan.role {
        HostRole::VmHost => files.extend(libvirt::files(plan)),
        HostRole::Container => {
            files.extend(lxc::files(plan, place));
            files.extend(oci::files(plan));
        }
        HostRole::Bare | HostRole::Vm => {}
    }
    if plan.role != HostRole::Vm {
        files.extend(resctrl::files(plan));
    }
    files
}

/// First line of every file, without the comment sign.
fn heading(plan: &TuningPlan) -> String {
    format!("Written by wiretail host plan: profile {}, packet cores {}", plan.profile.name(), plan.cores)
}

/// Words that the boot line must have.
fn words(plan: &TuningPlan) -> Vec<&str> {
    let is_word = |setting: &&Setting| matches!(setting.target, Target::BootWord { .. });
    let words = plan.settings.iter().filter(is_word).filter(|setting| setting.state != SettingState::NotHere);
    words.filter_map(|setting| setting.wanted.as_deref()).collect()
}

/// Names of the words that the plan sets or removes.
fn decided(plan: &TuningPlan) -> impl Iterator<Item = &str> {
    plan.settings.iter().filter_map(|setting| match &setting.target {
        Target::BootWord { name } if setting.state != SettingState::NotHere => Some(name.as_str()),
        _ => None,
    })
}

/// Files in a kernel directory, with their requested values. Unreadable files are included, absent ones are
/// not.
fn values<'a>(
    plan: &'a TuningPlan,
    folder: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str, &'a Setting)> {
    plan.settings.iter().filter_map(move |setting| match &setting.target {
        Target::File { path } if path.starts_with(folder) && setting.state != SettingState::NotHere => {
            Some((path.as_str(), setting.wanted.as_deref()?, setting))
        }
        _ => None,
    })
}

fn cores(list: &str) -> CoreSet {
    CoreSet::parse(list).unwrap_or_default()
}
