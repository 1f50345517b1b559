//! Output files and exit codes of the commands.

use std::fs;
use std::path::Path;

use crate::support::{fail, folder, succeed, synth, wiretail};

#[test]
fn writes_directory_of_results() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "20k", "--loss", "0.001", "--flows", "3"]);
    let out = folder.path().join("new/result");
    let printed =
        succeed(["analyze".as_ref(), pre.as_os_str(), post.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    assert!(printed.contains("report.html") && printed.contains("p99.9"), "{printed}");
    let json = succeed(["analyze".as_ref(), pre.as_os_str(), post.as_os_str(), "--json".as_ref()]);
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).expect("JSON");
    assert_eq!(summary, serde_json::from_str::<serde_json::Value>(&json).unwrap());
    for figure in ["percentiles", "worst", "cdf", "histogram", "interval-max", "gaps", "rates"] {
        let csv = fs::read_to_string(out.join(format!("figures/{figure}.csv"))).expect(figure);
        assert!(csv.lines().count() > 1, "{figure}");
    }
    let hgrm = fs::read_to_string(out.join("percentiles.hgrm")).unwrap();
    let max_us = summary["delay"]["max_ns"].as_f64().unwrap() / 1000.0;
    assert!(hgrm.contains(&format!("#[Max     = {max_us:>12.3}")), "{hgrm}");
    assert!(fs::read(out.join("samples.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().ends_with("</html>\n"));
}

#[test]
fn exit_code_reports_verdict() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "5000", "--stall-share", "0"]);
    let code = |budget: &str| {
        let arguments =
            ["analyze".as_ref(), pre.as_os_str(), post.as_os_str(), "--check".as_ref(), "--budget".as_ref()];
        wiretail(arguments.into_iter().chain([budget.as_ref()])).status.code()
    };
    assert_eq!(code("1ms@99%"), Some(0));
    assert_eq!(code("1us@99%"), Some(1));
    assert_eq!(code("1ms@99.999%"), Some(3));
    assert_eq!(code("1ms"), Some(2));
}

fn result(folder: &Path, name: &str, options: &[&str]) -> std::path::PathBuf {
    let captures = folder.join(format!("{name}-captures"));
    fs::create_dir(&captures).unwrap();
    let (pre, post, _) = synth(&captures, options);
    let out = folder.join(name);
    succeed([
        "analyze".as_ref(),
        pre.as_os_str(),
        post.as_os_str(),
        "-q".as_ref(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    out
}

#[test]
fn compare_finds_degradation() {
    let folder = folder();
    let base = result(folder.path(), "base", &["--packets", "20k", "--seed", "1"]);
    let same = result(folder.path(), "same", &["--packets", "20k", "--seed", "2"]);
    let worse = result(folder.path(), "worse", &["--packets", "20k", "--seed", "3", "--base", "4us"]);
    let page = folder.path().join("comparison.html");
    let table = succeed([
        "compare".as_ref(),
        base.as_os_str(),
        worse.as_os_str(),
        "--out".as_ref(),
        page.as_os_str(),
    ]);
    assert!(table.contains("WORSE") && fs::read_to_string(&page).unwrap().contains("<svg"), "{table}");
    let check = |other: &Path, tolerance: &str| {
        let arguments = ["compare".as_ref(), base.as_os_str(), other.as_os_str(), "--check".as_ref()];
        wiretail(arguments.into_iter().chain(["--tolerance".as_ref(), tolerance.as_ref()])).status.code()
    };
    assert_eq!(check(&same, "5%"), Some(0));
    assert_eq!(check(&worse, "5%"), Some(1));
    assert_eq!(check(&worse, "50%"), Some(0));
    let json = succeed(["compare".as_ref(), base.as_os_str(), worse.as_os_str(), "--json".as_ref()]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let median = document["rows"].as_array().unwrap().iter().find(|row| row["name"] == "p50").expect("p50");
    assert!((median["cells"][1]["difference"].as_f64().unwrap() - 1000.0).abs() < 100.0);
    assert_eq!(median["cells"][1]["change"], "worse");
    let message = fail(["compare".as_ref(), base.as_os_str(), page.as_os_str()]);
    assert!(message.contains("comparison.html: is not JSON"), "{message}");
}

#[test]
fn reports_full_disk_and_wrong_options() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "1000"]);
    let arguments = |options: &[&str]| -> Vec<std::ffi::OsString> {
        let fixed = ["analyze".as_ref(), pre.as_os_str(), post.as_os_str()].map(ToOwned::to_owned);
        fixed.into_iter().chain(options.iter().map(Into::into)).collect()
    };
    for (options, expected) in [
        (&["--out", "/proc/wiretail"][..], "/proc/wiretail"),
        (&["--key", "nonsense"], "nonsense"),
        (&["--key", "auto", "--zero-checksums"], "--key bytes"),
        (&["--window", "5"], "350us"),
        (&["--window", "0s"], "--window"),
    ] {
        let message = fail(arguments(options));
        assert!(message.contains(expected), "{message}");
    }
    let message = fail(["analyze", "-", "-"]);
    assert!(message.contains("standard input is one capture"), "{message}");
}

#[test]
fn prints_completions_and_manual() {
    let folder = folder();
    assert!(succeed(["completions", "bash"]).contains("_wiretail"));
    let pages = folder.path().join("man");
    succeed(["man".as_ref(), pages.as_os_str()]);
    let page = fs::read_to_string(pages.join("wiretail-analyze.1")).expect("a manual page");
    assert!(page.contains("moonsniff"));
}
