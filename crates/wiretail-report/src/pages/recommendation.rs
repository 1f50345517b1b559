//! The page of recommendations. It shows the state and evidence of each recommendation, and the latency,
//! security and resources of each deployment.

use wiretail_schema::host::recommendation::{
    DelayOf, Evidence, Matrix, MatrixRow, NextStep, Origin, RateOf, Recommendation, Recommendations, Stand,
    TrialsOf,
};

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::page::{self, answer, section};

/// Number of loads that the table of latencies shows per deployment. The document contains all loads.
const LOADS: usize = 12;

/// Renders the page, which includes the document.
pub fn recommend(found: &Recommendations) -> String {
    // Serialization cannot fail: all keys are strings, and numbers are finite or null.
    let document = serde_json::to_value(found).unwrap_or_default();
    page::document("Recommendations · Wiretail", |m| {
        header(m, found);
        m.tag("main").body(|m| {
            section(m, "stand", "Status", |m| {
                m.tag("div")
                    .class("cards")
                    .body(|m| found.recommendations.iter().for_each(|one| card(m, one)));
            });
            for one in &found.recommendations {
                section(m, one.kind.name(), &capitalised(&one.title), |m| recommendation(m, one));
            }
            section(m, "matrix", "Latency, security, resources", |m| matrix(m, &found.matrix));
            section(m, "rests", "Evidence", |m| rests(m, found));
        });
        page::footer(m, &found.wiretail_version);
        m.json("document", &document);
    })
}

fn header(m: &mut Markup, found: &Recommendations) {
    let host = &found.host;
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    m.tag("header").body(|m| {
        m.tag("p").class("kicker").text("Wiretail · recommendations");
        let title = format!("{}, kernel {}", some(&host.processor), some(&host.kernel));
        m.tag("h1").class("long").text(title);
        let trials: usize = found.runs.iter().map(|run| run.valid).sum();
        let cores = if host.cores.is_empty() { "no cores" } else { &host.cores };
        m.tag("p").class("lead").text(format_args!(
            "As {}, with {cores} reserved ({}). Based on the audit and {trials} trials of {} runs.",
            host.role.name(),
            host.cores_from,
            found.runs.len()
        ));
    });
    m.line();
}

fn card(m: &mut Markup, one: &Recommendation) {
    let sign = match one.stand {
        Stand::Follow => ("undecided", "→", "FOLLOW"),
        Stand::AlreadySo => ("pass", "✓", "ALREADY SO"),
        Stand::DoesNotApply => ("undecided", "–", "DOES NOT APPLY"),
        Stand::NoEvidenceYet => ("undecided", "?", "NO EVIDENCE YET"),
    };
    let basis = match one.evidence.len() {
        0 => "No evidence.".to_owned(),
        1 => "1 piece of evidence below.".to_owned(),
        count => format!("{count} pieces of evidence below."),
    };
    answer(m, sign, &one.title, &one.says, &basis);
}

fn recommendation(m: &mut Markup, one: &Recommendation) {
    m.tag("p").text(&one.advice);
    facts(m, "Evidence", one.evidence.iter().map(|fact| (String::new(), fact)).collect());
    steps(m, &one.next);
    m.tag("p").class("rests").text(format_args!("Source: {}.", one.source));
}

fn steps(m: &mut Markup, steps: &[NextStep]) {
    if steps.is_empty() {
        return;
    }
    let row = |step: &NextStep| vec![Cell::text(&step.what), Cell::text(&step.command)];
    table(m, "What to do next", &head(["for", "command or setting"]), steps.iter().map(row));
}

/// Statements. If any statement has a subject, every statement is shown with its subject.
fn facts(m: &mut Markup, caption: &str, all: Vec<(String, &Evidence)>) {
    if all.is_empty() {
        return;
    }
    let about = all.iter().any(|(about, _)| !about.is_empty());
    let names = match about {
        true => head(["deployment", "statement", "from"]).to_vec(),
        false => head(["statement", "from"]).to_vec(),
    };
    let row = |(name, fact): (String, &Evidence)| {
        let cells = [Cell::text(&fact.says), Cell::text(from(&fact.from))];
        let cells = about.then(|| Cell::text(name)).into_iter().chain(cells).collect();
        Row { cells, beneath: numbers(fact), ..Row::default() }
    };
    table(m, caption, &names, all.into_iter().map(row));
}

/// The numbers of a statement, on the lines below it.
fn numbers(fact: &Evidence) -> Vec<(&'static str, String)> {
    let rate = |found: &RateOf| format!("{} {}", found.of, format::rate(found.pps as f64));
    let rates = fact.rates.iter().map(rate).collect::<Vec<_>>().join("; ");
    let of = |group: &[DelayOf]| {
        let each: Vec<String> = group.iter().map(in_line).collect();
        let (of, packets) = (&group[0].of, format::count(group[0].packets));
        format!("{of}: {}; {packets} packets, {}", each.join(", "), trials(&group[0].trials))
    };
    let delays = fact.delays.chunk_by(|a, b| a.of == b.of).map(of);
    let lines = Some(rates).filter(|rates| !rates.is_empty()).into_iter().chain(delays);
    lines.map(|line| ("note-beneath", line)).collect()
}

/// "p99.9 12.34 µs (11.00 µs … 13.00 µs)".
fn in_line(delay: &DelayOf) -> String {
    let value = format::duration(delay.value_ns as f64);
    if delay.percentile == 100.0 {
        return format!("max {value}");
    }
    let weak = if delay.supported { "" } else { ", too few packets" };
    format!("p{} {value} ({}{weak})", delay.percentile, interval(delay))
}

