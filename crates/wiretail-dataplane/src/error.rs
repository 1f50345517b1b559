//! What can go wrong outside of the hot loops. Every message names the interface or the value, what
//! was expected and the next step. Inside the hot loops nothing is reported: there they count.

use std::io;

/// A port, a plan or a placement that can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataplaneError {
    /// No such interface in that network namespace.
    #[error(
        "{interface}: no such interface in its network namespace: {source}; \
         `ip link` (or `ip -n NAMESPACE link`) lists those that exist"
    )]
    NoInterface {
        /// Name as given.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// Packet sockets need a capability that the process has not.
    #[error(
        "{interface}: packet sockets need CAP_NET_RAW, which this process does not have: {source}; \
         run it as root or give it the capability (setcap cap_net_raw,cap_net_admin+ep)"
    )]
    NotPermitted {
        /// Name as given.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// A step of opening a port failed.
    #[error("{interface}: {step} failed: {source}; {next}")]
    Port {
        /// Name as given.
        interface: String,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
        /// What to do.
        next: &'static str,
    },
    /// Timestamps were asked for that the interface can't give. Others are never put in their place.
    #[error("{interface}: {expected} were asked for, but {found}; {next}")]
    Timestamps {
        /// Name as given.
        interface: String,
        /// What was asked for.
        expected: &'static str,
        /// What there is.
        found: String,
        /// What to do.
        next: &'static str,
    },
    /// DPDK or one of its ports can't be had.
    #[error(transparent)]
    Dpdk(#[from] wiretail_dpdk_sys::DpdkError),
    /// A plan that can't be carried out.
    #[error("{what} is {found}; expected {expected}")]
    Plan {
        /// Which value.
        what: String,
        /// As given.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The calling thread could not be moved to a namespace, a core or a priority.
    #[error("{step} failed: {source}; {next}")]
    Thread {
        /// What was tried.
        step: String,
        /// What the system said.
        source: io::Error,
        /// What to do.
        next: &'static str,
    },
}

/// The error for a value out of its range.
pub(crate) fn plan(what: impl Into<String>, found: impl ToString, expected: &'static str) -> DataplaneError {
    DataplaneError::Plan { what: what.into(), found: found.to_string(), expected }
}
