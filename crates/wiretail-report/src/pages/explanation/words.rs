//! Causes, packets and whole explanations in words: what the page, the terminal and the tooltips say.

use wiretail_schema::causes::{
    CPU_LOAD_LATE, CPU_LOAD_NEIGHBOUR, CauseKind, CauseRow, CauseSender, HOST_TICK, PacketExplanation, Part,
    TrialExplanation, WAKING,
};

use crate::format;

/// Causes that the sentence of a packet names one by one.
const NAMED_PARTS: usize = 5;
/// Causes that the headline names.
const NAMED_CAUSES: usize = 3;
/// A smaller share of the tail is not in the headline.
const HEADLINE_SHARE: f64 = 0.03;

/// A cause as a label: "TLB shootdown", "softirq NET_RX", "task wt-hog".
pub fn cause_name(row: &CauseRow) -> String {
    let with = |before: &str, alone: &str| match row.name.as_str() {
        "" => alone.to_owned(),
        name => format!("{before}{name}"),
    };
    match row.kind {
        CauseKind::Timer => "local timer".to_owned(),
        CauseKind::TlbShootdown => "TLB shootdown".to_owned(),
        CauseKind::FunctionCall => with("call ", "call of another core"),
        CauseKind::Reschedule => "reschedule interrupt".to_owned(),
        CauseKind::Vector => with("interrupt ", "interrupt of the processor"),
        CauseKind::Irq => with("device interrupt ", "device interrupt"),
        CauseKind::Softirq => with("softirq ", "softirq"),
        CauseKind::Nmi => "non-maskable interrupt".to_owned(),
        CauseKind::Task => with("task ", "another task"),
        CauseKind::FairServer => with("fair server: ", "fair server"),
        CauseKind::PageFault => "page faults".to_owned(),
        CauseKind::Asleep if row.name == WAKING => "the waking interrupt was on its way".to_owned(),
        CauseKind::Asleep => "the device slept".to_owned(),
        CauseKind::Paused if row.name.starts_with(HOST_TICK) => {
            format!("the core stood still ({})", row.name)
        }
        CauseKind::Paused => "the core stood still (hypervisor)".to_owned(),
        CauseKind::Device => "the device's own thread".to_owned(),
        CauseKind::Burst => match row.name.as_str() {
            CPU_LOAD_LATE => "waiting behind packets that were sent late and together".to_owned(),
            CPU_LOAD_NEIGHBOUR => "waiting because packets came faster than they were served".to_owned(),
            _ => "waiting behind a burst".to_owned(),
        },
        CauseKind::Batch => "waiting for the rest of its batch".to_owned(),
        CauseKind::Feeding => with("the sending core: ", "the sending core"),
    }
}

/// A cause where it has been at work more than once: "62 % went to TLB shootdowns".
fn many(row: &CauseRow) -> String {
    let name = &row.name;
    match row.kind {
        CauseKind::Timer => "the local timer".to_owned(),
        CauseKind::TlbShootdown => "TLB shootdowns".to_owned(),
        CauseKind::FunctionCall if name.is_empty() => "calls of other cores".to_owned(),
        CauseKind::FunctionCall => format!("calls of {name} by other cores"),
        CauseKind::Reschedule => "reschedule interrupts".to_owned(),
        CauseKind::Vector if name.is_empty() => "interrupts of the processor".to_owned(),
        CauseKind::Vector => format!("the interrupt {name}"),
        CauseKind::Irq if name.is_empty() => "device interrupts".to_owned(),
        CauseKind::Irq => format!("the device interrupt {name}"),
        CauseKind::Softirq if name.is_empty() => "softirqs".to_owned(),
        CauseKind::Softirq => format!("the softirq {name}"),
        CauseKind::Nmi => "non-maskable interrupts".to_owned(),
        CauseKind::Task if name.is_empty() => "other tasks".to_owned(),
        CauseKind::Task => format!("the task {name}"),
        CauseKind::FairServer if name.is_empty() => "the fair server".to_owned(),
        CauseKind::FairServer => format!("the fair server, which let {name} run"),
        CauseKind::Asleep if name == WAKING => "the way of the interrupts that wake the device".to_owned(),
        CauseKind::Asleep => "the device's sleep".to_owned(),
        CauseKind::Paused if name.starts_with(HOST_TICK) => format!("pauses by the {name}"),
        CauseKind::Paused => "pauses of the whole core (hypervisor or firmware)".to_owned(),
        CauseKind::Feeding if name.is_empty() => "what kept the sending core".to_owned(),
        CauseKind::Feeding => format!("{name} on the sending core"),
        CauseKind::PageFault | CauseKind::Device | CauseKind::Burst | CauseKind::Batch => cause_name(row),
    }
}

/// Who sent it: "sent by suricata-main in munmap".
pub fn sent_by(sender: &CauseSender) -> String {
    let who = match (sender.pid, sender.task.as_str()) {
        (0, _) => format!("the idle task of core {}", sender.cpu),
        (pid, "") => format!("thread {pid}"),
        (_, task) => task.to_owned(),
    };
    match &sender.system_call {
        Some(call) => format!("sent by {who} in {call}"),
        None => format!("sent by {who}"),
    }
}

/// The cause with this index, with its sender where it is known: "TLB shootdown (sent by suricata-main in munmap)".
pub fn cause_and_sender(explanation: &TrialExplanation, cause: usize, sender: Option<usize>) -> String {
    let name = explanation.causes.get(cause).map_or_else(|| "an unnamed cause".to_owned(), cause_name);
    match sender.and_then(|index| explanation.senders.get(index)) {
        Some(sender) => format!("{name} ({})", sent_by(sender)),
        None => name,
    }
}

