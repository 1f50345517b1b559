//! Writes results and captures.
//!
//! - [`samples`]: one row per packet, Parquet;
//! - [`hgrm`]: a percentile distribution in HdrHistogram's format;
//! - [`pcap`]: a capture with nanosecond timestamps;
//! - [`pcapng`]: a capture of several taps, with the packets that each one lost;
//! - [`capture_file`]: the file of a capture during the recording, plain or zstd;
//! - [`atomic`]: files that are either complete or absent, used by all results.

pub mod atomic;
pub mod capture_file;
pub mod hgrm;
pub mod pcap;
pub mod pcapng;
pub mod samples;

use std::io;
use std::path::{Path, PathBuf};

pub use atomic::{AtomicFile, write_atomically};
pub use capture_file::CaptureFile;
pub use hgrm::percentile_distribution;
pub use pcap::PcapWriter;
pub use pcapng::{PcapngWriter, TapCounts, TapInterface};
pub use samples::{Sample, SampleKind, SamplesWriter};

/// Error when a result cannot be written. An existing file of the same name is not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system returned an error.
    #[error(
        "{}: cannot be written: {source}; check that its folder exists, is writable and has space left",
        path.display()
    )]
    Io {
        /// File name as given.
        path: PathBuf,
        source: io::Error,
    },
    /// The Parquet encoder returned an error.
    #[error("{}: cannot be written as Parquet: {source}", path.display())]
    Parquet {
        /// File name as given.
        path: PathBuf,
        source: parquet::errors::ParquetError,
    },
}

impl WriteError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// A folder for a test's files, removed when dropped.
#[cfg(test)]
pub(crate) struct TestFolder(PathBuf);

#[cfg(test)]
impl TestFolder {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wiretail-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the test's folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
