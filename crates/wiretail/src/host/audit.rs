//! `wiretail host audit`: checks this or a recorded host against the rules.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use wiretail_analysis::host::audit::audit;
use wiretail_analysis::host::tuning::files;
use wiretail_schema::host::audit::{Audit, Finding, Verdict};

use crate::analyze::outputs;
use crate::cli::host::AuditArgs;

use super::read::{asked, recorded};
use super::text::wrapped;
use crate::run::testbed::profile::read;

/// Runs `wiretail host audit`.
///
/// # Errors
/// Returns an error if a record can't be read or written.
pub fn run(arguments: &AuditArgs) -> Result<ExitCode> {
    // Includes the files that a plan needs, so that a plan can be made from a saved record.
    let record = match &arguments.from {
        Some(path) => recorded(path, &files())?,
        None => read(Path::new("/"), &files(), Duration::from_nanos(arguments.watch.ns.max(0) as u64)),
    };
    if let Some(path) = &arguments.save {
        outputs::write_file(path, record.to_string().as_bytes())?;
    }
    let question = asked(&arguments.cores, arguments.role);
    let audit = audit(&record, &question, env!("CARGO_PKG_VERSION"));
    outputs::print(&audit, arguments.json, |out| table(out, &audit, arguments.all))?;
    let bad = |finding: &Finding| matches!(finding.verdict, Verdict::Ineffective | Verdict::Harmful);
    Ok(match arguments.check && audit.findings.iter().any(bad) {
        true => ExitCode::from(1),
        false => ExitCode::SUCCESS,
    })
}

fn table(out: &mut impl Write, audit: &Audit, all: bool) -> io::Result<()> {
    let unknown = || "unknown".to_owned();
    writeln!(
        out,
        "  {}, kernel {}, role {}",
        audit.processor.clone().unwrap_or_else(unknown),
        audit.kernel.clone().unwrap_or_else(unknown),
        audit.role.name()
    )?;
    writeln!(out, "  cores to isolate: {} ({})\n", some(&audit.cores), audit.cores_from)?;
    let shown = |finding: &&Finding| all || finding.verdict.is_problem();
    let mut group = None;
    for finding in audit.findings.iter().filter(shown) {
        if group != Some(finding.group) {
            group = Some(finding.group);
            writeln!(out, "  {}", finding.group.name().to_uppercase())?;
        }
        row(out, finding, all)?;
    }
    let count = |verdict| audit.findings.iter().filter(|finding| finding.verdict == verdict).count();
    writeln!(
        out,
        "\n  {} rules: {} ineffective, {} harmful, {} improvable, {} good, {} not here, {} not seen",
        audit.findings.len(),
        count(Verdict::Ineffective),
        count(Verdict::Harmful),
        count(Verdict::Improvable),
        count(Verdict::Good),
        count(Verdict::NotHere),
        count(Verdict::Unseen)
    )?;
    if !all {
        for finding in audit.findings.iter().filter(|finding| finding.verdict == Verdict::Unseen) {
            writeln!(out, "  not seen: {}: {}", finding.rule, finding.detail)?;
        }
    }
    for (why, names) in denied(audit) {
        writeln!(out, "  could not be read, {why}: {}", names.join(", "))?;
    }
    Ok(())
}

/// Groups unreadable files by reason, and combines paths that differ in numbers: "/dev/cpu/N/msr (4)".
fn denied(audit: &Audit) -> BTreeMap<&str, Vec<String>> {
    let mut counted: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for one in &audit.unreadable {
        *counted.entry((one.why.as_str(), without_numbers(&one.name))).or_default() += 1;
    }
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((why, name), count) in counted {
        let name = if count > 1 { format!("{name} ({count})") } else { name };
        all.entry(why).or_default().push(name);
    }
    all
}

/// Replaces numbers at the ends of path components: "cpu3" becomes "cpuN".
fn without_numbers(name: &str) -> String {
    let part = |part: &str| match part.trim_end_matches(|letter: char| letter.is_ascii_digit()) {
        begin if begin.len() < part.len() => format!("{begin}N"),
        _ => part.to_owned(),
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn some(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn row(out: &mut impl Write, finding: &Finding, all: bool) -> io::Result<()> {
    let verdict = finding.verdict.name();
    writeln!(out, "    {verdict:<11} {:<18} {}", finding.rule, finding.title)?;
    let mut line = |label: &str, text: &str| wrapped(out, label, text);
    match (&finding.requested, &finding.effective) {
        (None, None) => {}
        (None, Some(effective)) => line("", &format!("in effect: {effective}"))?,
        (Some(requested), effective) => {
            let effective = effective.as_deref().unwrap_or("unknown");
            line("", &format!("requested: {requested}; in effect: {effective}"))?;
        }
    }
    if !finding.detail.is_empty() {
        line("", &finding.detail)?;
    }
    if all {
        line("why", &finding.why)?;
        if let Some(effect) = &finding.effect {
            line("effect", effect)?;
        }
        line("source", &finding.source)?;
    }
    if finding.verdict.is_problem() {
        line("do", &finding.mitigation)?;
        line("cost", &finding.cost)?;
    }
    Ok(())
}
