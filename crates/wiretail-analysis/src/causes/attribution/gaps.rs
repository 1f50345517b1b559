//! Attribution of gaps in a loop that only reads the clock. Spans and overheads are the same as for packets,
//! but there are no queues. Every gap consists of one or more absences, and its parts are the spans that
//! overlap it.
//!
//! The overheads are calibrated from the gaps themselves. A gap with a single absence shows how much time its
//! event takes outside the tracepoints. An event that caused fewer than five gaps is too rare to be
//! calibrated. In a gap with such an event, the time that no event covers is attributed to the event if it
//! does not exceed the longest calibrated head. Otherwise, it is attributed to a pause.

use std::collections::{BTreeSet, HashMap};

use wiretail_schema::causes::trace::{Gap, TraceNames, TraceRoles};
use wiretail_schema::host::noise::{GapCause, GapCauses, GapPart, GapSender};

use super::table::Table;
use super::timeline::{Raw, Span, Timelines};
use crate::causes::attribution::overhead::{Overheads, within};

/// Assumed maximum length of a head, in ns, if no head could be calibrated.
const HEAD_NS: u64 = 15_000;

/// Causes of the gaps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExplainedGaps {
    /// All gaps, each attributed to its largest cause.
    pub causes: GapCauses,
    /// Parts of each requested gap.
    pub parts: Vec<Vec<GapPart>>,
}

/// Finds the causes of each gap of a spin loop. The gaps are the [`TraceRoles::stalls`] of `roles`. `lost`
/// contains the windows in which events are missing. `wanted` contains the positions of the gaps whose parts
/// are returned.
pub fn explain_gaps(
    mut lines: Timelines,
    roles: &TraceRoles,
    names: &dyn TraceNames,
    lost: &[Gap],
    wanted: &[usize],
) -> ExplainedGaps {
    let overheads = Overheads::calibrate(&lines, roles);
    let device = overheads.widen(&std::mem::take(&mut lines.device), &lines);
    let spans = overheads.add_stalls(&device, &roles.stalls, &mut lines);
    let sent: BTreeSet<(u32, u16)> = spans.iter().map(|span| (span.sender, span.cause)).collect();
    let table = Table::new(&lines, names, sent);
    let paused = lines.causes.values().iter().position(|raw| *raw == Raw::Paused).map(|place| place as u16);
    let head_ns = overheads.max_head_ns().unwrap_or(HEAD_NS);
    let mut found = GapCauses {
        events: lines.events,
        calibration: overheads.table(&lines, names),
        ..GapCauses::default()
    };
    let mut rows = Rows { table: &table, rows: HashMap::new() };
    let mut parts_of: HashMap<usize, Vec<RowPart>> = HashMap::new();
    for (place, gap) in roles.stalls.iter().enumerate() {
        if lost.iter().any(|lost| lost.from_ns < gap.to_ns && gap.from_ns < lost.to_ns) {
            found.gaps_missing += 1;
            continue;
        }
        let parts = parts(gap, &spans, &table, paused, head_ns);
        match parts.first() {
            Some(first) => rows.count(first, gap.to_ns.saturating_sub(gap.from_ns)),
            None => found.gaps_unnamed += 1,
        }
        if wanted.contains(&place) {
            // A cause may be part of a listed gap without being the largest part of any gap.
            for part in &parts {
                rows.row(part.row);
            }
            parts_of.insert(place, parts);
        }
    }
    let order = rows.order();
    let place_of: HashMap<usize, usize> = order.iter().enumerate().map(|(to, row)| (*row, to)).collect();
    let told = |part: &RowPart| GapPart { cause: place_of[&part.row], ns: part.ns };
    let parts_of = |place| parts_of.get(place).into_iter().flatten().map(told).collect();
    let parts: Vec<Vec<GapPart>> = wanted.iter().map(parts_of).collect();
    found.causes = order.iter().filter_map(|row| rows.rows.remove(row)).collect();
    ExplainedGaps { causes: found, parts }
}

/// Causes of gaps, indexed by their row in the table.
struct Rows<'a> {
    table: &'a Table<'a>,
    rows: HashMap<usize, GapCause>,
}

