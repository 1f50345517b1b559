//! Names that were given up stay away. `renames.tsv` has a triple a line: where, the old name, the new one. *Where* is a
//! file or folder; a name is an identifier, a key in quotation marks, or, with a slash in it, a path below *where*.
//!
//! Many old names are also ordinary English words, so comments do not count, and a triple names the place where its
//! word was a term.

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

/// The names in a file: identifiers of Rust code, with those in texts; of other files all words.
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
fn no_former_name_is_left() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut by_place: BTreeMap<&str, Vec<Rename<'_>>> = BTreeMap::new();
    for rename in renames() {
        by_place.entry(rename.place).or_default().push(rename);
    }
    let mut faults = Vec::new();
    for (place, renames) in &by_place {
        let folder = root.join(place);
        assert!(folder.exists(), "{place} is not there: correct renames.tsv");
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
fn each_new_name_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for rename in renames().iter().filter(|rename| !rename.old.contains('/')) {
        let words = seen.entry(rename.place).or_insert_with(|| {
            let mut all = Vec::new();
            files(&root.join(rename.place), &mut all);
            all.iter().flat_map(|file| names(file)).collect()
        });
        let is_used = words.iter().any(|word| word == rename.new);
        assert!(is_used, "{}: {} became {}, which is not there", rename.place, rename.old, rename.new);
    }
}
