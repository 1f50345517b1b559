//! A program in a virtual machine: QEMU with a kernel of Debian's and one file system in memory that holds
//! the program. Nothing is installed, and nothing is on a disk.
//!
//! The guest's serial console is QEMU's standard output and input. What the program prints is there, and lines
//! that start with [`SAYS`]. Its standard output is that terminal, its standard error is none. Commands are one
//! a line:
//!
//! | command | what |
//! |---|---|
//! | `signal USR1` | sends the program a signal |
//! | `line TEXT` | gives the program a line of standard input |
//! | `interrupts` | prints `/proc/interrupts` between `wiretail-guest: interrupts` and `wiretail-guest: end` |
//! | `stop` | SIGTERM to the program |
//!
//! When the program ends, the guest prints `wiretail-guest: status N` and QEMU ends.

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

/// What the guest's own lines start with.
pub const SAYS: &str = "wiretail-guest: ";
/// What a link could leave to hardware: checksums, and packets longer than a frame. Forwarders take frames as
/// they are on the wire, and XDP refuses links that have these.
const NO_OFFLOADS: &str = ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,\
                           guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off";
/// Debian's name, in the package qemu-system-x86.
const QEMU: &str = "qemu-system-x86_64";

/// The parameters that a guest's kernel is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boot {
    /// Its defaults.
    Plain,
    /// Those of the papers on low latency: the last core without timer, callbacks and other tasks.
    Tuned,
}

/// What is behind a guest's link.
#[derive(Debug)]
pub enum Backend {
    /// A tap, by [`open_tap`](crate::deploy::open_tap).
    Tap(OwnedFd),
    /// A virtual switch in user space.
    VhostUser {
        /// Where they meet.
        socket: PathBuf,
        /// Whether QEMU makes the socket and waits for the switch there.
        server: bool,
    },
}

/// A network link of a guest: virtio-net.
#[derive(Debug)]
pub struct GuestLink {
    /// Inside: `in` or `out`.
    pub name: String,
    /// By which it is found inside; no other link has it.
    pub mac: MacAddress,
    /// Where its packets come from and go to.
    pub backend: Backend,
}

/// A virtual machine around a program.
#[derive(Debug)]
pub struct Guest {
    /// For messages, and for libvirt.
    pub name: String,
    /// Which kernel.
    pub kernel: Kernel,
    /// How it is started.
    pub boot: Boot,
    /// Further words of the kernel's command line, with blanks between them; none is "".
    pub words: String,
    /// At least three times what its files take.
    pub memory_mib: u32,
    /// The last one is the program's; with one it shares that.
    pub vcpus: u32,
    /// In the order in which they are found.
    pub links: Vec<GuestLink>,
    /// Its namespace and its cores are without meaning inside. The working folder is a copy.
    pub workload: Workload,
    /// By [`mod@accel`].
    pub accel: Accel,
}

impl Guest {
    /// The kernel's command line, with the further words behind it: of two of a kind mostly the last one counts.
    pub(super) fn boot_line(&self, accel: Accel) -> String {
        let line = boot_line(self.boot, self.vcpus, accel);
        format!("{line} {}", self.words).trim_end().to_owned()
    }
}

/// A virtual machine that is started by running the command; there are no steps. It ends with the program,
/// or with SIGTERM.
///
/// # Errors
/// [`HostError::NotInstalled`] without QEMU, busybox or the kernel; [`HostError::System`] for files that are
/// not there or too many.
pub fn guest_launch(mut guest: Guest) -> Result<Launch, HostError> {
    let qemu = need(QEMU, "vm")?;
    guest.workload.check()?;
    for link in &guest.links {
        if link.name.is_empty()
            || link.name.len() > 15
            || !link.name.chars().all(|c| c.is_ascii_alphanumeric())
        {
            let expected = "expected a link's in a guest: 1 to 15 letters and digits";
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

/// QEMU's arguments, with the number of the descriptor that the archive has.
fn arguments(guest: &Guest, vmlinuz: &Path, archive: i32) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut add = |option: &str, value: OsString| arguments.extend([option.into(), value]);
    add("-name", format!("{},debug-threads=on", guest.name).into());
    add("-accel", guest.accel.option().into());
    add("-machine", "q35,memory-backend=memory".into());
    add("-cpu", guest.accel.cpu().into());
    add("-smp", guest.vcpus.to_string().into());
    add("-m", format!("{}M", guest.memory_mib).into());
    // Shared: a virtual switch in user space reads the guest's buffers.
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
                // A comma in a value is written twice.
                text.push(socket.to_string_lossy().replace(',', ",,"));
                text.push(if *server { ",server=on,wait=on" } else { "" });
                add("-chardev", text);
                add("-netdev", format!("vhost-user,id=net{number},chardev=switch{number}").into());
                // Without interrupts through MSI-X, which some hosts' emulation can't deliver to it.
                device.push_str(",vectors=0");
            }
        }
        add("-device", device.into());
    }
    arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    arguments
}

/// The kernel's command line. The tuned one is the guests' of <https://github.com/gallenmu/latency-limbo>
/// (`_includes/vm_bootparam_optimized.html`, `_includes/experiment/experiment.sh`), without what concerns real
/// processors only. `idle=poll` is left out with software emulation: a core that polls there takes a core of
/// the host from whoever else emulates.
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

/// The threads that run the processors of a guest, by the number of QEMU's process: the processor, and its
/// thread. Empty until QEMU has made them.
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

/// 1 of `CPU 1/KVM` or `CPU 1/TCG`.
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
    fn qemu_is_told_everything() {
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
    fn the_tuned_boot_line_isolates_the_last_core() {
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
    fn the_guest_is_told_everything() {
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
    fn threads_of_processors_are_known_by_their_names() {
        assert_eq!(vcpu_number("CPU 1/TCG\n"), Some(1));
        assert_eq!(vcpu_number("CPU 12/KVM\n"), Some(12));
        assert_eq!(vcpu_number("qemu-system-x86\n"), None);
        assert_eq!(vcpu_threads(std::process::id()), []);
    }

    #[test]
    fn a_link_without_a_proper_name_is_refused() {
        let mut guest = guest();
        guest.links[0].name = "a b".into();
        let refused = guest_launch(guest).expect_err("no name");
        assert!(matches!(refused, HostError::Name { .. } | HostError::NotInstalled { .. }), "{refused}");
    }

    #[test]
    fn libvirt_is_told_everything() {
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
        // Well-formed as far as elements go: each that is opened is closed, in order.
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
