//! The tables of the report: every number of the summary with its sample size.

use std::borrow::Cow;

use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{Capture, EventKind, Ipdv, Percentile, Summary};

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::section;

/// Number of rows in the table of worst packets. The CSV file and `summary.json` contain all worst packets.
const WORST_SHOWN: usize = 50;
/// Number of events of one kind that are listed.
const EVENTS_SHOWN: usize = 50;

/// Returns the number of packets expected beyond a percentile, n (1 - p), with three significant digits.
pub fn above(percentile: f64, count: u64) -> String {
    let expected = count as f64 * (100.0 - percentile) / 100.0;
    match expected {
        e if e >= 100.0 => format::count(e.round() as u64),
        // If the value were rounded up to 10, the percentile would look supported. The margin covers the
        // error of binary fractions.
        e if (9.99..10.0 - 1e-6).contains(&e) => "9.99".to_owned(),
        e => format::short(format!("{e:.2e}").parse().unwrap_or(e)),
    }
}

/// Formats a confidence interval. The interval is open if it has no upper bound.
pub fn interval(p: &Percentile) -> String {
    let low = format::duration(p.low_ns as f64);
    match p.high_ns {
        Some(high) => format!("{low} to {}", format::duration(high as f64)),
        None => format!("from {low}, open above"),
    }
}

/// Renders all tables, in the order in which a reader needs them.
pub fn all(m: &mut Markup, summary: &Summary) {
    section(m, "delay", "One-way delay", |m| delay(m, summary));
    section(m, "matching", "Matching", |m| matching(m, summary));
    section(m, "loss", "Loss and reordering", |m| {
        m.tag("div").class("pair").body(|m| {
            loss(m, summary);
            reordering(m, summary);
        });
    });
    section(m, "variation", "Delay variation", |m| variation(m, summary));
    section(m, "flows", "Flows", |m| flows(m, summary));
    section(m, "captures", "Captures and timestamps", |m| captures(m, summary));
    section(m, "worst", "Worst packets", |m| worst(m, summary));
    section(m, "method", "Method", |m| method(m, summary));
}

fn percentile_rows(percentiles: &[Percentile], count: u64) -> impl Iterator<Item = Vec<Cell>> {
    percentiles.iter().map(move |p| {
        let high =
            p.high_ns.map_or(Cell::number("open").exact("may exceed the largest value seen"), Cell::ns);
        let support =
            if p.supported { Cell::text("yes") } else { Cell::text("no: n(1−p) < 10").class("warning") };
        let name = Cell::text(format::percentile(p.percentile));
        let effective = p.effective_packets.unwrap_or(count);
        let beyond = Cell::number(above(p.percentile, effective));
        let name = if p.supported { name } else { name.class("weak") };
        vec![name, Cell::ns(p.value_ns), Cell::ns(p.low_ns), high, Cell::count(effective), beyond, support]
    })
}

const PERCENTILE_HEAD: [&str; 7] =
    ["percentile", "value", "95 % CI low", "95 % CI high", "effective n", "n(1−p)", "supported"];

fn delay(m: &mut Markup, summary: &Summary) {
    let delay = &summary.delay;
    let resolution = delay
        .resolution
        .map_or(String::new(), |error| format!(", rounded to within {} %", format::short(error * 100.0)));
    let caption = format!(
        "Percentiles of the delay: nearest rank, from {} matched packets{resolution} (RFC 7679)",
        format::count(delay.count)
    );
    table(m, &caption, &head(PERCENTILE_HEAD), percentile_rows(&delay.percentiles, delay.count));
    let mut rows = vec![vec![
        Cell::text("one-way delay"),
        Cell::ns(delay.min_ns),
        Cell::ns_mean(delay.mean_ns),
        Cell::ns_mean(delay.stddev_ns),
        Cell::ns(delay.max_ns),
        drift(delay.drift_ns_per_s, delay.drift_error_ns_per_s),
    ]];
    rows[0][0].class = "";
    let names = ["", "min", "mean", "σ (sample)", "max", "drift of the lower envelope"];
    table(m, "Moments and drift", &head(names), rows);
}

