//! The page of a whole run: what was measured, whether it is valid, and the trials side by side.
//!
//! A trial is shown by its *scenario*, the factors that tell it from others. Where several trials
//! repeat a scenario nothing is pooled: the tables have a row each, and a figure shows the one with the
//! median p99.9. Numbers of invalid trials are never left out silently: they stay, marked as such.
//!
//! - [`series`]: which trials go into which figure, and under which names;
//! - `search`: which rate the devices take; `ablation`: what settings of the host are worth; `numbers`: the tables of key numbers; `ranking`: who is the fastest; `figures`: what is drawn; `load`: over the
//!   offered rate; `breakdown`: whose the delay is; `explain`: what delayed the worst packets; `energy`: what packets take
//!   of it; `validity`: whether to trust it.

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

/// What the page is made of.
#[derive(Debug, Clone, Copy)]
pub struct RunPage<'a> {
    /// The manifest.
    pub run: &'a Run,
    /// The analyses of its trials' segments.
    pub results: &'a [SegmentResult],
    /// From which rate on its scenarios are overloaded.
    pub overloads: &'a [OverloadMark],
    /// Which devices are the fastest.
    pub rankings: &'a [Ranking],
    /// Whose the delay is, as curves.
    pub curves: &'a [TrialCurves],
    /// What devices take beyond the skeleton.
    pub additions: &'a [Addition],
    /// What delayed the worst packets of the traced trials.
    pub explanations: &'a [ExplainedTrial],
    /// What tracing them has cost.
    pub overheads: &'a [Overhead],
    /// What was searched, if anything was.
    pub searches: Option<&'a Searches>,
    /// What settings of the host are worth, if that was measured.
    pub ablation: Option<&'a Ablation>,
}

use RunPage as Page;

impl<'a> RunPage<'a> {
    /// The numbers of a trial's segment; None where it was not analysed.
    fn summary(&self, trial: &TrialRecord, segment: usize) -> Option<&'a Summary> {
        let found = self.results.iter().find(|r| r.trial == trial.number && r.segment == segment);
        found.map(|result| &result.summary)
    }

    /// Trials that ended in this state.
    fn ended(&self, state: TrialState) -> usize {
        self.run.trials.iter().filter(|trial| trial.state == state).count()
    }

    /// Trials of the plan that were not done.
    fn missing(&self) -> usize {
        self.run.trials_planned.saturating_sub(self.run.trials.len())
    }

    /// Whether trials are repeated.
    fn repeated(&self) -> bool {
        self.run.trials.iter().any(|trial| trial.repeat > 1)
    }
}

/// The page of a run.
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
            // The trials of a search differ in their rates alone, of which there are many; those of a proof in the host.
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
        m.tag("p").class("lead").text(format_args!("Stamps: {}", sources(run)));
        m.tag("p").class("lead").text(format_args!("Host: {}", host(&run.host)));
    });
    m.line();
}

fn utc(seconds: u64) -> Option<String> {
    format::utc(i64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?)
}

/// How many trials were planned, and what became of them.
fn trials(page: &Page<'_>) -> String {
    let planned = page.run.trials_planned;
    let mut text = format!("{} planned", counted(planned, "trial"));
    let ends = [
        (page.ended(TrialState::Valid), "valid"),
        (page.ended(TrialState::Invalid), "invalid"),
        (page.ended(TrialState::Failed), "failed"),
        (page.ended(TrialState::Interrupted), "interrupted"),
        (page.missing(), "not done"),
    ];
    for (number, word) in ends.into_iter().filter(|(number, word)| *number > 0 || *word == "valid") {
        text.push_str(&format!(", {} {word}", format::count(number as u64)));
    }
    text
}

/// A number of things in words: "1 trial", "2 trials".
fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", format::count(number as u64), if number == 1 { "" } else { "s" })
}

/// Where the stamps of all taps come from.
fn sources(run: &Run) -> String {
    let mut sources: Vec<&str> = Vec::new();
    for tap in run.trials.iter().flat_map(|trial| &trial.taps) {
        if !sources.contains(&tap.timestamp_source.as_str()) {
            sources.push(&tap.timestamp_source);
        }
    }
    if sources.is_empty() { "none taken".to_owned() } else { sources.join("; ") }
}

/// The host in a line: what matters most for a tail.
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
        facts.push(format!("under a hypervisor{machine}"));
    }
    if facts.is_empty() { "it says nothing of itself".to_owned() } else { facts.join(", ") }
}

/// What a reader must know before using any number: shown only where something is missing.
fn banner(m: &mut Markup, page: &Page<'_>) {
    let mut faults = Vec::new();
    let (invalid, failed) = (page.ended(TrialState::Invalid), page.ended(TrialState::Failed));
    if invalid > 0 {
        let of = counted(page.run.trials.len(), "trial");
        faults.push(format!(
            "{} of {of} {} invalid: {} numbers say nothing about the device under test.",
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
            "{} did not run to the end and rests on fewer packets.",
            counted(interrupted, "trial")
        ));
    }
    if page.missing() > 0 {
        faults.push(format!("{} of the plan not done.", counted(page.missing(), "trial")));
    }
    if faults.is_empty() {
        return;
    }
    m.tag("div").class("banner").attr("role", "note").body(|m| {
        m.tag("strong").text("Not all of this run can be used. ");
        m.text(faults.join(" "));
        if invalid + failed + interrupted > 0 {
            m.text(" The reasons stand beneath the rows of the key numbers.");
        }
    });
    m.line();
}
