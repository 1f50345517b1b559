//! What can go wrong with the host. Every message names the object, what was expected and what to
//! do next.

use std::io;
use std::path::{Path, PathBuf};

/// A change of the host, or a look at it, that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The operating system refused.
    #[error("{object}: cannot {doing}: {source}; {next}")]
    System {
        /// What was to be changed or read: a path, a namespace, a link.
        object: String,
        /// What was tried, as an infinitive.
        doing: &'static str,
        /// What to do about it.
        next: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Something of this name is there and is not this run's.
    #[error(
        "{object}: exists already and is not this run's; \
         expected a free name: run `wiretail clean`, or remove it if nobody uses it"
    )]
    Exists {
        /// A namespace, a link or a journal.
        object: String,
    },
    /// A name that the kernel or the journal cannot hold.
    #[error("{name:?}: not a usable name: {expected}")]
    Name {
        /// As given.
        name: String,
        /// What a name must be.
        expected: &'static str,
    },
    /// Links that were set up and still pass no packets.
    #[error(
        "{namespace}: after {waited_ms} ms these links still pass no packets: {}; \
         expected a carrier: set up the other end of the veth, or plug in the cable",
        links.join(", ")
    )]
    NotReady {
        /// Where.
        namespace: String,
        /// Their names.
        links: Vec<String>,
        /// How long it was waited.
        waited_ms: u128,
    },
    /// A program or package that a part of this needs.
    #[error("{what}: not there; expected it on this machine: run `wiretail setup {part}`")]
    NotInstalled {
        /// Which.
        what: String,
        /// What `wiretail setup` calls the part.
        part: &'static str,
    },
    /// A core that others keep busy.
    #[error(
        "core {core}: busy with {by}; \
         expected a core of its own for the packets: end that, wait for it, or say `host.isolate = false`"
    )]
    Busy {
        /// Which.
        core: u32,
        /// Who.
        by: String,
    },
    /// Huge pages that the kernel can't make.
    #[error(
        "huge pages: {found} of {pages} were found; \
         expected that many, in one piece each: end programs that take much memory, or restart the machine"
    )]
    NoHugePages {
        /// How many were asked for.
        pages: u64,
        /// How many there were.
        found: u64,
    },
    /// A line of a journal that is not what this version writes.
    #[error(
        "{}:{line}: {fault}; expected a journal of format {expected}: \
         clean with the version that wrote it, or undo its lines by hand and delete the file",
        path.display()
    )]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        fault: String,
        /// The journal's format that is understood.
        expected: u32,
    },
    /// Some steps could not be undone; the others are.
    #[error(
        "{}: {} of its steps could not be undone ({}); \
         remove the cause and run `wiretail clean`",
        journal.display(), faults.len(), faults.join("; ")
    )]
    NotUndone {
        /// The journal, which is kept.
        journal: PathBuf,
        /// One message a step.
        faults: Vec<String>,
    },
}

impl HostError {
    /// For `map_err`: names what was tried on what, and picks the next step by what the system said.
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

    /// What the system said, if it was the system.
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
            "root or the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN are needed: run with sudo"
        }
        io::ErrorKind::NotFound => "check the name, and whether this kernel has it",
        io::ErrorKind::StorageFull => "free space on the file system it is on",
        io::ErrorKind::ReadOnlyFilesystem => {
            "it is mounted read-only, as in an unprivileged container: run on the host itself"
        }
        io::ErrorKind::Unsupported => "this kernel was built without it",
        io::ErrorKind::ResourceBusy => "somebody else uses it: end that first",
        _ => "check that it exists and that this kernel supports it",
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
