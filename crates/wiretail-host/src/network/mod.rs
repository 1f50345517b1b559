//! Network namespaces, links, addresses and routes.

pub mod links;
pub mod loopback;
pub mod mac;
pub mod namespace;
pub mod netlink;
