//! Errors outside of the packet loops. Every message names the interface or value, what was expected, and the
//! next step. The packet loops report no errors: they count failures.

use std::io;

/// A port, plan or placement that cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataplaneError {
    /// The interface does not exist in its network namespace.
    #[error(
        "{interface}: no such interface in its network namespace: {source}; \
         `ip link` (or `ip -n NAMESPACE link`) lists the existing interfaces"
    )]
    NoInterface {
        interface: String,
        /// The system error.
        source: io::Error,
    },
    /// Packet sockets need a capability that this process lacks.
    #[error(
        "{interface}: packet sockets need CAP_NET_RAW, which this process lacks: {source}; \
         run as root or grant the capability (setcap cap_net_raw,cap_net_admin+ep)"
    )]
    NotPermitted {
        interface: String,
        /// The system error.
        source: io::Error,
    },
    /// A step of opening a port failed.
    #[error("{interface}: {step} failed: {source}; {next}")]
    Port {
        interface: String,
        /// The failed step.
        step: &'static str,
        /// The system error.
        source: io::Error,
        /// Advice to the user.
        next: &'static str,
    },
    /// The interface does not support the requested timestamps. Other timestamps are never used instead.
    #[error("{interface}: {expected} were requested, but {found}; {next}")]
    Timestamps {
        interface: String,
        /// The requested timestamps.
        expected: &'static str,
        /// The reason why they are not available.
        found: String,
        /// Advice to the user.
        next: &'static str,
    },
    /// DPDK or one of its ports cannot be used.
    #[error(transparent)]
    Dpdk(#[from] wiretail_dpdk_sys::DpdkError),
    /// An invalid plan.
    #[error("{what} is {found}; expected {expected}")]
    Plan {
        /// Name of the value.
        what: String,
        /// The invalid value.
        found: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// The calling thread could not be moved to a namespace, core or priority.
    #[error("{step} failed: {source}; {next}")]
    Thread {
        /// The failed step.
        step: String,
        /// The system error.
        source: io::Error,
        /// Advice to the user.
        next: &'static str,
    },
}

/// Creates the error for a value out of its range.
pub(crate) fn plan(what: impl Into<String>, found: impl ToString, expected: &'static str) -> DataplaneError {
    DataplaneError::Plan { what: what.into(), found: found.to_string(), expected }
}
