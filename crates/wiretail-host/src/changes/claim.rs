//! Exclusive use of a core by one run at a time. A claim is a listening socket with an abstract name. It
//! needs no file, and the kernel releases it when the process exits, even after SIGKILL.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::error::HostError;

/// A claim on a core, held until it is dropped.
#[derive(Debug)]
pub struct CoreClaim {
    _socket: OwnedFd,
}

impl CoreClaim {
    /// Claims a core for this process.
    ///
    /// # Errors
    /// Returns [`HostError::Busy`] if the core is already claimed. The error names the process that holds the
    /// claim.
    pub fn take(core: u32) -> Result<Self, HostError> {
        let doing = "claim";
        let object = || format!("core {core}");
        let system = |errno: Errno| HostError::system(doing, object())(errno.into());
        let address = SocketAddrUnix::new_abstract_name(format!("wiretail-core-{core}").as_bytes());
        let address = address.map_err(system)?;
        let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let own = socket().map_err(system)?;
        match bind(&own, &address) {
            Ok(()) => listen(&own, 1).map(|()| Self { _socket: own }).map_err(system),
            Err(Errno::ADDRINUSE) => {
                let other = socket().and_then(|other| connect(&other, &address).map(|()| other));
                let holder = other.ok().and_then(|other| rustix::net::sockopt::socket_peercred(&other).ok());
                let by = match holder {
                    Some(holder) => format!("another run, process {}", holder.pid.as_raw_nonzero()),
                    None => "another run".to_owned(),
                };
                Err(HostError::Busy { core, by })
            }
            Err(errno) => Err(HostError::system(doing, object())(io::Error::from(errno))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_can_be_claimed_only_once() {
        // The number of a core that does not exist on any test machine.
        let claim = CoreClaim::take(60_001).expect("a free core");
        let error = CoreClaim::take(60_001).expect_err("claimed").to_string();
        assert!(error.contains(&format!("another run, process {}", std::process::id())), "{error}");
        drop(claim);
        CoreClaim::take(60_001).expect("free again");
    }
}
