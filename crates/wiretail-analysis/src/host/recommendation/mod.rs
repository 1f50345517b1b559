//! What the papers recommend, given from one's own runs and audit.
//!
//! ```text
//! Audit ────────────────────────────────┐
//! Run + results ─► seen (one a trial) ──┼─► each file of this folder ─► Recommendation
//! Searches, explanations ───────────────┘   matrix ─► Matrix
//! ```
//!
//! A recommendation is a file: what it asks of the evidence, how it stands, what to do next. `seen` makes trials
//! comparable: under the same load, on the same host, but for what is compared; [`contrast`] tells deployments or kernels
//! apart, by intervals that do not overlap. Nothing is scored: what there is no evidence for is said to have none.
//!
//! The five are those of Gallenmueller, Wiedner, Naab, Carle, "How Low Can You Go? A Limbo Dance for Low-Latency Network
//! Functions", JNSM 31, 2023; `docs/recommend.md` says what of them was at hand.

mod capacity;
mod contrast;
mod device;
mod kernel;
mod matrix;
mod nic;
mod pooled;
mod sample;
#[cfg(test)]
mod tests;
mod timestamps;
mod virtualisation;

use wiretail_schema::causes::ExplainedTrial;
use wiretail_schema::host::audit::{Audit, Finding, Verdict};
use wiretail_schema::host::recommendation::{
    AuditedHost, Evidence, NextStep, Origin, RECOMMEND_SCHEMA, Recommendations, RunLooked,
};
use wiretail_schema::run::Run;
use wiretail_schema::run::scenario::SegmentResult;
use wiretail_schema::search::Searches;

use sample::Seen;

/// The paper that the five are from.
const JNSM: &str = "Gallenmueller, Wiedner, Naab, Carle, How Low Can You Go? A Limbo Dance for Low-Latency Network \
                    Functions, JNSM 31, 2023, doi 10.1007/s10922-022-09710-3";

/// A run, as far as evidence is taken from it. What else a run directory comes to hold (`ablation.json`, the effect of each
/// setting of the host) is to be a field here, and evidence of the file that it concerns.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// Its directory, as it was given.
    pub directory: String,
    /// Its manifest.
    pub run: Run,
    /// The numbers of its segments.
    pub results: Vec<SegmentResult>,
    /// Its searches.
    pub searches: Option<Searches>,
    /// What delayed the worst packets of its traced trials.
    pub explanations: Vec<ExplainedTrial>,
}

/// What all recommendations are made from.
struct Known<'a> {
    audit: &'a Audit,
    runs: &'a [RunInput],
    seen: Vec<Seen<'a>>,
}

/// The recommendations; `version` is that of Wiretail.
pub fn recommend(audit: &Audit, runs: &[RunInput], version: &str) -> Recommendations {
    let known = Known { audit, runs, seen: sample::all(runs) };
    Recommendations {
        schema: RECOMMEND_SCHEMA.to_owned(),
        wiretail_version: version.to_owned(),
        host: AuditedHost {
            kernel: audit.kernel.clone(),
            processor: audit.processor.clone(),
            role: audit.role,
            cores: audit.cores.clone(),
            cores_from: audit.cores_from.clone(),
        },
        runs: runs.iter().map(|run| looked(run, &known.seen)).collect(),
        recommendations: vec![
            timestamps::recommendation(&known),
            capacity::recommendation(&known),
            kernel::recommendation(&known),
            nic::recommendation(&known),
            virtualisation::recommendation(&known),
        ],
        matrix: matrix::matrix(&known),
        notes: notes(audit, runs),
    }
}

fn looked(input: &RunInput, seen: &[Seen<'_>]) -> RunLooked {
    RunLooked {
        directory: input.directory.clone(),
        title: input.run.title.clone(),
        trials: input.run.trials.len(),
        valid: seen.iter().filter(|one| std::ptr::eq(one.input, input)).count(),
        searches: input.searches.as_ref().map_or(0, |searches| searches.searches.len()),
        explained: input.explanations.len(),
    }
}

/// Runs of another host than the audited one.
fn notes(audit: &Audit, runs: &[RunInput]) -> Vec<String> {
    let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
    let other = |input: &&RunInput| {
        let host = &input.run.host;
        differ(&host.kernel, &audit.kernel) || differ(&host.cpu_model, &audit.processor)
    };
    let note = |input: &RunInput| {
        format!(
            "{}: was measured under kernel {} on {}, another host than the audited one: what the audit says is not of that one",
            input.directory,
            input.run.host.kernel.as_deref().unwrap_or("unknown"),
            input.run.host.cpu_model.as_deref().unwrap_or("an unknown processor"),
        )
    };
    runs.iter().filter(other).map(note).collect()
}

impl Known<'_> {
    /// What the audit found by a rule.
    fn finding(&self, rule: &str) -> Option<&Finding> {
        self.audit.findings.iter().find(|finding| finding.rule == rule)
    }

    /// What the audit found by these rules, those that this host has no such thing for left out.
    fn rules(&self, rules: &[&str]) -> Vec<Evidence> {
        let found = rules.iter().filter_map(|rule| self.finding(rule));
        found.filter(|finding| finding.verdict != Verdict::NotHere).map(rule).collect()
    }
}

/// A finding of the audit as evidence.
fn rule(finding: &Finding) -> Evidence {
    let mut says = format!("{}: {}", finding.verdict.name(), finding.title);
    if let Some(effective) = &finding.effective {
        says = format!("{says}; in effect: {effective}");
    }
    if !finding.detail.is_empty() {
        says = format!("{says}; {}", finding.detail);
    }
    Evidence {
        says,
        from: Origin::Rule { rule: finding.rule.clone(), verdict: finding.verdict },
        delays: Vec::new(),
        rates: Vec::new(),
    }
}

/// A statement that rests on trials.
fn of_trials(says: impl Into<String>, seen: &[&Seen<'_>]) -> Evidence {
    Evidence {
        says: says.into(),
        from: Origin::Trials { trials: pooled::trials(seen) },
        delays: Vec::new(),
        rates: Vec::new(),
    }
}

fn step(what: impl Into<String>, command: impl Into<String>) -> NextStep {
    NextStep { what: what.into(), command: command.into() }
}

/// "1 trial", "3 trials".
fn counted(count: usize) -> String {
    format!("{count} trial{}", if count == 1 { "" } else { "s" })
}
