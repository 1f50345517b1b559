//! Recommendations of the papers, evaluated with the user's own runs and audit.
//!
//! ```text
//! Audit ────────────────────────────────┐
//! Run + results ─► sample (per trial) ──┼─► each file of this folder ─► Recommendation
//! Searches, explanations ───────────────┘   matrix ─► Matrix
//! ```
//!
//! Each recommendation is implemented in its own file, which selects the evidence and determines the status
//! and the next steps. `sample` selects trials that can be compared: they have the same load and host, and
//! differ only in the setting under comparison. [`contrast`] compares deployments or kernels, which are
//! distinguished if their intervals do not overlap. There are no scores. A recommendation without evidence is
//! reported as such.
//!
//! The five recommendations are those of Gallenmueller, Wiedner, Naab, Carle, "How Low Can You Go? A Limbo
//! Dance for Low-Latency Network Functions", JNSM 31, 2023; `docs/recommend.md` lists the material that was
//! available.

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

/// Paper with the five recommendations.
const JNSM: &str = "Gallenmueller, Wiedner, Naab, Carle, How Low Can You Go? A Limbo Dance for Low-Latency Network \
                    Functions, JNSM 31, 2023, doi 10.1007/s10922-022-09710-3";

/// Run, reduced to the parts that are used as evidence. If a run directory gains another result (such as
/// `ablation.json`, the effect of each host setting), add this result as a field of this type, and use it in
/// the file of the recommendation to which it applies.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// Directory, as given by the user.
    pub directory: String,
    pub run: Run,
    /// Results of its segments.
    pub results: Vec<SegmentResult>,
    pub searches: Option<Searches>,
    /// For its traced trials: causes of the delay of the worst packets.
    pub explanations: Vec<ExplainedTrial>,
}

/// Input of all recommendations.
struct Known<'a> {
    audit: &'a Audit,
    runs: &'a [RunInput],
    seen: Vec<Seen<'a>>,
}

/// Evaluates all recommendations. `version` is the version of Wiretail.
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

/// Notes about runs of a host other than the audited one.
fn notes(audit: &Audit, runs: &[RunInput]) -> Vec<String> {
    let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
    let other = |input: &&RunInput| {
        let host = &input.run.host;
        differ(&host.kernel, &audit.kernel) || differ(&host.cpu_model, &audit.processor)
    };
    let note = |input: &RunInput| {
        format!(
            "{}: measured under kernel {} on {}, not on the audited host: the audit does not apply to this run",
            input.directory,
            input.run.host.kernel.as_deref().unwrap_or("unknown"),
            input.run.host.cpu_model.as_deref().unwrap_or("an unknown processor"),
        )
    };
    runs.iter().filter(other).map(note).collect()
}

impl Known<'_> {
    fn finding(&self, rule: &str) -> Option<&Finding> {
        self.audit.findings.iter().find(|finding| finding.rule == rule)
    }

    /// Findings of these rules as evidence, without rules that do not apply to this host.
    fn rules(&self, rules: &[&str]) -> Vec<Evidence> {
        let found = rules.iter().filter_map(|rule| self.finding(rule));
        found.filter(|finding| finding.verdict != Verdict::NotHere).map(rule).collect()
    }
}

/// Converts a finding of the audit to evidence.
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

/// Creates evidence from trials.
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

/// Formats a number of trials: "1 trial", "3 trials".
fn counted(count: usize) -> String {
    format!("{count} trial{}", if count == 1 { "" } else { "s" })
}