impl Rows<'_> {
    fn row(&mut self, row: usize) -> &mut GapCause {
        let (kind, name) = self.table.cause(row);
        self.rows.entry(row).or_insert_with(|| GapCause {
            kind,
            name: name.to_owned(),
            gaps: 0,
            total_ns: 0,
            longest_ns: 0,
            senders: Vec::new(),
        })
    }

    /// Adds a gap to the cause and the sender of its longest part.
    fn count(&mut self, part: &RowPart, length_ns: u64) {
        let by = part.sender.map(|sender| self.table.sender_at(sender));
        let row = self.row(part.row);
        row.gaps += 1;
        row.total_ns = row.total_ns.saturating_add(length_ns);
        row.longest_ns = row.longest_ns.max(length_ns);
        let Some(by) = by else { return };
        let same = |other: &GapSender| {
            (other.pid, other.cpu, &other.system_call) == (by.pid, by.cpu, &by.system_call)
        };
        let place = row.senders.iter().position(same).unwrap_or_else(|| {
            row.senders.push(GapSender {
                pid: by.pid,
                task: by.task.clone(),
                cpu: by.cpu,
                system_call: by.system_call.clone(),
                gaps: 0,
                total_ns: 0,
            });
            row.senders.len() - 1
        });
        let sender = &mut row.senders[place];
        sender.gaps += 1;
        sender.total_ns = sender.total_ns.saturating_add(length_ns);
    }

    /// Orders rows by total time and their senders by number of gaps, largest first.
    fn order(&mut self) -> Vec<usize> {
        for row in self.rows.values_mut() {
            row.senders.sort_by_key(|sender| (std::cmp::Reverse(sender.gaps), sender.pid));
        }
        let mut order: Vec<usize> = self.rows.keys().copied().collect();
        order.sort_by_key(|row| (std::cmp::Reverse(self.rows[row].total_ns), *row));
        order
    }
}

/// A part of a gap, and the table row of its cause.
#[derive(Debug, Clone, Copy)]
struct RowPart {
    row: usize,
    ns: u64,
    /// The sender with the largest share of the part.
    sender: Option<usize>,
}

/// Parts of a gap, the longest first.
fn parts(gap: &Gap, spans: &[Span], table: &Table<'_>, paused: Option<u16>, head_ns: u64) -> Vec<RowPart> {
    let mut by_sender: Vec<(usize, Option<usize>, u64)> = Vec::new();
    let (mut paused_ns, mut paused_row) = (0, None);
    for span in within(spans, gap.from_ns, gap.to_ns) {
        let ns = span.to_ns.min(gap.to_ns).saturating_sub(span.from_ns.max(gap.from_ns));
        let Some(row) = table.row_of(span.cause).filter(|_| ns > 0) else { continue };
        if Some(span.cause) == paused {
            (paused_ns, paused_row) = (paused_ns + ns, Some(row));
            continue;
        }
        let sender = table.sender_of(span);
        match by_sender.iter_mut().find(|(other, by, _)| (*other, *by) == (row, sender)) {
            Some((_, _, sum_ns)) => *sum_ns += ns,
            None => by_sender.push((row, sender, ns)),
        }
    }
    by_sender.sort_by_key(|(row, _, ns)| (std::cmp::Reverse(*ns), *row));
    let mut parts: Vec<RowPart> = Vec::new();
    for (row, sender, ns) in by_sender {
        match parts.iter_mut().find(|part| part.row == row) {
            Some(part) => part.ns += ns,
            None => parts.push(RowPart { row, ns, sender }),
        }
    }
    parts.sort_by_key(|part| (std::cmp::Reverse(part.ns), part.row));
    match (parts.first_mut(), paused_row) {
        (Some(first), Some(_)) if paused_ns <= head_ns => first.ns += paused_ns,
        (_, Some(row)) => parts.push(RowPart { row, ns: paused_ns, sender: None }),
        _ => {}
    }
    parts.sort_by_key(|part| (std::cmp::Reverse(part.ns), part.row));
    parts
}
