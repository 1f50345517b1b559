//! What a trial says of its device: how it waits for packets, what is around it, under which kernel it runs.

use wiretail_schema::host::recommendation::Deployment;
use wiretail_schema::run::{GUEST_EMULATED, GUEST_ON_PROCESSOR};

use crate::host::recommendation::sample::Seen;

/// How a device waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It looks again and again, and never sleeps.
    Polls,
    /// Its thread sleeps until the kernel wakes it.
    Sleeps,
    /// It is a part of the kernel, and runs when an interrupt comes.
    InKernel,
    /// The trial does not say: a program of the user's.
    Unknown,
}

impl Waits {
    /// As it is shown behind the device's name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Polls => "polls",
            Self::Sleeps => "sleeps until the kernel wakes it",
            Self::InKernel => "is the kernel's own, run by interrupts",
            Self::Unknown => "does not say how it waits",
        }
    }
}

/// How the trial's device waits; None of a wire, which is no device.
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

/// What is around it; None of a wire.
pub fn deployment(seen: &Seen<'_>) -> Option<Deployment> {
    match (seen.text("dut.kind"), seen.text("dut.deployment")) {
        ("wire", _) => None,
        (_, "container") => Some(Deployment::Container),
        (_, "vm") => Some(Deployment::Vm),
        _ => Some(Deployment::Bare),
    }
}

/// What is around it in words: "container (runc)", "vm (rt kernel, tuned boot)".
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

/// Whether its kernel is a real-time one (PREEMPT_RT): the guest's in a virtual machine, else the host's.
pub fn realtime(seen: &Seen<'_>) -> bool {
    match deployment(seen) {
        Some(Deployment::Vm) => seen.text("dut.kernel") == "rt",
        _ => seen.input.run.host.realtime_kernel,
    }
}

/// Whether its virtual machine was emulated in software; None where it is none, or its run does not say.
pub fn emulated(seen: &Seen<'_>) -> Option<bool> {
    let noted = |text: &str| seen.trial.notes.iter().any(|note| note.contains(text));
    match deployment(seen) {
        Some(Deployment::Vm) if noted(GUEST_EMULATED) => Some(true),
        Some(Deployment::Vm) if noted(GUEST_ON_PROCESSOR) => Some(false),
        _ => None,
    }
}

/// What its packets crossed.
pub fn links(seen: &Seen<'_>) -> &'static str {
    match (deployment(seen), seen.text("dut.network")) {
        (Some(Deployment::Vm), "vhost-user") => "veth pairs and memory shared with a virtual switch",
        (Some(Deployment::Vm), _) => "veth pairs and TAP interfaces",
        _ => "veth pairs",
    }
}
