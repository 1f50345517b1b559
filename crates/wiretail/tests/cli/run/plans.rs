//! Output of `--dry-run` and `check`, which run nothing.

use std::fs;

use super::bed::{Bed, experiment};
use crate::support::{fail, succeed};

#[test]
fn prints_plans_and_errors() {
    let text =
        experiment("kind = [\"wire\", \"bridge\", \"skeleton\"]", "rate = \"1 kpps\"", "duration = \"1 s\"");
    let bed = Bed::new(&text);
    let file = bed.path("test.toml").display().to_string();
    let plan = succeed(["run", &file, "--dry-run"]);
    assert!(plan.contains("3 trials") && plan.contains("add bridge"), "{plan}");
    assert!(fail(["run", &file]).contains("--allow-system-changes"));
    assert!(succeed(["check", &file]).contains("3 trials"));
    fs::write(&file, text.replace("kind", "kinds")).expect("the experiment");
    let message = fail(["check", &file]);
    assert!(
        message.contains("test.toml: line 4: unknown key dut.kinds; did you mean dut.kind?"),
        "{message}"
    );
}
