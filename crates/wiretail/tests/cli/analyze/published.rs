//! Compares `--csv-compat` with the output of the published pipeline for the published captures.

use crate::support::{folder, shared_captures, succeed};

const TABLES: [&str; 9] = [
    "hist.csv",
    "worst.csv",
    "percentiles.csv",
    "transferrate.csv",
    "stats.csv",
    "packetratepre.csv",
    "packetratepost.csv",
    "jitterpre.csv",
    "jitterpost.csv",
];

fn check(pair: &str) {
    let Some(captures) = shared_captures() else { return };
    let folder = folder();
    let pair = captures.join(pair);
    for trim in [0, 1000] {
        let prefix = folder.path().join(format!("trim{trim}-"));
        let trim_option = format!("{trim}ms");
        succeed([
            "analyze".as_ref(),
            pair.join("pre.pcap.zst").as_os_str(),
            pair.join("post.pcap.zst").as_os_str(),
            "--quiet".as_ref(),
            "--csv-compat".as_ref(),
            prefix.as_os_str(),
            "--trim".as_ref(),
            trim_option.as_ref(),
            "--bucket".as_ref(),
            "100ns".as_ref(),
            "--worst".as_ref(),
            "5000".as_ref(),
        ]);
        for table in TABLES {
            let ours = std::fs::read(format!("{}{table}", prefix.display())).expect("a table");
            let theirs =
                std::fs::read(pair.join(format!("expected/trim{trim}/{table}"))).expect("an expected table");
            assert!(ours == theirs, "{} trim {trim} {table} differs", pair.display());
        }
    }
}

#[test]
fn matches_published_dpdk_l2fwd() {
    check("dpdk-l2fwd-nohz-hw");
}

#[test]
fn matches_published_snort_forwarding() {
    check("snort-fwd-nohz-vm");
}

#[test]
fn matches_published_snort_with_shootdowns() {
    check("snort-filter-nohz-tlbshootdown-vm");
}

#[test]
fn matches_published_mutated() {
    check("mutated");
}
