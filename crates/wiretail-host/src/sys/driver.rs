//! Driver and firmware of a NIC. ETHTOOL_GDRVINFO is the only ethtool request without a netlink equivalent.

use std::io;
use std::os::fd::OwnedFd;

use rustix::ioctl::{Setter, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SIOCETHTOOL: rustix::ioctl::Opcode = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;

/// `struct ethtool_drvinfo` (include/uapi/linux/ethtool.h).
#[repr(C)]
struct Information {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    rest: [u8; 96],
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut Information,
    rest: [u8; 16],
}

/// Names as reported by the driver; each may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Driver {
    pub name: String,
    /// Version of the driver; for in-tree drivers, the kernel version.
    pub version: String,
    pub firmware: String,
}

/// Queries the driver of a link.
///
/// # Errors
/// Returns `ENODEV` if the link does not exist, and `EOPNOTSUPP` if its driver does not support the query.
pub(crate) fn driver(link: &str) -> io::Result<Driver> {
    let mut information = Information {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        rest: [0; 96],
    };
    let mut request = Request { name: [0; 16], data: &raw mut information, rest: [0; 16] };
    // The last byte must stay zero.
    if link.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..link.len()].copy_from_slice(link.as_bytes());
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SIOCETHTOOL reads a `struct ifreq` of 40 bytes. For ETHTOOL_GDRVINFO, the kernel writes a `struct
    // ethtool_drvinfo` of 196 bytes through the pointer in it.
    // SAFETY: `Request` and `Information` have these layouts. Both live until the call returns, and
    // `information` is only read afterwards.
    unsafe { ioctl(&socket, Setter::<SIOCETHTOOL, Request>::new(request)) }?;
    Ok(Driver {
        name: text(&information.driver),
        version: text(&information.version),
        firmware: text(&information.firmware),
    })
}

/// Text up to the first NUL byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().replace(char::is_control, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_kernel_sizes() {
        assert_eq!((size_of::<Information>(), size_of::<Request>()), (196, 40));
    }

    #[test]
    fn rejects_links_without_driver() {
        // The loopback has no driver that supports the query.
        assert!(driver("lo").is_err());
        assert!(driver("no-such-link").is_err() && driver("a-name-longer-than-any-link's").is_err());
        assert_eq!((text(b"ixgbe\0\0x"), text(b"")), ("ixgbe".to_owned(), String::new()));
    }
}
