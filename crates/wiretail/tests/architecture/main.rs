//! Tests the architecture of docs/ARCHITECTURE.md: dependencies between crates, crates that may use `unsafe`,
//! and what pure crates must not use.

mod modules;
mod names;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace. Each is listed with the crates that it may depend on, including build and
/// development dependencies. `wiretail`, the command-line program, depends on all of them.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wiretail-schema", &[]),
    ("wiretail-analysis", &["wiretail-schema"]),
    ("wiretail-capture", &["wiretail-schema"]),
    ("wiretail-report", &["wiretail-schema"]),
    ("wiretail-host", &["wiretail-schema"]),
    ("wiretail-dpdk-sys", &[]),
    ("wiretail-dataplane", &["wiretail-schema", "wiretail-capture", "wiretail-dpdk-sys"]),
];

/// The command line. No other crate may depend on it.
const COMMAND_LINE: &str = "wiretail";

/// Crates that call the kernel or C and need `unsafe`; all others forbid it.
const UNSAFE_ALLOWED: &[&str] = &["wiretail-dataplane", "wiretail-host", "wiretail-dpdk-sys"];

/// Interfaces for files, clocks, environment variables and threads, which the analysis must not use.
const IMPURE: &[&str] =
    &["std::fs", "std::env", "std::net", "std::thread", "std::process", "SystemTime", "Instant::now"];

#[derive(Debug)]
struct Package {
    name: String,
    manifest: PathBuf,
    dependencies: Vec<String>,
}

impl Package {
    fn sources(&self) -> PathBuf {
        self.manifest.with_file_name("src")
    }
}

/// Returns the packages of the workspace and its root, as Cargo reports them.
fn workspace() -> (Vec<Package>, PathBuf) {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let packages = metadata["packages"].as_array().expect("packages").iter().map(|package| Package {
        name: text(&package["name"]),
        manifest: PathBuf::from(text(&package["manifest_path"])),
        // The list includes normal, development and build dependencies, by their original names.
        dependencies: package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .map(|dependency| text(&dependency["name"]))
            .collect(),
    });
    (packages.collect(), PathBuf::from(text(&metadata["workspace_root"])))
}

/// Describes why `name` must not depend on `dependency`; both are crates of the workspace.
fn direction_fault(name: &str, dependency: &str) -> Option<String> {
    if name == COMMAND_LINE {
        return None;
    }
    match ALLOWED.iter().find(|(allowed, _)| *allowed == name) {
        None => Some(format!("{name} is not in this test's table; add the crates that it may use")),
        Some((_, may_use)) if may_use.contains(&dependency) => None,
        Some((_, may_use)) => Some(format!("{name} -> {dependency}; it may only use {may_use:?}")),
    }
}

#[test]
fn dependencies_have_allowed_direction() {
    let (packages, _) = workspace();
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    assert!(names.len() > 4, "cargo metadata lists only {names:?}");
    let mut faults = Vec::new();
    for package in &packages {
        if package.name != COMMAND_LINE && !ALLOWED.iter().any(|(name, _)| *name == package.name) {
            faults.push(format!("{} is not in this test's table", package.name));
        }
        for dependency in package.dependencies.iter().filter(|name| names.contains(&name.as_str())) {
            faults.extend(direction_fault(&package.name, dependency));
        }
    }
    assert!(faults.is_empty(), "dependencies against the architecture: {faults:#?}");
}

#[test]
fn detects_wrong_direction() {
    for (name, dependency) in [
        ("wiretail-report", "wiretail-analysis"),
        ("wiretail-analysis", "wiretail-capture"),
        ("wiretail-schema", "wiretail-analysis"),
        ("wiretail-capture", "wiretail-dataplane"),
        ("wiretail-host", "wiretail"),
        ("wiretail-new", "wiretail-schema"),
    ] {
        assert!(direction_fault(name, dependency).is_some(), "{name} -> {dependency} passes");
    }
    assert_eq!(direction_fault("wiretail-dataplane", "wiretail-capture"), None);
    assert_eq!(direction_fault("wiretail", "wiretail-report"), None);
}

