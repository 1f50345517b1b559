//! Properties of a trial's device: how it waits for packets, its isolation boundary, and its kernel.

use wiretail_schema::host::recommendation::Deployment;
use wiretail_schema::run::{GUEST_EMULATED, GUEST_ON_PROCESSOR};

use crate::host::recommendation::sample::Seen;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Polls continuously and never sleeps.
    Polls,
    /// Its thread sleeps until the kernel wakes it.
    Sleeps,
    /// Part of the kernel, run by interrupts.
    InKernel,
    /// Unknown: a program of the user.
    Unknown,
}

impl Waits {
    /// Text that follows the device's name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Polls => "polls",
            Self::Sleeps => "sleeps until the kernel wakes it",
            Self::InKernel => "is part of the kernel, run by interrupts",
            Self::Unknown => "waits in an unknown way",
        }
    }
}

/// How the trial's device waits. `None` for a wire, which is not a device.
pub fn waits(seen: &Seen<'_>) -> Option<Waits> {
    Some(match (seen.text("dut.kind"), seen.text("dut.wait")) {
        ("wire", _) => return None,
        ("skeleton", "block") => Waits::Sleeps,
        ("skeleton" | "dpdk-l2fwd" | "dpdk-testpmd", _) => Waits::Polls,
        ("suricata" | "snort3", _) if seen.text("dut.capture") == "dpdk" => Waits::Polls,
        ("suricata" | "snort3", _) => Waits::Sleeps,
        ("ovs", _) if seen.text("dut.datapath") == "dpdk" => Waits::Polls,
        ("ovs", _) => Waits::Sleeps,
        ("bridge" | "linux-router" | "xdp-redirect", _) => Waits::InKernel,
        _ => Waits::Unknown,
    })
}

/// Deployment of the device. `None` for a wire.
pub fn deployment(seen: &Seen<'_>) -> Option<Deployment> {
    match (seen.text("dut.kind"), seen.text("dut.deployment")) {
        ("wire", _) => None,
        (_, "container") => Some(Deployment::Container),
        (_, "vm") => Some(Deployment::Vm),
        _ => Some(Deployment::Bare),
    }
}

/// Isolation boundary of the device, as text: "container (runc)", "vm (rt kernel, tuned boot)".
pub fn isolation_boundary(seen: &Seen<'_>) -> String {
    match deployment(seen) {
        Some(Deployment::Container) => format!("container ({})", seen.text("dut.container")),
        Some(Deployment::Vm) => {
            let network = match seen.text("dut.network") {
                "vhost-user" => ", vhost-user",
                _ => "",
            };
            format!("vm ({} kernel, {} boot{network})", seen.text("dut.kernel"), seen.text("dut.boot"))
        }
        Some(Deployment::Bare) | None => "bare".to_owned(),
    }
}

/// Whether the kernel is a real-time kernel (PREEMPT_RT): the guest's in a virtual machine, otherwise the
/// host's.
pub fn realtime(seen: &Seen<'_>) -> bool {
    match deployment(seen) {
        Some(Deployment::Vm) => seen.text("dut.kernel") == "rt",
        _ => seen.input.run.host.realtime_kernel,
    }
}

/// Whether the virtual machine was emulated in software. `None` if there is none, or if the run does not
/// record it.
pub fn emulated(seen: &Seen<'_>) -> Option<bool> {
    let noted = |text: &str| seen.trial.notes.iter().any(|note| note.contains(text));
    match deployment(seen) {
        Some(Deployment::Vm) if noted(GUEST_EMULATED) => Some(true),
        Some(Deployment::Vm) if noted(GUEST_ON_PROCESSOR) => Some(false),
        _ => None,
    }
}

/// Links that the trial's packets crossed.
pub fn links(seen: &Seen<'_>) -> &'static str {
    match (deployment(seen), seen.text("dut.network")) {
        (Some(Deployment::Vm), "vhost-user") => "veth pairs and memory shared with a virtual switch",
        (Some(Deployment::Vm), _) => "veth pairs and TAP interfaces",
        _ => "veth pairs",
    }
}
