//! The human-readable noise of cores.

use std::io::{self, Write};

use wiretail_report::cause_name;
use wiretail_report::format::{count, duration};
use wiretail_schema::causes::{CauseKind, CauseRow};
use wiretail_schema::host::noise::{
    CoreNoise, FloorValue, GapCause, GapCauses, GapPart, LongGap, Noise, Speed,
};

/// Longest bar of the histogram, in characters.
const BAR: usize = 32;
/// Largest number of printed causes; JSON has all. The following constants limit senders, gaps and counters.
const CAUSES: usize = 12;
const SENDERS: usize = 3;
const LONGEST: usize = 5;
const COUNTERS: usize = 6;
/// Largest number of printed parts of a gap.
const PARTS: usize = 3;

/// Writes the whole result.
///
/// # Errors
/// Returns an error if `out` can't be written, for example because a pipe was closed.
pub fn write(out: &mut impl Write, noise: &Noise) -> io::Result<()> {
    for core in &noise.cores {
        self::core(out, noise, core)?;
    }
    peers(out, noise)?;
    if !noise.traced {
        writeln!(out, "  note: --trace (as root) identifies the causes")?;
    }
    noise.remarks.iter().try_for_each(|remark| writeln!(out, "  note: {remark}"))
}

fn core(out: &mut impl Write, noise: &Noise, core: &CoreNoise) -> io::Result<()> {
    let how = match noise.fifo {
        Some(priority) => format!(
            "SCHED_FIFO {priority}, sleeping {} after each {}",
            duration(noise.rest_ns as f64),
            duration(noise.watch_ns as f64)
        ),
        None => "the ordinary scheduler".to_owned(),
    };
    writeln!(out, "\n  CORE {}: measured for {}, under {how}", core.core, duration(core.watched_ns as f64))?;
    writeln!(
        out,
        "    {} gaps of {} or more ({:.1} per second), {} in total ({:.3} %), longest {}; in {} of the \
         gaps, another thread ran",
        count(core.gaps),
        duration(noise.threshold_ns as f64),
        per_second(core.gaps, core),
        duration(core.total_ns as f64),
        core.total_ns as f64 * 100.0 / core.watched_ns.max(1) as f64,
        duration(core.longest_ns as f64),
        count(core.preempted)
    )?;
    let is_first = noise.cores.first().is_some_and(|first| first.core == core.core);
    if is_first && !noise.injected.is_empty() {
        writeln!(out, "    injected on it: {}", noise.injected.join(", "))?;
    }
    writeln!(out, "\n    FLOOR  {}", floor(core))?;
    if let Some(speed) = &core.speed {
        writeln!(out, "    SPEED  {}", self::speed(speed))?;
    }
    histogram(out, core)?;
    if let Some(causes) = &core.causes {
        self::causes(out, core, causes)?;
        longest(out, core, causes)?;
    } else {
        counters(out, core)?;
    }
    writeln!(out)
}

fn per_second(gaps: u64, core: &CoreNoise) -> f64 {
    gaps as f64 / (core.watched_ns.max(1) as f64 * 1e-9)
}

/// Formats the delay floor, which is the smallest delay that a forwarder on this core can guarantee.
fn floor(core: &CoreNoise) -> String {
    let value = |wanted: f64| core.floor.iter().find(|value| value.percentile == wanted);
    let values: Vec<&FloorValue> = [99.9, 99.99, 99.999].into_iter().filter_map(value).collect();
    let wait = |value: &&FloorValue| {
        let mark = if value.supported { "" } else { " (?)" };
        format!("{} at {} %{mark}", duration(value.wait_ns as f64), value.percentile)
    };
    let waits: Vec<String> = values.iter().map(wait).collect();
    let doubt = if values.iter().all(|value| value.supported) {
        ""
    } else {
        "; (?) based on fewer than ten gaps: measure longer"
    };
    format!(
        "no forwarder on core {} can guarantee a delay below {}; worst case {}{doubt}",
        core.core,
        waits.join(", "),
        duration(core.longest_ns as f64)
    )
}

fn speed(speed: &Speed) -> String {
    let [p10, p50, p90] = [speed.p10_ns, speed.p50_ns, speed.p90_ns].map(|ns| duration(ns as f64));
    if speed.varies {
        format!(
            "the same work took {p10} (p10), {p50} (p50), {p90} (p90): the physical core is shared (by a second \
             hardware thread, perhaps of another virtual machine), its frequency changes, or its cache is evicted"
        )
    } else {
        format!("the same work took {p10} (p10), {p50} (p50), {p90} (p90): one speed")
    }
}

fn histogram(out: &mut impl Write, core: &CoreNoise) -> io::Result<()> {
    if core.histogram.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n    {:<22} {:>9} {:>10} {:>11}", "LENGTH", "gaps", "per second", "total")?;
    // The scale is logarithmic, so that a single gap is visible next to thousands of gaps.
    let most = core.histogram.iter().map(|bucket| bucket.gaps).max().unwrap_or(1);
    for bucket in &core.histogram {
        let share = ((bucket.gaps + 1) as f64).ln() / ((most + 1) as f64).ln();
        writeln!(
            out,
            "    {:<22} {:>9} {:>10.1} {:>11}  {}",
            format!("{} to {}", whole(bucket.from_ns), whole(bucket.to_ns)),
            count(bucket.gaps),
            per_second(bucket.gaps, core),
            duration(bucket.total_ns as f64),
            "▇".repeat(((share * BAR as f64).round() as usize).max(1))
        )?;
    }
    Ok(())
}

