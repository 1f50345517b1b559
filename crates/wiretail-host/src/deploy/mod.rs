//! Deployments: running a program in a container or a virtual machine.
//!
//! Every deployment runs the same program with the same arguments on the same files; only the isolation
//! differs. The result is a [`Launch`], which has two parts: steps to apply first, and a command to start
//! with [`run_in`](crate::run_in). Like all changes of the host, the steps are applied through the journal.
//! The command is connected to the standard streams of the program and ends when the program ends.
//!
//! | module | purpose |
//! |---|---|
//! | `container` | containers as a step: creating, finding by cgroup, removing |
//! | `oci`, `lxc` | configuration files of the two container runtimes |
//! | `vm` | virtual machines: kernel, initramfs, QEMU |
//! | `cgroups` | the cgroups of a given name in all hierarchies |

mod container;
pub mod vm;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::HostError;
use crate::network::namespace::Namespace;
use crate::step::Plan;
use wiretail_schema::units::cores::CoreSet;

pub use container::{Container, ContainerSpec, Runtime, container};
pub(crate) use container::{add, remove};

pub use crate::network::links::open_tap;

/// Default search path for programs inside the container or virtual machine. The environment of the workload
/// can override it.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program and its requirements, independent of the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The program and its arguments. A bare program name is looked up in `PATH`.
    pub argv: Vec<String>,
    /// The environment variables, in addition to `PATH`. No other variable is inherited.
    pub env: Vec<(String, String)>,
    /// The working directory. It has the same path inside, where it is readable and writable.
    pub directory: PathBuf,
    /// Additional files or folders that the program reads, at the same paths inside. System folders are
    /// always available.
    pub reads: Vec<PathBuf>,
    /// The namespace that contains the program's links.
    pub namespace: Namespace,
    /// The cores that the program may use; an empty set means all cores.
    pub cores: CoreSet,
    /// Whether the program needs huge pages.
    pub hugepages: bool,
}

/// A deployment that is ready to start: apply `plan` first, then start `command`.
#[derive(Debug)]
pub struct Launch {
    /// Command that runs the program. It stays in the foreground.
    pub command: Command,
    /// Steps to apply first, through the journal.
    pub plan: Plan,
}

impl Workload {
    /// The environment as `NAME=VALUE`. The default `PATH` comes first, so that a `PATH` of the workload
    /// overrides it.
    fn environment(&self) -> impl Iterator<Item = String> {
        let own = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        std::iter::once(PATH.to_owned()).chain(own)
    }

    /// The paths that the program reads, including the folder of the program itself.
    fn read_paths(&self) -> Vec<PathBuf> {
        let program = self.argv.first().map(Path::new).filter(|program| program.is_absolute());
        let folder = program.and_then(Path::parent).map(Path::to_path_buf);
        folder.into_iter().chain(self.reads.iter().cloned()).collect()
    }

    /// Rejects values that a configuration file cannot represent.
    fn check(&self) -> Result<(), HostError> {
        let bad = |name: &str, expected| Err(HostError::Name { name: name.into(), expected });
        if self.argv.first().is_none_or(|program| program.is_empty() || program.contains('=')) {
            let program = self.argv.first().map_or("", String::as_str);
            return bad(program, "expected a program: a name or a path, without `=`");
        }
        for text in self.argv.iter().chain(self.env.iter().flat_map(|(name, value)| [name, value])) {
            if text.contains('\0') {
                return bad(text, "expected an argument or environment without NUL bytes");
            }
        }
        if let Some((name, _)) = self.env.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
            return bad(name, "expected the name of an environment variable, without `=`");
        }
        for path in std::iter::once(&self.directory).chain(&self.reads) {
            let text = path.to_string_lossy();
            if !path.is_absolute() || path.to_str().is_none() || text.contains(char::is_control) {
                return bad(&text, "expected an absolute path in UTF-8 without control characters");
            }
        }
        Ok(())
    }
}

/// Path of the program, if it is in one of the folders of `PATH`.
fn installed(program: &str) -> Option<PathBuf> {
    // The PATH of a user other than root may lack the folders of system programs.
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Path of the program, or an error that names the component to set up.
fn need(program: &str, part: &'static str) -> Result<PathBuf, HostError> {
    installed(program).ok_or_else(|| HostError::NotInstalled { what: program.into(), part })
}

#[cfg(test)]
mod tests;