/// What delayed a packet, in a sentence: "635 µs: 612 µs TLB shootdown (sent by suricata-main in munmap), 13 µs local
/// timer, 10 µs without a known cause". Where the usual delay is a visible part of it, the time lost stands there, too:
/// the parts add up to that.
pub fn sentence(explanation: &TrialExplanation, packet: &PacketExplanation) -> String {
    let delay = format::about(packet.delay_ns as f64);
    if packet.events_missing {
        return format!("{delay}: events are missing in its time, so that nothing is attributed");
    }
    if packet.lost_ns == 0 {
        return format!("{delay}: no more than usual");
    }
    let lost = format::about(packet.lost_ns as f64);
    let head = if lost == delay { delay } else { format!("{delay}, {lost} more than usual") };
    // Observed and modelled shares of the same thing are one part here.
    let mut parts: Vec<Part> = Vec::new();
    for part in &packet.parts {
        let same = |other: &&mut Part| {
            (other.queued, other.cause, other.sender) == (part.queued, part.cause, part.sender)
        };
        match parts.iter_mut().find(same) {
            Some(known) => known.ns += part.ns,
            None => parts.push(*part),
        }
    }
    parts.retain(|part| part.ns > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    let rest: Vec<u64> = match parts.len() > NAMED_PARTS + 1 {
        true => parts.split_off(NAMED_PARTS).into_iter().map(|part| part.ns).collect(),
        false => Vec::new(),
    };
    let mut said: Vec<String> = parts
        .into_iter()
        .map(|part| format!("{} {}", format::about(part.ns as f64), took(explanation, &part)))
        .collect();
    if !rest.is_empty() {
        said.push(format!(
            "{} in {} smaller parts",
            format::about(rest.iter().sum::<u64>() as f64),
            rest.len()
        ));
    }
    // Less than a thousandth is what rounding leaves.
    if packet.unknown_ns > packet.lost_ns / 1000 {
        said.push(format!("{} without a known cause", format::about(packet.unknown_ns as f64)));
    }
    if said.is_empty() {
        return head;
    }
    format!("{head}: {}", said.join(", "))
}

/// What a part of a packet's time went to, behind the time itself.
fn took(explanation: &TrialExplanation, part: &Part) -> String {
    let name = cause_and_sender(explanation, part.cause, part.sender);
    let kind = explanation.causes.get(part.cause).map(|row| row.kind);
    match (part.queued, kind) {
        (false, Some(CauseKind::Paused | CauseKind::Asleep)) => format!("in which {name}"),
        (false, _) => name,
        (true, Some(CauseKind::Paused | CauseKind::Asleep)) => {
            format!("behind a packet that waited while {name}")
        }
        (true, Some(CauseKind::Burst)) => "behind a packet that waited behind a burst".to_owned(),
        (true, Some(CauseKind::Batch)) => "behind a packet that waited for the rest of its batch".to_owned(),
        (true, _) => format!("behind a packet that waited for: {name}"),
    }
}

/// The explanation in a sentence: where the time of the tail went, by whom, and how much of it nobody knows.
pub fn headline(explanation: &TrialExplanation) -> String {
    let whom = format!(
        "Of the time that the {} slowest of {} packets lost",
        format::count(explanation.tail_packets),
        format::count(explanation.packets)
    );
    if explanation.tail_packets == 0 || explanation.tail_lost_ns == 0 {
        return "No packet of this trial lost time: there is nothing to explain.".to_owned();
    }
    let share = |ns: u64| ns as f64 / explanation.tail_lost_ns as f64;
    let mut causes: Vec<(usize, u64)> =
        explanation.causes.iter().map(|row| row.tail_ns.iter().sum()).enumerate().collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let large = causes.into_iter().filter(|(_, ns)| share(*ns) >= HEADLINE_SHARE).take(NAMED_CAUSES);
    let named: Vec<String> = large
        .enumerate()
        .map(|(place, (cause, ns))| {
            let went = if place == 0 { "went to" } else { "to" };
            let sender = main_sender(explanation, cause, ns).map_or(String::new(), |s| format!(" ({s})"));
            format!("{} {went} {}{sender}", percent(share(ns)), many(&explanation.causes[cause]))
        })
        .collect();
    let unknown = percent(share(explanation.tail_unknown_ns));
    match (named.is_empty(), explanation.tail_unknown_ns) {
        (true, 0) => format!("{whom}, no cause took as much as {}.", percent(HEADLINE_SHARE)),
        (true, _) => format!("{whom}, {unknown} has no known cause."),
        (false, 0) => format!("{whom}, {}; all of it has a known cause.", named.join(", ")),
        (false, _) => format!("{whom}, {}; {unknown} has no known cause.", named.join(", ")),
    }
}

/// Who sent most of a cause's time in the tail; None where nobody did.
pub fn main_sender(explanation: &TrialExplanation, cause: usize, ns: u64) -> Option<String> {
    let senders = explanation.senders.iter().filter(|sender| sender.cause == cause);
    let first = senders.max_by_key(|sender| sender.tail_ns)?;
    let share = first.tail_ns as f64 / ns.max(1) as f64;
    match share {
        share if share >= 0.9 => Some(sent_by(first)),
        share if share >= 0.5 => Some(format!("mostly {}", sent_by(first))),
        _ => None,
    }
}

/// A share in whole percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.5 => format!("less than 1{}%", format::SPACE),
        p if p > 99.5 && p < 100.0 => format!("over 99{}%", format::SPACE),
        p => format!("{}{}%", p.round(), format::SPACE),
    }
}
