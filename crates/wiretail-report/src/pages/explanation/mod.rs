//! The page of a traced trial. It shows what delayed the trial's worst packets, and can be understood without
//! any other page.
//!
//! - [`words`]: causes and packets as text, also for the terminal;
//! - `breakdown`: stacked bars and the colors;
//! - [`causes`]: the ranking and the mitigations;
//! - `packets` and `timeline`: single packets;
//! - `evidence`: senders, and the data on which the explanation is based.

use std::collections::BTreeSet;

use wiretail_schema::causes::TrialExplanation;
use wiretail_schema::causes::mitigation::Mitigations;
use wiretail_schema::run::{Run, TrialRecord};

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, address, head, table};
use crate::pages::page::{self, tile};

pub mod breakdown;
pub mod causes;
mod evidence;
mod packets;
mod timeline;
pub mod words;

use breakdown::{Breakdown, colour};
use words::{cause_name, headline};

/// Input of the page.
#[derive(Debug, Clone, Copy)]
pub struct ExplanationPage<'a> {
    /// The run that contains the trial.
    pub run: &'a Run,
    pub trial: &'a TrialRecord,
    pub explanation: &'a TrialExplanation,
    /// The mitigations of each cause.
    pub mitigations: Mitigations,
}

/// Percentiles among the key figures. 100 means the maximum.
const KEY_PERCENTILES: [f64; 3] = [99.9, 99.999, 100.0];

/// Renders the page. Its file is in the trial's directory, two levels below the run's.
pub fn explanation(page: &ExplanationPage<'_>) -> String {
    let explanation = page.explanation;
    page::document(&format!("What delayed {} · Wiretail", explanation.trial), |m| {
        header(m, page);
        m.tag("main").body(|m| {
            key_figures(m, explanation);
            excess_delay(m, explanation);
            causes::section(m, page);
            packets::section(m, explanation);
            evidence::senders(m, explanation);
            evidence::section(m, explanation);
        });
        page::footer(m, &explanation.wiretail_version);
    })
}

fn header(m: &mut Markup, page: &ExplanationPage<'_>) {
    let explanation = page.explanation;
    m.tag("header").body(|m| {
        m.tag("p").class("kicker").text(format_args!("Wiretail · what delayed the worst packets of {}", explanation.trial));
        m.tag("h1").class("long").text(headline(explanation));
        m.tag("p").class("lead").text(format_args!(
            "{} packets went through a device under test ({}). The median delay was {}. For the slowest \
             packets, this page shows what their core did instead of processing them, as recorded by the kernel's trace.",
            format::count(explanation.packets),
            device(page.trial),
            format::duration(explanation.baseline_ns as f64),
        ));
        m.tag("p").class("lead").body(|m| {
            m.text("Run: ");
            m.tag("a").attr("href", address("../../report.html")).text(&page.run.title);
            if page.trial.repeat > 1 {
                m.text(format_args!(", repeat {}", page.trial.repeat));
            }
            let first = page.trial.segments.first();
            if first.is_some_and(|segment| segment.analysed) {
                m.text(" · ");
                m.tag("a").attr("href", address("report.html")).text("delay, loss and reordering of this trial");
            }
            m.text(format_args!(" · segment {}", explanation.segment));
            let host = &page.run.host;
            if let Some(model) = &host.cpu_model {
                m.text(format_args!(" · {model}"));
            }
            if let Some(kernel) = &host.kernel {
                m.text(format_args!(" · Linux {kernel}"));
            }
            if host.hypervisor {
                m.text(" · virtual machine");
            }
        });
    });
    m.line();
}

/// The device and its load as text: "suricata, 10 kpps".
pub fn device(trial: &TrialRecord) -> String {
    let keys = ["dut.kind", "traffic.rate", "traffic.size"];
    let words: Vec<String> = keys.iter().filter_map(|key| Some(trial.setting(key)?.words())).collect();
    if words.is_empty() { "of this trial".to_owned() } else { words.join(", ") }
}

