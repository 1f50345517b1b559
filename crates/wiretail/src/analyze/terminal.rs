//! The human-readable summary on the terminal.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use wiretail_report::format::{count, duration, percentile, ratio};
use wiretail_schema::summary::{Outcome, Percentile, Severity, Summary};

/// Longest bar of the percentile plot, in characters.
const BAR: usize = 32;

struct Paint {
    on: bool,
}

impl Paint {
    fn wrap(&self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn outcome(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Pass => self.wrap("1;32", "PASS     "),
            Outcome::Fail => self.wrap("1;31", "FAIL     "),
            Outcome::Undecided => self.wrap("1;33", "UNDECIDED"),
        }
    }
}

/// Writes the summary. `report` is the path of the page, if one was written.
///
/// # Errors
/// Returns an error if `out` can't be written, such as a closed pipe.
pub fn summary(out: &mut impl Write, summary: &Summary, report: Option<&Path>) -> io::Result<()> {
    let paint = Paint { on: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() };
    head(out, summary, &paint)?;
    for verdict in &summary.verdicts {
        let reason = plain(&verdict.reason);
        let (seen, meaning) = reason.split_once("; ").unwrap_or((&reason, ""));
        writeln!(out, "  {} {:<16} {seen}", paint.outcome(verdict.outcome), verdict.budget)?;
        writeln!(out, "  {:26} {meaning}", "")?;
    }
    writeln!(out)?;
    percentiles(out, summary, &paint)?;
    writeln!(out)?;
    facts(out, summary)?;
    if !summary.findings.is_empty() {
        writeln!(out)?;
    }
    for finding in &summary.findings {
        let label = match finding.severity {
            Severity::Error => paint.wrap("1;31", "error  "),
            Severity::Warning => paint.wrap("1;33", "warning"),
            Severity::Note => paint.wrap("2", "note   "),
        };
        writeln!(out, "  {label} {}", plain(&finding.message))?;
    }
    if let Some(report) = report {
        writeln!(out, "\n  report  {}", plain(&report.display().to_string()))?;
    }
    Ok(())
}

fn head(out: &mut impl Write, summary: &Summary, paint: &Paint) -> io::Result<()> {
    let (pre, post) = (&summary.pre, &summary.post);
    let seconds = pre.last_ns.saturating_sub(pre.first_ns) as f64;
    writeln!(out, "{}", paint.wrap("1", &plain(&summary.title)))?;
    let granularity = pre.clock.granularity_ns.max(post.clock.granularity_ns);
    writeln!(
        out,
        "  {} packets in {} at {:.0} packets/s; timestamp granularity {granularity} ns; matched by {}\n",
        count(pre.packets),
        duration(seconds),
        pre.mean_rate_pps,
        summary.key.rule,
    )
}

/// Writes one line per percentile, with its interval and a bar on a logarithmic scale.
fn percentiles(out: &mut impl Write, summary: &Summary, paint: &Paint) -> io::Result<()> {
    let delay = &summary.delay;
    writeln!(
        out,
        "  one-way delay of {} packets (RFC 7679), with 95 % intervals and effective sample sizes",
        count(delay.count)
    )?;
    let span = ((delay.max_ns.max(1) as f64) / (delay.min_ns.max(1) as f64)).ln().max(1e-9);
    let bar = |ns: i64| {
        let part = ((ns.max(1) as f64) / (delay.min_ns.max(1) as f64)).ln() / span;
        "█".repeat(1 + (part.clamp(0.0, 1.0) * (BAR - 1) as f64).round() as usize)
    };
    let mut line = |name: &str, ns: i64, note: &str, supported: bool| {
        let text = format!("  {name:>10}  {:>10}  {:<32}  {}", duration(ns as f64), bar(ns), note);
        writeln!(out, "{}", if supported { text } else { paint.wrap("2", &text) }.trim_end())
    };
    line("min", delay.min_ns, "", true)?;
    for p in &delay.percentiles {
        // All percentiles beyond the first unsupported one would be based on the same few packets.
        let enough = p.supported || delay.count as f64 * (1.0 - p.percentile / 100.0) >= 1.0;
        if enough {
            line(
                &format!("p{}", percentile(p.percentile).trim_end_matches(['%', ' ', '\u{202f}'])),
                p.value_ns,
                &interval(p),
                p.supported,
            )?;
        }
    }
    line(
        "max",
        delay.max_ns,
        &format!("mean {}, σ {}", duration(delay.mean_ns), duration(delay.stddev_ns)),
        true,
    )
}

fn interval(p: &Percentile) -> String {
    let high = p.high_ns.map_or("?".to_owned(), |high| duration(high as f64));
    let support = if p.supported { "" } else { "  too few packets for this percentile" };
    let effective = p.effective_packets.map_or(String::new(), |n| format!("  n_eff {}", count(n)));
    format!("[{} … {high}]{effective}{support}", duration(p.low_ns as f64))
}

fn facts(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let (loss, matching, reordering) = (&summary.loss, &summary.matching, &summary.reordering);
    let late = if loss.late > 0 {
        format!(" and {} later than the window", count(loss.late))
    } else {
        String::new()
    };
    writeln!(
        out,
        "  loss        {} of {}{late}: ratio {} [{} … {}], longest run {} (RFC 7680)",
        count(loss.lost),
        count(loss.sent),
        ratio(loss.ratio),
        ratio(loss.ratio_low),
        ratio(loss.ratio_high),
        count(loss.longest_run),
    )?;
    writeln!(
        out,
        "  reordered   {} of {}, extent up to {} packets (RFC 4737)",
        count(reordering.reordered),
        count(reordering.arrived),
        count(reordering.extent_max)
    )?;
    writeln!(
        out,
        "  other       {} duplicated at ingress, {} at egress; {} extra, {} negative, {} zero",
        count(matching.duplicates_pre),
        count(matching.duplicates_post),
        count(matching.extra),
        count(matching.negative),
        count(matching.zero)
    )?;
    let at = |list: &[Percentile], wanted: f64| {
        list.iter().find(|p| p.percentile == wanted).map_or("-".to_owned(), |p| duration(p.value_ns as f64))
    };
    let ipdv = summary.variation.ipdv.as_ref().map_or(&[][..], |ipdv| &ipdv.percentiles_abs);
    writeln!(
        out,
        "  variation   p99 of |IPDV| {} (RFC 3393), p99.9 of PDV {} (RFC 5481), jitter {} (RFC 3550)",
        at(ipdv, 99.0),
        at(&summary.variation.pdv, 99.9),
        duration(summary.variation.rfc3550_jitter_ns),
    )
}

/// Removes control characters from external text, such as a file name, because a terminal would interpret
/// them.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
