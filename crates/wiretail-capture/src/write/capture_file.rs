//! The file of a capture during the recording, compressed if its name ends with `.zst`.
//!
//! This is not an [`AtomicFile`](super::AtomicFile): a recording that is killed still leaves a useful
//! capture. The file may also be a pipe or a device.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::WriteError;

/// zstd's default level. It compresses faster than a tap delivers packets.
const LEVEL: i32 = 3;

/// An open capture file.
pub struct CaptureFile {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    Plain(File),
    Zstd(zstd::stream::write::Encoder<'static, File>),
}

impl std::fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CaptureFile({})", self.path.display())
    }
}

impl CaptureFile {
    /// Opens a file for writing and truncates it if it exists. A name that ends with `.zst` selects zstd
    /// compression.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(WriteError::io(path))?;
        let sink = if path.extension().is_some_and(|extension| extension == "zst") {
            let encoder = zstd::stream::write::Encoder::new(file, LEVEL).map_err(WriteError::io(path))?;
            Sink::Zstd(encoder)
        } else {
            Sink::Plain(file)
        };
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Completes the compression and closes the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, for example because the disk is full.
    pub fn finish(self) -> Result<(), WriteError> {
        let finished = match self.sink {
            Sink::Plain(mut file) => file.flush(),
            Sink::Zstd(encoder) => encoder.finish().and_then(|mut file| file.flush()),
        };
        finished.map_err(WriteError::io(&self.path))
    }
}

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Plain(file) => file.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::collect;
    use crate::write::TestFolder;
    use crate::write::pcapng::{PcapngWriter, TapCounts, TapInterface};
    use crate::{CaptureReader, OpenOptions};

    #[test]
    fn the_name_selects_compression() {
        let folder = TestFolder::new("capture-file");
        let tap = TapInterface { name: "a".to_owned(), description: String::new(), snaplen: 0 };
        for (name, magic) in [("a.pcapng", [0x0a, 0x0d]), ("a.pcapng.zst", [0x28, 0xb5])] {
            let path = folder.file(name);
            let file = CaptureFile::create(&path).unwrap();
            let mut writer = PcapngWriter::new(file, "w", std::slice::from_ref(&tap));
            for ts in 0..1000 {
                writer.write(0, ts, 60, &[7; 60]).unwrap();
            }
            writer.finish(&[TapCounts::default()]).unwrap().finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[..2], magic);
            let mut reader = CaptureReader::open(&path, &OpenOptions::default()).unwrap();
            assert_eq!(collect(&mut reader).unwrap().len(), 1000, "{name}");
        }
    }

    #[test]
    fn errors_name_the_file() {
        let folder = TestFolder::new("capture-file-errors");
        let error = CaptureFile::create(&folder.file("missing/a.pcapng")).unwrap_err().to_string();
        assert!(error.contains("missing/a.pcapng: cannot be written"), "{error}");
    }
}
