//! Huge pages of the default size (admin-guide/mm/hugetlbpage.rst): more of them, beside those that others have. What
//! is undone is the difference: other programs, other runs too, may reserve some and give them back meanwhile.

use std::fs;
use std::path::Path;

use crate::apply::write_value;
use crate::error::HostError;

/// How many there are.
const ALL: &str = "proc/sys/vm/nr_hugepages";
/// Makes the kernel move used memory together (admin-guide/sysctl/vm.rst).
const COMPACT: &str = "proc/sys/vm/compact_memory";

fn count(root: &Path) -> Result<u64, HostError> {
    let path = root.join(ALL);
    let text =
        fs::read_to_string(&path).map_err(HostError::file("read the number of huge pages in", &path))?;
    // What the kernel writes is a number.
    Ok(text.trim().parse().unwrap_or(0))
}

fn set(root: &Path, pages: u64) -> Result<(), HostError> {
    let path = root.join(ALL);
    write_value(&path, &pages.to_string()).map_err(HostError::file("set the number of huge pages in", &path))
}

/// Adds so many. The kernel accepts any number, and finds fewer where its memory is in pieces: then they are put
/// together, and it is told once more.
///
/// # Errors
/// [`HostError::NoHugePages`] where it still finds fewer, and none is added then; [`HostError::System`] where it has
/// none at all.
pub(crate) fn add(root: &Path, pages: u64) -> Result<(), HostError> {
    let before = count(root)?;
    set(root, before + pages)?;
    if count(root)? < before + pages {
        // Not every kernel can do this, and the next step may do without.
        let _ = write_value(&root.join(COMPACT), "1");
        set(root, before + pages)?;
    }
    let found = count(root)?.saturating_sub(before);
    if found < pages {
        set(root, before)?;
        return Err(HostError::NoHugePages { pages, found });
    }
    Ok(())
}

/// Takes so many away.
///
/// # Errors
/// [`HostError::System`] where the kernel refuses.
pub(crate) fn remove(root: &Path, pages: u64) -> Result<(), HostError> {
    set(root, count(root)?.saturating_sub(pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_reserve_meanwhile_is_theirs() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("proc/sys/vm")).expect("a folder");
        let is = |pages| assert_eq!(count(root).expect("a number"), pages);
        fs::write(root.join(ALL), "10\n").expect("written");
        add(root, 256).expect("added");
        is(266);
        add(root, 4).expect("by another run");
        remove(root, 256).expect("taken away");
        is(14);
        remove(root, 4).expect("taken away");
        is(10);
        remove(root, 100).expect("somebody else has taken some");
        is(0);
    }

    #[test]
    fn a_kernel_without_huge_pages_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = add(folder.path(), 1).expect_err("no file").to_string();
        assert!(error.contains("nr_hugepages"), "{error}");
    }
}
