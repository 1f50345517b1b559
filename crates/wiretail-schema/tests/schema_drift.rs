//! The JSON Schema of `summary.json` in `docs/formats/` is generated from the types, so that the
//! document and its description cannot drift apart.
//!
//! After a change of the types: `UPDATE_SCHEMA=1 cargo test -p wiretail-schema --test schema_drift`.
//! Where a reader of the old document would be misled, the number in `SUMMARY_SCHEMA` rises too.

use std::fs;
use std::path::{Path, PathBuf};

use wiretail_schema::summary::{SUMMARY_SCHEMA, Summary};

/// Writes the schema instead of comparing it.
const UPDATE: &str = "UPDATE_SCHEMA";

fn formats(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = formats("summary.schema.json");
    let schema = schemars::schema_for!(Summary);
    let generated = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &generated).expect("the schema can be written");
    }
    let committed = read(&path);
    // The first line that differs says more than two documents of a thousand lines.
    let mut lines = committed.lines().zip(generated.lines()).zip(1..);
    if let Some(((old, new), number)) = lines.find(|((old, new), _)| old != new) {
        panic!(
            "{}:{number}: has `{}`, the types give `{}`; write it anew with {UPDATE}=1",
            path.display(),
            old.trim(),
            new.trim()
        );
    }
    assert!(committed == generated, "{}: longer or shorter than generated; {UPDATE}=1", path.display());
}

#[test]
fn the_page_about_it_names_the_version_that_is_written() {
    let path = formats("summary.md");
    assert!(read(&path).contains(SUMMARY_SCHEMA), "{} does not name {SUMMARY_SCHEMA}", path.display());
}
