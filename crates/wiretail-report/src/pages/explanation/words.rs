//! Causes, packets and whole explanations in words, for the page, the terminal and the tooltips.

use wiretail_schema::causes::{
    CPU_LOAD_LATE, CPU_LOAD_NEIGHBOUR, CauseKind, CauseRow, CauseSender, HOST_TICK, PacketExplanation, Part,
    TrialExplanation, WAKING,
};

use crate::format;

/// Number of causes named in a packet's sentence.
const NAMED_PARTS: usize = 5;
/// Number of causes named in the headline.
const NAMED_CAUSES: usize = 3;
/// The headline names a cause only if it has at least this share of the tail's excess delay.
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
        CauseKind::FunctionCall => with("function call ", "function call from another core"),
        CauseKind::Reschedule => "reschedule interrupt".to_owned(),
        CauseKind::Vector => with("processor interrupt ", "processor interrupt"),
        CauseKind::Irq => with("device interrupt ", "device interrupt"),
        CauseKind::Softirq => with("softirq ", "softirq"),
        CauseKind::Nmi => "non-maskable interrupt".to_owned(),
        CauseKind::Task => with("task ", "another task"),
        CauseKind::FairServer => with("fair server: ", "fair server"),
        CauseKind::PageFault => "page faults".to_owned(),
        CauseKind::Asleep if row.name == WAKING => "wake-up interrupt in transit".to_owned(),
        CauseKind::Asleep => "device asleep".to_owned(),
        CauseKind::Paused if row.name.starts_with(HOST_TICK) => format!("core paused ({})", row.name),
        CauseKind::Paused => "core paused (hypervisor)".to_owned(),
        CauseKind::Device => "the device's own work".to_owned(),
        CauseKind::Burst => match row.name.as_str() {
            CPU_LOAD_LATE => "queueing behind packets sent late".to_owned(),
            CPU_LOAD_NEIGHBOUR => "queueing: arrivals faster than service".to_owned(),
            _ => "queueing behind a burst".to_owned(),
        },
        CauseKind::Batch => "waiting for the rest of the batch".to_owned(),
        CauseKind::Feeding => with("sending core: ", "sending core"),
    }
}

/// A cause as the origin of a share: "62 % came from TLB shootdowns".
fn origin(row: &CauseRow) -> String {
    let name = &row.name;
    match row.kind {
        CauseKind::Timer => "the local timer".to_owned(),
        CauseKind::TlbShootdown => "TLB shootdowns".to_owned(),
        CauseKind::FunctionCall if name.is_empty() => "function calls from other cores".to_owned(),
        CauseKind::FunctionCall => format!("function calls of {name} from other cores"),
        CauseKind::Reschedule => "reschedule interrupts".to_owned(),
        CauseKind::Vector if name.is_empty() => "processor interrupts".to_owned(),
        CauseKind::Vector => format!("the processor interrupt {name}"),
        CauseKind::Irq if name.is_empty() => "device interrupts".to_owned(),
        CauseKind::Irq => format!("the device interrupt {name}"),
        CauseKind::Softirq if name.is_empty() => "softirqs".to_owned(),
        CauseKind::Softirq => format!("the softirq {name}"),
        CauseKind::Nmi => "non-maskable interrupts".to_owned(),
        CauseKind::Task if name.is_empty() => "other tasks".to_owned(),
        CauseKind::Task => format!("the task {name}"),
        CauseKind::FairServer if name.is_empty() => "the fair server".to_owned(),
        CauseKind::FairServer => format!("the fair server running {name}"),
        CauseKind::Asleep if name == WAKING => "wake-up interrupts in transit".to_owned(),
        CauseKind::Asleep => "the device sleeping".to_owned(),
        CauseKind::Paused if name.starts_with(HOST_TICK) => format!("pauses of the core at the {name}"),
        CauseKind::Paused => "pauses of the core (hypervisor or firmware)".to_owned(),
        CauseKind::Burst => match name.as_str() {
            CPU_LOAD_LATE => "packets that the load generator sent late and together".to_owned(),
            CPU_LOAD_NEIGHBOUR => "packets that arrived faster than the device served them".to_owned(),
            _ => "bursts".to_owned(),
        },
        CauseKind::Batch => "waiting for batches to fill".to_owned(),
        CauseKind::Feeding if name.is_empty() => "interruptions of the sending core".to_owned(),
        CauseKind::Feeding => format!("{name} on the sending core"),
        CauseKind::PageFault | CauseKind::Device => cause_name(row),
    }
}

