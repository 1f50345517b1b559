//! Checks that the JSON Schemas in `docs/formats/` and the table of keys in `docs/experiments.md` match the
//! types and the table of keys that they are generated from.
//!
//! To regenerate them: `UPDATE_EXPECTED=1 cargo test -p wiretail-schema --test schema_drift`. If a reader of
//! the old document would misread the new one, also increase the number in `SUMMARY_SCHEMA` or `RUN_SCHEMA`.

use std::fs;
use std::path::{Path, PathBuf};

use wiretail_schema::causes::capture::{CAPTURE_EXPLANATION_SCHEMA, CaptureExplanation};
use wiretail_schema::causes::{EXPLANATION_SCHEMA, RUN_EXPLANATION_SCHEMA, TrialExplanation};
use wiretail_schema::comparison::Comparison;
use wiretail_schema::experiment::{json_schema, key_table};
use wiretail_schema::host::ablation::{ABLATION_SCHEMA, Ablation};
use wiretail_schema::host::audit::{AUDIT_SCHEMA, Audit};
use wiretail_schema::host::noise::{NOISE_SCHEMA, Noise};
use wiretail_schema::host::plan::{PLAN_SCHEMA, TuningPlan};
use wiretail_schema::host::recommendation::{RECOMMEND_SCHEMA, Recommendations};
use wiretail_schema::prediction::capacity::CapacityModel;
use wiretail_schema::prediction::queueing::calibration::QUEUEING_MODEL_SCHEMA;
use wiretail_schema::prediction::queueing::{QUEUEING_SCHEMA, QueueingPrediction};
use wiretail_schema::prediction::sampling::InterruptSampling;
use wiretail_schema::prediction::tail::{TAIL_SCHEMA, TailPrediction};
use wiretail_schema::run::{RUN_SCHEMA, Run};
use wiretail_schema::search::{SEARCH_SCHEMA, Searches};
use wiretail_schema::summary::{SUMMARY_SCHEMA, Summary};

/// If this environment variable is set, the tests write the generated files instead of comparing them.
const UPDATE: &str = "UPDATE_EXPECTED";

/// Lines of `docs/experiments.md` that enclose the table of keys.
const TABLE_BEGINS: &str =
    "<!-- Generated from KEYS: UPDATE_EXPECTED=1 cargo test -p wiretail-schema --test schema_drift -->\n";
const TABLE_ENDS: &str = "<!-- End of what is generated. -->\n";

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares a file with its generated content, or writes the content to the file.
fn compare(path: &Path, generated: &str) {
    if std::env::var_os(UPDATE).is_some() {
        fs::write(path, generated).expect("the file can be written");
    }
    let committed = read(path);
    // Report the first differing line, because the documents have a thousand lines.
    let mut lines = committed.lines().zip(generated.lines()).zip(1..);
    if let Some(((old, new), number)) = lines.find(|((old, new), _)| old != new) {
        panic!(
            "{}:{number}: the file has `{}`, but the types produce `{}`; regenerate it with {UPDATE}=1",
            path.display(),
            old.trim(),
            new.trim()
        );
    }
    assert!(
        committed == generated,
        "{}: the length differs from the generated text; regenerate it with {UPDATE}=1",
        path.display()
    );
}

fn pretty(schema: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n"
}

#[test]
fn summary_schema_is_current() {
    compare(&docs("formats/summary.schema.json"), &pretty(&schemars::schema_for!(Summary)));
}

#[test]
fn audit_schema_is_current() {
    compare(&docs("formats/audit.schema.json"), &pretty(&schemars::schema_for!(Audit)));
    assert_eq!(AUDIT_SCHEMA, "wiretail.audit/1");
}

#[test]
fn comparison_schema_is_current() {
    compare(&docs("formats/comparison.schema.json"), &pretty(&schemars::schema_for!(Comparison)));
}

#[test]
fn ablation_schema_is_current() {
    compare(&docs("formats/ablation.schema.json"), &pretty(&schemars::schema_for!(Ablation)));
}

#[test]
fn plan_schema_is_current() {
    compare(&docs("formats/plan.schema.json"), &pretty(&schemars::schema_for!(TuningPlan)));
}

#[test]
fn recommendation_schema_is_current() {
    compare(&docs("formats/recommend.schema.json"), &pretty(&schemars::schema_for!(Recommendations)));
}

#[test]
fn noise_schema_is_current() {
    compare(&docs("formats/noise.schema.json"), &pretty(&schemars::schema_for!(Noise)));
    assert_eq!(NOISE_SCHEMA, "wiretail.noise/1");
}

#[test]
fn capture_explanation_schema_is_current() {
    compare(
        &docs("formats/capture-explanation.schema.json"),
        &pretty(&schemars::schema_for!(CaptureExplanation)),
    );
    assert_eq!(CAPTURE_EXPLANATION_SCHEMA, "wiretail.capture-explanation/1");
}

#[test]
fn explanation_schema_is_current() {
    compare(&docs("formats/explanation.schema.json"), &pretty(&schemars::schema_for!(TrialExplanation)));
}

#[test]
fn tail_schema_is_current() {
    compare(&docs("formats/tail.schema.json"), &pretty(&schemars::schema_for!(TailPrediction)));
    assert_eq!(TAIL_SCHEMA, "wiretail.tail/1");
}

#[test]
fn prediction_schemas_are_current() {
    compare(&docs("formats/capacity.schema.json"), &pretty(&schemars::schema_for!(CapacityModel)));
    compare(&docs("formats/sampling.schema.json"), &pretty(&schemars::schema_for!(InterruptSampling)));
    compare(&docs("formats/queueing.schema.json"), &pretty(&schemars::schema_for!(QueueingPrediction)));
}

#[test]
fn run_schema_is_current() {
    compare(&docs("formats/run.schema.json"), &pretty(&schemars::schema_for!(Run)));
}

#[test]
fn search_schema_is_current() {
    compare(&docs("formats/search.schema.json"), &pretty(&schemars::schema_for!(Searches)));
}

#[test]
fn experiment_schema_is_current() {
    compare(&docs("formats/experiment.schema.json"), &pretty(&json_schema()));
}

#[test]
fn key_table_is_current() {
    let path = docs("experiments.md");
    let page = read(&path);
    let missing = |marker| format!("{} has no line {marker}", path.display());
    let (head, rest) = page.split_once(TABLE_BEGINS).unwrap_or_else(|| panic!("{}", missing(TABLE_BEGINS)));
    let (_, tail) = rest.split_once(TABLE_ENDS).unwrap_or_else(|| panic!("{}", missing(TABLE_ENDS)));
    compare(&path, &format!("{head}{TABLE_BEGINS}\n{}\n{TABLE_ENDS}{tail}", key_table()));
}

#[test]
fn pages_state_current_schema_versions() {
    for (page, version) in [
        ("formats/summary.md", SUMMARY_SCHEMA),
        ("formats/run.md", RUN_SCHEMA),
        ("formats/explanation.md", EXPLANATION_SCHEMA),
        ("formats/explanation.md", RUN_EXPLANATION_SCHEMA),
        ("formats/queueing.md", QUEUEING_SCHEMA),
        ("formats/search.md", SEARCH_SCHEMA),
        ("formats/plan.md", PLAN_SCHEMA),
        ("formats/recommend.md", RECOMMEND_SCHEMA),
        ("formats/ablation.md", ABLATION_SCHEMA),
        ("formats/queueing.md", QUEUEING_MODEL_SCHEMA),
    ] {
        let path = docs(page);
        assert!(read(&path).contains(version), "{} does not name {version}", path.display());
    }
}
