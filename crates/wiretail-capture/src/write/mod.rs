//! Results and captures to bytes.
//!
//! - [`samples`]: a row a packet, Parquet;
//! - [`hgrm`]: a percentile distribution, as HdrHistogram prints it;
//! - [`pcap`]: a capture with nanosecond stamps; [`pcapng`]: of several taps, with what each one lost;
//! - [`capture_file`]: the file of a capture that is being recorded, plain or zstd;
//! - [`atomic`]: files that are whole or not there, which the others and every text stand on.

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

/// A result that could not be written; nothing is left under its name but what was there before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused.
    #[error(
        "{}: cannot be written: {source}; check that its folder exists, may be written to and has space left",
        path.display()
    )]
    Io {
        /// The file's name as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The encoder refused.
    #[error("{}: cannot be written as Parquet: {source}", path.display())]
    Parquet {
        /// The file's name as given.
        path: PathBuf,
        /// What the encoder said.
        source: parquet::errors::ParquetError,
    },
}

impl WriteError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// A folder for a test's files, removed at its end.
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
