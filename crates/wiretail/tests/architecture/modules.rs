//! Dependencies between the modules of a crate, read from its sources.
//!
//! The dependencies between sibling modules must not have cycles, at any level of a crate's module tree. A
//! dependency of a module's descendant is a dependency of the module. A child may use items of its parent,
//! and a parent may use items of its children, because a directory and its `mod.rs` are treated as one
//! module.
//!
//! Sources are parsed as text. The parser finds paths that start with `crate`, `super` or `self`, in `use`
//! trees and in code. Re-exports (`pub use`) are followed to the module that defines the item. Tests inside a
//! file are ignored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// A path of names from the crate's root.
type Names = Vec<String>;

/// The modules of a crate, each with its code, without comments, literals and tests.
pub struct Modules {
    code: BTreeMap<Names, String>,
}

/// A cycle: its level, and one reference for each pair of siblings in it.
#[derive(Debug)]
pub struct Circle {
    /// Parent module of the siblings; empty for the crate's root.
    pub level: Names,
    /// Source, target, and the reference as `module: path`.
    pub references: Vec<(String, String, String)>,
}

impl Modules {
    /// Reads the sources in `src`.
    pub fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        super::rust_files(src, &mut files);
        let module = |file: &PathBuf| {
            let relative = file.strip_prefix(src).expect("below src").with_extension("");
            let mut names: Names =
                relative.iter().map(|part| part.to_str().expect("UTF-8").to_owned()).collect();
            if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                names.pop();
            }
            names
        };
        let is_test = |names: &Names| names.iter().any(|name| name == "tests" || name.starts_with("test_"));
        let read =
            |file: &PathBuf| without_tests(&without_text(&fs::read_to_string(file).expect("a source file")));
        let code = files.iter().map(|file| (module(file), file)).filter(|(names, _)| !is_test(names));
        Self { code: code.map(|(names, file)| (names, read(file))).collect() }
    }

    /// Creates modules from texts, for tests of this parser.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let names =
            |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let code = files.iter().map(|(path, text)| (names(path), without_tests(&without_text(text))));
        Self { code: code.collect() }
    }

    /// Returns all cycles, outermost first.
    pub fn circles(&self) -> Vec<Circle> {
        let reexports = self.reexports();
        // Level -> (from, to) -> one reference.
        let mut levels: BTreeMap<Names, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (module, code) in &self.code {
            for path in references(code, module) {
                let Some(target) = self.target(path.clone(), &reexports) else { continue };
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if common < module.len() && common < target.len() {
                    let pair = (module[common].clone(), target[common].clone());
                    let place = || format!("{}: {}", module.join("::"), path.join("::"));
                    levels.entry(module[..common].to_vec()).or_default().entry(pair).or_insert_with(place);
                }
            }
        }
        levels.into_iter().flat_map(|(level, edges)| circles_of(&level, &edges)).collect()
    }

    /// Returns the module of a path: the longest prefix that is a module, after re-exports.
    fn target(&self, mut path: Names, reexports: &HashMap<Names, Names>) -> Option<Names> {
        // Follows a re-export of a re-export, but does not follow a cycle of re-exports.
        for _ in 0..8 {
            let found = (1..=path.len()).rev().find(|len| reexports.contains_key(&path[..*len]));
            let Some(len) = found.filter(|len| !self.code.contains_key(&path[..*len])) else { break };
            path = reexports[&path[..len]].iter().chain(&path[len..]).cloned().collect();
        }
        (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|names| self.code.contains_key(names))
    }

    fn reexports(&self) -> HashMap<Names, Names> {
        let mut found = HashMap::new();
        for (module, code) in &self.code {
            for statement in code.split(';') {
                let Some((before, tree)) = statement.rsplit_once("use ") else { continue };
                let line = before.rsplit('\n').next().unwrap_or_default().trim();
                if !(line == "pub" || line.starts_with("pub(")) {
                    continue;
                }
                for path in tree_paths(tree) {
                    let Some(name) = path.last().cloned() else { continue };
                    let start = path.first().map(String::as_str);
                    let full = match start {
                        Some("crate" | "self" | "super") => absolute(&path, module),
                        // A child of this module.
                        _ => Some(module.iter().chain(&path).cloned().collect()),
                    };
                    if let Some(full) = full {
                        found.insert(module.iter().cloned().chain([name]).collect(), full);
                    }
                }
            }
        }
        found
    }
}

/// Finds strongly connected components with more than one member, by repeated reachability, because levels
/// are small.
fn circles_of(level: &Names, edges: &BTreeMap<(String, String), String>) -> Vec<Circle> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut left = vec![from.to_owned()];
        while let Some(at) = left.pop() {
            for (a, b) in edges.keys() {
                if *a == at && seen.insert(b.clone()) {
                    left.push(b.clone());
                }
            }
        }
        seen
    };
    let nodes: BTreeSet<&String> = edges.keys().flat_map(|(a, b)| [a, b]).collect();
    let reached: BTreeMap<&String, BTreeSet<String>> =
        nodes.iter().map(|node| (*node, reach(node))).collect();
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let mut circles = Vec::new();
    for node in &nodes {
        if done.contains(*node) || !reached[*node].contains(*node) {
            continue;
        }
        let members: BTreeSet<&String> =
            reached[*node].iter().filter_map(|other| nodes.get(other)).copied().collect();
        let members: BTreeSet<&String> =
            members.into_iter().filter(|other| reached[*other].contains(*node)).collect();
        done.extend(members.iter().copied());
        let inside = |(a, b): &(String, String)| members.contains(a) && members.contains(b);
        let references = edges.iter().filter(|(pair, _)| inside(pair));
        let references = references.map(|((a, b), place)| (a.clone(), b.clone(), place.clone())).collect();
        circles.push(Circle { level: level.clone(), references });
    }
    circles
}

