//! Audit of a host: are the packet cores undisturbed, and are the requested settings in effect?
//!
//! ```text
//! HostRecord ─► View (parsed once) ─► each rule of rules::ALL ─► Finding
//! ```
//!
//! Each rule is a file in `rules/` and an entry in the table of rules. It consists of the files that it
//! reads, its judgement and its explanation. A rule sees only a [`View`]: requested settings (boot line,
//! configuration), settings in effect (sysfs, procfs), and counts of events between two readings. A file that
//! could not be read yields `Verdict::Unseen`, never `Verdict::Good`.

mod boot_line;
mod judgement;
pub mod rules;
mod view;

pub use boot_line::BootLine;
pub use judgement::Judgement;
pub use rules::{ALL, CONFIG_OPTIONS, REGISTERS, Rule, TWICE, files};
pub use view::{Task, View};

use wiretail_schema::host::audit::{AUDIT_SCHEMA, Audit, Finding, HostRole, Unreadable};
use wiretail_schema::host::record::{HostRecord, LATER, Reading};
use wiretail_schema::units::cores::CoreSet;

/// Options of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Packet cores, to be kept free of other work. If `None`, they are a container's own cores, the cores that
    /// the boot line isolates, or all cores but the first.
    pub cores: Option<CoreSet>,
    /// Role of the host. If `None`, it is detected from the record.
    pub role: Option<HostRole>,
}

/// Applies every rule to a recorded host. `version` is the version of Wiretail.
pub fn audit(record: &HostRecord, question: &Question, version: &str) -> Audit {
    let view = View::new(record, question);
    let findings = ALL.iter().map(|rule| finding(rule, &view)).collect();
    Audit {
        schema: AUDIT_SCHEMA.to_owned(),
        wiretail_version: version.to_owned(),
        kernel: view.text("/proc/sys/kernel/osrelease").map(str::to_owned),
        processor: view.processor_field("model name").map(str::to_owned),
        role: view.role(),
        cores: view.cores().to_string(),
        cores_from: view.cores_from().to_owned(),
        findings,
        unreadable: unreadable(record),
    }
}

/// Unreadable files. A file that is read twice is listed once.
fn unreadable(record: &HostRecord) -> Vec<Unreadable> {
    let each = record.readings.iter().filter(|(name, _)| !name.ends_with(LATER));
    let why = |(name, reading): (&String, &Reading)| match reading {
        Reading::Unreadable(why) => Some(Unreadable { name: name.clone(), why: why.clone() }),
        Reading::Text(_) => None,
    };
    each.filter_map(why).collect()
}

fn finding(rule: &Rule, view: &View<'_>) -> Finding {
    let Judgement { verdict, requested, effective, detail } = (rule.judge)(view);
    Finding {
        rule: rule.id.to_owned(),
        group: rule.group,
        title: rule.title.to_owned(),
        verdict,
        requested,
        effective,
        detail,
        why: rule.why.to_owned(),
        effect: rule.effect.map(str::to_owned),
        source: rule.source.to_owned(),
        mitigation: rule.mitigation.replace("{cores}", &view.cores().to_string()),
        cost: rule.cost.to_owned(),
    }
}
