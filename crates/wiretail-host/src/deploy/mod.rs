//! Where a program runs: what wraps it into a container or a virtual machine.
//!
//! A deployment is the same program with the same arguments on the same files, in other walls. What comes
//! out is a [`Launch`]: steps to apply first, through the journal as every change of the host, and a command
//! to start with [`run_in`](crate::run_in). Its standard streams are the program's, and it ends when the
//! program does.
//!
//! | module | what |
//! |---|---|
//! | `container` | a container as a step: made, found by its control groups, taken away |
//! | `oci`, `lxc` | the same container as two runtimes want to be told |
//! | `vm` | a virtual machine: kernel, first file system, QEMU |
//! | `cgroups` | the control groups of one name in every hierarchy |

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

/// Where programs are looked for inside, unless the workload's environment says otherwise.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program and what it needs, wherever it is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The program, found by `PATH` if it is a bare name, and its arguments.
    pub argv: Vec<String>,
    /// Its environment: these and a `PATH`, nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// Where it works: the same path inside, readable and writable.
    pub directory: PathBuf,
    /// What it reads besides, files or folders: the same paths inside. System folders are there anyway.
    pub reads: Vec<PathBuf>,
    /// Has its links.
    pub namespace: Namespace,
    /// It may use these; all of them if there is none in it.
    pub cores: CoreSet,
    /// Whether it wants huge pages.
    pub hugepages: bool,
}

/// How a deployment is started: `plan` is applied first, then `command` is started.
#[derive(Debug)]
pub struct Launch {
    /// Runs in the foreground.
    pub command: Command,
    /// Through the journal.
    pub plan: Plan,
}

impl Workload {
    /// Its environment as `NAME=VALUE`, the default first: who is named twice is what it was named last.
    fn environment(&self) -> impl Iterator<Item = String> {
        let own = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        std::iter::once(PATH.to_owned()).chain(own)
    }

    /// What it reads, with the folder of the program itself.
    fn read_paths(&self) -> Vec<PathBuf> {
        let program = self.argv.first().map(Path::new).filter(|program| program.is_absolute());
        let folder = program.and_then(Path::parent).map(Path::to_path_buf);
        folder.into_iter().chain(self.reads.iter().cloned()).collect()
    }

    /// Refuses what no configuration file can hold.
    fn check(&self) -> Result<(), HostError> {
        let bad = |name: &str, expected| Err(HostError::Name { name: name.into(), expected });
        if self.argv.first().is_none_or(|program| program.is_empty() || program.contains('=')) {
            let program = self.argv.first().map_or("", String::as_str);
            return bad(program, "expected a program: a name or a path, without `=`");
        }
        for text in self.argv.iter().chain(self.env.iter().flat_map(|(name, value)| [name, value])) {
            if text.contains('\0') {
                return bad(text, "expected an argument or environment without zero bytes");
            }
        }
        if let Some((name, _)) = self.env.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
            return bad(name, "expected the name of an environment variable, without `=`");
        }
        for path in std::iter::once(&self.directory).chain(&self.reads) {
            let text = path.to_string_lossy();
            if !path.is_absolute() || path.to_str().is_none() || text.contains(char::is_control) {
                return bad(&text, "expected a whole path in UTF-8 without control characters");
            }
        }
        Ok(())
    }
}

/// The program's path, if it is in one of the folders of `PATH`.
fn installed(program: &str) -> Option<PathBuf> {
    // Root's programs are not in everybody's PATH.
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The program's path, or which part to set up.
fn need(program: &str, part: &'static str) -> Result<PathBuf, HostError> {
    installed(program).ok_or_else(|| HostError::NotInstalled { what: program.into(), part })
}

#[cfg(test)]
mod tests;
