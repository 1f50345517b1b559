//! The JSON Schemas in `docs/formats/` and the table of keys in `docs/experiments.md` are generated from the
//! types and from the table of keys, so that the documents and their descriptions cannot drift apart.
//!
//! After a change: `UPDATE_SCHEMA=1 cargo test -p wiretail-schema --test schema_drift`.
//! Where a reader of the old document would be misled, the number in `SUMMARY_SCHEMA` or `RUN_SCHEMA` rises too.

use std::fs;
use std::path::{Path, PathBuf};

use wiretail_schema::causes::capture::{CAPTURE_EXPLANATION_SCHEMA, CaptureExplanation};
use wiretail_schema::causes::{EXPLANATION_SCHEMA, RUN_EXPLANATION_SCHEMA, TrialExplanation};
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

/// Writes what is generated instead of comparing it.
const UPDATE: &str = "UPDATE_SCHEMA";

/// Lines of `docs/experiments.md` between which the table of keys stands.
const TABLE_BEGINS: &str =
    "<!-- Generated from KEYS: UPDATE_SCHEMA=1 cargo test -p wiretail-schema --test schema_drift -->\n";
const TABLE_ENDS: &str = "<!-- End of what is generated. -->\n";

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares a file with what it should hold, or makes it hold that.
fn compare(path: &Path, generated: &str) {
    if std::env::var_os(UPDATE).is_some() {
        fs::write(path, generated).expect("the file can be written");
    }
    let committed = read(path);
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

fn pretty(schema: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n"
}

#[test]
fn the_schema_of_summaries_is_that_of_the_types() {
    compare(&docs("formats/summary.schema.json"), &pretty(&schemars::schema_for!(Summary)));
}

#[test]
fn the_schema_of_audits_is_that_of_the_types() {
    compare(&docs("formats/audit.schema.json"), &pretty(&schemars::schema_for!(Audit)));
    assert_eq!(AUDIT_SCHEMA, "wiretail.audit/1");
}

#[test]
fn the_schema_of_ablations_is_that_of_the_types() {
    compare(&docs("formats/ablation.schema.json"), &pretty(&schemars::schema_for!(Ablation)));
}

#[test]
fn the_schema_of_plans_is_that_of_the_types() {
    compare(&docs("formats/plan.schema.json"), &pretty(&schemars::schema_for!(TuningPlan)));
}

#[test]
fn the_schema_of_recommendations_is_that_of_the_types() {
    compare(&docs("formats/recommend.schema.json"), &pretty(&schemars::schema_for!(Recommendations)));
}

#[test]
fn the_schema_of_noise_is_that_of_the_types() {
    compare(&docs("formats/noise.schema.json"), &pretty(&schemars::schema_for!(Noise)));
    assert_eq!(NOISE_SCHEMA, "wiretail.noise/1");
}

#[test]
fn the_schema_of_explanations_is_that_of_the_types() {
    compare(
        &docs("formats/capture-explanation.schema.json"),
        &pretty(&schemars::schema_for!(CaptureExplanation)),
    );
    assert_eq!(CAPTURE_EXPLANATION_SCHEMA, "wiretail.capture-explanation/1");
}

#[test]
fn the_schema_of_causes_is_that_of_the_types() {
    compare(&docs("formats/explanation.schema.json"), &pretty(&schemars::schema_for!(TrialExplanation)));
}

#[test]
fn the_schema_of_tails_is_that_of_the_types() {
    compare(&docs("formats/tail.schema.json"), &pretty(&schemars::schema_for!(TailPrediction)));
    assert_eq!(TAIL_SCHEMA, "wiretail.tail/1");
}

#[test]
fn the_schemas_of_predictions_are_those_of_the_types() {
    compare(&docs("formats/capacity.schema.json"), &pretty(&schemars::schema_for!(CapacityModel)));
    compare(&docs("formats/sampling.schema.json"), &pretty(&schemars::schema_for!(InterruptSampling)));
    compare(&docs("formats/queueing.schema.json"), &pretty(&schemars::schema_for!(QueueingPrediction)));
}

#[test]
fn the_schema_of_manifests_is_that_of_the_types() {
    compare(&docs("formats/run.schema.json"), &pretty(&schemars::schema_for!(Run)));
}

#[test]
fn the_schema_of_searches_is_that_of_the_types() {
    compare(&docs("formats/search.schema.json"), &pretty(&schemars::schema_for!(Searches)));
}

#[test]
fn the_schema_of_experiments_is_that_of_the_keys() {
    compare(&docs("formats/experiment.schema.json"), &pretty(&json_schema()));
}

#[test]
fn the_table_of_keys_is_that_of_the_parser() {
    let path = docs("experiments.md");
    let page = read(&path);
    let missing = |marker| format!("{} has no line {marker}", path.display());
    let (head, rest) = page.split_once(TABLE_BEGINS).unwrap_or_else(|| panic!("{}", missing(TABLE_BEGINS)));
    let (_, tail) = rest.split_once(TABLE_ENDS).unwrap_or_else(|| panic!("{}", missing(TABLE_ENDS)));
    compare(&path, &format!("{head}{TABLE_BEGINS}\n{}\n{TABLE_ENDS}{tail}", key_table()));
}

#[test]
fn the_pages_name_the_versions_that_are_written() {
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
