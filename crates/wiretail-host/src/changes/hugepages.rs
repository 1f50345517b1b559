//! Huge pages of the default size (admin-guide/mm/hugetlbpage.rst): more of them, beside those that others have. What
//! is undone is the difference: other programs, other runs too, may reserve some and give them back meanwhile.
//!
//! Nobody can see whose a page is. So the journal says what the machine had besides all runs before they were added, and when they
//! were. Of a run that was killed in between it is told by that number whether they were: `of_nobody + pages` are there, besides those
//! of other runs. Where it can't be told they are left, and that is said.

use std::fs;
use std::path::Path;

use crate::error::HostError;
use crate::files::write_value;

/// How many there are.
const ALL: &str = "proc/sys/vm/nr_hugepages";
/// Makes the kernel move used memory together (admin-guide/sysctl/vm.rst).
const COMPACT: &str = "proc/sys/vm/compact_memory";

/// How many there are.
///
/// # Errors
/// [`HostError::System`] where the kernel has none at all.
pub(crate) fn count(root: &Path) -> Result<u64, HostError> {
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

/// How an addition that is to be undone stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    /// So many were to be added.
    pub pages: u64,
    /// Pages that no run had added, when they were counted before.
    pub of_nobody: u64,
    /// Whether they were added; else perhaps.
    pub is_certain: bool,
    /// Pages that other runs have by now.
    pub of_others: u64,
}

/// Takes away what was added, and nothing else; says what it leaves.
///
/// # Errors
/// [`HostError::System`] where the kernel refuses.
pub(crate) fn remove(root: &Path, added: Added) -> Result<Option<String>, HostError> {
    let Added { pages, of_nobody, is_certain, of_others } = added;
    let present = count(root)?;
    let more = present.saturating_sub(of_nobody.saturating_add(of_others));
    if !is_certain && more < pages {
        let remark =
            || format!("{more} huge pages that may be of a run that was killed are left: {present} in all");
        return Ok((more > 0).then(remark));
    }
    match present.checked_sub(pages) {
        Some(rest) => set(root, rest).map(|()| None),
        // Who has set such a number did not count these.
        None => {
            Ok(Some(format!("somebody has set the number of huge pages to {present} since, and it is left")))
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
    fn what_others_reserve_meanwhile_is_theirs() {
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
        // Somebody has set another number, with or without these.
        let remark = remove(root, certain(100)).expect("left").expect("a remark");
        assert!(remark.contains("set the number of huge pages to 10"), "{remark}");
        is(10);
    }

    /// A run is killed at each point of its addition; another one adds as many or fewer before, between or after, and ends before it
    /// is cleaned or not; a program that is no run may have taken some.
    #[test]
    fn a_run_that_was_killed_gives_back_what_it_took_and_no_more() {
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
    fn what_may_be_somebody_elses_is_left_and_said() {
        let folder = machine(110);
        let added = Added { pages: 256, of_nobody: 10, is_certain: false, of_others: 0 };
        let remark = remove(folder.path(), added).expect("left").expect("a remark");
        assert!(remark.starts_with("100 huge pages that may be of a run"), "{remark}");
        assert_eq!(count(folder.path()).expect("counted"), 110);
    }

    #[test]
    fn a_kernel_without_huge_pages_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = add(folder.path(), 1).expect_err("no file").to_string();
        assert!(error.contains("nr_hugepages"), "{error}");
    }
}
