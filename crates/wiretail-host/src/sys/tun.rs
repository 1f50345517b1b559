//! Taps: links whose other end is a descriptor, tun(4) of the kernel's documentation.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;

use rustix::ioctl::{IntegerSetter, Setter, ioctl};

const DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`.
const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
/// `_IOW('T', 203, int)`.
const TUNSETPERSIST: rustix::ioctl::Opcode = 0x4004_54cb;
/// Ethernet frames, no header of its own, the header of virtio before each.
const FLAGS: u16 = 0x0002 | 0x1000 | 0x4000;

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Opens the tap of that name in the calling thread's network namespace; makes it if it is not there.
///
/// # Errors
/// What the system says; `ResourceBusy` for one that somebody has open.
pub fn attach(name: &str) -> io::Result<OwnedFd> {
    let device: File = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    // The last byte stays zero.
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, 40 bytes; that is what `Request` is, and a copy
    // of it lives until the call returns.
    unsafe { ioctl(&device, Setter::<TUNSETIFF, Request>::new(request)) }?;
    Ok(device.into())
}

/// Makes the tap stay when its descriptor is closed.
///
/// # Errors
/// What the system says.
pub fn keep(tap: &OwnedFd) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes a number, no pointer.
    Ok(unsafe { ioctl(tap, IntegerSetter::<TUNSETPERSIST>::new_usize(1)) }?)
}
