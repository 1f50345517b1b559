//! The report, from the verdict down to the method.

use wiretail_schema::summary::figure::{Figure, Mark, Scale};
use wiretail_schema::summary::{Analysis, Finding, Outcome, Percentile, Severity, Summary, Verdict};

use crate::format;
use crate::html::Markup;
use crate::pages::page::{answer, document, figure, footer, section, tile};
use crate::pages::tables;
use crate::plot::Size;

/// The percentiles among the key numbers.
const KEY_PERCENTILES: [f64; 3] = [50.0, 99.9, 99.999];

pub fn report(analysis: &Analysis) -> String {
    let summary = &analysis.summary;
    document(&format!("{} · Wiretail", summary.title), |m| {
        header(m, summary);
        m.tag("main").body(|m| {
            verdicts(m, &summary.verdicts);
            findings(m, &summary.findings);
            key_numbers(m, summary);
            figures(m, &analysis.figures);
            tables::all(m, summary);
        });
        footer(m, &summary.wiretail_version);
    })
}

fn header(m: &mut Markup, summary: &Summary) {
    m.tag("header").body(|m| {
        m.tag("p").class("kicker").text("Wiretail · tail latency report");
        let long = summary.title.chars().count() > 64;
        m.tag("h1").class(if long { "long" } else { "short" }).text(&summary.title);
        m.tag("p").class("lead").body(|m| {
            // The title may already contain the path.
            let named = |path: &str| summary.title.contains(path);
            if !named(&summary.pre.path) || !named(&summary.post.path) {
                m.tag("span").class("file").text(&summary.pre.path);
                m.text(" → ").tag("span").class("file").text(&summary.post.path);
                m.text(" · ");
            }
            let seconds = summary.pre.last_ns.saturating_sub(summary.pre.first_ns) as f64;
            m.text(format_args!(
                "{} packets in {} at {}",
                format::count(summary.pre.packets),
                format::duration(seconds),
                format::rate(summary.pre.mean_rate_pps)
            ));
            if let Some(date) = format::utc(summary.pre.first_ns) {
                m.text(" · ").tag("span").class("date").text(date);
            }
        });
    });
    m.line();
}

