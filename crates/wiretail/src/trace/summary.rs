//! Summarizes a trace: counts and durations of the events on each core, and their senders.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use wiretail_capture::trace::{Event, Kind, Lost, Trace};
use wiretail_schema::causes::trace::TraceNames;

/// Maximum number of windows that are listed.
const LOST_MAX: usize = 1000;

/// Summary of a whole trace.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Release of the traced kernel.
    pub kernel: String,
    pub watched: Vec<u32>,
    /// Duration of the recording, in ns.
    pub duration_ns: u64,
    /// Total number of events.
    pub events: u64,
    /// Events of kinds that this program does not know.
    pub unknown: u64,
    /// Number of events that the kernel could not write. Their times are unknown.
    pub dropped: u64,
    /// Whether CLOCK_REALTIME was set during the recording.
    pub clock_stepped: bool,
    /// Uncertainty of the alignment between trace and packets, in ns.
    pub clock_uncertainty_ns: u64,
    /// Kinds of events on each core, most frequent first.
    pub kinds: Vec<KindRow>,
    /// Senders, most frequent first.
    pub senders: Vec<SenderRow>,
    /// Windows in which events are missing; limited to the first thousand.
    pub lost: Vec<LostRow>,
    /// Tracing features that the kernel lacks or refused to enable.
    pub remarks: Vec<String>,
}

/// Events of one kind on one core.
#[derive(Debug, Serialize)]
pub struct KindRow {
    pub cpu: u32,
    /// Name of the kind: "local_timer", "softirq NET_RX", "call flush_tlb_func".
    pub what: String,
    /// Number of events.
    pub events: u64,
    /// Events per second.
    pub per_s: f64,
    /// Total duration of these events, in ns; 0 if the kind has no end events.
    pub total_ns: u64,
    /// Duration of the longest event, in ns.
    pub longest_ns: u64,
}

/// Interrupts and function calls that one task sent to the watched cores.
#[derive(Debug, Serialize)]
pub struct SenderRow {
    /// Thread of the sender.
    pub pid: i32,
    /// Name of the thread, if known.
    pub task: Option<String>,
    /// "call" if a function was queued, or "interrupt" if an interrupt was sent.
    pub what: &'static str,
    /// The function to run on the watched core, if any.
    pub function: Option<String>,
    /// The function that sent the interrupt or function call.
    pub call_site: Option<String>,
    /// The system call of the sender, if stacks were recorded.
    pub system_call: Option<String>,
    /// Number of sends.
    pub sends: u64,
}

/// A window in which events are missing.
#[derive(Debug, Serialize)]
pub struct LostRow {
    pub cpu: u32,
    /// Start of the window since the start of the recording, in ns.
    pub from_ns: u64,
    /// End of the window since the start of the recording, in ns.
    pub to_ns: u64,
    /// Number of missing events, if the kernel reported it.
    pub events: Option<u64>,
}

/// Identifies a kind of event on a core, by its kind, text and number.
type What = (Kind, u32, u64);

