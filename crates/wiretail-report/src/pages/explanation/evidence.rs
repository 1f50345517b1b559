//! The senders of interrupts, and the data on which the explanation is based.

use wiretail_schema::causes::{EventCost, TrialExplanation};

use super::words::cause_name;
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::explanation::breakdown::colour;
use crate::pages::page;

/// Number of senders that are listed.
const SENDERS: usize = 40;

/// The table of senders; empty if no sent interrupt or call delayed the tail.
pub fn senders(m: &mut Markup, explanation: &TrialExplanation) {
    if explanation.senders.is_empty() {
        return;
    }
    page::section(m, "senders", "Senders", |m| {
        m.tag("p").class("hint").text(
            "Threads, on any core, that sent the interrupts and calls which delayed packets in the tail.",
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

pub fn section(m: &mut Markup, explanation: &TrialExplanation) {
    let evidence = &explanation.evidence;
    page::section(m, "evidence", "Evidence", |m| {
        let whole = format::duration(evidence.duration_ns as f64);
        m.tag("ul").class("standards").body(|m| {
            let mut line = |text: String| {
                m.tag("li").text(text);
            };
            line(format!(
                "Kernel trace of core {}: {} events in {whole}.",
                evidence.core,
                format::count(evidence.events),
            ));
            line(format!(
                "The offset between the clocks of the trace and of the packets' timestamps is known to within {}.",
                format::duration(evidence.clock_uncertainty_ns as f64)
            ));
            line(match evidence.windows_lost {
                0 => "No events are missing.".to_owned(),
                windows => format!(
                    "Events are missing during {} in total. {} of the tail fall into this time; their delay is \
                     not attributed.",
                    counted(windows, "window"),
                    counted(evidence.packets_in_lost, "packet"),
                ),
            });
            line(match evidence.stacks {
                true => "Senders' stacks were recorded and show the system calls.".to_owned(),
                false => "Senders' stacks were not recorded: senders are shown without their system calls.".to_owned(),
            });
            line(match evidence.logs_stalls {
                true => "The device's loop records when it stood still. Any other time in which nothing else ran counts as the device's own work.".to_owned(),
                false => "The device does not record when it stood still. Time in which nothing else is known to have run counts as the device's own work or as unexplained.".to_owned(),
            });
            evidence.remarks.iter().map(|remark| sentence_of(remark)).for_each(&mut line);
        });
        reading(m);
        calibration(m, &evidence.calibration);
    });
}

/// Explains the terms of the page.
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
        "excess delay",
        "A packet's delay minus the median of the trial. It is the sum of the packet's parts and the unexplained rest.",
    ),
    (
        "observed",
        "The time between two timestamps of the kernel's trace (or the device's own log), one at the beginning and one at the end.",
    ),
    (
        "modelled",
        "The processor (or the hypervisor) takes time before the first timestamp of an event and after its last one. \
      A loop that only reads the clock measured this time on this core for each kind of event (table below). \
      The usual service time of the packets ahead is also modelled.",
    ),
    (
        "inferred",
        "By exclusion (nothing else ran, and the device's loop stood still), or because the delay recurs in a regular pattern.",
    ),
    ("unexplained", "The remaining time. It is shown separately and not distributed over the causes."),
    (
        "queueing behind a packet",
        "Time that the packet waited because an earlier packet had been delayed. It is attributed to \
         the cause that delayed the earlier packet.",
    ),
];

fn calibration(m: &mut Markup, overheads: &[EventCost]) {
    if overheads.is_empty() {
        m.tag("p")
            .class("rests")
            .text("Events were not calibrated on this core, so their overhead is not modelled.");
        return;
    }
    let names = head(["event", "gaps seen", "before, median", "95 %", "after, median", "95 %"]);
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
    table(m, "Overhead of events before their first timestamp and after their last one", &names, rows);
}

/// Turns a remark into a sentence.
fn sentence_of(remark: &str) -> String {
    let mut letters = remark.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if remark.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", format::count(number), if number == 1 { "" } else { "s" })
}
