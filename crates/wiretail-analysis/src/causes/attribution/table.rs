//! Causes and senders by name, with their totals.

use std::collections::{BTreeSet, HashMap};

use wiretail_schema::causes::trace::TraceNames;
use wiretail_schema::causes::{
    CauseKind, CauseRow, CauseSender, HOST_TICK, PacketExplanation, Part, TrialExplanation, WAKING,
};

use super::place_of;
use super::timeline::{NO_SENDER, Raw, RawSender, Span, Timelines};
use crate::causes::attribution::breakdown::RawPart;

/// Kernel function that flushes another core's TLB entries (x86, `arch/x86/mm/tlb.c`).
const FLUSH: &str = "flush_tlb_func";

/// All causes and senders of a trial. Until [`Table::finish`] sorts the lists, indices refer to the unsorted
/// lists.
pub struct Table<'a> {
    rows: Vec<CauseRow>,
    senders: Vec<CauseSender>,
    /// Row of each cause of the timelines; `None` for the unknown cause.
    row_of: Vec<Option<usize>>,
    lines: &'a Timelines,
    names: &'a dyn TraceNames,
    /// Index in `senders`, by the sender's number in the timelines and the row.
    sender_of: HashMap<(u32, usize), usize>,
}

/// Index in the list of senders, by cause, thread, core, function and system call.
type KnownSenders<'a> = HashMap<(usize, i32, u16, Option<String>, Option<&'a str>), usize>;

impl<'a> Table<'a> {
    /// Creates a table of all causes in the timelines. `sent` lists the senders and the causes that they
    /// triggered.
    pub fn new(
        lines: &'a Timelines,
        names: &'a dyn TraceNames,
        sent: impl IntoIterator<Item = (u32, u16)>,
    ) -> Self {
        let mut table = Self {
            rows: Vec::new(),
            senders: Vec::new(),
            row_of: Vec::new(),
            lines,
            names,
            sender_of: HashMap::new(),
        };
        let mut known: HashMap<(CauseKind, String), usize> = HashMap::new();
        for raw in lines.causes.values() {
            let named = table.name(raw);
            let row = named.map(|(kind, name)| {
                *known.entry((kind, name.clone())).or_insert_with(|| {
                    table.rows.push(CauseRow::blank(kind, name));
                    table.rows.len() - 1
                })
            });
            table.row_of.push(row);
        }
        let mut known = HashMap::new();
        for (number, cause) in sent {
            if let (Some(raw), Some(row)) = (lines.senders.values().get(number as usize), table.row_of(cause))
            {
                table.add_sender(number, *raw, row, &mut known);
            }
        }
        table
    }

    /// `known` maps distinguishable senders to their index. Senders that differ only in their stacks may
    /// belong to one system call.
    fn add_sender(&mut self, number: u32, raw: RawSender, cause: usize, known: &mut KnownSenders<'a>) {
        let function = (raw.function != 0).then(|| self.function(raw.function));
        let system_call = self.names.system_call(raw.stack);
        let place =
            *known.entry((cause, raw.pid, raw.cpu, function, system_call)).or_insert_with_key(|key| {
                self.senders.push(CauseSender {
                    cause,
                    pid: raw.pid,
                    task: self.task(raw.pid),
                    cpu: raw.cpu.into(),
                    function: key.3.clone(),
                    system_call: system_call.map(str::to_owned),
                    ..CauseSender::default()
                });
                self.senders.len() - 1
            });
        self.senders[place].sends += self.lines.sends[number as usize];
        self.sender_of.insert((number, cause), place);
    }