fn value(delay: &DelayOf) -> Cell {
    let cell = Cell::ns(delay.value_ns);
    if delay.supported { cell } else { cell.class("number weak") }
}

fn interval(delay: &DelayOf) -> String {
    let bound = |ns: i64| format::duration(ns as f64);
    match (delay.low_ns, delay.high_ns) {
        (None, _) => "–".to_owned(),
        (Some(low), Some(high)) => format!("{} … {}", bound(low), bound(high)),
        (Some(low), None) => format!("{} … ?", bound(low)),
    }
}

/// "a deployment, as it was started".
fn name(row: &MatrixRow) -> String {
    match row.profile.as_str() {
        "" => row.deployment.name().to_owned(),
        profile => format!("{}, {profile}", row.deployment.name()),
    }
}

fn matrix(m: &mut Markup, matrix: &Matrix) {
    m.tag("p").class("hint").text(
        "Facts and numbers without a score. Loads common to most deployments come first; a delay in italics is based on too few packets.",
    );
    let names = head(["deployment", "load", "p99.9", "p99.99", "maximum", "packets", "trials"]);
    let rows: Vec<Row> = matrix.rows.iter().flat_map(latencies).collect();
    m.tag("div").class("broad").body(|m| table(m, "Latency", &names, rows));
    let host = || "the host".to_owned();
    let of = |facts: fn(&MatrixRow) -> &[Evidence]| {
        matrix.rows.iter().flat_map(move |row| facts(row).iter().map(move |fact| (name(row), fact)))
    };
    let security = of(|row| &row.security).chain(matrix.host_security.iter().map(|fact| (host(), fact)));
    facts(m, "Security: isolation between a device and others", security.collect());
    let resources = of(|row| &row.resources).chain(matrix.host_resources.iter().map(|fact| (host(), fact)));
    facts(m, "Resources: usage of a device", resources.collect());
}

/// The rows of a deployment in the table of latencies.
fn latencies(row: &MatrixRow) -> Vec<Row> {
    if row.latency.is_empty() {
        let mut cells = vec![Cell::text(name(row)), Cell::text("no evidence yet")];
        cells.extend((0..4).map(|_| Cell::number("–").class("number zero")));
        cells.push(Cell::text(row.next.as_ref().map_or("", |step| step.command.as_str())));
        return vec![cells.into()];
    }
    let loads = row.latency.iter().take(LOADS).map(|load| {
        let of = |wanted: f64| {
            let found = load.delays.iter().find(|delay| delay.percentile == wanted);
            found.map_or_else(
                || Cell::number("–").class("number zero"),
                |delay| value(delay).note(interval(delay)),
            )
        };
        let text = Cell::text(&load.load);
        let text = if load.emulated == Some(true) {
            text.note("emulated processor: not representative of hardware")
        } else {
            text
        };
        let mut cells = vec![Cell::text(
            load.delays.first().map_or_else(|| name(row), |delay| format!("{}, {}", delay.of, row.profile)),
        )];
        cells.extend([text, of(99.9), of(99.99), of(100.0)]);
        let first = load.delays.first();
        cells.push(Cell::count(first.map_or(0, |delay| delay.packets)));
        cells.push(Cell::text(first.map_or_else(String::new, |delay| trials(&delay.trials))));
        Row::from(cells)
    });
    let mut rows: Vec<Row> = loads.collect();
    let more = row.latency.len().saturating_sub(LOADS);
    if let (Some(last), true) = (rows.last_mut(), more > 0) {
        last.beneath.push(("note-beneath", format!("the document contains {more} more loads")));
    }
    rows
}

fn rests(m: &mut Markup, found: &Recommendations) {
    let row = |run: &wiretail_schema::host::recommendation::RunLooked| {
        let counts =
            [run.trials, run.valid, run.searches, run.explained].map(|count| Cell::count(count as u64));
        [Cell::text(&run.directory), Cell::text(&run.title)].into_iter().chain(counts).collect::<Vec<_>>()
    };
    let names = head(["run", "experiment", "trials", "valid", "searches", "explained"]);
    if found.runs.is_empty() {
        m.tag("p").text("No run was given: this page is based on the audit alone.");
    } else {
        table(m, "Runs", &names, found.runs.iter().map(row));
    }
    found.notes.iter().for_each(|note| {
        m.tag("p").class("rests").text(note);
    });
    m.tag("p").class("rests").body(|m| {
        m.text(
            "For several trials, a percentile is the median of their values; its interval extends from the \
             lowest bound to the highest. Meaning and limits: ",
        );
        m.tag("code").text("docs/recommend.md");
        m.text(". The complete document: ").tag("code").text(&found.schema);
        m.text(", embedded in this file ");
        // The script sets the link's address. Without scripts the link has no address and is hidden.
        let link = m.tag("a").class("csv").attr("data-document", "document");
        link.attr("download", "recommend.json").text("JSON");
    });
}

fn from(origin: &Origin) -> String {
    match origin {
        Origin::Trials { trials: all } => trials(all),
        Origin::Search { run, search } => format!("{run}: search {search}"),
        Origin::Rule { rule, .. } => format!("audit: {rule}"),
        Origin::Deployment => "how it is deployed".to_owned(),
    }
}

/// Describes the trials. If there are only a few, their numbers are listed; otherwise, only their count is
/// given.
fn trials(all: &[TrialsOf]) -> String {
    let numbers = |of: &TrialsOf| match of.trials.len() {
        0..=6 => of.trials.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        many => format!("{many} trials"),
    };
    all.iter().map(|of| format!("{}: {}", of.run, numbers(of))).collect::<Vec<_>>().join("; ")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