/// The sender of an interrupt or call, with its system call: "suricata-main (munmap)".
pub fn sender_name(sender: &CauseSender) -> String {
    let name = match (sender.pid, sender.task.as_str()) {
        (0, _) => format!("the idle task of core {}", sender.cpu),
        (pid, "") => format!("thread {pid}"),
        (_, task) => task.to_owned(),
    };
    match &sender.system_call {
        Some(call) => format!("{name} ({call})"),
        None => name,
    }
}

/// The cause with this index, with its sender if known: "TLB shootdown by suricata-main (munmap)".
pub fn cause_and_sender(explanation: &TrialExplanation, cause: usize, sender: Option<usize>) -> String {
    let name = explanation.causes.get(cause).map_or_else(|| "an unnamed cause".to_owned(), cause_name);
    match sender.and_then(|index| explanation.senders.get(index)) {
        Some(sender) => format!("{name} by {}", sender_name(sender)),
        None => name,
    }
}

/// What delayed a packet, in a sentence: "635 µs: 612 µs TLB shootdown by suricata-main (munmap), 13 µs local
/// timer, 10 µs unexplained". If the median is a visible part of the delay, the sentence also contains the
/// excess delay, to which the parts add up.
pub fn sentence(explanation: &TrialExplanation, packet: &PacketExplanation) -> String {
    let delay = format::about(packet.delay_ns as f64);
    if packet.events_missing {
        return format!(
            "{delay}: not explained, because trace events are missing from the packet's time in the device"
        );
    }
    if packet.lost_ns == 0 {
        return format!("{delay}: not above the median");
    }
    let lost = format::about(packet.lost_ns as f64);
    let head = if lost == delay { delay } else { format!("{delay}, {lost} above the median") };
    // Observed and modelled shares of the same cause are combined into one part.
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
    // A remainder of less than a thousandth results from rounding.
    if packet.unknown_ns > packet.lost_ns / 1000 {
        said.push(format!("{} unexplained", format::about(packet.unknown_ns as f64)));
    }
    if said.is_empty() {
        return head;
    }
    format!("{head}: {}", said.join(", "))
}

/// The cause of a part of a packet's excess delay, worded to follow the part's duration.
fn took(explanation: &TrialExplanation, part: &Part) -> String {
    let name = cause_and_sender(explanation, part.cause, part.sender);
    match part.queued {
        false => name,
        true => format!("queued behind a packet delayed by: {name}"),
    }
}

/// The explanation in one sentence, with the largest causes of the tail's excess delay, their senders, and
/// the unexplained share.
pub fn headline(explanation: &TrialExplanation) -> String {
    if explanation.tail_packets == 0 || explanation.tail_lost_ns == 0 {
        return "No packet of this trial has excess delay: there is nothing to explain.".to_owned();
    }
    let share = |ns: u64| ns as f64 / explanation.tail_lost_ns as f64;
    let mut causes: Vec<(usize, u64)> =
        explanation.causes.iter().map(|row| row.tail_ns.iter().sum()).enumerate().collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let large = causes.into_iter().filter(|(_, ns)| share(*ns) >= HEADLINE_SHARE).take(NAMED_CAUSES);
    let named: Vec<String> = large
        .enumerate()
        .map(|(place, (cause, ns))| {
            let verb = if place == 0 { "of the tail's excess delay came from" } else { "from" };
            let sender = main_sender(explanation, cause, ns).map_or(String::new(), |name| format!(" {name}"));
            format!("{} {verb} {}{sender}", percent(share(ns)), origin(&explanation.causes[cause]))
        })
        .collect();
    let unknown = percent(share(explanation.tail_unknown_ns));
    match (named.is_empty(), explanation.tail_unknown_ns) {
        (true, 0) => {
            format!("No cause made up {} or more of the tail's excess delay.", percent(HEADLINE_SHARE))
        }
        (true, _) => format!("{unknown} of the tail's excess delay is unexplained."),
        (false, 0) => format!("{}; all of it is explained.", named.join(", ")),
        (false, _) => format!("{}; {unknown} is unexplained.", named.join(", ")),
    }
}

/// The sender of at least half of a cause's time in the tail: "by suricata-main (munmap)".
pub fn main_sender(explanation: &TrialExplanation, cause: usize, ns: u64) -> Option<String> {
    let senders = explanation.senders.iter().filter(|sender| sender.cause == cause);
    let first = senders.max_by_key(|sender| sender.tail_ns)?;
    let share = first.tail_ns as f64 / ns.max(1) as f64;
    match share {
        share if share >= 0.9 => Some(format!("by {}", sender_name(first))),
        share if share >= 0.5 => Some(format!("mostly by {}", sender_name(first))),
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
