//! The page of a whole run: the settings, the validity of the trials, and the trials side by side.
//!
//! A trial is identified by its *scenario*, the factors that distinguish it from others. Repeats of a
//! scenario are not pooled: the tables have a row for each repeat, and a figure shows the repeat with the
//! median p99.9. The numbers of invalid trials are never omitted, but they are marked.
//!
//! - [`series`]: selects the trials of each figure and names their curves;
//! - `search`: the highest load of the devices;
//! - `ablation`: the effect of host settings;
//! - `numbers`: tables of key numbers;
//! - `ranking`: the fastest devices;
//! - `figures`: the figures;
//! - `load`: delay and loss over the offered rate;
//! - `breakdown`: the delay of devices and infrastructure;
//! - `explain`: the causes of the worst packets' delay;
//! - `energy`: energy per state and packet;
//! - `validity`: whether the numbers can be trusted.

use wiretail_schema::causes::ExplainedTrial;
use wiretail_schema::host::ablation::Ablation;
use wiretail_schema::run::breakdown::{Addition, TrialCurves};
use wiretail_schema::run::overhead::Overhead;
use wiretail_schema::run::scenario::{OverloadMark, Ranking, SegmentResult};
use wiretail_schema::run::{HostSnapshot, Run, TrialRecord, TrialState};
use wiretail_schema::search::Searches;
use wiretail_schema::summary::Summary;

use crate::format;
use crate::html::Markup;
use crate::pages::page;

mod ablation;
mod breakdown;
mod energy;
mod explain;
pub mod figures;
mod load;
mod numbers;
mod ranking;
mod search;
mod series;
mod validity;

pub use explain::PAGE as EXPLANATION_PAGE;

/// Input of the page.
#[derive(Debug, Clone, Copy)]
pub struct RunPage<'a> {
    /// The manifest.
    pub run: &'a Run,
    /// The analyses of its trials' segments.
    pub results: &'a [SegmentResult],
    /// The lowest overloaded rate of each scenario.
    pub overloads: &'a [OverloadMark],
    /// The fastest devices under each load.
    pub rankings: &'a [Ranking],
    /// Breakdown of the delay into devices and infrastructure, as curves.
    pub curves: &'a [TrialCurves],
    /// Delay that devices add to the skeleton.
    pub additions: &'a [Addition],
    /// Causes of the worst packets' delay in the traced trials.
    pub explanations: &'a [ExplainedTrial],
    /// Overhead of tracing.
    pub overheads: &'a [Overhead],
    /// Results of searches, if there were any.
    pub searches: Option<&'a Searches>,
    /// Effect of host settings, if it was measured.
    pub ablation: Option<&'a Ablation>,
}

use RunPage as Page;

impl<'a> RunPage<'a> {
    /// The numbers of a trial's segment; `None` if it was not analyzed.
    fn summary(&self, trial: &TrialRecord, segment: usize) -> Option<&'a Summary> {
        let found = self.results.iter().find(|r| r.trial == trial.number && r.segment == segment);
        found.map(|result| &result.summary)
    }

    /// Number of trials that ended in this state.
    fn ended(&self, state: TrialState) -> usize {
        self.run.trials.iter().filter(|trial| trial.state == state).count()
    }

    /// Number of planned trials that were not run.
    fn missing(&self) -> usize {
        self.run.trials_planned.saturating_sub(self.run.trials.len())
    }

    fn repeated(&self) -> bool {
        self.run.trials.iter().any(|trial| trial.repeat > 1)
    }
}

/// Renders the page of a run.
pub fn run(page: &RunPage<'_>) -> String {
    page::document(&format!("{} · Wiretail", page.run.title), |m| {
        header(m, page);
        m.tag("main").body(|m| {
            banner(m, page);
            let mut count = 0;
            search::section(m, page, &mut count);
            ablation::section(m, page);
            numbers::whole_device(m, page);
            ranking::section(m, page);
            // The trials of a search differ only in their rates, of which there are many; those of an
            // ablation differ in the host.
            if page.searches.is_none() && page.ablation.is_none() {
                figures::percentiles(m, page, &mut count);
            }
            load::section(m, page, &mut count);
            if page.searches.is_none() {
                figures::bursts(m, page, &mut count);
                figures::over_time(m, page, &mut count);
            }
            explain::sections(m, page);
            breakdown::section(m, page, &mut count);
            energy::section(m, page);
            numbers::segments(m, page);
            figures::segments(m, page, &mut count);
            validity::section(m, page);
        });
        page::footer(m, &page.run.wiretail_version);
    })
}