/// Returns the paths within the crate that the code refers to, from the root.
fn references(code: &str, module: &Names) -> Vec<Names> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for word in ["crate", "super", "self"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            let rest = &code[at + word.len()..];
            let starts = !before.is_some_and(|c| is_name(c) || c == ':' || c == '.' || c == '$');
            if !starts || !rest.starts_with("::") {
                continue;
            }
            let tree = tree_text(&code[at..]);
            found.extend(tree_paths(tree).iter().filter_map(|path| absolute(path, module)));
        }
    }
    found
}

/// Returns the text of a path with its braces, at the start of `text`.
fn tree_text(text: &str) -> &str {
    let mut depth = 0;
    let mut after_colons = false;
    for (at, c) in text.char_indices() {
        match c {
            '{' if depth > 0 || after_colons => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return &text[..=at];
                }
            }
            _ if depth > 0 => {}
            c if c.is_alphanumeric() || c == '_' || c == ':' || c == '*' => {}
            _ => return &text[..at],
        }
        after_colons = c == ':';
    }
    text
}

/// Expands a `use` tree into paths: `a::{b, c::d}` gives a::b and a::c::d.
fn tree_paths(tree: &str) -> Vec<Names> {
    let names = |text: &str| -> Names {
        let text = text.trim().split(" as ").next().unwrap_or_default();
        text.split("::")
            .map(str::trim)
            .filter(|name| !name.is_empty() && *name != "*")
            .map(str::to_owned)
            .collect()
    };
    let Some((prefix, inner)) = tree.split_once('{') else { return vec![names(tree)] };
    let prefix = names(prefix);
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in inner.chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| tree_paths(part));
    let joined = parts
        .map(|part| prefix.iter().cloned().chain(part.into_iter().filter(|name| name != "self")).collect());
    joined.collect()
}

/// Resolves a path from the root; `None` if `super` leaves the crate.
fn absolute(path: &Names, module: &Names) -> Option<Names> {
    let mut base = module.clone();
    let mut rest = path.iter().peekable();
    match rest.peek().map(|name| name.as_str()) {
        Some("crate") => {
            base.clear();
            rest.next();
        }
        _ => {
            while let Some(name) = rest.next_if(|name| matches!(name.as_str(), "self" | "super")) {
                if name == "super" {
                    base.pop()?;
                }
            }
        }
    }
    Some(base.into_iter().chain(rest.cloned()).collect())
}

/// Removes comments from a source, and the content of strings and characters.
fn without_text(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(hashes) = raw_text(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = rest.find('"').expect("a raw string has one") + 1;
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if c == '"' {
            quoted(rest, '"').expect("a terminated string")
        } else if c == '\'' {
            // A character literal has a second quotation mark nearby, but a lifetime does not.
            quoted(rest, '\'')
                .filter(|len| rest[1..].starts_with('\\') || rest[..*len].chars().count() == 3)
                .unwrap_or(0)
        } else {
            0
        };
        let taken = if skipped == 0 { c.len_utf8() } else { skipped };
        if skipped == 0 {
            code.push(c);
        }
        rest = &rest[taken..];
    }
    code
}

/// Returns the number of `#` of a raw string that starts here.
fn raw_text(text: &str) -> Option<usize> {
    let after = text.strip_prefix("r").or_else(|| text.strip_prefix("br"))?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    (after[hashes..].starts_with('"') && (hashes > 0 || text.starts_with("r\""))).then_some(hashes)
}

/// Returns the length of a quoted string that starts here.
fn quoted(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Removes items that are only compiled for tests.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let (semicolon, brace) = (after.find(';'), after.find('{'));
        rest = match (semicolon, brace) {
            (Some(semicolon), brace) if brace.is_none_or(|brace| semicolon < brace) => {
                &after[semicolon + 1..]
            }
            (_, Some(brace)) => {
                let mut depth = 0;
                let end = after[brace..].char_indices().find(|(_, c)| {
                    depth += i32::from(*c == '{') - i32::from(*c == '}');
                    depth == 0
                });
                end.map_or("", |(at, _)| &after[brace + at + 1..])
            }
            _ => "",
        };
    }
    kept + rest
}

#[test]
fn finds_cycle_between_siblings() {
    let circles = Modules::of(&[
        ("", "mod a; mod b;"),
        ("a", "use crate::b::X;"),
        ("b", "pub struct X; fn f() { super::a::g(); }"),
    ])
    .circles();
    assert_eq!(circles.len(), 1, "{circles:?}");
    assert_eq!(circles[0].references.len(), 2);
}

#[test]
fn finds_cycle_between_directories_and_through_reexports() {
    let circles = Modules::of(&[
        ("", "mod a; mod b; pub use b::inner::Y;"),
        ("a", "mod deep;"),
        ("a::deep", "use crate::{Y, b::other::{self, Z}};"),
        ("b", ""),
        ("b::inner", "use crate::a::deep::w;"),
        ("b::other", ""),
    ])
    .circles();
    assert_eq!(circles.len(), 1, "{circles:?}");
    assert!(circles[0].level.is_empty());
}

#[test]
fn ignores_parents_tests_comments_and_strings() {
    let circles = Modules::of(&[
        ("", "mod a; mod b;"),
        ("a", "mod child; use self::child::f; use crate::b::X; // crate::b::Y\n const T: &str = \"{ crate::a\";"),
        ("a::child", "use super::Parent; use crate::a::Q;"),
        ("b", "const C: char = '{'; const D: &str = r#\"crate::a\"#; /* crate::a::x */ #[cfg(test)] mod tests { use crate::a::X; }"),
    ])
    .circles();
    assert!(circles.is_empty(), "{circles:?}");
}
