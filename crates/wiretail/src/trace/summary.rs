//! A trace in numbers: what happened how often on which core, for how long, and who sent it.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use wiretail_capture::trace::{Event, Kind, Lost, Trace};
use wiretail_schema::causes::trace::TraceNames;

/// Longest list of windows that is kept.
const LOST_MAX: usize = 1000;

/// Of a whole trace.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Release of the kernel that was traced.
    pub kernel: String,
    /// Cores that were watched.
    pub watched: Vec<u32>,
    /// How long it was recorded, in ns.
    pub duration_ns: u64,
    /// Events in all.
    pub events: u64,
    /// Events of kinds that this program does not know.
    pub unknown: u64,
    /// Events that the kernel could not write, without a trace of when.
    pub dropped: u64,
    /// Whether CLOCK_REALTIME was set meanwhile.
    pub clock_stepped: bool,
    /// How exactly the trace can be aligned with packets, in ns.
    pub clock_uncertainty_ns: u64,
    /// By core, the most frequent first.
    pub kinds: Vec<KindRow>,
    /// The most frequent first.
    pub senders: Vec<SenderRow>,
    /// Windows in which events are missing; the first thousand.
    pub lost: Vec<LostRow>,
    /// What the kernel does not have, or refused.
    pub remarks: Vec<String>,
}

/// Events of one kind on one core.
#[derive(Debug, Serialize)]
pub struct KindRow {
    /// Where.
    pub cpu: u32,
    /// What: "local_timer", "softirq NET_RX", "call flush_tlb_func".
    pub what: String,
    /// How many.
    pub events: u64,
    /// How many a second.
    pub per_s: f64,
    /// From its beginnings to its ends, in ns, all together; without an end, 0.
    pub total_ns: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
}

/// What one task sent towards the watched cores.
#[derive(Debug, Serialize)]
pub struct SenderRow {
    /// The thread.
    pub pid: i32,
    /// Its name, if it is known.
    pub task: Option<String>,
    /// "call": a function was queued; "interrupt": an interrupt was sent.
    pub what: &'static str,
    /// The function that is to run there, if there is one.
    pub function: Option<String>,
    /// Who asked for it.
    pub call_site: Option<String>,
    /// The system call, where stacks were recorded.
    pub system_call: Option<String>,
    /// How many.
    pub sends: u64,
}

/// A window in which events are missing.
#[derive(Debug, Serialize)]
pub struct LostRow {
    /// Where.
    pub cpu: u32,
    /// Since the start of the recording, in ns.
    pub from_ns: u64,
    /// Since the start of the recording, in ns.
    pub to_ns: u64,
    /// How many, if the kernel said.
    pub events: Option<u64>,
}

/// What tells kinds of one core apart: kind, text, number.
type What = (Kind, u32, u64);

/// Who sends what: thread, what, and the names of function, call site and system call.
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
/// It is none, or damaged.
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

/// Beginnings and ends count as one.
fn what(event: &Event) -> (What, bool) {
    let (name, number) = (event.name, event.args[0]);
    match event.kind {
        Kind::VectorEntry => ((Kind::VectorEntry, name, 0), false),
        Kind::VectorExit => ((Kind::VectorEntry, name, 0), true),
        // The end has no name.
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
            Kind::Switch => "switch of tasks".to_owned(),
            Kind::PageFaultUser => "page fault, program".to_owned(),
            Kind::PageFaultKernel => "page fault, kernel".to_owned(),
            // Ends and sends have no rows.
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
    // By what is shown: several stacks may be of one system call.
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

/// The function at an address, or the address; none for 0.
fn function(trace: &Trace, address: u64) -> Option<String> {
    let name = || trace.symbol(address).map_or_else(|| format!("{address:#x}"), |(name, _)| name.to_owned());
    (address != 0).then(name)
}
