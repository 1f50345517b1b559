//! Huge pages of the default size (admin-guide/mm/hugetlbpage.rst), reserved in addition to existing ones.
//! Undoing subtracts the number that was added, because other programs and runs may reserve and release huge
//! pages in the meantime.
//!
//! The kernel does not record who reserved a page. The journal therefore stores the number of pages that did
//! not belong to any run before the addition, and adds a line once the pages have been added. If a run was
//! killed before it wrote that line, its pages are considered added only if the host still has at least
//! `of_nobody + pages` huge pages in addition to those of other runs. Otherwise, pages that the run may have
//! added are kept, and a remark reports them.

use std::fs;
use std::path::Path;

use crate::error::HostError;
use crate::files::write_value;

/// File with the number of huge pages.
const ALL: &str = "proc/sys/vm/nr_hugepages";
/// Writing to this file makes the kernel compact memory (admin-guide/sysctl/vm.rst).
const COMPACT: &str = "proc/sys/vm/compact_memory";

/// Reads the number of huge pages.
///
/// # Errors
/// Returns [`HostError::System`] if the kernel does not support huge pages.
pub(crate) fn count(root: &Path) -> Result<u64, HostError> {
    let path = root.join(ALL);
    let text =
        fs::read_to_string(&path).map_err(HostError::file("read the number of huge pages in", &path))?;
    // The kernel always writes a number here.
    Ok(text.trim().parse().unwrap_or(0))
}

fn set(root: &Path, pages: u64) -> Result<(), HostError> {
    let path = root.join(ALL);
    write_value(&path, &pages.to_string()).map_err(HostError::file("set the number of huge pages in", &path))
}

/// Adds this many pages. The kernel accepts any number, but allocates fewer pages if memory is fragmented. If
/// that happens, this function compacts memory and writes the number once more.
///
/// # Errors
/// Returns [`HostError::NoHugePages`] if the kernel allocates fewer pages even after compaction; no page is
/// added in this case. Returns [`HostError::System`] if the kernel does not support huge pages.
pub(crate) fn add(root: &Path, pages: u64) -> Result<(), HostError> {
    let before = count(root)?;
    set(root, before + pages)?;
    if count(root)? < before + pages {
        // Errors are ignored: some kernels do not support compaction, and the retry may succeed without it.
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

/// An addition that is to be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    /// Number of pages that were to be added.
    pub pages: u64,
    /// Number of pages that did not belong to any run before the addition.
    pub of_nobody: u64,
    /// Whether the addition is known to be complete. If false, the run may have been killed before it added
    /// the pages.
    pub is_certain: bool,
    /// Number of pages that other runs have added.
    pub of_others: u64,
}

/// Removes only the added pages. If pages are kept, returns a remark.
///
/// # Errors
/// Returns [`HostError::System`] if the kernel rejects the new number.
pub(crate) fn remove(root: &Path, added: Added) -> Result<Option<String>, HostError> {
    let Added { pages, of_nobody, is_certain, of_others } = added;
    let present = count(root)?;
    let more = present.saturating_sub(of_nobody.saturating_add(of_others));
    if !is_certain && more < pages {
        let remark =
            || format!("keeping {more} huge pages that a killed run may have added: {present} in total");
        return Ok((more > 0).then(remark));
    }
    match present.checked_sub(pages) {
        Some(rest) => set(root, rest).map(|()| None),
        // Another program has set a total that does not include these pages.
        None => {
            Ok(Some(format!("the number of huge pages was set to {present} by another program; not changed")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(pages: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("proc/sys/vm")).expect("a folder");
        fs::write(folder.path().join(ALL), format!("{pages}\n")).expect("written");
        folder
    }

    fn certain(pages: u64) -> Added {
        Added { pages, of_nobody: 0, is_certain: true, of_others: 0 }
    }

    #[test]
    fn keeps_pages_reserved_by_others() {
        let folder = machine(10);
        let root = folder.path();
        let is = |pages| assert_eq!(count(root).expect("a number"), pages);
        add(root, 256).expect("added");
        is(266);
        add(root, 4).expect("by another run");
        assert_eq!(remove(root, certain(256)).expect("taken away"), None);
        is(14);
        assert_eq!(remove(root, certain(4)).expect("taken away"), None);
        is(10);
        // Another program has set a lower number.
        let remark = remove(root, certain(100)).expect("left").expect("a remark");
        assert!(remark.contains("was set to 10"), "{remark}");
        is(10);
    }

    /// Simulates runs that were killed at each point of the addition. Another run adds the same or a
    /// different number of pages, before or after the killed run. This other run either ends before the
    /// cleanup or is still alive during it.
    #[test]
    fn cleaning_killed_run_removes_exactly_its_pages() {
        for was_added in [false, true] {
            for is_certain in [false, true] {
                for (others, comes_first, has_ended) in [
                    (0, false, false),
                    (4, true, false),
                    (4, false, false),
                    (256, true, false),
                    (256, false, false),
                    (256, true, true),
                    (300, false, true),
                ] {
                    if is_certain && !was_added {
                        continue;
                    }
                    let folder = machine(10);
                    let root = folder.path();
                    let other = |comes: bool| {
                        if comes {
                            add(root, others).expect("added")
                        }
                    };
                    other(comes_first);
                    let of_nobody = count(root).expect("counted") - if comes_first { others } else { 0 };
                    if was_added {
                        add(root, 256).expect("added");
                    }
                    other(!comes_first);
                    let of_others = if has_ended { 0 } else { others };
                    if has_ended {
                        remove(root, certain(others)).expect("given back");
                    }
                    let added = Added { pages: 256, of_nobody, is_certain, of_others };
                    assert_eq!(remove(root, added).expect("cleaned"), None);
                    let case = (was_added, is_certain, others, comes_first, has_ended);
                    assert_eq!(count(root).expect("counted"), 10 + of_others, "{case:?}");
                }
            }
        }
    }

    #[test]
    fn keeps_and_reports_pages_of_unknown_owner() {
        let folder = machine(110);
        let added = Added { pages: 256, of_nobody: 10, is_certain: false, of_others: 0 };
        let remark = remove(folder.path(), added).expect("left").expect("a remark");
        assert!(remark.starts_with("keeping 100 huge pages that a killed run"), "{remark}");
        assert_eq!(count(folder.path()).expect("counted"), 110);
    }

    #[test]
    fn reports_kernel_without_huge_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = add(folder.path(), 1).expect_err("no file").to_string();
        assert!(error.contains("nr_hugepages"), "{error}");
    }
}
