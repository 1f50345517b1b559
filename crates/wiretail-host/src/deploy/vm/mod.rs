//! Virtual machines: QEMU with a Debian kernel and an initramfs that contains the program. Nothing is
//! installed, and nothing is written to a disk.
//!
//! The guest's serial console is QEMU's standard input and output. The program's standard output is this
//! console, and therefore a terminal; its standard error is not a terminal. The guest also prints lines of
//! its own, which start with [`SAYS`]. It accepts these commands, one per line:
//!
//! | command | effect |
//! |---|---|
//! | `signal USR1` | sends a signal to the program |
//! | `line TEXT` | writes a line to the program's standard input |
//! | `interrupts` | prints `/proc/interrupts` between `wiretail-guest: interrupts` and `wiretail-guest: end` |
//! | `stop` | sends SIGTERM to the program |
//!
//! When the program ends, the guest prints `wiretail-guest: status N` and QEMU exits.

mod accel;
mod cpio;
mod initramfs;
mod kernel;
mod libvirt;
mod modules;

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

pub use self::accel::{Accel, accel};
pub use self::kernel::{Kernel, KernelImage, cache_folder, ensure_kernel, fetch_kernel, kernel_cached};
pub use self::libvirt::libvirt_xml;
use super::{Launch, Workload, need};
use crate::error::HostError;
use crate::network::mac::MacAddress;
use crate::step::Plan;
use crate::sys;

/// Prefix of lines printed by the guest itself.
pub const SAYS: &str = "wiretail-guest: ";
/// Disables all hardware offloads of a link, that is, checksums and packets longer than a frame. Forwarders
/// must process frames exactly as they are on the wire, and XDP rejects links with these offloads.
const NO_OFFLOADS: &str = ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,\
                           guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off";
/// Name of the program in Debian's package qemu-system-x86.
const QEMU: &str = "qemu-system-x86_64";

/// Kernel parameters of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boot {
    /// Without parameters for low latency.
    Plain,
    /// Parameters from the literature on low latency. They keep the timer tick, RCU callbacks and other tasks
    /// off the last core.
    Tuned,
}

/// The host side of a guest's link.
#[derive(Debug)]
pub enum Backend {
    /// A tap device from [`open_tap`](crate::deploy::open_tap).
    Tap(OwnedFd),
    /// A virtual switch in user space.
    VhostUser {
        /// Socket that connects QEMU and the switch.
        socket: PathBuf,
        /// Whether QEMU creates the socket and waits for the switch.
        server: bool,
    },
}

/// A virtio-net link of a guest.
#[derive(Debug)]
pub struct GuestLink {
    /// Name inside the guest: `in` or `out`.
    pub name: String,
    /// Unique address, used to identify the link inside the guest.
    pub mac: MacAddress,
    pub backend: Backend,
}

/// A virtual machine that runs a program.
#[derive(Debug)]
pub struct Guest {
    /// Name of the guest, for messages and libvirt.
    pub name: String,
    pub kernel: Kernel,
    pub boot: Boot,
    /// Additional kernel parameters, separated by blanks; may be empty.
    pub words: String,
    /// Memory of the guest. At least three times the size of its files.
    pub memory_mib: u32,
    /// Number of vCPUs. The program gets the last one; a single vCPU is shared with the rest of the guest.
    pub vcpus: u32,
    /// The links, in the order of their PCI devices.
    pub links: Vec<GuestLink>,
    /// The program. Its namespace and cores do not apply inside the guest. The guest has a copy of its
    /// working folder.
    pub workload: Workload,
    /// Result of [`mod@accel`].
    pub accel: Accel,
}

impl Guest {
    /// The kernel command line. The additional parameters come last, because the last value usually wins if a
    /// parameter is repeated.
    pub(super) fn boot_line(&self, accel: Accel) -> String {
        let line = boot_line(self.boot, self.vcpus, accel);
        format!("{line} {}", self.words).trim_end().to_owned()
    }
}

/// A virtual machine that is started by running the command; the plan has no steps. QEMU exits when the
/// program ends, or on SIGTERM.
///
/// # Errors
/// Returns [`HostError::NotInstalled`] if QEMU, busybox or the kernel is missing, and [`HostError::System`]
/// if files are missing or do not fit into the guest's memory.
pub fn guest_launch(mut guest: Guest) -> Result<Launch, HostError> {
    let qemu = need(QEMU, "vm")?;
    guest.workload.check()?;
    for link in &guest.links {
        if link.name.is_empty()
            || link.name.len() > 15
            || !link.name.chars().all(|c| c.is_ascii_alphanumeric())
        {
            let expected = "expected a guest link name of 1 to 15 letters and digits";
            return Err(HostError::Name { name: link.name.clone(), expected });
        }
    }
    let kernel = ensure_kernel(guest.kernel)?;
    let archive = initramfs::build(&guest, &kernel)?;
    let mut command = Command::new(qemu);
    command.args(arguments(&guest, &kernel.vmlinuz, archive.as_raw_fd()));
    let mut descriptors = vec![archive];
    for link in guest.links.drain(..) {
        if let Backend::Tap(tap) = link.backend {
            descriptors.push(tap);
        }
    }
    sys::hand_over(&mut command, descriptors);
    Ok(Launch { command, plan: Plan::new() })
}

