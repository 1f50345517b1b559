//! Prints a trace's summary on the terminal.

use std::io::{self, Write};

use wiretail_report::format;

use super::summary::Summary;

/// Maximum number of senders and of windows that are listed. `--json` lists all of them.
const ROWS_MAX: usize = 20;

/// Prints the summary.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn print(summary: &Summary) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let seconds = summary.duration_ns as f64 / 1e9;
    let cores: Vec<String> = summary.watched.iter().map(ToString::to_string).collect();
    let (events, kernel) = (format::count(summary.events), &summary.kernel);
    writeln!(out, "core {}, {seconds:.2} s, {events} events, kernel {kernel}", cores.join(", "))?;
    writeln!(
        out,
        "\n  core  {:36} {:>10} {:>10} {:>12} {:>12}",
        "what", "events", "per s", "total", "longest"
    )?;
    for row in &summary.kinds {
        let time = |ns: u64| if ns == 0 { String::new() } else { format::duration(ns as f64) };
        let (total, longest) = (time(row.total_ns), time(row.longest_ns));
        let count = format::count(row.events);
        writeln!(
            out,
            "  {:4}  {:36} {count:>10} {:>10.1} {total:>12} {longest:>12}",
            row.cpu, row.what, row.per_s
        )?;
    }
    if summary.senders.is_empty() {
        writeln!(
            out,
            "\nNo task sent interrupts or function calls to {}.",
            if cores.len() == 1 { "this core" } else { "these cores" }
        )?;
    } else {
        writeln!(out, "\n  {:>10}  sent towards watched cores", "sends")?;
    }
    for row in summary.senders.iter().take(ROWS_MAX) {
        let task = row.task.as_deref().unwrap_or("an unnamed task");
        let function = row.function.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        let site = row.call_site.as_deref().map(|name| format!(" by {name}")).unwrap_or_default();
        let call = row.system_call.as_deref().map(|name| format!(", in {name}()")).unwrap_or_default();
        let sends = format::count(row.sends);
        writeln!(out, "  {sends:>10}  {} {function}{site}: {task} ({}){call}", row.what, row.pid)?;
    }
    more(&mut out, summary.senders.len())?;
    if !summary.lost.is_empty() {
        writeln!(out, "\nEvents are missing; record with a larger --buffer:")?;
    }
    for row in summary.lost.iter().take(ROWS_MAX) {
        let many = row.events.map_or_else(|| "some".to_owned(), format::count);
        let [from, to] = [row.from_ns, row.to_ns].map(|ns| ns as f64 / 1e9);
        writeln!(out, "  core {}: {many} from {from:.6} s to {to:.6} s", row.cpu)?;
    }
    more(&mut out, summary.lost.len())?;
    if summary.dropped > 0 {
        writeln!(
            out,
            "\n{} events were dropped at unknown times: do not use this trace to find the causes of delays",
            summary.dropped
        )?;
    }
    if summary.clock_stepped {
        writeln!(
            out,
            "\nThe system's clock was set during the trace, so the trace cannot be aligned with packets; \
             record it again"
        )?;
    }
    if summary.unknown > 0 {
        writeln!(out, "\n{} events of unknown kinds were ignored", summary.unknown)?;
    }
    summary.remarks.iter().try_for_each(|remark| writeln!(out, "note: {remark}"))
}

fn more(out: &mut impl Write, rows: usize) -> io::Result<()> {
    match rows.saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  ... and {more} more; --json lists all"),
    }
}