fn drift(ns_per_s: Option<f64>, error: Option<f64>) -> Cell {
    let per_second = format::slope;
    match (ns_per_s, error) {
        (Some(ns), Some(error)) => Cell::number(format!("{} ± {}", per_second(ns), per_second(error))),
        (Some(ns), None) => Cell::number(per_second(ns)),
        (None, _) => Cell::number("fewer than ten intervals"),
    }
}

fn matching(m: &mut Markup, summary: &Summary) {
    let counts = &summary.matching;
    let window = format::duration_short(counts.window_ns as f64);
    let rows = [
        ("matched", counts.matched, format!("seen at ingress and, 0 to {window} later, at egress")),
        ("zero", counts.zero, "matched packets with zero delay: below the clock's resolution".to_owned()),
        ("negative", counts.negative, "seen at egress before ingress: a clock error".to_owned()),
        ("out of window", counts.out_of_window, format!("arrived later than {window}")),
        ("lost", counts.lost, "seen at ingress but not at egress".to_owned()),
        (
            "lost at the end",
            counts.lost_at_end,
            "lost packets sent after the last packet at egress".to_owned(),
        ),
        ("extra", counts.extra, "seen only at egress".to_owned()),
        (
            "extra at the start",
            counts.extra_at_start,
            "extra packets before the first packet at ingress".to_owned(),
        ),
        ("duplicates at ingress", counts.duplicates_pre, "further copies of a packet in flight".to_owned()),
        (
            "duplicates at egress",
            counts.duplicates_post,
            "further copies of a packet that already arrived".to_owned(),
        ),
        ("reordered", summary.reordering.reordered, "arrived after a packet that was sent later".to_owned()),
        (
            "reused keys",
            counts.reused,
            "a key was seen again while its packet was still in flight".to_owned(),
        ),
        ("evicted", counts.evicted, "discarded because too many packets were in flight".to_owned()),
    ];
    let rows = rows.into_iter().map(|(name, n, meaning)| {
        vec![
            Cell::text(name),
            Cell::count(n).class(if n == 0 { "number zero" } else { "number" }),
            Cell::text(meaning).class("meaning"),
        ]
    });
    table(m, "Outcome of matching the packets of both taps", &head(["kind", "packets", "meaning"]), rows);
    events(m, summary);
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Lost => "lost",
        EventKind::Extra => "extra",
        EventKind::DuplicatePre => "duplicate at ingress",
        EventKind::DuplicatePost => "duplicate at egress",
        EventKind::Zero => "zero delay",
        EventKind::Negative => "negative delay",
        EventKind::OutOfWindow => "out of window",
        EventKind::Reordered => "reordered",
    }
}

