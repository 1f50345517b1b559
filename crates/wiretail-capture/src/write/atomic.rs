//! Files that are either complete or absent.
//!
//! Readers, and runs after a crash, must not mistake a partial result for a complete one. Data is therefore
//! written to a hidden file in the same folder, which is renamed only after all data is on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::WriteError;

/// A file that appears under its final name only when it is committed. If it is dropped first, no file
/// appears.
///
/// Writes are not buffered. The folder must exist. An existing file of the same name is replaced. If the name
/// is a symbolic link, the link is replaced and not its target.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    /// `None` once committed.
    file: Option<File>,
}

/// Makes the names of a process's temporary files unique.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl AtomicFile {
    /// Creates a file that will be named `path`.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        Self::create_temporary(path).map_err(WriteError::io(path))
    }

    fn create_temporary(path: &Path) -> io::Result<Self> {
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this names a folder, not a file"));
        }
        loop {
            // The length of the temporary name does not depend on the final name, which may already have the
            // maximum length.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".wiretail-{}-{number}.partial", std::process::id());
            let temporary = path.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(Self { path: path.to_owned(), temporary, file: Some(file) }),
                // Left by a killed process with the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file once its data is on disk.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let renamed = file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(|source| {
            let _ = fs::remove_file(&self.temporary);
            WriteError::Io { path: self.path.clone(), source }
        })
    }

    fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the file is already committed"))
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
            // An error is harmless: the file is hidden and its name marks it as partial.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a file atomically: afterwards, it contains either all the bytes or its old content.
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
    fn a_file_is_replaced_completely() {
        let folder = TestFolder::new("atomic-replace");
        let path = folder.file("report.html");
        write_atomically(&path, b"old and long").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(folder.names(), ["report.html"]);
    }

    #[test]
    fn an_uncommitted_file_leaves_no_trace() {
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
    fn accepts_names_of_the_maximum_length() {
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
