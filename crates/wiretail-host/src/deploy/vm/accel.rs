//! Detection of working hardware virtualization. On some hosts, such as certain virtual machines, `/dev/kvm`
//! exists but cannot run a normal kernel. A small guest is therefore booted once as a test.

use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use super::cpio::Archive;
use super::{KernelImage, QEMU, cache_folder};
use crate::deploy::need;
use crate::error::HostError;
use crate::sys;

/// Time limit for the test guest. With working KVM, it ends within about a second.
const PATIENCE: Duration = Duration::from_secs(15);
/// Cache file for the result.
const FILE: &str = "kvm";

/// The execution engine of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accel {
    /// Hardware virtualization (KVM).
    Kvm,
    /// Software emulation by QEMU: about ten times slower, so latencies are not representative of hardware.
    Tcg,
}

impl Accel {
    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }

    pub(super) fn option(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg,thread=multi",
        }
    }

    pub(super) fn cpu(self) -> &'static str {
        match self {
            Accel::Kvm => "host",
            Accel::Tcg => "max",
        }
    }
}

/// Returns KVM if `kernel` boots with it, and software emulation otherwise. The result is cached and valid
/// until the host reboots.
///
/// # Errors
/// Returns [`HostError::NotInstalled`] if QEMU or busybox is missing.
pub fn accel(kernel: &KernelImage) -> Result<Accel, HostError> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(Accel::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let question = format!("{} {}", boot.trim(), kernel.release);
    let path = cache_folder()?.join(FILE);
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if let Some((before, answer)) = kept.trim().rsplit_once(' ')
        && before == question
    {
        return Ok(if answer == "works" { Accel::Kvm } else { Accel::Tcg });
    }
    let works = comes_up(kernel)?;
    // If the cache is not writable, the next call repeats the test.
    let _ = fs::write(&path, format!("{question} {}\n", if works { "works" } else { "fails" }));
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

/// Starts a guest that powers off immediately, and waits until it has ended.
fn comes_up(kernel: &KernelImage) -> Result<bool, HostError> {
    let archive = archive()?;
    let mut command = Command::new(need(QEMU, "vm")?);
    command.args(["-accel", "kvm", "-cpu", "host", "-machine", "q35", "-smp", "2", "-m", "256M"]);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.vmlinuz);
    command.args(["-append", "console=ttyS0 quiet panic=-1", "-initrd"]);
    command.arg(format!("/proc/self/fd/{}", archive.as_raw_fd()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    sys::hand_over(&mut command, vec![archive]);
    sys::confine(&mut command, None);
    let mut child = command.spawn().map_err(HostError::system("start the program", QEMU))?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let output = child.wait_with_output().map_err(HostError::system("wait for the program", QEMU))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("wiretail-guest: up"))
}

fn archive() -> Result<OwnedFd, HostError> {
    let busybox = need("busybox", "vm")?;
    let content = fs::read(&busybox).map_err(HostError::file("read", &busybox))?;
    let error = || HostError::system("make", "the initramfs of a guest");
    let memory = rustix::fs::memfd_create("initramfs", MemfdFlags::CLOEXEC);
    let memory = memory.map_err(|errno| error()(errno.into()))?;
    let mut file = fs::File::from(memory);
    let script = b"#!/busybox sh\necho wiretail-guest: up\n/busybox poweroff -f\n";
    let mut archive = Archive::new(Vec::new());
    archive
        .folder("dev")
        .and_then(|()| archive.file("busybox", true, &content))
        .and_then(|()| archive.file("init", true, script))
        .and_then(|()| archive.finish())
        .and_then(|bytes| file.write_all(&bytes))
        .map_err(error())?;
    Ok(file.into())
}