/// Arguments of QEMU; `archive` is the descriptor of the initramfs.
fn arguments(guest: &Guest, vmlinuz: &Path, archive: i32) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut add = |option: &str, value: OsString| arguments.extend([option.into(), value]);
    add("-name", format!("{},debug-threads=on", guest.name).into());
    add("-accel", guest.accel.option().into());
    add("-machine", "q35,memory-backend=memory".into());
    add("-cpu", guest.accel.cpu().into());
    add("-smp", guest.vcpus.to_string().into());
    add("-m", format!("{}M", guest.memory_mib).into());
    // Shared memory, because a virtual switch in user space accesses the guest's buffers.
    let memory = format!("memory-backend-memfd,id=memory,size={}M,share=on", guest.memory_mib);
    add("-object", memory.into());
    add("-kernel", vmlinuz.into());
    add("-initrd", format!("/proc/self/fd/{archive}").into());
    add("-append", guest.boot_line(guest.accel).into());
    add("-display", "none".into());
    add("-monitor", "none".into());
    add("-serial", "stdio".into());
    for (number, link) in guest.links.iter().enumerate() {
        let mut device = format!("virtio-net-pci,netdev=net{number},mac={},romfile={NO_OFFLOADS}", link.mac);
        match &link.backend {
            Backend::Tap(tap) => {
                add("-netdev", format!("tap,id=net{number},fd={},vhost=off", tap.as_raw_fd()).into());
            }
            Backend::VhostUser { socket, server } => {
                let mut text = OsString::from(format!("socket,id=switch{number},path="));
                // QEMU expects a doubled comma in values.
                text.push(socket.to_string_lossy().replace(',', ",,"));
                text.push(if *server { ",server=on,wait=on" } else { "" });
                add("-chardev", text);
                add("-netdev", format!("vhost-user,id=net{number},chardev=switch{number}").into());
                // Disables MSI-X interrupts, which the emulation on some hosts cannot deliver.
                device.push_str(",vectors=0");
            }
        }
        add("-device", device.into());
    }
    arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    arguments
}

/// The kernel command line. The tuned parameters are the guest configuration of
/// <https://github.com/gallenmu/latency-limbo> (`_includes/vm_bootparam_optimized.html`,
/// `_includes/experiment/experiment.sh`), except for parameters that affect only physical processors. With
/// software emulation, `idle=poll` is also omitted, because a polling vCPU would occupy a host core that
/// other emulation threads need.
pub fn boot_line(boot: Boot, vcpus: u32, accel: Accel) -> String {
    let mut line = String::from("console=ttyS0,115200 rdinit=/init quiet panic=-1 net.ifnames=0");
    if boot == Boot::Tuned {
        line.push_str(
            " audit=0 mce=ignore_ce nmi_watchdog=0 nosoftlockup random.trust_cpu=on skew_tick=1 tsc=reliable",
        );
        if vcpus > 1 {
            let last = vcpus - 1;
            line.push_str(&format!(
                " irqaffinity=0 nohz=on isolcpus={last} nohz_full={last} rcu_nocbs={last} rcu_nocb_poll"
            ));
        }
        if accel == Accel::Kvm {
            line.push_str(" idle=poll");
        }
    }
    line
}

/// The vCPU threads of the guest whose QEMU has this PID, as pairs of vCPU number and thread ID. Empty until
/// QEMU has created the threads.
pub fn vcpu_threads(pid: u32) -> Vec<(usize, i32)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let vcpu = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((vcpu_number(&name)?, task.file_name().to_str()?.parse().ok()?))
    };
    let mut found: Vec<(usize, i32)> = tasks.filter_map(vcpu).collect();
    found.sort_unstable();
    found
}

