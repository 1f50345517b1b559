//! A network of a thread's own, with nothing but a loopback whose packets a chosen core receives. It goes with the
//! thread, and is nobody else's, so that there is nothing to undo.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::HostError;
use crate::network::netlink::Netlink;
use crate::sys;

/// Which cores receive packets of the first queue, below a sysfs (Documentation/networking/scaling.rst).
const RPS: &str = "class/net/lo/queues/rx-0/rps_cpus";

/// Moves the calling thread into a new network namespace whose loopback packets are received on this core, whoever
/// sends them.
///
/// # Errors
/// [`HostError::System`] without root, or with a kernel without receive packet steering (CONFIG_RPS).
pub fn own_loopback(core: u32) -> Result<(), HostError> {
    sys::unshare_network().map_err(HostError::system("make a network for it", "the calling thread"))?;
    let up = Netlink::open().and_then(|mut netlink| netlink.set_up("lo", true));
    up.map_err(HostError::system("set the link up", "lo"))?;
    let steered = sysfs().map_err(io::Error::from).and_then(|sysfs| {
        let file = openat(&sysfs, RPS, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        std::fs::File::from(file).write_all(mask(core).as_bytes())
    });
    steered.map_err(|source| HostError::System {
        object: RPS.into(),
        doing: "choose who receives packets",
        next: "it needs root, Linux 5.2 or newer, and CONFIG_RPS",
        source,
    })
}

/// The sysfs of the calling thread's network namespace, mounted nowhere.
fn sysfs() -> Result<OwnedFd, Errno> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// A mask of cores with this one alone: groups of 32 bits, the highest first, with commas in between.
fn mask(core: u32) -> String {
    let zeros = ",00000000".repeat(core as usize / 32);
    format!("{:x}{zeros}", 1u32 << (core % 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_in_groups() {
        assert_eq!((mask(0).as_str(), mask(5).as_str()), ("1", "20"));
        assert_eq!(mask(65), "2,00000000,00000000");
    }

    #[test]
    fn a_thread_gets_a_loopback_of_its_own() {
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
