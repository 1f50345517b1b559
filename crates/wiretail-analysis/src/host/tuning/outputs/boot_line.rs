//! The words alone, for boot loaders other than GRUB and for virtual machines (`-append`).

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, words};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let text = words(plan).join(" ") + "\n";
    vec![Output::new("boot-line.txt", text, "the words for any other boot loader, or a machine's -append")]
}
