//! The whole way from captures to numbers: what `synth` plants, `analyze` must report, count for count.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

/// Standard output of the program, as JSON.
fn wiretail(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_wiretail")).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder below the build's");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure to remove it is no reason to fail: the folder lies below the build's.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn everything_planted_is_reported() {
    let folder = Folder::new("planted");
    let (pre, post) = (folder.file("pre.pcap"), folder.file("post.pcap"));
    let plain = ["--packets", "50k", "--rate", "1Mpps", "--flows", "5"];
    let plant =
        ["--loss", "0.01", "--duplicate-pre", "0.002", "--duplicate-post", "0.003", "--reorder", "0.004"];
    for planted in [&[][..], &plant] {
        let truth = wiretail(&[&["synth", &pre, &post][..], &plain, planted].concat());
        let summary = wiretail(&["analyze", "--json", &pre, &post]);
        let matching = &summary["matching"];
        let reported = json!({
            "packets": summary["loss"]["sent"],
            "pre_records": summary["pre"]["packets"],
            "post_records": summary["post"]["packets"],
            "arrived": matching["matched"],
            "lost": matching["lost"],
            "longest_loss_run": summary["loss"]["longest_run"],
            "duplicates_pre": matching["duplicates_pre"],
            "duplicates_post": matching["duplicates_post"],
            "reordered": summary["reordering"]["reordered"],
            "delay_ns_min": summary["delay"]["min_ns"],
            "delay_ns_max": summary["delay"]["max_ns"],
        });
        for (name, value) in reported.as_object().expect("an object") {
            assert_eq!(value, &truth[name], "{name}: reported, planted {planted:?}");
        }
        let mean_ns =
            truth["delay_ns_sum"].as_f64().expect("a sum") / truth["arrived"].as_f64().expect("a count");
        let reported_ns = summary["delay"]["mean_ns"].as_f64().expect("a mean");
        assert!((mean_ns - reported_ns).abs() < 1e-6 * mean_ns, "mean {reported_ns}, planted {mean_ns}");
        for name in ["extra", "negative", "out_of_window", "reused", "evicted"] {
            assert_eq!(matching[name], 0, "{name}, of which nothing was planted");
        }
    }
}
