//! Privileges of this process, read from its own status, and advice if they are insufficient.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// Privileges that a run may need; see capabilities(7).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// The effective user ID is 0.
    pub root: bool,
    /// CAP_SYS_ADMIN: create and enter network namespaces, mount their names.
    pub sys_admin: bool,
    /// CAP_NET_ADMIN: create links, set addresses, attach XDP programs.
    pub net_admin: bool,
    /// CAP_NET_RAW: open packet sockets.
    pub net_raw: bool,
    /// CAP_SYS_NICE: set real-time priority and the affinity of other processes.
    pub sys_nice: bool,
    /// CAP_IPC_LOCK: lock memory beyond the limit.
    pub ipc_lock: bool,
    /// CAP_SYS_RESOURCE: raise hard limits.
    pub sys_resource: bool,
    /// CAP_BPF: load BPF programs.
    pub bpf: bool,
    /// CAP_PERFMON: trace the kernel.
    pub perfmon: bool,
    /// Number of bytes that may be locked in memory without CAP_IPC_LOCK; `None` means no limit.
    pub memlock_bytes_max: Option<u64>,
}

/// An operation that requires missing capabilities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {missing}, which this process lacks; run with sudo, or use setcap to grant it")]
pub struct Missing {
    /// The operation.
    pub what: &'static str,
    /// Names of the missing capabilities.
    pub missing: String,
}

impl Privileges {
    /// Checks that network namespaces and links can be created.
    ///
    /// # Errors
    /// Returns [`Missing`] with the missing capabilities.
    pub fn allow_testbed(&self) -> Result<(), Missing> {
        need(
            "a testbed of network namespaces",
            &[("CAP_SYS_ADMIN", self.sys_admin), ("CAP_NET_ADMIN", self.net_admin)],
        )
    }

    /// Checks that packets can be sent and captured on an interface.
    ///
    /// # Errors
    /// Returns [`Missing`] with the missing capabilities.
    pub fn allow_packets(&self) -> Result<(), Missing> {
        need("sending and capturing packets", &[("CAP_NET_RAW", self.net_raw)])
    }

    /// Checks that threads can get real-time priority.
    ///
    /// # Errors
    /// Returns [`Missing`] with the missing capabilities.
    pub fn allow_realtime(&self) -> Result<(), Missing> {
        need("real-time priority", &[("CAP_SYS_NICE", self.sys_nice)])
    }
}

fn need(what: &'static str, capabilities: &[(&str, bool)]) -> Result<(), Missing> {
    let missing: Vec<&str> = capabilities.iter().filter(|(_, held)| !held).map(|(name, _)| *name).collect();
    if missing.is_empty() { Ok(()) } else { Err(Missing { what, missing: missing.join(" and ") }) }
}

/// Reads the privileges of this process under `root` (`/`, or a recorded tree).
///
/// # Errors
/// Returns [`HostError::System`] if `/proc` is not mounted. A missing privilege is not an error.
pub fn privileges(root: &Path) -> Result<Privileges, HostError> {
    let path = root.join("proc/self/status");
    let status = fs::read_to_string(&path).map_err(HostError::file("read", &path))?;
    let limits = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    Ok(parse(&status, &limits))
}

fn parse(status: &str, limits: &str) -> Privileges {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim()
    };
    let effective = u64::from_str_radix(field("CapEff"), 16).unwrap_or_default();
    let has = |number: u32| effective >> number & 1 == 1;
    let memlock = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    Privileges {
        root: field("Uid").split_ascii_whitespace().nth(1) == Some("0"),
        net_admin: has(12),
        net_raw: has(13),
        ipc_lock: has(14),
        sys_admin: has(21),
        sys_nice: has(23),
        sys_resource: has(24),
        perfmon: has(38) || has(21),
        bpf: has(39) || has(21),
        memlock_bytes_max: memlock.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_capabilities_and_memlock_limit() {
        let limits = "Max locked memory         8388608              8388608              bytes\n";
        let root = parse("Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001fffeffffff\n", limits);
        assert!(root.root && root.sys_admin && root.net_raw && root.bpf && !root.sys_resource);
        assert_eq!(root.memlock_bytes_max, Some(8 << 20));
        assert_eq!(root.allow_testbed(), Ok(()));
        let user =
            parse("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000001000\n", "Max locked memory unlimited");
        assert_eq!((user.root, user.net_admin, user.memlock_bytes_max), (false, true, None));
        let message = user.allow_testbed().expect_err("no CAP_SYS_ADMIN").to_string();
        assert!(
            message.starts_with("a testbed of network namespaces needs CAP_SYS_ADMIN, which"),
            "{message}"
        );
        assert!(user.allow_packets().is_err() && user.allow_realtime().is_err());
    }

    #[test]
    fn reports_missing_proc() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(privileges(folder.path()).expect_err("no /proc").to_string().contains("status: cannot read"));
        privileges(Path::new("/")).expect("this process");
    }
}
