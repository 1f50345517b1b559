//! `wiretail host recommend` with run directories and recorded hosts.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wiretail_schema::host::recommendation::{Advice, Deployment, Recommendations, Stand};

use crate::run::bed::{self, Bed};
use crate::support::{fail, folder, succeed};

const OPTIMIZED: &str = include_str!("../../../../wiretail-analysis/tests/hosts/optimized.txt");

/// Writes the record of a host with a NIC and nothing to change; returns its path.
fn host(folder: &Path) -> String {
    let path = folder.join("host.txt");
    fs::write(&path, OPTIMIZED).expect("written");
    path.display().to_string()
}

fn stand(found: &Recommendations, kind: Advice) -> Stand {
    found.recommendations.iter().find(|one| one.kind == kind).expect("all five").stand
}

#[test]
fn most_recommendations_lack_evidence_without_runs() {
    let folder = folder();
    let host = host(folder.path());
    let shown = succeed(["host", "recommend", "--from", &host]);
    assert!(
        shown.contains("no run was given") && shown.contains("no evidence yet  spare capacity"),
        "{shown}"
    );
    assert!(shown.contains("already so       NIC"), "{shown}");
    assert!(
        shown.contains(
            "                    sudo wiretail search experiments/search/ndr-pdr.toml --allow-system-changes\n"
        ),
        "{shown}"
    );
    assert!(!shown.contains("source: "), "{shown}");
    let all = succeed(["host", "recommend", "--from", &host, "--all"]);
    assert!(all.contains("source: Gallenmueller"), "{all}");
    let json =
        succeed(["host", "recommend", "--from", &host, "--cores", "2-3", "--role", "vm-host", "--json"]);
    let found: Recommendations = serde_json::from_str(&json).expect("the document");
    assert_eq!((found.schema.as_str(), found.host.cores.as_str()), ("wiretail.recommend/1", "2-3"));
    assert_eq!(found.recommendations.len(), 5);
    let page = folder.path().join("page.html");
    succeed(["host", "recommend", "--from", &host, "--out", &page.display().to_string()]);
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("NO EVIDENCE YET") && page.contains("wiretail.recommend/1"), "{page}");
}

#[test]
fn recommended_commands_use_existing_experiments() {
    let folder = folder();
    let found: Value =
        serde_json::from_str(&succeed(["host", "recommend", "--from", &host(folder.path()), "--json"]))
            .expect("JSON");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = found.to_string();
    let mut named = 0;
    for word in text.split([' ', '"']).filter(|word| word.starts_with("experiments/")) {
        assert!(root.join(word).is_file(), "{word}");
        named += 1;
    }
    assert!(named > 4, "{text}");
}

#[test]
fn rejects_directories_without_run() {
    let folder = folder();
    let host = host(folder.path());
    let message = fail(["host", "recommend", "/no/run", "--from", &host]);
    assert!(
        message.contains("/no/run: is not a directory; expected a directory of `wiretail run`"),
        "{message}"
    );
    let empty = folder.path().display().to_string();
    let message = fail(["host", "recommend", &empty, "--from", &host]);
    assert!(
        message.contains(&format!("{empty}: is not a run")) && message.contains("experiment.resolved.toml"),
        "{message}"
    );
    fs::write(folder.path().join("experiment.resolved.toml"), "nonsense").expect("written");
    let message = fail(["host", "recommend", &empty, "--from", &host]);
    assert!(message.contains("line 1"), "{message}");
    assert!(fail(["host", "recommend", "--from", "/no/host"]).contains("/no/host"));
}

#[test]
fn own_run_is_evidence() {
    let Some(_turn) = bed::live() else { return };
    let bed = Bed::new(&bed::experiment(
        "kind = [\"bridge\", \"skeleton\"]\nwait = \"block\"",
        "rate = \"2 kpps\"",
        "duration = \"500 ms\"",
    ));
    bed.run().with_code(0);
    let folder = folder();
    let (host, run) = (host(folder.path()), bed.out().display().to_string());
    let json = succeed(["host", "recommend", &run, "--from", &host, "--json"]);
    let found: Recommendations = serde_json::from_str(&json).expect("the document");
    assert_eq!((found.runs[0].trials, found.runs[0].valid), (2, 2), "{:?}", found.runs);
    assert_eq!(stand(&found, Advice::HardwareTimestamps), Stand::Follow);
    assert_eq!(stand(&found, Advice::Virtualisation), Stand::NoEvidenceYet);
    // The note reports that the run was made on a different host from the audited one.
    assert_eq!(found.notes.len(), 1);
    let row = found.matrix.rows.iter().find(|row| row.deployment == Deployment::Bare).expect("bare");
    let loads: Vec<&str> = row.latency.iter().map(|load| load.load.as_str()).collect();
    assert_eq!(row.trials, 2, "{row:?}");
    assert!(loads.contains(&"skeleton, 2 kpps") && loads.contains(&"bridge, 2 kpps"), "{loads:?}");
    // A few thousand packets are not enough for p99.9, so the percentile is marked.
    let first = &row.latency[0].delays[0];
    let record = bed.trials().into_iter().find(|record| record["number"] == first.trials[0].trials[0]);
    let count = bed.summary(&record.expect("its trial"), 0)["delay"]["count"].as_u64();
    assert_eq!((first.percentile, first.supported, Some(first.packets)), (99.9, false, count));
    let shown = succeed(["host", "recommend", &run, "--from", &host]);
    assert!(shown.contains("2 trials have software timestamps") && shown.contains("? ["), "{shown}");
    assert!(shown.contains("skeleton sleeps until the kernel wakes it"), "{shown}");
}
