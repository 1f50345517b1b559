//! What delayed the worst packets of a trial, for a terminal.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, percentile};
use wiretail_schema::causes::{CauseRow, TrialExplanation};

/// Rows of the tables.
const SHOWN: usize = 12;

/// Writes it, with so many of the worst packets.
///
/// # Errors
/// As for a closed pipe.
pub fn write(out: &mut impl Write, explanation: &TrialExplanation, worst: usize) -> io::Result<()> {
    writeln!(out, "\n  {}", explanation.trial)?;
    writeln!(
        out,
        "  {} packets, usually {}; the slowest {} took {} and more, and lost {} together, {} of it without a known cause\n",
        count(explanation.packets),
        duration(explanation.usual_ns as f64),
        count(explanation.tail_packets),
        duration(explanation.tail_above_ns as f64),
        duration(explanation.tail_lost_ns as f64),
        share(explanation.tail_unknown_ns, explanation.tail_lost_ns),
    )?;
    for row in explanation.causes.iter().take(SHOWN) {
        cause(out, explanation, row)?;
    }
    for sender in explanation.senders.iter().take(SHOWN) {
        writeln!(out, "    {:?}", sender)?;
    }
    for packet in explanation.worst.iter().take(worst) {
        write!(out, "    {:>9} {:>9} ", count(packet.index), duration(packet.delay_ns as f64))?;
        for part in &packet.parts {
            let row = &explanation.causes[part.cause];
            write!(
                out,
                " {} {:?} {}{},",
                duration(part.ns as f64),
                row.kind,
                row.name,
                if part.queued { " queued" } else { "" }
            )?;
        }
        writeln!(
            out,
            " {} unknown, {} ahead{}",
            duration(packet.unknown_ns as f64),
            packet.ahead,
            if packet.events_missing { ", EVENTS MISSING" } else { "" }
        )?;
    }
    writeln!(out, "{:#?}", explanation.evidence)?;
    Ok(())
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn cause(out: &mut impl Write, explanation: &TrialExplanation, row: &CauseRow) -> io::Result<()> {
    let tail_ns: u64 = row.tail_ns.iter().sum();
    write!(
        out,
        "    {:?} {}: {} of the tail ({:?}), {} packets, at most {}; {} times, {}",
        row.kind,
        row.name,
        share(tail_ns, explanation.tail_lost_ns),
        row.tail_ns,
        row.tail_packets,
        duration(row.longest_ns as f64),
        row.events,
        duration(row.total_ns as f64)
    )?;
    for (value, without) in explanation.percentiles.iter().zip(&row.without_ns) {
        write!(
            out,
            "; p{} {} -> {}",
            percentile(value.percentile),
            duration(value.value_ns as f64),
            duration(*without as f64)
        )?;
    }
    writeln!(out)
}
