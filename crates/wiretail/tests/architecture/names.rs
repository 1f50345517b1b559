//! Rejects former names. Each line of `renames.tsv` is a rule with a scope, an old name and a new name. The
//! scope is a file or directory. A name is an identifier, a key in quotation marks, or, if it contains a
//! slash, a path below the scope.
//!
//! Many old names are also ordinary English words. Comments are therefore ignored, and the scope of a rule is
//! the place where its word was a term.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const RENAMES: &str = include_str!("renames.tsv");

struct Rename<'a> {
    place: &'a str,
    old: &'a str,
    new: &'a str,
}

fn renames() -> Vec<Rename<'static>> {
    let triple = |line: &'static str| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap_or_else(|| panic!("{line:?}: expected place, old, new"));
        Rename { place: next(), old: next(), new: next() }
    };
    RENAMES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(triple).collect()
}

/// Returns the names in a file: the identifiers of Rust code, including those in strings, or all words of
/// other files.
fn names(path: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let code: String = match is_rust {
        true => text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n"),
        false => text,
    };
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    code.split(|c: char| !part(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn files(place: &Path, found: &mut Vec<PathBuf>) {
    if place.is_file() {
        return found.push(place.to_owned());
    }
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        if !path.ends_with("target") && !path.ends_with("renames.tsv") {
            files(&path, found);
        }
    }
}

#[test]
fn former_names_are_not_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut by_place: BTreeMap<&str, Vec<Rename<'_>>> = BTreeMap::new();
    for rename in renames() {
        by_place.entry(rename.place).or_default().push(rename);
    }
    let mut faults = Vec::new();
    for (place, renames) in &by_place {
        let folder = root.join(place);
        assert!(folder.exists(), "{place} does not exist; correct renames.tsv");
        let mut all = Vec::new();
        files(&folder, &mut all);
        for file in &all {
            let words = names(file);
            for rename in renames.iter().filter(|rename| words.iter().any(|word| word == rename.old)) {
                faults.push(format!("{}: {} is now {}", file.display(), rename.old, rename.new));
            }
        }
        for rename in renames.iter().filter(|rename| rename.old.contains('/')) {
            if folder.join(rename.old).exists() {
                faults.push(format!("{place}/{} is now {}", rename.old, rename.new));
            }
        }
    }
    assert!(faults.is_empty(), "{} former names:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn new_names_are_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for rename in renames().iter().filter(|rename| !rename.old.contains('/')) {
        let words = seen.entry(rename.place).or_insert_with(|| {
            let mut all = Vec::new();
            files(&root.join(rename.place), &mut all);
            all.iter().flat_map(|file| names(file)).collect()
        });
        let is_used = words.iter().any(|word| word == rename.new);
        assert!(
            is_used,
            "{}: {} was renamed to {}, which does not exist",
            rename.place, rename.old, rename.new
        );
    }
}
