//! The report, from the verdict down to how it was measured.

use wiretail_schema::summary::figure::{Figure, Mark, Scale};
use wiretail_schema::summary::{Analysis, Finding, Outcome, Percentile, Severity, Summary, Verdict};

use crate::format;
use crate::html::Markup;
use crate::pages::tables;
use crate::plot::hover;
use crate::plot::{Plot, Size};

/// No request leaves the file: nothing may be loaded, styles and scripts stand in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// The percentiles among the key numbers.
const KEY_PERCENTILES: [f64; 3] = [50.0, 99.9, 99.999];

/// The whole report.
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

/// An HTML document that needs nothing outside itself.
pub fn document(title: &str, content: impl FnOnce(&mut Markup)) -> String {
    let mut m = Markup::with_capacity(512 * 1024);
    m.prologue("<!DOCTYPE html>\n");
    m.tag("html").attr("lang", "en").body(|m| {
        m.tag("head").body(|m| {
            m.tag("meta").attr("charset", "utf-8").close();
            m.tag("meta").attr("http-equiv", "Content-Security-Policy").attr("content", POLICY).close();
            m.tag("meta")
                .attr("name", "viewport")
                .attr("content", "width=device-width, initial-scale=1")
                .close();
            m.tag("meta").attr("name", "color-scheme").attr("content", "light dark").close();
            m.tag("link").attr("rel", "icon").attr("href", "data:,").close();
            m.tag("title").text(title);
            m.asset("style", include_str!("../assets/plot.css"));
            m.asset("style", include_str!("../assets/report.css"));
            m.asset("style", include_str!("../assets/causes.css"));
        });
        m.line();
        m.tag("body").body(|m| {
            content(m);
            m.asset("script", include_str!("../assets/report.js"));
        });
    });
    m.line();
    m.finish()
}

fn header(m: &mut Markup, summary: &Summary) {
    m.tag("header").body(|m| {
        m.tag("p").class("kicker").text("Wiretail · tail latency report");
        let long = summary.title.chars().count() > 64;
        m.tag("h1").class(if long { "long" } else { "short" }).text(&summary.title);
        m.tag("p").class("lead").body(|m| {
            // Not again where the title says it already.
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
                format::rate(summary.pre.rate_pps_mean)
            ));
            if let Some(date) = format::utc(summary.pre.first_ns) {
                m.text(" · ").tag("span").class("date").text(date);
            }
        });
    });
    m.line();
}

/// A section with its heading.
pub fn section(m: &mut Markup, id: &'static str, heading: &str, content: impl FnOnce(&mut Markup)) {
    m.tag("section").attr("id", id).body(|m| {
        m.tag("h2").text(heading);
        content(m);
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
        "Lost or late: {} of {} packets; allowed: {}. 95{space}% bounds on their share: {} to {}.",
        format::count(verdict.failures),
        format::count(verdict.packets),
        format::short((verdict.failures_allowed * 10.0).round() / 10.0),
        format::ratio(verdict.failure_ratio_low),
        format::ratio(verdict.failure_ratio_high),
        space = format::SPACE,
    );
    answer(m, (class, sign, word), &what, &verdict.reason, &basis);
}

/// An answer that must be seen: its class, sign and word, what it is about, the reason, and what that rests on.
pub fn answer(
    m: &mut Markup,
    (class, sign, word): (&'static str, &str, &str),
    what: &str,
    reason: &str,
    basis: &str,
) {
    m.tag("article").class(format_args!("card {class}")).body(|m| {
        m.tag("p").class("outcome").body(|m| {
            m.tag("span").class("sign").attr("aria-hidden", true).text(sign);
            m.tag("strong").text(word);
            m.tag("span").class("budget").text(what);
        });
        m.tag("p").class("reason").text(reason);
        m.tag("p").class("basis").text(basis);
    });
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

/// What all delays rest on: both clocks and their grids.
fn clocks(summary: &Summary) -> String {
    let (pre, post) = (&summary.pre.clock, &summary.post.clock);
    let granularity = |ns: f64| format::duration_short(ns);
    let source = if pre.source == post.source {
        pre.source.clone()
    } else {
        format!("ingress {}; egress {}", pre.source, post.source)
    };
    format!(
        "One-way delay (RFC 7679), egress stamp minus ingress stamp. Stamps: {source}; they lie on a grid of \
         {} (ingress) and {} (egress), so no delay is known better than that. CI: distribution-free 95{}% \
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

/// A key number: its name, the value, what it rests on.
pub fn tile(m: &mut Markup, name: &str, value: &str, exact: &str, lines: &[String], warning: Option<&str>) {
    m.tag("div").class(if warning.is_some() { "tile unsupported" } else { "tile" }).body(|m| {
        m.tag("dt").text(name);
        let dd = m.tag("dd").class("value");
        let dd = if exact.is_empty() { dd } else { dd.attr("title", exact) };
        dd.text(value);
        for line in lines {
            m.tag("dd").text(line);
        }
        if let Some(warning) = warning {
            m.tag("dd").class("warning").text(warning);
        }
    });
}

fn figures(m: &mut Markup, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    section(m, "figures", "Figures", |m| {
        m.tag("p").class("hint").text(
            "Point at a figure, or move through it with the arrow keys, to read its values; the CSV holds the \
             same numbers.",
        );
        m.tag("div").class("figures").body(|m| {
            for (index, (f, size)) in figures.iter().zip(sizes(figures)).enumerate() {
                figure(m, f, size, index);
            }
        });
    });
}

/// A figure with its heading, drawing, caption and numbers.
pub fn figure(m: &mut Markup, figure: &Figure, size: Size, index: usize) {
    let plot = Plot::new(figure, size);
    let class = if size == Size::Wide { "wide" } else { "half" };
    m.tag("figure").class(class).attr("data-figure", &figure.id).body(|m| {
        m.tag("h3").body(|m| {
            m.tag("span").text(&figure.title);
            // The script gives it an address; without scripts it has none and is not shown.
            m.tag("a")
                .class("csv")
                .attr("download", format_args!("{}.csv", figure.id))
                .attr("aria-label", format_args!("{}: the numbers as CSV", figure.title))
                .text("CSV");
        });
        m.tag("div").class("frame").body(|m| {
            plot.draw(m, &format!("figure-{index}"));
        });
        m.tag("figcaption").text(&figure.caption);
        m.json("figure-data", &hover::data(figure, &plot));
    });
    m.line();
}

/// The percentile plot and clouds of points get the page's width; others go in pairs, and one
/// without a partner gets the width too.
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

/// Who wrote the page.
pub fn footer(m: &mut Markup, version: &str) {
    m.tag("footer").body(|m| {
        m.tag("p").text(format_args!(
            "Written by wiretail {version}. This file is complete in itself: it loads nothing and sends nothing."
        ));
    });
    m.line();
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
    fn figures_go_in_pairs_and_none_is_left_alone() {
        let nines = || figure(Mark::Line, Scale::Nines);
        let bars = || figure(Mark::Bar, Scale::Log);
        let got = sizes(&[nines(), bars(), bars(), bars(), nines(), bars()]);
        assert_eq!(got, [Size::Wide, Size::Half, Size::Half, Size::Wide, Size::Wide, Size::Wide]);
    }
}