/// Parses the vCPU number from `CPU 1/KVM` or `CPU 1/TCG`.
fn vcpu_number(name: &str) -> Option<usize> {
    name.strip_prefix("CPU ")?.split('/').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::tests::workload;

    fn guest() -> Guest {
        let tap = std::fs::File::open("/dev/null").expect("there").into();
        let switch = Backend::VhostUser { socket: "/run/a,b/s".into(), server: true };
        let link = |name: &str, number, backend| GuestLink {
            name: name.into(),
            mac: MacAddress::local(number),
            backend,
        };
        Guest {
            name: "wt-1-0-dut1".into(),
            kernel: Kernel::Cloud,
            boot: Boot::Tuned,
            words: "isolcpu=9 hugepages=1".into(),
            memory_mib: 512,
            vcpus: 2,
            links: vec![link("in", 1, Backend::Tap(tap)), link("out", 2, switch)],
            workload: workload(Path::new("/work")),
            accel: Accel::Tcg,
        }
    }

    #[test]
    fn qemu_arguments_are_complete() {
        let guest = guest();
        let arguments = arguments(&guest, Path::new("/k/vmlinuz"), 7);
        let text: Vec<&str> = arguments.iter().map(|argument| argument.to_str().expect("UTF-8")).collect();
        let has = |option: &str, value: &str| text.windows(2).any(|pair| pair == [option, value]);
        assert!(has("-accel", "tcg,thread=multi") && has("-initrd", "/proc/self/fd/7"), "{text:?}");
        assert!(has("-name", "wt-1-0-dut1,debug-threads=on"), "{text:?}");
        assert!(text.iter().any(|text| text.ends_with(" rcu_nocb_poll isolcpu=9 hugepages=1")), "{text:?}");
        let Backend::Tap(tap) = &guest.links[0].backend else { panic!("a tap") };
        assert!(has("-netdev", &format!("tap,id=net0,fd={},vhost=off", tap.as_raw_fd())), "{text:?}");
        let device =
            |number| format!("virtio-net-pci,netdev=net{number},mac=02:00:00:00:00:0{},", number + 1);
        assert!(text.iter().any(|text| text.starts_with(&device(0)) && text.contains(",guest_csum=off")));
        assert!(has("-chardev", "socket,id=switch1,path=/run/a,,b/s,server=on,wait=on"), "{text:?}");
        assert!(
            text.iter().any(|text| text.starts_with(&device(1)) && text.ends_with(",vectors=0")),
            "{text:?}"
        );
    }

    #[test]
    fn tuned_boot_line_isolates_last_core() {
        let line = boot_line(Boot::Tuned, 4, Accel::Kvm);
        for word in ["isolcpus=3", "nohz_full=3", "rcu_nocbs=3", "irqaffinity=0", "idle=poll", "skew_tick=1"]
        {
            assert!(line.split(' ').any(|part| part == word), "{word} in {line}");
        }
        assert!(!boot_line(Boot::Tuned, 4, Accel::Tcg).contains("idle=poll"));
        assert!(!boot_line(Boot::Tuned, 1, Accel::Kvm).contains("isolcpus"));
        assert!(!boot_line(Boot::Plain, 2, Accel::Kvm).contains("nohz_full"));
    }

    #[test]
    fn guest_settings_are_complete() {
        let mut guest = guest();
        guest.workload.hugepages = true;
        let settings = initramfs::settings(&guest, &["virtio".into(), "virtio_net".into()]);
        let expected = "MODULES='virtio virtio_net'\nLINKS='in,02:00:00:00:00:01 out,02:00:00:00:00:02'\n\
                        HUGEPAGES='128'\n";
        assert_eq!(settings, expected);
        let program = initramfs::program(&guest);
        assert!(program.contains("cd '/work' && exec"), "{program}");
        assert!(program.ends_with("'A=b c' '/srv/tool/forward' 'in' 'out'\n"), "{program}");
    }

    #[test]
    fn parses_vcpu_thread_names() {
        assert_eq!(vcpu_number("CPU 1/TCG\n"), Some(1));
        assert_eq!(vcpu_number("CPU 12/KVM\n"), Some(12));
        assert_eq!(vcpu_number("qemu-system-x86\n"), None);
        assert_eq!(vcpu_threads(std::process::id()), []);
    }

    #[test]
    fn rejects_invalid_link_name() {
        let mut guest = guest();
        guest.links[0].name = "a b".into();
        let refused = guest_launch(guest).expect_err("no name");
        assert!(matches!(refused, HostError::Name { .. } | HostError::NotInstalled { .. }), "{refused}");
    }

    #[test]
    fn libvirt_xml_is_complete() {
        let xml = libvirt_xml(&guest(), &[2, 3]);
        for part in [
            "<name>wt-1-0-dut1</name>",
            "<vcpupin vcpu='1' cpuset='3'/>",
            "<hugepages/>",
            "<model type='virtio'/>",
            "path='/run/a,b/s' mode='server'",
            "isolcpus=1",
        ] {
            assert!(xml.contains(part), "{part} in {xml}");
        }
        // Checks that elements are closed in the order in which they were opened.
        let mut open = Vec::new();
        for tag in xml.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{xml}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap_or_default());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}
