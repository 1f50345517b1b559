//! Links in any namespace: lookup, changes, and tap devices.

use std::io;
use std::os::fd::OwnedFd;

use crate::error::HostError;
use crate::network::mac::MacAddress;
use crate::network::namespace;
use crate::network::netlink::generic::GenericNetlink;
use crate::network::netlink::{Link, Netlink};
use crate::sys;

/// Finds a link by name.
pub(crate) fn find_link(namespace: Option<&str>, name: &str) -> Result<Option<Link>, HostError> {
    with_netlink(namespace, "list links", name, Netlink::links)
        .map(|links| links.into_iter().find(|link| link.name == name))
}

/// Runs `work` with a netlink socket in a namespace; `None` means the current one.
pub(crate) fn with_netlink<T>(
    namespace: Option<&str>,
    doing: &'static str,
    object: &str,
    work: impl FnOnce(&mut Netlink) -> io::Result<T>,
) -> Result<T, HostError> {
    let object = format!("{}:{object}", namespace.unwrap_or("host"));
    namespace::inside(namespace, Netlink::open)?
        .and_then(|mut netlink| work(&mut netlink))
        .map_err(HostError::system(doing, object))
}

/// Runs `work` with a generic netlink socket in a namespace; `None` means the current one.
pub(crate) fn with_generic<T>(
    namespace: Option<&str>,
    doing: &'static str,
    link: &str,
    work: impl FnOnce(&mut GenericNetlink) -> io::Result<T>,
) -> Result<T, HostError> {
    let object = format!("{}:{link}", namespace.unwrap_or("host"));
    namespace::inside(namespace, GenericNetlink::open)?
        .and_then(|mut netlink| work(&mut netlink))
        .map_err(HostError::system(doing, object))
}

/// Creates a persistent tap device.
pub(crate) fn add_tap(namespace: Option<&str>, link: &str, mac: Option<MacAddress>) -> Result<(), HostError> {
    let error = HostError::system("add the tap", format!("{}:{link}", namespace.unwrap_or("host")));
    namespace::inside(namespace, || {
        sys::tun::keep(&sys::tun::attach(link)?)?;
        match mac {
            Some(mac) => Netlink::open()?.set_mac(link, mac),
            None => Ok(()),
        }
    })?
    .map_err(error)
}

/// Opens a tap device that `Step::AddTap` created. Only one program can open it at a time. The link has a
/// carrier only while a program has it open.
///
/// # Errors
/// Returns [`HostError::System`] if the tap does not exist, or if another program has it open.
pub fn open_tap(namespace: Option<&str>, link: &str) -> Result<OwnedFd, HostError> {
    let error = || HostError::system("open the tap", format!("{}:{link}", namespace.unwrap_or("host")));
    // Checks that the tap exists, because attaching would create a missing tap.
    find_link(namespace, link)?.ok_or_else(|| error()(io::ErrorKind::NotFound.into()))?;
    namespace::inside(namespace, || sys::tun::attach(link))?.map_err(error())
}
