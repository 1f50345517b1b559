//! A plan as the files of those who set hosts up: a format a file here and an entry in [`all`].
//!
//! Paths are those on the host, below a folder of the user's choice: `etc/default/grub.d/99-wiretail.cfg`. What belongs to one guest or
//! one program stands in a folder of its own: `libvirt/`, `lxc/`, `oci/`, `systemd/`, `resctrl/`.

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

/// A file for one of those who set hosts up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where, from the folder that is chosen.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Who reads it, and what to do with it.
    pub use_it: &'static str,
    /// Whether `apply --files` puts it in its place on this host.
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

/// What the files need to know of the host besides its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Whether control groups are those of version 2.
    pub has_cgroup2: bool,
}

/// All files of a plan.
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

/// First line of every file, without its comment sign.
fn heading(plan: &TuningPlan) -> String {
    format!("Written by wiretail host plan: profile {}, cores {} left alone", plan.profile.name(), plan.cores)
}

/// The words that the boot line shall have.
fn words(plan: &TuningPlan) -> Vec<&str> {
    let is_word = |setting: &&Setting| matches!(setting.target, Target::BootWord { .. });
    let words = plan.settings.iter().filter(is_word).filter(|setting| setting.state != SettingState::NotHere);
    words.filter_map(|setting| setting.wanted.as_deref()).collect()
}

/// The names of the words that the plan decides on, also those that it takes away.
fn decided(plan: &TuningPlan) -> impl Iterator<Item = &str> {
    plan.settings.iter().filter_map(|setting| match &setting.target {
        Target::BootWord { name } if setting.state != SettingState::NotHere => Some(name.as_str()),
        _ => None,
    })
}

/// Files below a folder of the kernel's with what is wanted of them. What could not be seen is in it, what is not here is not.
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

/// A list of cores of the plan.
fn cores(list: &str) -> CoreSet {
    CoreSet::parse(list).unwrap_or_default()
}
