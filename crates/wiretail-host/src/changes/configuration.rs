//! Configuration files, which are installed as a whole. Undoing restores the previous file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// State of a path before a file was installed there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBefore {
    /// Content of the previous file; `None` if there was none.
    text: Option<String>,
    /// Missing parent folders, outermost first.
    folders: Vec<PathBuf>,
}

/// Reads the state of a path.
///
/// # Errors
/// Returns [`HostError::System`] if an existing file is not text or cannot be read.
pub(crate) fn look(path: &Path) -> Result<FileBefore, HostError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(HostError::file("read the existing file", path)(error)),
    };
    let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut folders: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
    folders.reverse();
    Ok(FileBefore { text, folders })
}

/// Installs a file atomically.
///
/// # Errors
/// Returns [`HostError::System`] if the file cannot be written.
pub(crate) fn put(path: &Path, text: &str) -> Result<(), HostError> {
    replace(path, text).map_err(HostError::file("write the file", path))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let beside = beside(path);
    let mut file = fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    if let Ok(present) = fs::metadata(path) {
        file.set_permissions(present.permissions())?;
    }
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(folder)?.sync_all()
}

/// Path of the temporary file that is renamed to `path`.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".wiretail-new");
    name.into()
}

/// Restores the previous file. If the file was changed after it was installed, it is not touched, and a
/// remark reports this.
///
/// # Errors
/// Returns [`HostError::System`] if the file cannot be written or removed.
pub(crate) fn put_back(path: &Path, ours: &str, before: &FileBefore) -> Result<Option<String>, HostError> {
    gone(fs::remove_file(beside(path))).map_err(HostError::file("remove the unfinished file of", path))?;
    let present = fs::read_to_string(path).ok();
    if present == before.text {
        remove_folders(before);
        return Ok(None);
    }
    if present.as_ref().is_some_and(|text| text != ours) {
        return Ok(Some(format!("{} was changed after it was installed; not restored", path.display())));
    }
    match &before.text {
        Some(text) => put(path, text)?,
        None => gone(fs::remove_file(path)).map_err(HostError::file("remove the file", path))?,
    }
    remove_folders(before);
    Ok(None)
}

/// Removes the created folders, except those that now contain other files.
fn remove_folders(before: &FileBefore) {
    for folder in before.folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_previous_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old.conf"), folder.path().join("a/b/new.conf"));
        fs::write(&old, "theirs\n\n").expect("written");
        for path in [&old, &new] {
            let before = look(path).expect("looked at");
            put(path, "ours\n").expect("put");
            assert_eq!(fs::read_to_string(path).expect("read"), "ours\n");
            assert_eq!(put_back(path, "ours\n", &before).expect("put back"), None);
            assert_eq!(put_back(path, "ours\n", &before).expect("once more"), None);
        }
        assert_eq!(fs::read_to_string(&old).expect("read"), "theirs\n\n");
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn removes_unfinished_file_but_keeps_edited_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/x.conf");
        let before = look(&path).expect("looked at");
        // Simulates a process that was killed before the rename.
        fs::create_dir(folder.path().join("a")).expect("made");
        fs::write(beside(&path), "ou").expect("written");
        assert_eq!(put_back(&path, "ours", &before).expect("put back"), None);
        assert!(!folder.path().join("a").exists());
        put(&path, "ours").expect("put");
        fs::write(&path, "edited").expect("written");
        let remark = put_back(&path, "ours", &before).expect("left").expect("a remark");
        assert!(remark.contains("not restored") && path.exists(), "{remark}");
    }
}