fn events(m: &mut Markup, summary: &Summary) {
    let mut kinds: Vec<EventKind> = summary.matching.events.iter().map(|e| e.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let names = ["position at ingress", "key", "ingress timestamp", "egress timestamp", "delay"];
    for kind in kinds {
        let events: Vec<_> = summary.matching.events.iter().filter(|e| e.kind == kind).collect();
        let shown = events.len().min(EVENTS_SHOWN);
        m.tag("details").class("events").body(|m| {
            m.tag("summary").body(|m| {
                m.tag("strong").text(kind_name(kind));
                m.text(format_args!(": {}", plural(events.len(), "single event")));
            });
            let caption = shown_of(&format!("Events: {}", kind_name(kind)), shown, events.len());
            let rows = events.iter().take(shown).map(|e| {
                let delay = e.pre_ns.zip(e.post_ns).map(|(pre, post)| post.saturating_sub(pre));
                vec![
                    e.pre_index.map_or(Cell::number("none"), Cell::count),
                    Cell::text(&e.key).class("mono"),
                    timestamp(e.pre_ns, summary.pre.first_ns),
                    timestamp(e.post_ns, summary.pre.first_ns),
                    delay.map_or(Cell::number("none"), Cell::ns),
                ]
            });
            table(m, &caption, &head(names), rows);
        });
    }
}

/// A timestamp in seconds since the first one at ingress, with the timestamp itself as the exact value.
fn timestamp(ns: Option<i64>, origin: i64) -> Cell {
    let Some(ns) = ns else { return Cell::number("none") };
    let seconds = ns.saturating_sub(origin) as f64 / 1e9;
    Cell::number(format!("{}{}s", format::fixed(seconds, 6), format::SPACE)).exact(format_args!("{ns} ns"))
}

fn plural(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", format::count(count as u64), if count == 1 { "" } else { "s" })
}

fn shown_of(what: &str, shown: usize, all: usize) -> String {
    if shown < all {
        let (shown, all) = (format::count(shown as u64), format::count(all as u64));
        format!("{what}, the first {shown} of {all}; summary.json contains all")
    } else {
        what.to_owned()
    }
}

fn facts(m: &mut Markup, caption: &str, rows: Vec<(&'static str, Cell)>) {
    let rows = rows.into_iter().map(|(name, cell)| vec![Cell::text(name), cell]);
    table(m, caption, &head(["quantity", "value"]), rows);
}

fn loss(m: &mut Markup, summary: &Summary) {
    let loss = &summary.loss;
    let start = loss.longest_run_start.map_or(Cell::number("none"), Cell::count);
    let rows = vec![
        ("sent", Cell::count(loss.sent)),
        ("lost", Cell::count(loss.lost)),
        ("later than the loss threshold", Cell::count(loss.late)),
        ("loss ratio", Cell::ratio(loss.ratio)),
        ("95 % CI low", Cell::ratio(loss.ratio_low)),
        ("95 % CI high", Cell::ratio(loss.ratio_high)),
        ("runs of lost packets", Cell::count(loss.runs)),
        ("longest run", Cell::count(loss.longest_run)),
        ("longest run starts at position", start),
    ];
    facts(m, "Loss (RFC 7680)", rows);
}

fn reordering(m: &mut Markup, summary: &Summary) {
    let r = &summary.reordering;
    let mut rows = vec![
        ("arrived", Cell::count(r.arrived)),
        ("reordered", Cell::count(r.reordered)),
        ("reordered ratio", Cell::ratio(r.ratio)),
        ("extent, largest", Cell::count(r.extent_max)),
        ("extent, mean", Cell::number(format::digits(r.extent_mean, 3)).exact(r.extent_mean)),
        ("late time, largest", Cell::ns(r.max_late_time_ns)),
        ("late time unknown", Cell::count(r.late_time_unknown)),
        ("n-reordering, largest n", Cell::count(r.n_reordering_max)),
    ];
    let series: Vec<String> =
        r.n_reordering.iter().map(|n| format!("n={}: {}", n.n, format::count(n.packets))).collect();
    if !series.is_empty() {
        rows.push(("packets at least n-reordered", Cell::number(series.join(", ")).class("number wrap")));
    }
    facts(m, "Reordering (RFC 4737)", rows);
}

fn variation(m: &mut Markup, summary: &Summary) {
    let v = &summary.variation;
    let pairs = |cell: &dyn Fn(&Ipdv) -> Cell| v.ipdv.as_ref().map_or(Cell::number("not recorded"), cell);
    let rows = vec![
        ("IPDV: pairs of packets", pairs(&|ipdv| Cell::count(ipdv.count))),
        ("IPDV: most negative", pairs(&|ipdv| Cell::ns(ipdv.min_ns))),
        ("IPDV: most positive", pairs(&|ipdv| Cell::ns(ipdv.max_ns))),
        ("IPDV: mean of the absolute values", pairs(&|ipdv| Cell::ns_mean(ipdv.mean_abs_ns))),
        ("RFC 3550 jitter after the last packet", Cell::ns_mean(v.rfc3550_jitter_ns)),
        ("RFC 3550 jitter, largest", Cell::ns_mean(v.max_rfc3550_jitter_ns)),
    ];
    facts(m, "Inter-packet delay variation (RFC 3393) and jitter (RFC 3550)", rows);
    if let Some(ipdv) = &v.ipdv {
        let rows = percentile_rows(&ipdv.percentiles_abs, ipdv.count);
        table(m, "Percentiles of the absolute IPDV", &head(PERCENTILE_HEAD), rows);
    }
    let rows = percentile_rows(&v.pdv, summary.delay.count);
    table(m, "Percentiles of the PDV: delay above the smallest one (RFC 5481)", &head(PERCENTILE_HEAD), rows);
}

fn flows(m: &mut Markup, summary: &Summary) {
    let rule = match summary.flows.rule {
        FlowRule::FiveTuple => "distinguished by addresses, ports and protocol",
        FlowRule::Stream => "distinguished by the load generator's stream id",
        FlowRule::None => "not distinguished",
    };
    // The columns are the percentiles of the first flow that has any.
    let percentiles: Vec<f64> = summary
        .flows
        .largest
        .iter()
        .filter_map(|f| f.delay.as_ref())
        .find(|d| !d.percentiles.is_empty())
        .map_or(Vec::new(), |d| d.percentiles.iter().map(|p| p.percentile).collect());
    let mut names: Vec<Cow<'_, str>> =
        head(["flow", "sent", "lost", "reordered", "arrived", "min", "mean"]).to_vec();
    names.extend(percentiles.iter().map(|&p| Cow::Owned(format!("p{}", format::short(p)))));
    names.push("max".into());
    let rows = summary.flows.largest.iter().map(|flow| {
        let mut row = vec![
            Cell::text(&flow.name).class("flow"),
            Cell::count(flow.sent),
            Cell::count(flow.lost),
            Cell::count(flow.reordered),
        ];
        if let Some(delay) = &flow.delay {
            row.extend([Cell::count(delay.count), Cell::ns(delay.min_ns), Cell::ns_mean(delay.mean_ns)]);
            for &p in &percentiles {
                row.push(flow_percentile(&delay.percentiles, p));
            }
            row.push(Cell::ns(delay.max_ns));
        } else {
            row.push(Cell::count(0));
            row.extend((0..percentiles.len() + 3).map(|_| Cell::number("none")));
        }
        row
    });
    let caption = format!(
        "{}, {rule}; percentiles in grey are not supported",
        plural(summary.flows.count as usize, "flow")
    );
    table(m, &caption, &names, rows);
}

fn flow_percentile(percentiles: &[Percentile], wanted: f64) -> Cell {
    match percentiles.iter().find(|p| p.percentile == wanted) {
        Some(p) if p.supported => Cell::ns(p.value_ns),
        Some(p) => {
            let exact = format!("{}; not supported: n(1−p) < 10", format::exact_ns(p.value_ns));
            Cell::ns(p.value_ns).exact(exact).class("number weak")
        }
        None => Cell::number("none"),
    }
}

fn captures(m: &mut Markup, summary: &Summary) {
    let taps = [&summary.pre, &summary.post];
    let row = |name: &'static str, cell: &dyn Fn(&Capture) -> Cell| {
        vec![Cell::text(name), cell(taps[0]), cell(taps[1])]
    };
    let date = |ns: i64| {
        format::utc(ns).unwrap_or_else(|| format!("{}{}s", format::fixed(ns as f64 / 1e9, 6), format::SPACE))
    };
    let rows = vec![
        row("file", &|c| Cell::text(&c.path).class("file")),
        row("format", &|c| Cell::text(&c.format)),
        row("interface", &|c| {
            c.interface.map_or(Cell::text("the only one"), |i| Cell::text(format_args!("index {i}")))
        }),
        row("packets", &|c| Cell::count(c.packets)),
        row("packets without a key", &|c| Cell::count(c.packets_without_key)),
        row("bytes on the wire, without FCS", &|c| Cell::count(c.wire_bytes)),
        row("first timestamp", &|c| Cell::number(date(c.first_ns)).exact(format_args!("{} ns", c.first_ns))),
        row("last timestamp", &|c| Cell::number(date(c.last_ns)).exact(format_args!("{} ns", c.last_ns))),
        row("mean rate", &|c| Cell::number(format::rate(c.mean_rate_pps)).exact(c.mean_rate_pps)),
        row("source of the timestamps", &|c| Cell::text(&c.clock.source)),
        row("resolution of the file format", &|c| {
            Cell::number(format::duration_short(c.clock.resolution_ns))
        }),
        row("timestamp granularity", &|c| Cell::number(format::duration_short(c.clock.granularity_ns))),
        row("timestamps used to find the granularity", &|c| Cell::count(c.clock.granularity_timestamps)),
        row("consecutive identical timestamps", &|c| Cell::count(c.clock.identical)),
        row("backward steps", &|c| Cell::count(c.clock.backward)),
        row("largest backward step", &|c| Cell::ns(c.clock.max_backward_ns)),
        row("gap between packets, min", &|c| Cell::ns(c.gaps.min_ns)),
        row("gap between packets, mean", &|c| Cell::ns_mean(c.gaps.mean_ns)),
        row("gap between packets, σ", &|c| Cell::ns_mean(c.gaps.stddev_ns)),
        row("gap between packets, max", &|c| Cell::ns(c.gaps.max_ns)),
        row("ended within a record", &truncation),
    ];
    let gaps = taps[0].gaps.percentiles.iter().map(|p| {
        let find = |c: &Capture| {
            let found = c.gaps.percentiles.iter().find(|q| q.percentile == p.percentile);
            found.map_or(Cell::number("none"), |q| {
                Cell::ns(q.value_ns).class(if q.supported { "number" } else { "number weak" })
            })
        };
        vec![
            Cell::text(format_args!("gap, {}", format::percentile(p.percentile))),
            find(taps[0]),
            find(taps[1]),
        ]
    });
    // Text and numbers share these columns, so all cells are left-aligned.
    let left = |cell: Cell| match cell.class {
        "number" => cell.class(""),
        "number weak" => cell.class("weak"),
        _ => cell,
    };
    let rows = rows.into_iter().chain(gaps).map(|row| row.into_iter().map(left).collect::<Vec<_>>());
    table(m, "Both taps and the audit of their timestamps", &head(["", "ingress", "egress"]), rows);
}

fn truncation(capture: &Capture) -> Cell {
    capture.truncated.as_ref().map_or(Cell::text("no"), |t| {
        Cell::text(format_args!("at byte {}: {}", format::count(t.offset), t.detail)).class("warning")
    })
}

fn worst(m: &mut Markup, summary: &Summary) {
    let shown = summary.worst.len().min(WORST_SHOWN);
    let caption = shown_of("The packets with the highest delay", shown, summary.worst.len());
    let names = ["rank", "delay", "ingress", "egress", "position at ingress", "flow"];
    let rows = summary.worst.iter().take(shown).enumerate().map(|(rank, w)| {
        let flow = w.flow.and_then(|index| summary.flows.largest.get(index as usize));
        vec![
            Cell::number(rank + 1),
            Cell::ns(w.delay_ns),
            timestamp(Some(w.pre_ns), summary.pre.first_ns),
            timestamp(Some(w.post_ns), summary.pre.first_ns),
            Cell::count(w.pre_index),
            Cell::text(flow.map_or("others", |f| &f.name)),
        ]
    });
    table(m, &caption, &head(names), rows);
}

fn method(m: &mut Markup, summary: &Summary) {
    let key = &summary.key;
    m.tag("p").body(|m| {
        m.text("Packets were matched across both taps by the key rule ").tag("code").text(&key.rule);
        let how = if key.chosen_automatically {
            ", selected by trying all rules on the first packets of both captures"
        } else {
            ", which was set by an option"
        };
        let window = format::duration_short(summary.matching.window_ns as f64);
        m.text(format_args!("{how}. A packet counts as arrived if its delay is at most {window}; otherwise it is lost (RFC 7680)."));
    });
    if !key.tried.is_empty() {
        let rows = key.tried.iter().map(|t| {
            vec![
                Cell::text(&t.rule),
                Cell::count(t.packets),
                Cell::count(t.with_key),
                Cell::count(t.repeated),
                Cell::count(t.matched),
                Cell::text(&t.outcome).class("meaning"),
            ]
        });
        let names = ["key rule", "packets", "with a key", "repeated", "matched", "outcome"];
        table(m, "Key rules tried, in order", &head(names), rows);
    }
    m.tag("ul").class("standards").body(|m| {
        for line in STANDARDS {
            m.tag("li").text(line);
        }
    });
}

const STANDARDS: [&str; 9] = [
    "Delay: RFC 7679, type-P one-way delay; loss: RFC 7680; reordering: RFC 4737.",
    "Delay variation: RFC 3393 (IPDV between consecutively sent packets), RFC 5481 (PDV relative to the smallest delay), RFC 3550 section 6.4.1 (interarrival jitter).",
    "Percentiles: nearest rank, the value of rank ⌈p·n⌉ (Hyndman and Fan 1996, definition 1), computed from all packets, without a histogram.",
    "Confidence intervals of percentiles: order statistics with binomial ranks. They assume no distribution. For the delay, the effective sample size n accounts for packets that were delayed together; other intervals assume independent packets.",
    "Confidence intervals of ratios: Clopper-Pearson, 95 %. Lost packets that were lost together count as one.",
    "All intervals are about this trial. The next trial may lie outside, because trials differ by more than their packets do: repeat the trial, and compare groups of trials.",
    "A percentile is supported if at least ten effective packets are expected beyond it: n(1−p) ≥ 10.",
    "A verdict counts lost and late packets as failures of the budget: packets that failed together count as one failure. PASS and FAIL each hold with 95 % confidence (one-sided), UNDECIDED means that there are too few packets to decide.",
    "Default budgets: 1 ms at 99.999 % (ITU-R M.2410, URLLC) and 350 µs at 99.999 % (the share of a network function).",
];

#[cfg(test)]
mod tests {
    use wiretail_schema::units::THIN;

    use super::*;

    #[test]
    fn packets_beyond_a_percentile_are_never_rounded_up_to_ten() {
        let shown = |p, n| above(p, n).replace(THIN, " ");
        assert_eq!(shown(50.0, 300_000), "150 000");
        assert_eq!(shown(99.9, 10_000), "10");
        assert_eq!(shown(99.95, 19_987), "9.99");
        assert_eq!(shown(99.95, 19_999), "9.99");
        assert_eq!(shown(99.999, 19_987), "0.2");
        assert_eq!(shown(99.999_99, 19_987), "0.002");
    }

    #[test]
    fn an_interval_without_upper_bound_is_printed_as_open() {
        let p = Percentile {
            percentile: 99.9,
            value_ns: 12,
            low_ns: 10,
            high_ns: None,
            supported: false,
            effective_packets: None,
        };
        assert_eq!(interval(&p).replace(format::SPACE, " "), "from 10 ns, open above");
        let p = Percentile { high_ns: Some(15), ..p };
        assert_eq!(interval(&p).replace(format::SPACE, " "), "10 ns to 15 ns");
    }
}