/// Identifies a sender, by its thread, what it sends, and the names of the function, the call site and the
/// system call.
type Sender = (i32, &'static str, [Option<String>; 3]);

#[derive(Default)]
struct Tally {
    events: u64,
    total_ns: u64,
    longest_ns: u64,
    since_ns: Option<u64>,
}

/// Reads the trace in `folder`.
///
/// # Errors
/// Returns an error if the folder does not contain a trace or the trace is damaged.
pub fn summarize(folder: &Path) -> Result<Summary> {
    let mut trace = Trace::open(folder)?;
    let mut kinds: HashMap<(u16, What), Tally> = HashMap::new();
    let mut senders: HashMap<(i32, Kind, [u64; 2], u32), u64> = HashMap::new();
    let end = trace.read(|event| {
        if let Kind::CsdQueue | Kind::IpiSend | Kind::IpiSendMask = event.kind {
            let sender = (event.pid, event.kind, [event.args[1], event.args[2]], event.stack);
            *senders.entry(sender).or_default() += 1;
            return;
        }
        let (what, is_exit) = what(event);
        let tally = kinds.entry((event.cpu, what)).or_default();
        if is_exit {
            if let Some(since_ns) = tally.since_ns.take() {
                let spent_ns = event.ts_ns.saturating_sub(since_ns);
                tally.total_ns += spent_ns;
                tally.longest_ns = tally.longest_ns.max(spent_ns);
            }
        } else {
            tally.events += 1;
            tally.since_ns = Some(event.ts_ns);
        }
    })?;
    let info = trace.info();
    let duration_ns = info.end_ns.saturating_sub(info.start_ns);
    let lost = |lost: &Lost| LostRow {
        cpu: lost.cpu,
        from_ns: lost.from_ns.saturating_sub(info.start_ns),
        to_ns: lost.to_ns.saturating_sub(info.start_ns),
        events: lost.events,
    };
    Ok(Summary {
        kernel: info.kernel.clone(),
        watched: info.watched.clone(),
        duration_ns,
        events: end.events,
        unknown: end.unknown,
        dropped: info.streams.iter().map(|stream| stream.dropped).sum(),
        clock_stepped: info.clock_stepped,
        clock_uncertainty_ns: info.clock_before.uncertainty_ns.max(info.clock_after.uncertainty_ns),
        kinds: kind_rows(&trace, kinds, duration_ns),
        senders: sender_rows(&trace, senders),
        lost: end.lost.iter().take(LOST_MAX).map(lost).collect(),
        remarks: info.remarks.iter().chain(trace.remarks()).cloned().collect(),
    })
}

/// Returns the kind of an event, which is the same for its begin event and its end event. Also returns
/// whether this is the end event.
fn what(event: &Event) -> (What, bool) {
    let (name, number) = (event.name, event.args[0]);
    match event.kind {
        Kind::VectorEntry => ((Kind::VectorEntry, name, 0), false),
        Kind::VectorExit => ((Kind::VectorEntry, name, 0), true),
        // The end event has no name.
        Kind::IrqEntry => ((Kind::IrqEntry, 0, number), false),
        Kind::IrqExit => ((Kind::IrqEntry, 0, number), true),
        Kind::SoftirqEntry => ((Kind::SoftirqEntry, name, number), false),
        Kind::SoftirqExit => ((Kind::SoftirqEntry, name, number), true),
        Kind::CsdEntry => ((Kind::CsdEntry, 0, number), false),
        Kind::CsdExit => ((Kind::CsdEntry, 0, number), true),
        Kind::TlbFlush => ((Kind::TlbFlush, name, number), false),
        Kind::Nmi => ((Kind::Nmi, 0, number), false),
        kind => ((kind, 0, 0), false),
    }
}

fn kind_rows(trace: &Trace, kinds: HashMap<(u16, What), Tally>, duration_ns: u64) -> Vec<KindRow> {
    let text = |(kind, name, number): What| {
        let name = trace.name(name).map_or_else(|| number.to_string(), str::to_owned);
        match kind {
            Kind::VectorEntry => name,
            Kind::IrqEntry => format!("irq {number}"),
            Kind::SoftirqEntry => format!("softirq {name}"),
            Kind::CsdEntry => format!("call {}", function(trace, number).unwrap_or(name)),
            Kind::TlbFlush => format!("TLB flush: {name}"),
            Kind::Nmi => format!("NMI {}", function(trace, number).unwrap_or(name)),
            Kind::Switch => "task switch".to_owned(),
            Kind::PageFaultUser => "page fault, user".to_owned(),
            Kind::PageFaultKernel => "page fault, kernel".to_owned(),
            // End events, and events that send an interrupt or call, have no separate rows.
            _ => String::new(),
        }
    };
    let seconds = duration_ns.max(1) as f64 / 1e9;
    let row = |((cpu, what), tally): ((u16, What), Tally)| KindRow {
        cpu: cpu.into(),
        what: text(what),
        events: tally.events,
        per_s: tally.events as f64 / seconds,
        total_ns: tally.total_ns,
        longest_ns: tally.longest_ns,
    };
    let mut rows: Vec<KindRow> = kinds.into_iter().map(row).collect();
    rows.sort_by(|a, b| (a.cpu, b.events, &a.what).cmp(&(b.cpu, a.events, &b.what)));
    rows
}

fn sender_rows(trace: &Trace, senders: HashMap<(i32, Kind, [u64; 2], u32), u64>) -> Vec<SenderRow> {
    // Senders are grouped by their displayed text, because several stacks may belong to one system call.
    let mut rows: HashMap<Sender, u64> = HashMap::new();
    for ((pid, kind, [called, site], stack), sends) in senders {
        let what = if kind == Kind::CsdQueue { "call" } else { "interrupt" };
        let names =
            [function(trace, called), function(trace, site), trace.system_call(stack).map(str::to_owned)];
        *rows.entry((pid, what, names)).or_default() += sends;
    }
    let row = |((pid, what, [function, call_site, system_call]), sends): (Sender, u64)| {
        let task = if pid == 0 { Some("idle") } else { trace.task(pid) };
        SenderRow { pid, task: task.map(str::to_owned), what, function, call_site, system_call, sends }
    };
    let mut rows: Vec<SenderRow> = rows.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        (b.sends, a.pid, a.what, &a.function, &a.call_site, &a.system_call).cmp(&(
            a.sends,
            b.pid,
            b.what,
            &b.function,
            &b.call_site,
            &b.system_call,
        ))
    });
    rows
}

/// Returns the function at an address, or the address if it is unknown; `None` for 0.
fn function(trace: &Trace, address: u64) -> Option<String> {
    let name = || trace.symbol(address).map_or_else(|| format!("{address:#x}"), |(name, _)| name.to_owned());
    (address != 0).then(name)
}
