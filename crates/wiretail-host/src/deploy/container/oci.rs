//! Configuration of `runc`, according to the runtime specification of the Open Container Initiative, version
//! 1.0.2 (config.md and config-linux.md). Only the required parts are written.

use std::fs;

use serde_json::{Value, json};

use crate::deploy::Workload;
use crate::deploy::container::{Mount, init};
use crate::error::HostError;
use crate::facts::privileges::privileges;

/// Names of capabilities, indexed by number; see capabilities(7).
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Content of `config.json`.
pub(super) fn config(name: &str, workload: &Workload, mounts: &[Mount]) -> Result<String, HostError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let may_raise = privileges(std::path::Path::new("/"))?.sys_resource;
    Ok(config_with(name, workload, mounts, held, may_raise).to_string())
}

/// Builds the configuration with the capabilities `held`. `may_raise` states whether resource limits may be
/// raised. A network function needs the same privileges inside the container as outside: packet sockets, BPF
/// programs, locked memory, real-time priority, user-space drivers.
pub(crate) fn config_with(
    name: &str,
    workload: &Workload,
    mounts: &[Mount],
    held: u64,
    may_raise: bool,
) -> Value {
    let held = CAPABILITIES.iter().enumerate().filter(|(number, _)| held >> number & 1 == 1);
    let capabilities: Vec<String> = held.map(|(_, name)| format!("CAP_{name}")).collect();
    let mut limits = Vec::new();
    if may_raise {
        limits.push(json!({"type": "RLIMIT_MEMLOCK", "hard": u64::MAX, "soft": u64::MAX}));
    }
    let mut resources = json!({"devices": [{"allow": true, "access": "rwm"}]});
    if !workload.cores.is_empty() {
        resources["cpu"] = json!({"cpus": workload.cores.to_string()});
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": name,
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": init(workload),
            "env": [crate::deploy::PATH],
            "cwd": workload.directory,
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "rlimits": limits,
            "noNewPrivileges": false,
        },
        "root": {"path": "rootfs", "readonly": false},
        "mounts": fixed().into_iter().chain(mounts.iter().map(mount)).collect::<Vec<Value>>(),
        "linux": {
            "cgroupsPath": format!("/{name}"),
            "resources": resources,
            "namespaces": [
                {"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"},
                {"type": "network", "path": workload.namespace.path()},
            ],
        },
    })
}

/// Mounts of every container.
fn fixed() -> [Value; 4] {
    [
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
               "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
    ]
}

fn mount(mount: &Mount) -> Value {
    match mount {
        Mount::Host { path, writable, is_folder } => {
            let bind = if *is_folder { "rbind" } else { "bind" };
            let access = if *writable { "rw" } else { "ro" };
            json!({"destination": path, "type": "none", "source": path, "options": [bind, access, "rprivate"]})
        }
        Mount::Empty(path) => json!({"destination": path, "type": "tmpfs", "source": "tmpfs"}),
    }
}
