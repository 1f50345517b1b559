//! Who sent the interrupts, and what all of it rests on.

use wiretail_schema::causes::{EventCost, TrialExplanation};

use super::words::cause_name;
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::explanation::breakdown::colour;
use crate::pages::page;

/// Senders that are listed.
const SENDERS: usize = 40;

/// The table of senders; without it where nobody sent anything that mattered.
pub fn senders(m: &mut Markup, explanation: &TrialExplanation) {
    if explanation.senders.is_empty() {
        return;
    }
    page::section(m, "senders", "Who sent it", |m| {
        m.tag("p").class("hint").text(
            "Interrupts and calls that packets of the tail waited for were sent by these threads, from whichever core.",
        );
        let names = head([
            "task",
            "pid",
            "its core",
            "cause",
            "function",
            "system call",
            "sends",
            "packets of the tail",
            "time in the tail",
        ]);
        let rows = explanation.senders.iter().take(SENDERS).map(|sender| {
            let cause = match explanation.causes.get(sender.cause) {
                Some(row) => Cell::text(cause_name(row)).swatch(colour(&explanation.causes, sender.cause)),
                None => Cell::text(""),
            };
            let task = if sender.pid == 0 { "(the idle task)" } else { &sender.task };
            vec![
                Cell::text(task),
                Cell::number(sender.pid),
                Cell::number(sender.cpu),
                cause,
                Cell::text(sender.function.as_deref().unwrap_or("–")),
                Cell::text(match (&sender.system_call, explanation.evidence.stacks) {
                    (Some(call), _) => call.as_str(),
                    (None, true) => "none",
                    (None, false) => "not recorded",
                }),
                Cell::count(sender.sends),
                Cell::count(sender.tail_packets),
                Cell::ns(sender.tail_ns as i64),
            ]
        });
        let all = explanation.senders.len();
        let caption = if all > SENDERS {
            format!("Senders, the first {SENDERS} of {all}")
        } else {
            "Senders".to_owned()
        };
        m.tag("div").class("broad").body(|m| table(m, &caption, &names, rows));
    });
}

/// What it rests on.
pub fn section(m: &mut Markup, explanation: &TrialExplanation) {
    let evidence = &explanation.evidence;
    page::section(m, "evidence", "What it rests on", |m| {
        let whole = format::duration(evidence.duration_ns as f64);
        m.tag("ul").class("standards").body(|m| {
            let mut line = |text: String| {
                m.tag("li").text(text);
            };
            line(format!(
                "The kernel's own trace of core {}: {} events in {whole}.",
                evidence.core,
                format::count(evidence.events),
            ));
            line(format!(
                "The clock of the trace and that of the packets' stamps are known against each other to {}.",
                format::duration(evidence.clock_uncertainty_ns as f64)
            ));
            line(match evidence.windows_lost {
                0 => "No events are missing.".to_owned(),
                windows => format!(
                    "Events are missing in {} of time, with {} of the tail in them: nothing is attributed there.",
                    counted(windows, "window"),
                    counted(evidence.packets_in_lost, "packet"),
                ),
            });
            line(match evidence.stacks {
                true => "Senders' stacks were recorded: they name the system call.".to_owned(),
                false => "Senders' stacks were not recorded: senders are named, their system calls are not.".to_owned(),
            });
            line(match evidence.logs_stalls {
                true => "The device's loop says when it stood still: other time in which nothing else ran is its own.".to_owned(),
                false => "The device does not say when it stood still: time in which nothing else is known to have run is called its own, or has no known cause.".to_owned(),
            });
            evidence.remarks.iter().map(|remark| sentence_of(remark)).for_each(&mut line);
        });
        reading(m);
        calibration(m, &evidence.calibration);
    });
}

/// How to read the four kinds of knowledge.
fn reading(m: &mut Markup) {
    m.tag("dl").class("reading").body(|m| {
        for (name, text) in READING {
            m.tag("dt").text(name);
            m.tag("dd").text(text);
        }
    });
}

const READING: [(&str, &str); 6] = [
    (
        "lost time",
        "A packet's delay less the usual one, the median of the trial. Its parts and what is left add up to it.",
    ),
    (
        "observed",
        "The kernel's trace (or the device's own log) has a stamp at the beginning and at the end: the time between them.",
    ),
    (
        "modelled",
        "Before the first stamp of an event and behind its last one the processor (or the hypervisor) needs time that no stamp shows. \
      A loop that only reads the clock has measured on this core what that usually is, for each kind of event: the table below. \
      So is the time that packets ahead usually take.",
    ),
    (
        "inferred",
        "By exclusion (nothing else ran, and the device's loop stood still), or because it recurs in a regular pattern.",
    ),
    ("no known cause", "What is left. It is shown, and not spread over the others."),
    (
        "behind a packet",
        "Time in which the packet waited for another one that had come before it, and that was delayed itself: it counts for the cause that delayed that one.",
    ),
];

fn calibration(m: &mut Markup, overheads: &[EventCost]) {
    if overheads.is_empty() {
        m.tag("p").class("rests").text("Events were not calibrated on this core: nothing is modelled.");
        return;
    }
    let names = head(["event", "gaps seen", "before it, median", "95 %", "behind it, median", "95 %"]);
    let rows = overheads.iter().map(|cost| {
        let ns = |value: u64| Cell::ns(value as i64);
        vec![
            Cell::text(&cost.event),
            Cell::count(cost.gaps),
            ns(cost.head_ns[0]),
            ns(cost.head_ns[1]),
            ns(cost.tail_ns[0]),
            ns(cost.tail_ns[1]),
        ]
    });
    table(m, "What events cost before their first stamp and behind their last one", &names, rows);
}

/// A remark as a sentence.
fn sentence_of(remark: &str) -> String {
    let mut letters = remark.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if remark.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", format::count(number), if number == 1 { "" } else { "s" })
}
