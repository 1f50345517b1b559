//! A capture as a source that can be read more than once.
//!
//! The first packets are examined before the measurement starts. A file is opened again afterwards. The
//! examined bytes of a pipe are kept and read again before the rest.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wiretail_capture::error::CaptureError;
use wiretail_capture::read::{CaptureReader, OpenOptions};

/// Number of bytes of a pipe that are kept for the examination of its first packets.
const PEEK: u64 = 4 << 20;

/// A capture that is examined first and then read in full.
pub struct Source {
    /// Name as given, for messages.
    pub name: String,
    options: OpenOptions,
    kind: Kind,
}

enum Kind {
    File(PathBuf),
    /// The content of a pipe, in an anonymous file.
    Spooled(File),
    /// A pipe: its first bytes, and the rest.
    Pipe {
        peeked: Vec<u8>,
        rest: Box<dyn Read + Send>,
    },
}

impl Source {
    /// Opens a file, a pipe, or standard input if `path` is `-`. If `again` is true, the capture must be
    /// readable more than once: a pipe is copied to a temporary file.
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

    /// Opens the same file again with other options, to read its other tap. Fails for a pipe.
    pub fn other_tap(&self, options: OpenOptions) -> Result<Self> {
        let kind = match &self.kind {
            Kind::File(path) => Kind::File(path.clone()),
            Kind::Spooled(file) => Kind::Spooled(file.try_clone()?),
            Kind::Pipe { .. } => anyhow::bail!("{}: a pipe can be read only once", self.name),
        };
        Ok(Self { name: self.name.clone(), options, kind })
    }

    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Returns a reader of at least the first packets.
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

    /// Returns a reader of the whole capture.
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

/// Reads a file from its start with a separate offset. Clones of a file descriptor would share one offset.
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

/// Whether `path` can be read only once, such as a named pipe or a process substitution.
fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}
