//! Output files and exit codes of the commands.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

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

fn result(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
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

/// Results of `count` synthetic trials, with the seeds from `first` on.
fn results(folder: &Path, first: usize, count: usize, options: &[&str]) -> Vec<PathBuf> {
    (first..first + count)
        .map(|seed| {
            let seed = seed.to_string();
            let all = [&["--packets", "5k", "--seed", &seed][..], options].concat();
            result(folder, &seed, &all)
        })
        .collect()
}

/// Arguments of `compare` for two groups.
fn against(a: &[PathBuf], b: &[PathBuf], options: &[&str]) -> Vec<OsString> {
    let paths =
        |paths: &[PathBuf]| paths.iter().map(|path| path.clone().into_os_string()).collect::<Vec<_>>();
    [
        vec!["compare".into()],
        paths(a),
        vec!["--against".into()],
        paths(b),
        options.iter().map(OsString::from).collect(),
    ]
    .concat()
}

#[test]
fn compare_finds_degradation_of_a_group() {
    let folder = folder();
    let base = results(folder.path(), 100, 6, &[]);
    let same = results(folder.path(), 200, 6, &[]);
    let worse = results(folder.path(), 300, 6, &["--base", "4us"]);
    let page = folder.path().join("comparison.html");
    let page_name = page.to_str().unwrap();
    let table = succeed(against(&base, &worse, &["--out", page_name]));
    assert!(table.contains("WORSE") && table.contains("FAIL"), "{table}");
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"));
    let check = |other: &[PathBuf], tolerance: &str| {
        wiretail(against(&base, other, &["--check", "--tolerance", tolerance])).status.code()
    };
    assert_eq!(check(&worse, "5%"), Some(1));
    assert_eq!(check(&same, "90%"), Some(0));
    assert_eq!(wiretail(against(&base[..3], &same[..3], &["--check"])).status.code(), Some(3));
    let document: serde_json::Value =
        serde_json::from_str(&succeed(against(&base, &worse, &["--json"]))).unwrap();
    let statistics = document["pairs"][0]["statistics"].as_array().unwrap();
    let median = statistics.iter().find(|row| row["statistic"] == "p50").expect("p50");
    let (baseline, change) =
        (median["baseline"]["median"].as_f64().unwrap(), median["change"].as_f64().unwrap());
    assert!((baseline * change - 1000.0).abs() < 100.0, "{median}");
    assert_eq!(median["answer"]["answer"], "worse");
    let few = succeed(against(&base[..3], &worse[..3], &[]));
    assert!(few.contains("UNDECIDED: needs"), "{few}");
}

#[test]
fn compare_of_single_trials_decides_nothing() {
    let folder = folder();
    let base = result(folder.path(), "base", &["--packets", "5k", "--seed", "1"]);
    let worse = result(folder.path(), "worse", &["--packets", "5k", "--seed", "3", "--base", "40us"]);
    let table = succeed(["compare".as_ref(), base.as_os_str(), worse.as_os_str()]);
    assert!(table.contains("single trial") && !table.contains("WORSE"), "{table}");
    let checked = wiretail(["compare".as_ref(), base.as_os_str(), worse.as_os_str(), "--check".as_ref()]);
    assert_eq!(checked.status.code(), Some(3));
    let other = folder.path().join("other.json");
    fs::write(&other, "<html>").unwrap();
    let message = fail(["compare".as_ref(), base.as_os_str(), other.as_os_str()]);
    assert!(message.contains("other.json: is not JSON"), "{message}");
    let message = fail(["compare".as_ref(), base.as_os_str()]);
    assert!(message.contains("one result cannot be compared"), "{message}");
    let fast = result(folder.path(), "fast", &["--packets", "5k", "--rate", "50kpps"]);
    let message = fail(["compare".as_ref(), base.as_os_str(), fast.as_os_str()]);
    assert!(message.contains("different loads"), "{message}");
}

#[test]
fn reports_full_disk_and_wrong_options() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "1000"]);
    let arguments = |options: &[&str]| -> Vec<OsString> {
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