fn verdicts(m: &mut Markup, verdicts: &[Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    section(m, "verdicts", "Verdict", |m| {
        m.tag("div").class("cards").body(|m| {
            for verdict in verdicts {
                card(m, verdict);
            }
        });
    });
}

fn card(m: &mut Markup, verdict: &Verdict) {
    let (class, sign, word) = match verdict.outcome {
        Outcome::Pass => ("pass", "✓", "PASS"),
        Outcome::Undecided => ("undecided", "?", "UNDECIDED"),
        Outcome::Fail => ("fail", "✕", "FAIL"),
    };
    let limit = format::duration_short(verdict.limit_ns as f64);
    let what = format!("{limit} at {}", format::percentile(verdict.percentile));
    let basis = format!(
        "Lost or late: {} of {} packets; allowed: {}. One-sided 95{space}% bounds on their share: {} and {}.",
        format::count(verdict.failures),
        format::count(verdict.packets),
        format::short((verdict.failures_allowed * 10.0).round() / 10.0),
        format::ratio(verdict.failure_ratio_low),
        format::ratio(verdict.failure_ratio_high),
        space = format::SPACE,
    );
    answer(m, (class, sign, word), &what, &verdict.reason, &basis);
}

fn findings(m: &mut Markup, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    section(m, "findings", "Findings", |m| {
        m.tag("ul").class("findings").body(|m| {
            for finding in findings {
                let (class, word) = match finding.severity {
                    Severity::Error => ("error", "Error"),
                    Severity::Warning => ("warning", "Warning"),
                    Severity::Note => ("note", "Note"),
                };
                m.tag("li").class(class).body(|m| {
                    m.tag("strong").class("badge").text(word);
                    m.tag("span").class("message").text(&finding.message);
                    m.tag("code").text(&finding.code);
                });
            }
        });
    });
}

fn key_numbers(m: &mut Markup, summary: &Summary) {
    section(m, "key-numbers", "Key numbers", |m| {
        m.tag("dl").class("tiles").body(|m| {
            let sent = format!("of {} sent", format::count(summary.loss.sent));
            tile(m, "matched packets", &format::count(summary.matching.matched), "", &[sent], None);
            loss_tile(m, summary);
            for p in KEY_PERCENTILES {
                if let Some(found) =
                    summary.delay.percentiles.iter().find(|q| (q.percentile - p).abs() < 1e-9)
                {
                    percentile_tile(m, found, summary.delay.count);
                }
            }
            let n = format!("largest of {}", format::count(summary.delay.count));
            let max = summary.delay.max_ns;
            tile(m, "max delay", &format::duration(max as f64), &format::exact_ns(max), &[n], None);
        });
        m.tag("p").class("rests").text(clocks(summary));
    });
}

/// Describes the basis of all delays: both clocks, and the granularity of their timestamps.
fn clocks(summary: &Summary) -> String {
    let (pre, post) = (&summary.pre.clock, &summary.post.clock);
    let granularity = |ns: f64| format::duration_short(ns);
    let source = if pre.source == post.source {
        pre.source.clone()
    } else {
        format!("ingress {}; egress {}", pre.source, post.source)
    };
    format!(
        "One-way delay (RFC 7679): egress timestamp minus ingress timestamp. Timestamps: {source}; granularity \
         {} (ingress) and {} (egress), which limits the accuracy of every delay. CI: distribution-free 95{}% \
         confidence interval.",
        granularity(pre.granularity_ns),
        granularity(post.granularity_ns),
        format::SPACE
    )
}

fn loss_tile(m: &mut Markup, summary: &Summary) {
    let loss = &summary.loss;
    let lines = [
        format!("{} of {} sent", format::count(loss.lost + loss.late), format::count(loss.sent)),
        format!("CI {} to {}", format::ratio(loss.ratio_low), format::ratio(loss.ratio_high)),
    ];
    tile(m, "loss", &format::ratio(loss.ratio), &loss.ratio.to_string(), &lines, None);
}

fn percentile_tile(m: &mut Markup, p: &Percentile, count: u64) {
    let lines = [
        format!("CI {}", tables::interval(p)),
        format!("{} of {} beyond", tables::above(p.percentile, count), format::count(count)),
    ];
    let unsupported = (!p.supported).then_some("not supported: n(1−p)\u{a0}<\u{a0}10");
    let name = format!("p{} delay", format::short(p.percentile));
    tile(m, &name, &format::duration(p.value_ns as f64), &format::exact_ns(p.value_ns), &lines, unsupported);
}

fn figures(m: &mut Markup, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    section(m, "figures", "Figures", |m| {
        m.tag("p").class("hint").text(
            "Point at a figure, or move through it with the arrow keys, to read its values; the CSV contains the \
             same numbers.",
        );
        m.tag("div").class("figures").body(|m| {
            for (index, (f, size)) in figures.iter().zip(sizes(figures)).enumerate() {
                figure(m, f, size, index);
            }
        });
    });
}

/// The percentile plot and scatter plots get the full width. Other figures are placed in pairs, and one
/// without a partner also gets the full width.
fn sizes(figures: &[Figure]) -> Vec<Size> {
    let wide = |f: &Figure| f.x.scale == Scale::Nines || f.mark == Mark::Point;
    let mut sizes = Vec::with_capacity(figures.len());
    while let Some(next) = figures.get(sizes.len()) {
        match figures.get(sizes.len() + 1) {
            Some(partner) if !wide(next) && !wide(partner) => sizes.extend([Size::Half, Size::Half]),
            _ => sizes.push(Size::Wide),
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use wiretail_schema::summary::figure::{Axis, Unit};

    use super::*;

    fn figure(mark: Mark, scale: Scale) -> Figure {
        let axis = |scale| Axis { label: String::new(), column: String::new(), unit: Unit::Seconds, scale };
        Figure {
            id: String::new(),
            title: String::new(),
            caption: String::new(),
            x: axis(scale),
            y: axis(Scale::Linear),
            mark,
            series: Vec::new(),
            lines: Vec::new(),
        }
    }

    #[test]
    fn figures_are_paired_or_get_the_full_width() {
        let nines = || figure(Mark::Line, Scale::Nines);
        let bars = || figure(Mark::Bar, Scale::Log);
        let got = sizes(&[nines(), bars(), bars(), bars(), nines(), bars()]);
        assert_eq!(got, [Size::Wide, Size::Half, Size::Half, Size::Wide, Size::Wide, Size::Wide]);
    }
}
