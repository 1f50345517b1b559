//! The human-readable explanation.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, ratio};
use wiretail_schema::causes::capture::{
    Alignment, CaptureExplanation, Follows, Interrupts, Periodicity, Recurrence, Stall,
};

/// Largest number of printed stalls and alignments; JSON has all.
const SHOWN: usize = 8;
/// An alignment is marked as weak evidence if it occurs by chance with at least this probability.
const LIKELY: f64 = 0.01;

/// Writes the whole explanation.
///
/// # Errors
/// Returns an error if `out` can't be written, for example because a pipe was closed.
pub fn write(out: &mut impl Write, explanation: &CaptureExplanation) -> io::Result<()> {
    writeln!(
        out,
        "  {} packets in {:.3} s, median delay {}\n",
        count(explanation.packets),
        explanation.span_ns as f64 * 1e-9,
        duration(explanation.median_ns as f64)
    )?;
    stalls(out, explanation)?;
    if let Some(found) = &explanation.interrupts {
        interrupts(out, found, &explanation.stalls)?;
    }
    patterns(out, &explanation.periodicity)
}

/// Writes the regular patterns.
///
/// # Errors
/// Returns an error if `out` can't be written, for example because a pipe was closed.
pub fn patterns(out: &mut impl Write, periodicity: &Periodicity) -> io::Result<()> {
    writeln!(out, "  REGULAR PATTERNS among late packets ({} packets)", count(periodicity.packets))?;
    if periodicity.recurrences.is_empty() {
        writeln!(out, "    none")?;
    }
    for found in &periodicity.recurrences {
        recurrence(out, found, periodicity.packets_per_second)?;
    }
    Ok(())
}

fn stalls(out: &mut impl Write, explanation: &CaptureExplanation) -> io::Result<()> {
    let above = duration(explanation.stall_above_ns as f64);
    writeln!(out, "  STALLS: packets delayed by {above} or more")?;
    if explanation.stalls.is_empty() {
        writeln!(out, "    none; set another limit with --above")?;
    }
    for stall in explanation.stalls.iter().take(SHOWN) {
        writeln!(
            out,
            "    at {:>9.3} s   {:>9}   {} packets",
            stall.at_ns as f64 * 1e-9,
            duration(stall.max_delay_ns as f64),
            count(stall.packets)
        )?;
    }
    more(out, explanation.stalls.len())?;
    writeln!(out)
}

fn more(out: &mut impl Write, len: usize) -> io::Result<()> {
    if len > SHOWN { writeln!(out, "    and {} more (--json)", len - SHOWN) } else { Ok(()) }
}

fn interrupts(out: &mut impl Write, found: &Interrupts, stalls: &[Stall]) -> io::Result<()> {
    writeln!(out, "  INTERRUPTS in {} readings, {:.1} s", found.readings, found.span_s)?;
    for cpu in &found.cpus {
        if cpu.rising.is_empty() {
            writeln!(out, "    CPU {}: no interrupts", cpu.cpu)?;
        }
        for (place, counter) in cpu.rising.iter().take(SHOWN).enumerate() {
            let head = if place == 0 { format!("CPU {}:", cpu.cpu) } else { String::new() };
            writeln!(
                out,
                "    {head:<7} {:>9.2} per second, in {} of {} intervals   {}",
                counter.per_second,
                counter.intervals_risen,
                found.readings - 1,
                counter.name
            )?;
        }
        more(out, cpu.rising.len())?;
    }
    writeln!(out)?;
    if stalls.is_empty() {
        return Ok(());
    }
    writeln!(out, "  STALLS AND INTERRUPTS (the offset between the clocks is unknown and is fitted)")?;
    let Some(best) = found.alignments.first() else {
        writeln!(out, "    no occasional interrupt coincided with a stall\n")?;
        return Ok(());
    };
    for stall in best.explained.iter().filter_map(|place| stalls.get(*place)).take(SHOWN) {
        writeln!(
            out,
            "    the stall at {:.3} s is consistent with {} on CPU {}",
            stall.at_ns as f64 * 1e-9,
            best.name,
            best.cpu
        )?;
    }
    for alignment in found.alignments.iter().take(SHOWN) {
        aligned(out, alignment, found.compared, stalls.len())?;
    }
    more(out, found.alignments.len())?;
    writeln!(out)
}

fn aligned(out: &mut impl Write, found: &Alignment, compared: usize, stalls: usize) -> io::Result<()> {
    let strength = if found.chance_of_any < LIKELY { "" } else { ": weak evidence" };
    writeln!(
        out,
        "    CPU {} {}: {} of {stalls} stalls, {} interrupts; {} other increases during the capture\n      the capture \
         begins {:.3} to {:.3} s after the counters' zero; by chance {}{}, for the best of {compared} counters \
         at most {}{strength}",
        found.cpu,
        found.name,
        found.explained.len(),
        found.interrupts,
        found.unmatched,
        found.offset_low_s,
        found.offset_high_s,
        if found.exact { "" } else { "about " },
        ratio(found.chance),
        ratio(found.chance_of_any)
    )
}

fn recurrence(out: &mut impl Write, found: &Recurrence, rate_hz: f64) -> io::Result<()> {
    let follows = match found.follows {
        Follows::Clock => {
            format!("a CLOCK of {:.4} ± {:.4} Hz", found.frequency_hz, found.frequency_error_hz)
        }
        Follows::Packets => format!("every {} PACKETS", found.period_packets.round()),
        Follows::Indistinguishable => format!(
            "every {} packets or {:.4} ± {:.4} Hz: INDISTINGUISHABLE",
            found.period_packets.round(),
            found.frequency_hz,
            found.frequency_error_hz
        ),
    };
    let clock = found.clock.as_ref().map_or(String::new(), |name| format!(", consistent with {name}"));
    writeln!(out, "    {follows}{clock}")?;
    writeln!(
        out,
        "      {} of {} late runs (more than {} above the packets around them), {:.1} expected; on average \
         {} later; false alarm at most {:.0e}",
        count(found.late_inside),
        count(found.late),
        duration(found.late_above_ns as f64),
        found.expected_inside,
        duration(found.mean_excess_ns),
        found.false_alarm.max(1e-300)
    )?;
    writeln!(out, "      {}", found.reason)?;
    let residues: Vec<String> = found
        .residues
        .iter()
        .map(|residue| format!("{} ≡ {} (mod {})", residue.of, residue.residue, residue.modulus))
        .collect();
    if residues.len() > 1 {
        writeln!(
            out,
            "      these advance together and are indistinguishable here: {}",
            residues.join("; ")
        )?;
    } else if let [only] = &residues[..] {
        writeln!(out, "      {only}")?;
    }
    if found.follows != Follows::Packets {
        writeln!(
            out,
            "      sampled at {rate_hz:.1} packets per second: frequencies that differ by a multiple look the same"
        )?;
    }
    Ok(())
}
