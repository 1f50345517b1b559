//! Files that are whole or not there.
//!
//! A reader, or the next run after a crash, must never take half a result for a whole one. So bytes
//! go to a hidden file in the same folder, which takes the result's name only when all are on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::WriteError;

/// A file that appears under its name when it is committed, and never if it is dropped before.
///
/// Not buffered. The name's folder must exist. A file of that name is replaced; a symbolic link of
/// that name too, not what it points to.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    /// None once committed.
    file: Option<File>,
}

/// Tells the temporary files of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl AtomicFile {
    /// Starts a file that will be named `path`.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        Self::create_temporary(path).map_err(WriteError::io(path))
    }

    fn create_temporary(path: &Path) -> io::Result<Self> {
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this names a folder, not a file"));
        }
        loop {
            // The length does not depend on the name's: a name may be as long as the system allows.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".wiretail-{}-{number}.partial", std::process::id());
            let temporary = path.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(Self { path: path.to_owned(), temporary, file: Some(file) }),
                // Left by a process that was killed and had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, once its bytes are on disk.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let renamed = file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(|source| {
            let _ = fs::remove_file(&self.temporary);
            WriteError::Io { path: self.path.clone(), source }
        })
    }

    fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the file is committed already"))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nothing is lost if this fails: the file is hidden and says that it is partial.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a file in one go: afterwards it holds all the bytes, or what it held before.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(WriteError::io(path))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::TestFolder;

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = TestFolder::new("atomic-replace");
        let path = folder.file("report.html");
        write_atomically(&path, b"old and long").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(folder.names(), ["report.html"]);
    }

    #[test]
    fn what_is_not_committed_never_was() {
        let folder = TestFolder::new("atomic-drop");
        let path = folder.file("summary.json");
        write_atomically(&path, b"before").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half of").unwrap();
        assert_eq!(folder.names().len(), 2);
        drop(file);
        assert_eq!(folder.names(), ["summary.json"]);
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }

    #[test]
    fn names_as_long_as_the_system_allows_work() {
        let folder = TestFolder::new("atomic-long");
        let path = folder.file(&"n".repeat(255));
        write_atomically(&path, b"").unwrap();
        assert!(path.exists());
    }

    #[test]
    fn errors_name_the_path() {
        let folder = TestFolder::new("atomic-errors");
        let missing = folder.file("missing/summary.json");
        let error = write_atomically(&missing, b"").unwrap_err().to_string();
        assert!(error.starts_with(&missing.display().to_string()), "{error}");
        assert!(error.contains("folder exists"), "{error}");
        fs::create_dir(folder.file("folder")).unwrap();
        let error = write_atomically(&folder.file("folder"), b"").unwrap_err().to_string();
        assert!(error.contains("names a folder"), "{error}");
        assert!(write_atomically(Path::new("/"), b"").is_err());
        assert_eq!(folder.names(), ["folder"]);
    }
}
