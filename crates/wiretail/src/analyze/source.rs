//! Where a capture comes from, and how often it can be read.
//!
//! The first packets are looked at before the measurement starts. A file is simply opened again; of
//! a pipe, what was read for the look is kept and read again in front of the rest.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wiretail_capture::error::CaptureError;
use wiretail_capture::read::{CaptureReader, OpenOptions};

/// Bytes of a pipe that are kept for the look at its first packets.
const PEEK: u64 = 4 << 20;

/// A capture that can be looked at first and then read in full.
pub struct Source {
    /// Name as given, for messages.
    pub name: String,
    options: OpenOptions,
    kind: Kind,
}

enum Kind {
    File(PathBuf),
    /// A pipe's content, in a file without a name.
    Spooled(File),
    /// A pipe: its first bytes and the rest.
    Pipe {
        peeked: Vec<u8>,
        rest: Box<dyn Read + Send>,
    },
}

impl Source {
    /// Opens a file, pipe or, where `path` is `-`, standard input. `again` says that it must be
    /// readable in full more than once: a pipe is then copied into a temporary file.
    pub fn open(path: &Path, options: OpenOptions, again: bool) -> Result<Self> {
        let name = path.display().to_string();
        let stdin = name == "-";
        if !stdin && !is_pipe(path) {
            return Ok(Self { name, options, kind: Kind::File(path.to_owned()) });
        }
        let mut rest: Box<dyn Read + Send> = if stdin {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| format!("{name}: cannot be opened"))?)
        };
        let kind = if again {
            let spooled =
                tempfile::tempfile().and_then(|mut file| io::copy(&mut rest, &mut file).map(|_| file));
            Kind::Spooled(spooled.with_context(|| format!("{name}: cannot be copied to a temporary file"))?)
        } else {
            let mut peeked = Vec::new();
            let read = rest.by_ref().take(PEEK).read_to_end(&mut peeked);
            read.with_context(|| format!("{name}: cannot be read"))?;
            Kind::Pipe { peeked, rest }
        };
        Ok(Self { name, options, kind })
    }

    /// The same content under other options: the other tap of one file. Not for a pipe.
    pub fn other_tap(&self, options: OpenOptions) -> Result<Self> {
        let kind = match &self.kind {
            Kind::File(path) => Kind::File(path.clone()),
            Kind::Spooled(file) => Kind::Spooled(file.try_clone()?),
            Kind::Pipe { .. } => anyhow::bail!("{}: a pipe can be read only once", self.name),
        };
        Ok(Self { name: self.name.clone(), options, kind })
    }

    /// How it is opened.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// A reader of the first packets at least.
    pub fn peek(&self) -> Result<CaptureReader, CaptureError> {
        match &self.kind {
            Kind::Pipe { peeked, .. } => {
                CaptureReader::from_reader(&self.name, Box::new(Cursor::new(peeked.clone())), &self.options)
            }
            _ => self.reopen(),
        }
    }

    /// Whether [`peek`](Self::peek) reads the whole capture.
    pub fn peeks_all(&self) -> bool {
        !matches!(self.kind, Kind::Pipe { .. })
    }

    /// A reader of the whole capture.
    pub fn read(self) -> Result<CaptureReader, CaptureError> {
        match self.kind {
            Kind::Pipe { peeked, rest } => CaptureReader::from_reader(
                &self.name,
                Box::new(Cursor::new(peeked).chain(rest)),
                &self.options,
            ),
            _ => self.reopen(),
        }
    }

    fn reopen(&self) -> Result<CaptureReader, CaptureError> {
        let io_error = |source| CaptureError::Io { file: self.name.clone(), offset: 0, source };
        match &self.kind {
            Kind::File(path) => CaptureReader::open(path, &self.options),
            Kind::Spooled(file) => {
                let reader = SharedFile { file: file.try_clone().map_err(io_error)?, offset: 0 };
                CaptureReader::from_reader(&self.name, Box::new(reader), &self.options)
            }
            Kind::Pipe { .. } => unreachable!("a pipe is not reopened"),
        }
    }
}

/// Reads a file from its start with an offset of its own: clones of a file share the system's.
struct SharedFile {
    file: File,
    offset: u64,
}

impl Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&self.file, buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Whether `path` is something that gives its content once: a named pipe, a process substitution.
fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}
