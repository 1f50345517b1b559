//! Files of configuration: put in their place whole, and what stood there put back.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// How a place was before a file was put there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBefore {
    /// The file that stood there; none where there was none.
    text: Option<String>,
    /// Folders that were not there, the outermost first.
    folders: Vec<PathBuf>,
}

/// Looks at the place.
///
/// # Errors
/// [`HostError::System`] where something stands there that is no text, or can't be read.
pub(crate) fn look(path: &Path) -> Result<FileBefore, HostError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(HostError::file("read what stands there", path)(error)),
    };
    let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut folders: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
    folders.reverse();
    Ok(FileBefore { text, folders })
}

/// Puts a file there: whole, or not at all.
///
/// # Errors
/// [`HostError::System`] where it can't be written.
pub(crate) fn put(path: &Path, text: &str) -> Result<(), HostError> {
    replace(path, text).map_err(HostError::file("put the file", path))
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

/// Where a file is written before it is moved to its place.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".wiretail-new");
    name.into()
}

/// Puts back what stood there. A file that somebody has changed since is left, and that is said.
///
/// # Errors
/// [`HostError::System`] where it can't be written or removed.
pub(crate) fn put_back(path: &Path, ours: &str, before: &FileBefore) -> Result<Option<String>, HostError> {
    gone(fs::remove_file(beside(path))).map_err(HostError::file("remove what was not finished", path))?;
    let present = fs::read_to_string(path).ok();
    if present == before.text {
        remove_folders(before);
        return Ok(None);
    }
    if present.as_ref().is_some_and(|text| text != ours) {
        return Ok(Some(format!("{} was changed by somebody since, and is left as it is", path.display())));
    }
    match &before.text {
        Some(text) => put(path, text)?,
        None => gone(fs::remove_file(path)).map_err(HostError::file("remove the file", path))?,
    }
    remove_folders(before);
    Ok(None)
}

/// Those that hold somebody else's files by now stay.
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
    fn what_stood_there_is_put_back() {
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
    fn what_was_not_finished_goes_and_what_somebody_changed_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/x.conf");
        let before = look(&path).expect("looked at");
        // Killed before the file was moved to its place.
        fs::create_dir(folder.path().join("a")).expect("made");
        fs::write(beside(&path), "ou").expect("written");
        assert_eq!(put_back(&path, "ours", &before).expect("put back"), None);
        assert!(!folder.path().join("a").exists());
        put(&path, "ours").expect("put");
        fs::write(&path, "edited").expect("written");
        let remark = put_back(&path, "ours", &before).expect("left").expect("a remark");
        assert!(remark.contains("left as it is") && path.exists(), "{remark}");
    }
}