/// Formats a round number of ns.
fn whole(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

/// Formats a cause as a label. The core does not necessarily process packets.
fn label(cause: &GapCause) -> String {
    match (cause.kind, cause.name.as_str()) {
        (CauseKind::Paused, "") => "not the kernel: hypervisor or firmware".to_owned(),
        (CauseKind::Paused, name) => format!("not the kernel: {name}"),
        (kind, name) => cause_name(&CauseRow::blank(kind, name.to_owned())),
    }
}

fn causes(out: &mut impl Write, core: &CoreNoise, found: &GapCauses) -> io::Result<()> {
    let labels: Vec<String> = found.causes.iter().map(label).collect();
    let width = labels.iter().take(CAUSES).map(|label| label.chars().count()).max().unwrap_or(0).max(12);
    writeln!(
        out,
        "\n    {:<width$} {:>9} {:>10} {:>11} {:>10}",
        "CAUSE", "gaps", "per second", "total", "longest"
    )?;
    for (cause, label) in found.causes.iter().zip(&labels).filter(|(cause, _)| cause.gaps > 0).take(CAUSES) {
        writeln!(
            out,
            "    {label:<width$} {:>9} {:>10.1} {:>11} {:>10}",
            count(cause.gaps),
            per_second(cause.gaps, core),
            duration(cause.total_ns as f64),
            duration(cause.longest_ns as f64)
        )?;
        for sender in cause.senders.iter().take(SENDERS) {
            let call = sender.system_call.as_ref().map_or(String::new(), |call| format!(" in {call}()"));
            writeln!(
                out,
                "      by {} ({}) on core {}{call}: {} times, {}",
                sender.task,
                sender.pid,
                sender.cpu,
                count(sender.gaps),
                duration(sender.total_ns as f64)
            )?;
        }
    }
    let more = found.causes.iter().filter(|cause| cause.gaps > 0).count().saturating_sub(CAUSES);
    if more > 0 {
        writeln!(out, "    and {more} more (--json)")?;
    }
    if found.gaps_missing > 0 {
        writeln!(out, "    {} gaps overlap missing events in the trace", count(found.gaps_missing))?;
    }
    if found.gaps_unnamed > 0 {
        writeln!(out, "    {} gaps consist of parts too short to have a cause", count(found.gaps_unnamed))?;
    }
    if found.gaps_not_kept > 0 {
        writeln!(out, "    {} gaps were counted only by length", count(found.gaps_not_kept))?;
    }
    if let Some(steal_ns) = core.steal_ns.filter(|ns| *ns > 0) {
        writeln!(
            out,
            "    the hypervisor reported {} of steal time (in steps of 10 ms)",
            duration(steal_ns as f64)
        )?;
    }
    for cost in &found.calibration {
        writeln!(
            out,
            "    calibrated with {} gaps: {} takes {} before its first tracepoint and {} after its last",
            count(cost.gaps),
            cost.event,
            duration(cost.head_ns[0] as f64),
            duration(cost.tail_ns[0] as f64)
        )?;
    }
    Ok(())
}

fn longest(out: &mut impl Write, core: &CoreNoise, found: &GapCauses) -> io::Result<()> {
    if core.longest.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n    LONGEST GAPS: seconds since the start of the loop, length, parts")?;
    let part = |part: &GapPart| {
        let label = found.causes.get(part.cause).map(label).unwrap_or_default();
        format!("{label} {}", duration(part.ns as f64))
    };
    let row = |gap: &LongGap| {
        let parts: Vec<String> = gap.parts.iter().take(PARTS).map(part).collect();
        let parts = if parts.is_empty() { "events are missing".to_owned() } else { parts.join(", ") };
        format!("    {:>9.4} s {:>11}  {parts}", gap.at_ns as f64 * 1e-9, duration(gap.duration_ns as f64))
    };
    core.longest.iter().take(LONGEST).try_for_each(|gap| writeln!(out, "{}", row(gap)))
}

/// Writes the interrupt counters that increased, for measurements without a trace.
fn counters(out: &mut impl Write, core: &CoreNoise) -> io::Result<()> {
    if core.interrupts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n    {:>9} {:>10}  INTERRUPTS of this core during the measurement",
        "number", "per second"
    )?;
    for delta in core.interrupts.iter().take(COUNTERS) {
        writeln!(
            out,
            "    {:>9} {:>10.1}  {}",
            count(delta.count),
            per_second(delta.count, core),
            delta.name
        )?;
    }
    Ok(())
}

fn peers(out: &mut impl Write, noise: &Noise) -> io::Result<()> {
    if noise.peers.is_empty() {
        return Ok(());
    }
    writeln!(out, "  OTHER PROGRAMS, one after another")?;
    writeln!(out, "    {:<16} {:>5} {:>10} {:>10}  what it measures", "", "core", "p99.9", "longest")?;
    for core in &noise.cores {
        let p999 = core.floor.iter().find(|value| value.percentile == 99.9);
        writeln!(
            out,
            "    {:<16} {:>5} {:>10} {:>10}  wait of a packet that arrives at a random time at a loop that never sleeps",
            "wiretail",
            core.core,
            p999.map_or_else(String::new, |value| duration(value.wait_ns as f64)),
            duration(core.longest_ns as f64)
        )?;
    }
    for peer in &noise.peers {
        writeln!(
            out,
            "    {:<16} {:>5} {:>10} {:>10}  {}; {} times",
            peer.program,
            peer.core,
            peer.p999_ns.map_or_else(|| "beyond".to_owned(), |ns| duration(ns as f64)),
            duration(peer.longest_ns as f64),
            peer.measures,
            count(peer.samples)
        )?;
    }
    writeln!(out)
}