#[test]
fn only_command_line_uses_anyhow() {
    let (packages, _) = workspace();
    for package in packages.iter().filter(|package| package.name != COMMAND_LINE) {
        let name = &package.name;
        assert!(!package.dependencies.iter().any(|dependency| dependency == "anyhow"), "{name} uses anyhow");
    }
}

/// Whether a table of a manifest has exactly this line.
fn has_line(manifest: &str, table: &str, line: &str) -> bool {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|candidate| *candidate != table)
        .skip(1)
        .take_while(|candidate| !candidate.starts_with('['))
        .any(|candidate| candidate == line)
}

#[test]
fn unsafe_is_forbidden_unless_needed() {
    let (packages, root) = workspace();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    assert!(has_line(&manifest, "[workspace.lints.rust]", "unsafe_code = \"forbid\""));
    for package in packages.iter().filter(|package| !UNSAFE_ALLOWED.contains(&package.name.as_str())) {
        let manifest = fs::read_to_string(&package.manifest).expect("a crate's manifest");
        assert!(
            has_line(&manifest, "[lints]", "workspace = true"),
            "{} does not inherit the workspace's lints, so nothing forbids unsafe code in it",
            package.manifest.display()
        );
    }
}

#[test]
fn finds_manifest_lines_in_their_table_only() {
    let manifest = "[package]\nworkspace = true\n\n[lints]\nworkspace = true\n[dependencies]\na = 1\n";
    assert!(has_line(manifest, "[lints]", "workspace = true"));
    assert!(!has_line(manifest, "[dependencies]", "workspace = true"));
    assert!(!has_line("[package]\nworkspace = true\n", "[lints]", "workspace = true"));
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source directory") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn analysis_uses_no_file_clock_or_environment() {
    let (packages, _) = workspace();
    let analysis = packages.iter().find(|package| package.name == "wiretail-analysis").expect("the crate");
    let mut files = Vec::new();
    rust_files(&analysis.sources(), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let source = fs::read_to_string(&file).expect("a source file");
        for (number, line) in source.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = IMPURE.iter().find(|word| code.contains(**word)) {
                panic!("{}:{}: {word} in a crate of pure functions", file.display(), number + 1);
            }
        }
    }
}

#[test]
fn modules_have_no_cycles() {
    let (packages, _) = workspace();
    let mut faults = Vec::new();
    for package in &packages {
        for circle in modules::Modules::read(&package.sources()).circles() {
            let lines: Vec<String> = circle
                .references
                .iter()
                .map(|(from, to, place)| format!("  {from} -> {to} ({place})"))
                .collect();
            faults.push(format!("{} {}\n{}", package.name, circle.level.join("::"), lines.join("\n")));
        }
    }
    assert!(faults.is_empty(), "cycles between modules:\n{}", faults.join("\n"));
}

/// Largest number of entries in a directory of sources or experiments, or in a crate's root. Longer lists are
/// hard to read.
const SIBLINGS_MAX: usize = 15;
/// Largest number of modules that a crate's root declares.
const ROOT_MODULES_MAX: usize = 12;

#[test]
fn folders_and_roots_stay_small() {
    let (packages, root) = workspace();
    let mut folders: Vec<PathBuf> = vec![root.join("experiments"), root.join("crates")];
    let mut faults = Vec::new();
    for package in &packages {
        folders.push(package.manifest.with_file_name(""));
        for name in ["lib.rs", "main.rs"] {
            let text = fs::read_to_string(package.sources().join(name)).unwrap_or_default();
            let modules = text
                .lines()
                .filter(|line| line.ends_with(';') && line.trim_start_matches("pub ").starts_with("mod "))
                .filter(|line| !line.contains("mod test_"));
            let count = modules.count();
            if count > ROOT_MODULES_MAX {
                faults.push(format!("{} {name}: {count} modules, at most {ROOT_MODULES_MAX}", package.name));
            }
        }
    }
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> =
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        if entries.len() > SIBLINGS_MAX {
            faults.push(format!("{}: {} entries, at most {SIBLINGS_MAX}", folder.display(), entries.len()));
        }
        let is_code = |path: &PathBuf| path.is_dir() && !path.ends_with("target") && !path.ends_with("hosts");
        folders.extend(entries.into_iter().filter(is_code));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
