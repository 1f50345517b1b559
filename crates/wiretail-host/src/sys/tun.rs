//! Tap devices: network links whose other end is a file descriptor. See tuntap.rst in the kernel
//! documentation.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;

use rustix::ioctl::{IntegerSetter, Setter, ioctl};

const DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
/// `_IOW('T', 203, int)`.
const TUNSETPERSIST: rustix::ioctl::Opcode = 0x4004_54cb;
/// IFF_TAP (Ethernet frames), IFF_NO_PI (no packet information) and IFF_VNET_HDR (virtio header before each
/// frame).
const FLAGS: u16 = 0x0002 | 0x1000 | 0x4000;

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Opens a tap in the calling thread's network namespace; creates it if it does not exist.
///
/// # Errors
/// Returns `ResourceBusy` if another program has the tap open, or another error of the system call.
pub fn attach(name: &str) -> io::Result<OwnedFd> {
    let device: File = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    // The last byte must stay zero.
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq` of 40 bytes. `Request` has this layout, and a
    // copy of it lives until the call returns.
    unsafe { ioctl(&device, Setter::<TUNSETIFF, Request>::new(request)) }?;
    Ok(device.into())
}

/// Makes the tap persistent, so that it stays when its descriptor is closed.
///
/// # Errors
/// Returns the error of the system call.
pub fn keep(tap: &OwnedFd) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes a number, not a pointer.
    Ok(unsafe { ioctl(tap, IntegerSetter::<TUNSETPERSIST>::new_usize(1)) }?)
}
