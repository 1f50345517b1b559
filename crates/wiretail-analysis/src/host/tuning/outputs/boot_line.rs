//! Plain list of the boot line words, for boot loaders other than GRUB and for virtual machines (`-append`).

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, words};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let text = words(plan).join(" ") + "\n";
    vec![Output::new(
        "boot-line.txt",
        text,
        "words for other boot loaders, or for -append of a virtual machine",
    )]
}
