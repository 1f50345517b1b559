//! Behavior of idle cores. They either poll or sleep; sleeping adds a wake-up delay.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::HostError;

/// File in which a program requests a maximum wake-up latency (Documentation/power/pm_qos_interface.rst of
/// Linux).
const REQUEST: &str = "dev/cpu_dma_latency";
/// Folder of the cores' idle states (Documentation/admin-guide/pm/cpuidle.rst).
const STATES: &str = "sys/devices/system/cpu";

/// Keeps all cores from sleeping. While this value exists, idle cores poll. The kernel drops the request when
/// the process exits, even after SIGKILL.
#[derive(Debug)]
pub struct Awake {
    _request: File,
}

impl Awake {
    /// Makes the request through the file under `root`.
    ///
    /// # Errors
    /// Returns an error if permission is denied, or if the kernel has no such file or no idle states to
    /// choose from.
    pub fn request(root: &Path) -> Result<Self, HostError> {
        let error = |object: &Path, next| {
            let object = object.display().to_string();
            move |source| HostError::System { object, doing: "keep cores from sleeping", next, source }
        };
        let states = root.join(STATES).join("cpu0/cpuidle/state0");
        let next =
            "the kernel has no idle states to choose from: boot with idle=poll, or set host.idle = \"sleep\"";
        fs::metadata(&states).map_err(error(&states, next))?;
        let path = root.join(REQUEST);
        let next = "run as root, on a kernel with CONFIG_CPU_IDLE, or set host.idle = \"sleep\"";
        let mut request = fs::OpenOptions::new().write(true).open(&path).map_err(error(&path, next))?;
        // The maximum wake-up latency in microseconds, in native byte order.
        request.write_all(&0_i32.to_ne_bytes()).map_err(error(&path, next))?;
        Ok(Self { _request: request })
    }
}

/// How often, since boot, a core has entered an idle state deeper than polling. `None` if the kernel does not
/// count this.
pub fn sleeps(root: &Path, core: u32) -> Option<u64> {
    let folder = root.join(STATES).join(format!("cpu{core}/cpuidle"));
    let usage = |state: u32| -> Option<u64> {
        fs::read_to_string(folder.join(format!("state{state}/usage"))).ok()?.trim().parse().ok()
    };
    let polls = fs::read_to_string(folder.join("state0/name")).is_ok_and(|name| name.trim() == "POLL");
    usage(0)?;
    Some((u32::from(polls)..).map_while(usage).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_request_and_counts_sleeps() {
        let root = tempfile::tempdir().unwrap();
        let refused = Awake::request(root.path()).unwrap_err().to_string();
        assert!(refused.contains("state0") && refused.contains("idle=poll"), "{refused}");
        for (state, name, usage) in [(0, "POLL", 5), (1, "C1", 7), (2, "C6", 11)] {
            let folder = root.path().join(format!("{STATES}/cpu0/cpuidle/state{state}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("name"), format!("{name}\n")).unwrap();
            fs::write(folder.join("usage"), format!("{usage}\n")).unwrap();
        }
        let refused = Awake::request(root.path()).unwrap_err().to_string();
        assert!(refused.contains("dev/cpu_dma_latency") && refused.contains("as root"), "{refused}");
        fs::create_dir(root.path().join("dev")).unwrap();
        fs::write(root.path().join(REQUEST), "").unwrap();
        let awake = Awake::request(root.path()).unwrap();
        assert_eq!(fs::read(root.path().join(REQUEST)).unwrap(), 0_i32.to_ne_bytes());
        drop(awake);
        assert_eq!((sleeps(root.path(), 0), sleeps(root.path(), 1)), (Some(18), None));
    }
}