fn header(m: &mut Markup, page: &Page<'_>) {
    let run = page.run;
    m.tag("header").body(|m| {
        m.tag("p").class("kicker").text("Wiretail · run");
        let long = run.title.chars().count() > 64;
        m.tag("h1").class(if long { "long" } else { "short" }).text(&run.title);
        m.tag("p").class("lead").body(|m| {
            if let Some(date) = utc(run.started_s) {
                m.tag("span").class("date").text(date);
                m.text(" · ");
            }
            m.text(trials(page));
            m.text(format_args!(" · seed {}", run.seed));
        });
        m.tag("p").class("lead").text(format_args!("Timestamps: {}", sources(run)));
        m.tag("p").class("lead").text(format_args!("Host: {}", host(&run.host)));
    });
    m.line();
}

fn utc(seconds: u64) -> Option<String> {
    format::utc(i64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?)
}

/// Number of planned trials, and how they ended.
fn trials(page: &Page<'_>) -> String {
    let planned = page.run.trials_planned;
    let mut text = format!("{} planned", counted(planned, "trial"));
    let ends = [
        (page.ended(TrialState::Valid), "valid"),
        (page.ended(TrialState::Invalid), "invalid"),
        (page.ended(TrialState::Failed), "failed"),
        (page.ended(TrialState::Interrupted), "interrupted"),
        (page.missing(), "not run"),
    ];
    for (number, word) in ends.into_iter().filter(|(number, word)| *number > 0 || *word == "valid") {
        text.push_str(&format!(", {} {word}", format::count(number as u64)));
    }
    text
}

/// Formats a number of things: "1 trial", "2 trials".
fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", format::count(number as u64), if number == 1 { "" } else { "s" })
}

/// The sources of all taps' timestamps.
fn sources(run: &Run) -> String {
    let mut sources: Vec<&str> = Vec::new();
    for tap in run.trials.iter().flat_map(|trial| &trial.taps) {
        if !sources.contains(&tap.timestamp_source.as_str()) {
            sources.push(&tap.timestamp_source);
        }
    }
    if sources.is_empty() { "none taken".to_owned() } else { sources.join("; ") }
}

/// The host in one line, limited to the facts that affect a tail most.
fn host(host: &HostSnapshot) -> String {
    let mut facts: Vec<String> = Vec::new();
    facts.extend(host.cpu_model.clone());
    facts.extend(
        host.kernel.as_ref().map(|kernel| {
            format!("Linux {kernel}{}", if host.realtime_kernel { " (PREEMPT_RT)" } else { "" })
        }),
    );
    let listed = |name: &str, cores: &Option<String>| {
        cores.as_ref().filter(|cores| !cores.is_empty()).map(|cores| format!("{name} {cores}"))
    };
    facts.extend(listed("cores", &host.cores_online));
    facts.extend(listed("isolated", &host.cores_isolated));
    facts.extend(listed("clock", &host.clocksource));
    if host.hypervisor {
        let machine = host.machine.as_ref().map_or(String::new(), |machine| format!(" ({machine})"));
        facts.push(format!("virtual machine{machine}"));
    }
    if facts.is_empty() { "no information".to_owned() } else { facts.join(", ") }
}

/// Warns of missing or unusable numbers; empty if there are none.
fn banner(m: &mut Markup, page: &Page<'_>) {
    let mut faults = Vec::new();
    let (invalid, failed) = (page.ended(TrialState::Invalid), page.ended(TrialState::Failed));
    if invalid > 0 {
        let of = counted(page.run.trials.len(), "trial");
        faults.push(format!(
            "{} of {of} {} invalid: {} numbers do not describe the device under test.",
            format::count(invalid as u64),
            if invalid == 1 { "is" } else { "are" },
            if invalid == 1 { "its" } else { "their" },
        ));
    }
    if failed > 0 {
        faults.push(format!("{} failed and left no numbers.", counted(failed, "trial")));
    }
    let interrupted = page.ended(TrialState::Interrupted);
    if interrupted > 0 {
        faults.push(format!(
            "{} did not run to the end and is based on fewer packets.",
            counted(interrupted, "trial")
        ));
    }
    if page.missing() > 0 {
        faults.push(format!("{} of the plan did not run.", counted(page.missing(), "trial")));
    }
    if faults.is_empty() {
        return;
    }
    m.tag("div").class("banner").attr("role", "note").body(|m| {
        m.tag("strong").text("Part of this run cannot be used. ");
        m.text(faults.join(" "));
        if invalid + failed + interrupted > 0 {
            m.text(" The reasons are below the rows of the key numbers.");
        }
    });
    m.line();
}
