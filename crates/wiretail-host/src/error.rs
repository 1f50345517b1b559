//! Errors of host operations. Every message names the object, the expectation and the next step.

use std::io;
use std::path::{Path, PathBuf};

/// A failed change or query of the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The operating system returned an error.
    #[error("{object}: cannot {doing}: {source}; {next}")]
    System {
        /// The object of the operation: a path, a namespace or a link.
        object: String,
        /// The failed operation, as an infinitive phrase.
        doing: &'static str,
        /// Advice to the user.
        next: &'static str,
        /// The error that the system returned.
        source: io::Error,
    },
    /// An object of this name exists and does not belong to this run.
    #[error(
        "{object}: already exists and does not belong to this run; \
         expected an unused name: run `wiretail clean`, or remove the object if no program uses it"
    )]
    Exists { object: String },
    /// A name that the kernel or the journal cannot store.
    #[error("{name:?}: not a usable name: {expected}")]
    Name {
        name: String,
        /// The rules for a valid name.
        expected: &'static str,
    },
    /// Links that are up but cannot pass packets yet.
    #[error(
        "{namespace}: after {waited_ms} ms these links are still not ready: {}; \
         expected a carrier: set up the other end of the veth, or plug in the cable",
        links.join(", ")
    )]
    NotReady {
        /// Network namespace of the links.
        namespace: String,
        links: Vec<String>,
        /// Time waited for the carrier.
        waited_ms: u128,
    },
    /// A required program or package is missing.
    #[error("{what}: not installed; run `wiretail setup {part}`")]
    NotInstalled {
        what: String,
        /// Name of the component in `wiretail setup`.
        part: &'static str,
    },
    /// A core that is used by another program.
    #[error(
        "core {core}: busy with {by}; \
         expected an otherwise idle core: stop that program, wait for it, or set `host.isolate = false`"
    )]
    Busy {
        core: u32,
        /// The program that uses the core.
        by: String,
    },
    /// The kernel could not allocate the huge pages.
    #[error(
        "huge pages: allocated only {found} of {pages}; \
         each needs contiguous memory: stop programs that use much memory, or reboot"
    )]
    NoHugePages {
        /// Number of pages requested.
        pages: u64,
        /// Number of pages that the kernel allocated.
        found: u64,
    },
    /// A journal line that this version cannot parse.
    #[error(
        "{}:{line}: {fault}; expected journal format {expected}: \
         run `wiretail clean` in the version that wrote the file, or undo its steps manually and delete the \
         file",
        path.display()
    )]
    Journal {
        path: PathBuf,
        /// Line number, starting at one.
        line: usize,
        /// Description of the fault.
        fault: String,
        /// The journal format of this version.
        expected: u32,
    },
    /// Some steps could not be undone. All other steps were undone.
    #[error(
        "{}: {} of its steps could not be undone ({}); \
         fix the cause and run `wiretail clean`",
        journal.display(), faults.len(), faults.join("; ")
    )]
    NotUndone {
        /// The journal. It is kept and holds the steps that failed.
        journal: PathBuf,
        /// One message per failed step.
        faults: Vec<String>,
    },
}

impl HostError {
    /// Returns a closure for `map_err` that adds the operation and its object, and selects advice by the kind
    /// of error.
    pub(crate) fn system(
        doing: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> HostError {
        let object = object.into();
        move |source| {
            let next = next_step(&source);
            HostError::System { object, doing, next, source }
        }
    }

    /// [`HostError::system`] for a path.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
        Self::system(doing, path.display().to_string())
    }

    /// Kind of the system error, or `None` for other errors.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            HostError::System { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "this needs root or the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN: run with sudo"
        }
        io::ErrorKind::NotFound => "check the name, and check that this kernel supports this operation",
        io::ErrorKind::StorageFull => "free space on that file system",
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is mounted read-only, as in an unprivileged container: run on the host itself"
        }
        io::ErrorKind::Unsupported => "this kernel was built without this feature",
        io::ErrorKind::ResourceBusy => "another program is using it: stop that program first",
        _ => "check that the object exists and that this kernel supports this operation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_object_and_the_next_step() {
        let error =
            HostError::system("add the namespace", "wt-1-0-gen")(io::ErrorKind::PermissionDenied.into());
        let text = error.to_string();
        assert!(text.starts_with("wt-1-0-gen: cannot add the namespace: "), "{text}");
        assert!(text.ends_with("run with sudo"), "{text}");
        assert_eq!(error.io_kind(), Some(io::ErrorKind::PermissionDenied));
    }
}
