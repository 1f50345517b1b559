//! A private network namespace for one thread. Packets on its loopback are received on a chosen core. The
//! namespace disappears with the thread, so nothing needs to be undone.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::HostError;
use crate::network::netlink::Netlink;
use crate::sys;

/// File, relative to a sysfs mount, with the cores that receive packets of the first queue
/// (Documentation/networking/scaling.rst).
const RPS: &str = "class/net/lo/queues/rx-0/rps_cpus";

/// Moves the calling thread into a new network namespace. Its loopback receives all packets on this core,
/// regardless of which core sends them.
///
/// # Errors
/// Returns [`HostError::System`] without root privileges, or if the kernel lacks receive packet steering
/// (CONFIG_RPS).
pub fn own_loopback(core: u32) -> Result<(), HostError> {
    sys::unshare_network()
        .map_err(HostError::system("create a network namespace for", "the calling thread"))?;
    let up = Netlink::open().and_then(|mut netlink| netlink.set_up("lo", true));
    up.map_err(HostError::system("set the link up", "lo"))?;
    let steered = sysfs().map_err(io::Error::from).and_then(|sysfs| {
        let file = openat(&sysfs, RPS, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        std::fs::File::from(file).write_all(mask(core).as_bytes())
    });
    steered.map_err(|source| HostError::System {
        object: RPS.into(),
        doing: "choose the receiving core",
        next: "this needs root, Linux 5.2 or newer, and CONFIG_RPS",
        source,
    })
}

/// A detached mount of sysfs for the calling thread's network namespace.
fn sysfs() -> Result<OwnedFd, Errno> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// CPU mask for a single core: comma-separated groups of 32 bits, most significant first.
fn mask(core: u32) -> String {
    let zeros = ",00000000".repeat(core as usize / 32);
    format!("{:x}{zeros}", 1u32 << (core % 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_masks_in_groups_of_32_bits() {
        assert_eq!((mask(0).as_str(), mask(5).as_str()), ("1", "20"));
        assert_eq!(mask(65), "2,00000000,00000000");
    }

    #[test]
    fn creates_private_loopback() {
        let inside = std::thread::spawn(|| {
            own_loopback(0)?;
            let socket = std::net::UdpSocket::bind("127.0.0.1:0")
                .map_err(HostError::system("open a socket", "127.0.0.1"))?;
            let here = socket.local_addr().map_err(HostError::system("look at", "127.0.0.1"))?;
            socket.send_to(b"x", here).map_err(HostError::system("send over", "lo"))?;
            let links = Netlink::open().and_then(|mut netlink| netlink.links());
            links.map_err(HostError::system("list the links of", "the thread"))
        });
        match inside.join().expect("no panic") {
            Ok(links) => assert!(links.iter().any(|link| link.name == "lo" && link.up), "{links:?}"),
            Err(error) if error.io_kind() == Some(io::ErrorKind::PermissionDenied) => {
                println!("SKIPPED: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
