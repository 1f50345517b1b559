//! Names of kernel functions.

use std::fs;
use std::path::Path;

use crate::error::HostError;

/// Finds the functions that contain these addresses in `/proc/kallsyms` under `root`. Returns start addresses
/// and names in ascending order. Empty if the kernel hides its addresses.
///
/// # Errors
/// Returns [`HostError::System`] if the file cannot be read.
pub fn symbols(root: &Path, addresses: &[u64]) -> Result<Vec<(u64, String)>, HostError> {
    let path = root.join("proc/kallsyms");
    let text = fs::read_to_string(&path).map_err(HostError::file("read", &path))?;
    let mut all: Vec<(u64, &str)> = text.lines().filter_map(function).collect();
    // If an address has several names, the first one listed is used.
    all.sort_by_key(|(start, _)| *start);
    all.dedup_by_key(|(start, _)| *start);
    let containing = |address: &u64| {
        let behind = all.partition_point(|(start, _)| start <= address);
        all.get(behind.checked_sub(1)?)
    };
    let mut found: Vec<(u64, String)> =
        addresses.iter().filter_map(containing).map(|(start, name)| (*start, (*name).to_owned())).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Start address of a function. `None` if the kernel does not have it or hides its addresses.
pub fn address_of(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/kallsyms")).ok()?;
    text.lines().filter_map(function).find(|(_, found)| *found == name).map(|(start, _)| start)
}

/// Parses `ffffffff81000000 T name [module]`. `None` unless it is a function with a known address.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut parts = line.split_ascii_whitespace();
    let start = u64::from_str_radix(parts.next()?, 16).ok().filter(|start| *start != 0)?;
    let is_text = matches!(parts.next()?, "t" | "T" | "w" | "W");
    is_text.then_some((start, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_containing_addresses() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("proc")).expect("made");
        let text = "0000000000001000 T first\n0000000000001000 t alias\n0000000000003000 t third [x]\n\
            0000000000002000 T second\n0000000000002800 D data\n0000000000000000 T hidden\n";
        fs::write(root.path().join("proc/kallsyms"), text).expect("written");
        let found = symbols(root.path(), &[0x1004, 0x2900, 0x1000, 0x10]).expect("read");
        assert_eq!(found, [(0x1000, "first".to_owned()), (0x2000, "second".to_owned())]);
        assert_eq!(
            (address_of(root.path(), "third"), address_of(root.path(), "hidden")),
            (Some(0x3000), None)
        );
        assert!(symbols(Path::new("/no/such/root"), &[]).is_err());
    }
}