    fn function(&self, address: u64) -> String {
        self.names.function(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    fn task(&self, pid: i32) -> String {
        if pid == 0 {
            return "idle".to_owned();
        }
        self.names.task(pid).map_or_else(|| format!("thread {pid}"), str::to_owned)
    }

    fn name(&self, raw: &Raw) -> Option<(CauseKind, String)> {
        let text = |number: u32| self.names.name(number).unwrap_or("?").to_owned();
        Some(match *raw {
            Raw::Vector(name) => match text(name).as_str() {
                "local_timer" => (CauseKind::Timer, String::new()),
                "reschedule" => (CauseKind::Reschedule, String::new()),
                "call_function" | "call_function_single" => (CauseKind::FunctionCall, String::new()),
                other => (CauseKind::Vector, other.to_owned()),
            },
            Raw::Irq(name) => (CauseKind::Irq, text(name)),
            Raw::Call(address) => match self.function(address) {
                name if name == FLUSH => (CauseKind::TlbShootdown, String::new()),
                name => (CauseKind::FunctionCall, name),
            },
            Raw::Softirq(name) => (CauseKind::Softirq, text(name)),
            Raw::Nmi => (CauseKind::Nmi, String::new()),
            Raw::Task(pid) => (CauseKind::Task, self.task(pid)),
            Raw::FairServer(pid) => (CauseKind::FairServer, self.task(pid)),
            Raw::Asleep => (CauseKind::Asleep, String::new()),
            Raw::Waking => (CauseKind::Asleep, WAKING.to_owned()),
            Raw::PageFault => (CauseKind::PageFault, String::new()),
            Raw::Paused => (CauseKind::Paused, String::new()),
            Raw::HostTick(hz) => (CauseKind::Paused, format!("{HOST_TICK}, {hz} Hz")),
            Raw::Device => (CauseKind::Device, String::new()),
            Raw::Burst(cpu_load) => (CauseKind::Burst, cpu_load.name().to_owned()),
            Raw::Batch => (CauseKind::Batch, String::new()),
            Raw::Feeding(cause) => {
                let inner = self.lines.causes.values().get(usize::from(cause))?;
                let (kind, name) = if let Raw::Feeding(_) = inner { return None } else { self.name(inner)? };
                let name = match (kind, name.as_str()) {
                    (CauseKind::Timer, _) => "local timer".to_owned(),
                    (CauseKind::TlbShootdown, _) => "TLB shootdown".to_owned(),
                    (CauseKind::Reschedule, _) => "rescheduling".to_owned(),
                    (_, "") => "function call".to_owned(),
                    _ => name,
                };
                (CauseKind::Feeding, name)
            }
            Raw::Unknown => return None,
        })
    }

    /// Row of a cause of the timelines; `None` for the unknown cause.
    pub fn row_of(&self, cause: u16) -> Option<usize> {
        self.row_of.get(usize::from(cause)).copied().flatten()
    }

    /// Kind and name of a row.
    pub fn cause(&self, row: usize) -> (CauseKind, &str) {
        (self.rows[row].kind, &self.rows[row].name)
    }

    /// Sender by its index in the list.
    pub fn sender_at(&self, sender: usize) -> &CauseSender {
        &self.senders[sender]
    }

    /// Sender of a span.
    pub fn sender_of(&self, span: &Span) -> Option<usize> {
        self.sender(span.sender, self.row_of(span.cause)?)
    }

    fn sender(&self, sender: u32, row: usize) -> Option<usize> {
        if sender == NO_SENDER { None } else { self.sender_of.get(&(sender, row)).copied() }
    }

    /// Converts a packet's parts to rows. Parts of unknown causes are added to the unknown time.
    pub fn tell(&self, raw: Vec<RawPart>, mut unknown_ns: u64) -> (Vec<Part>, u64) {
        let mut parts: Vec<Part> = Vec::new();
        for part in raw {
            let Some(cause) = self.row_of(part.cause) else {
                unknown_ns += part.ns;
                continue;
            };
            let sender = self.sender(part.sender, cause);
            let told = Part { cause, ns: part.ns, certainty: part.certainty, sender, queued: part.queued };
            let same = |other: &&mut Part| Part { ns: 0, ..**other } == Part { ns: 0, ..told };
            match parts.iter_mut().find(same) {
                Some(other) => other.ns += told.ns,
                None => parts.push(told),
            }
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        (parts, unknown_ns)
    }

    /// Adds the parts of a packet in the tail.
    pub fn count(&mut self, parts: &[Part]) {
        let mut sums: HashMap<usize, u64> = HashMap::new();
        let mut senders: BTreeSet<usize> = BTreeSet::new();
        for part in parts {
            *sums.entry(part.cause).or_default() += part.ns;
            let row = &mut self.rows[part.cause];
            row.tail_ns[place_of(part.certainty)] += part.ns;
            row.tail_queued_ns += if part.queued { part.ns } else { 0 };
            if let Some(sender) = part.sender {
                self.senders[sender].tail_ns += part.ns;
                senders.insert(sender);
            }
        }
        for (row, sum_ns) in sums {
            let row = &mut self.rows[row];
            row.tail_packets += 1;
            row.longest_ns = row.longest_ns.max(sum_ns);
        }
        senders.into_iter().for_each(|sender| self.senders[sender].tail_packets += 1);
    }

    /// Adds the activity of the device's core while packets arrived.
    pub fn count_spans(&mut self, spans: &[Span]) {
        let mut before: Option<(usize, u64)> = None;
        for span in spans {
            let Some(row) = self.row_of(span.cause) else { continue };
            // Head, body and tail count as one event.
            let goes_on = before == Some((row, span.from_ns));
            self.rows[row].events += u64::from(!goes_on);
            self.rows[row].total_ns += span.to_ns - span.from_ns;
            before = Some((row, span.to_ns));
        }
    }

    /// Rows with the largest shares of the tail.
    pub fn largest(&self, most: usize) -> Vec<usize> {
        let mut rows: Vec<usize> =
            (0..self.rows.len()).filter(|row| self.rows[*row].tail_packets > 0).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(tail_ns(&self.rows[*row])));
        rows.truncate(most);
        rows
    }

    /// Sets the percentiles that remain without the cause of a row.
    pub fn set_without(&mut self, row: usize, without_ns: Vec<i64>) {
        self.rows[row].without_ns = without_ns;
    }

    /// Sorts causes and senders, and updates the packets' indices. Causes and senders that delayed no packet
    /// and appear in no timeline are left out.
    pub fn finish(&mut self, explanation: &mut TrialExplanation, mut packets: Vec<PacketExplanation>) {
        let (mut rows, mut senders) = (vec![false; self.rows.len()], vec![false; self.senders.len()]);
        for packet in &packets {
            packet.parts.iter().for_each(|part| rows[part.cause] = true);
            packet.timeline.iter().filter_map(|span| span.cause).for_each(|cause| rows[cause] = true);
            let of_parts = packet.parts.iter().filter_map(|part| part.sender);
            of_parts
                .chain(packet.timeline.iter().filter_map(|span| span.sender))
                .for_each(|s| senders[s] = true);
        }
        rows.iter_mut().zip(&self.rows).for_each(|(kept, row)| *kept |= row.tail_packets > 0);
        senders.iter_mut().zip(&self.senders).for_each(|(kept, sender)| *kept |= sender.tail_packets > 0);
        senders.iter().zip(&self.senders).filter(|(kept, _)| **kept).for_each(|(_, s)| rows[s.cause] = true);
        let (order, place_of_row) = ordered(&rows, |row| std::cmp::Reverse(tail_ns(&self.rows[row])));
        explanation.causes = order.iter().map(|row| self.rows[*row].clone()).collect();
        let by_time =
            |sender: usize| std::cmp::Reverse((self.senders[sender].tail_ns, self.senders[sender].sends));
        let (order, place_of_sender) = ordered(&senders, by_time);
        explanation.senders = order.iter().map(|sender| self.senders[*sender].clone()).collect();
        explanation.senders.iter_mut().for_each(|sender| sender.cause = place_of_row[sender.cause]);
        for packet in &mut packets {
            for part in &mut packet.parts {
                part.cause = place_of_row[part.cause];
                part.sender = part.sender.map(|sender| place_of_sender[sender]);
            }
            for span in &mut packet.timeline {
                span.cause = span.cause.map(|cause| place_of_row[cause]);
                span.sender = span.sender.map(|sender| place_of_sender[sender]);
            }
        }
        explanation.worst = packets;
    }
}

fn tail_ns(row: &CauseRow) -> u64 {
    row.tail_ns.iter().sum()
}

/// Returns the kept items in sorted order, and the new index of each item.
fn ordered<K: Ord>(kept: &[bool], key: impl Fn(usize) -> K) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..kept.len()).filter(|place| kept[*place]).collect();
    order.sort_by_key(|place| key(*place));
    let mut places = vec![0; kept.len()];
    order.iter().enumerate().for_each(|(to, from)| places[*from] = to);
    (order, places)
}