fn key_figures(m: &mut Markup, explanation: &TrialExplanation) {
    let evidence = &explanation.evidence;
    page::section(m, "key-figures", "Key figures", |m| {
        m.tag("dl").class("tiles").body(|m| {
            let ns = explanation.baseline_ns;
            let half = "half of the packets have a lower delay".to_owned();
            tile(m, "median delay", &format::duration(ns as f64), &format::exact_ns(ns), &[half], None);
            for wanted in KEY_PERCENTILES {
                let found = explanation.percentiles.iter().find(|p| (p.percentile - wanted).abs() < 1e-9);
                let Some(found) = found else { continue };
                let name = if wanted < 100.0 {
                    format!("p{} delay", format::short(wanted))
                } else {
                    "max delay".to_owned()
                };
                let line = match wanted {
                    w if w < 100.0 => {
                        format!(
                            "{} of {} beyond",
                            crate::pages::tables::above(w, explanation.packets),
                            format::count(explanation.packets)
                        )
                    }
                    _ => format!("largest of {}", format::count(explanation.packets)),
                };
                // A maximum needs no warning that it is based on a single packet.
                let weak =
                    (!found.supported && wanted < 100.0).then_some("not supported: n(1−p)\u{a0}<\u{a0}10");
                let value = found.value_ns;
                tile(m, &name, &format::duration(value as f64), &format::exact_ns(value), &[line], weak);
            }
            if explanation.tail_lost_ns > 0 {
                let known = explanation.tail_lost_ns.saturating_sub(explanation.tail_unknown_ns);
                let share = known as f64 / explanation.tail_lost_ns as f64;
                let line = format!(
                    "of {} excess delay in {} packets",
                    format::about(explanation.tail_lost_ns as f64),
                    format::count(explanation.tail_packets)
                );
                tile(m, "explained", &words::percent(share), &share.to_string(), &[line], None);
            }
        });
        m.tag("p").class("rests").text(format_args!(
            "The tail: the {} packets at and above p99.9, {}{}. Excess delay is a packet's delay minus the \
             median. The page is based on {} trace events of core {} in {}; the clocks agree to within {}.{}",
            format::count(explanation.tail_packets),
            format::duration(explanation.tail_above_ns as f64),
            incidents(explanation),
            format::count(evidence.events),
            evidence.core,
            format::duration(evidence.duration_ns as f64),
            format::duration(evidence.clock_uncertainty_ns as f64),
            match evidence.packets_in_lost {
                0 => "",
                _ => " Events are missing for some packets of the tail: their excess delay counts as unexplained.",
            }
        ));
    });
}

/// The number of incidents that delayed the tail's packets. Packets that queued behind each other are not
/// independent. Returns an empty string unless all packets of the tail are listed.
fn incidents(explanation: &TrialExplanation) -> String {
    let tail = explanation.tail_packets as usize;
    let Some(packets) = explanation.worst.get(..tail).filter(|packets| !packets.is_empty()) else {
        return String::new();
    };
    let distinct: BTreeSet<u64> = packets.iter().map(|packet| packet.incident).collect();
    match distinct.len() {
        1 if tail > 1 => ", all in one incident: they queued behind each other".to_owned(),
        count if count == tail => ", each delayed independently".to_owned(),
        count => format!(
            ", in {} incidents: packets that queued behind each other count as one",
            format::count(count as u64)
        ),
    }
}

fn excess_delay(m: &mut Markup, explanation: &TrialExplanation) {
    let worst = packets::shown(explanation);
    let (tail, single) = (Breakdown::of_tail(explanation), Breakdown::of_packets(explanation, worst));
    page::section(m, "shares", "Causes of the excess delay", |m| {
        let caption =
            format!("The tail: {} packets at and above p99.9", format::count(explanation.tail_packets));
        breakdown::bar(m, &caption, &explanation.causes, &tail);
        let caption = format!("The {} worst packets", worst.len());
        if worst.len() > 1 {
            breakdown::bar(m, &caption, &explanation.causes, &single);
        }
        let mut shown = tail.ranked();
        shown.extend(single.ranked().into_iter().filter(|cause| tail.of_cause(*cause) == 0));
        breakdown::key(m, &explanation.causes, &shown, false);
        let rows = shown.iter().map(|&cause| {
            let known = tail.causes[cause];
            let mut cells = vec![
                Cell::text(cause_name(&explanation.causes[cause])).swatch(colour(&explanation.causes, cause)),
            ];
            cells.extend(amounts(&tail, tail.of_cause(cause)));
            cells.extend(known.map(zero_faint));
            cells.extend(amounts(&single, single.of_cause(cause)));
            cells
        });
        let mut unknown = vec![Cell::text("unexplained").swatch("k-unknown".to_owned())];
        unknown.extend(amounts(&tail, tail.unknown_ns));
        unknown.extend((0..3).map(|_| Cell::text("")));
        unknown.extend(amounts(&single, single.unknown_ns));
        let rows: Vec<Vec<Cell>> = rows.chain([unknown]).collect();
        let names = head([
            "cause",
            "share of the tail",
            "time",
            "observed",
            "modelled",
            "inferred",
            "share of the worst",
            "time",
        ]);
        table(
            m,
            &format!("The bars in numbers; \"the worst\" means the {} worst packets", worst.len()),
            &names,
            rows,
        );
    });
}

fn amounts(shares: &Breakdown, ns: u64) -> [Cell; 2] {
    [Cell::ratio(shares.share(ns)), zero_faint(ns)]
}

fn zero_faint(ns: u64) -> Cell {
    let cell = Cell::ns(ns as i64);
    if ns == 0 { cell.class("number zero") } else { cell }
}
