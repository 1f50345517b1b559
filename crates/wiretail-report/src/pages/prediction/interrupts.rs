//! The page of packets that wait for interrupts. It shows the simulated and the measured pattern of the
//! waits, and how the pattern depends on the rate.

use wiretail_schema::prediction::sampling::{
    Beat, InterruptSampling, LatePacket, SampledInterrupt, SamplingOutcome, SamplingValidation,
};
use wiretail_schema::summary::figure::{AxisName, Figure, Mark, ReferenceLine, Scale, Unit};

use super::{Formula, Frame, basis, error, none};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::page::{answer, figure, section, tile};
use crate::pages::run::figures::{axis, draw, plain};
use crate::plot::Size;

/// Renders the page of packets that wait for interrupts.
pub fn interrupts(sampling: &InterruptSampling) -> String {
    let outcome = &sampling.outcome;
    // Serialization cannot fail: all keys are strings, and numbers are finite or null.
    let document = serde_json::to_value(sampling).unwrap_or_default();
    let frame = Frame {
        what: "interrupts",
        title: &format!(
            "{} of all packets wait for interrupts at {}, for at most {}",
            format::ratio(outcome.late_ratio),
            exactly(outcome.rate_pps),
            format::duration(outcome.max_wait_ns)
        ),
        lead: &sampling.measured.as_ref().map_or_else(
            || "There is no measurement to compare the simulation with.".to_owned(),
            |measured| format!("Compared with {} → {}", measured.pre, measured.post),
        ),
        schema: &sampling.schema,
        version: &sampling.wiretail_version,
        formula: Formula {
            text: "Packet n arrives at n / r and needs the core for S; an interrupt of rate f and length L takes the core \
                   immediately. If f and r are nearly incommensurable, a share f (L + S) of all packets waits, each for at most L, and \
                   the pattern repeats |a − b · round(a / b)| times a second, where a is the larger and b the smaller of r and f.",
            page: "docs/kpi/capacity.md",
            source: (
                "S. Gallenmüller, J. Naab, I. Adam, G. Carle, 5G QoS: Impact of Security Functions on Latency (NOMS 2020)",
                Some("https://arxiv.org/abs/1909.08397"),
            ),
        },
    };
    super::page(&frame, &document, |m| {
        if outcome.overloaded {
            section(m, "verdicts", "Verdict", |m| overloaded(m, sampling));
        }
        if let Some(measured) = &sampling.measured {
            section(m, "errors", "Predicted and measured", |m| match &measured.against {
                Some(validation) => errors(m, sampling, validation),
                None => {
                    m.tag("p").text("No packet waited in the simulation or in the measurement: there is nothing to compare.");
                }
            });
        }
        section(m, "figures", "The pattern", |m| {
            m.tag("div").class("figures").body(|m| figure(m, &waits(sampling), Size::Wide, 0));
            kinds(m, sampling);
        });
        section(m, "sensitivity", "Dependence on the rate", |m| sensitivity(m, sampling));
        section(m, "rests", "Basis", |m| rests(m, sampling));
    })
}

/// The packets with the longest waits over time, simulated and measured.
pub fn waits(sampling: &InterruptSampling) -> Figure {
    let series = |name: &str, packets: &[LatePacket]| {
        let x = packets.iter().map(|packet| packet.at_ns * 1e-9).collect();
        plain(name.to_owned(), x, packets.iter().map(|packet| packet.wait_ns).collect())
    };
    let mut all = vec![series("simulated", &sampling.worst)];
    all.extend(sampling.measured.iter().map(|measured| series("measured", &measured.worst)));
    Figure {
        id: "interrupt-sampling".to_owned(),
        title: format!("Packets that wait for interrupts, at {}", format::rate(sampling.outcome.rate_pps)),
        caption: "The packets with the longest waits. A measured wait is the delay minus the median."
            .to_owned(),
        x: axis("time", "at_s", Unit::Seconds, Scale::Linear),
        y: axis("wait", "wait_ns", Unit::Nanoseconds, Scale::Linear),
        mark: Mark::Point,
        series: all,
        lines: Vec::new(),
    }
}

/// Formats a rate with all digits, because the pattern depends on the last digit.
fn exactly(pps: f64) -> String {
    format!("{}{}pps", format::short(pps), format::SPACE)
}

fn overloaded(m: &mut Markup, sampling: &InterruptSampling) {
    let max = sampling
        .max_pps
        .map_or_else(String::new, |max| format!("The core serves at most {}.", format::rate(max)));
    let said = "Packets arrive faster than the core serves them: the queue grows while packets arrive, and \
                the waits only show for how long packets arrived.";
    m.tag("div").class("cards").body(|m| {
        answer(m, ("fail", "✕", "OVERLOADED"), &exactly(sampling.outcome.rate_pps), said, &max);
    });
}

fn errors(m: &mut Markup, sampling: &InterruptSampling, validation: &SamplingValidation) {
    let more = if validation.long_or_more { " or more" } else { "" };
    let simulated = sampling.outcome.max_wait_ns;
    let long = format!("wait {} or longer", format::duration(validation.long_ns));
    m.tag("dl").class("tiles").body(|m| {
        let lines = [
            format!("{} simulated", format::duration(simulated)),
            format!("{} measured", format::duration(validation.max_wait_ns)),
        ];
        tile(
            m,
            "longest wait, error",
            &error(validation.wait_error),
            &validation.wait_error.to_string(),
            &lines,
            None,
        );
        let lines = [
            format!("{}{more} simulated", format::ratio(validation.long_simulated)),
            format!("{}{more} measured", format::ratio(validation.long_measured)),
        ];
        let shown = validation.long_error.map_or_else(|| "–".to_owned(), error);
        let exact = validation.long_error.map_or_else(String::new, |found| found.to_string());
        let name = format!("packets that {long}, error");
        tile(m, &name, &shown, &exact, &lines, validation.long_or_more.then_some("not all are listed"));
    });
    m.tag("p").class("rests").text(
        "Error: simulated value divided by measured value, minus 1. A measured wait is the delay minus the \
         median. Packets are counted if they wait at least half as long as the longest simulated wait.",
    );
}

fn kinds(m: &mut Markup, sampling: &InterruptSampling) {
    let rows =
        sampling.interrupts.iter().zip(&sampling.outcome.beats).enumerate().map(|(place, (kind, beat))| {
            let name =
                if kind.name.is_empty() { format!("interrupt {}", place + 1) } else { kind.name.clone() };
            vec![
                Cell::text(name),
                Cell::number(format::digits(kind.rate_hz, 4)).exact(format!("{} Hz", kind.rate_hz)),
                Cell::ns(kind.length_ns),
                Cell::ns_mean(kind.phase_ns),
                Cell::text(pattern(kind, beat)),
            ]
        });
    let names = head(["interrupt", "a second", "length", "first at", "pattern of waits"]);
    m.tag("div").class("broad").body(|m| table(m, "Interrupts, as simulated", &names, rows));
}

fn pattern(kind: &SampledInterrupt, beat: &Beat) -> String {
    match (kind.rate_hz, beat.beat_hz) {
        (rate, _) if rate <= 0.0 => "never".to_owned(),
        (_, 0.0) => {
            "synchronous with the packets: the wait is always the same, or there is none, depending on the \
             phase"
                .to_owned()
        }
        (_, beat) => format!("repeats every {}", format::duration(1e9 / beat)),
    }
}

fn rates(sampling: &InterruptSampling) -> Vec<&SamplingOutcome> {
    let mut all: Vec<&SamplingOutcome> = sampling.sensitivity.iter().chain([&sampling.outcome]).collect();
    all.sort_by(|a, b| a.rate_pps.total_cmp(&b.rate_pps));
    all
}

fn sensitivity(m: &mut Markup, sampling: &InterruptSampling) {
    let all = rates(sampling);
    draw(m, &[late(sampling, &all), longest(sampling, &all)], Size::Half, 2, &mut 1);
    let rows = all.iter().map(|found| {
        let beats: Vec<String> =
            found.beats.iter().map(|beat| format!("{} Hz", format::digits(beat.beat_hz, 4))).collect();
        Row {
            cells: vec![
                Cell::text(exactly(found.rate_pps)),
                Cell::count(found.late),
                Cell::ratio(found.late_ratio),
                found.late_ratio_expected.map_or_else(none, Cell::ratio),
                Cell::ns_mean(found.max_wait_ns),
                Cell::ns_mean(found.mean_wait_ns),
                Cell::text(if found.overloaded {
                    format!("{}; overloaded", beats.join(", "))
                } else {
                    beats.join(", ")
                }),
            ],
            ..Row::default()
        }
    });
    let names = head(["rate", "late packets", "of all", "closed form", "longest wait", "mean wait", "beat"]);
    m.tag("div").class("broad").body(|m| {
        table(
            m,
            "The same interrupts at nearby rates; there is no closed form if interrupts and packets are synchronous",
            &names,
            rows,
        );
    });
}

fn asked(sampling: &InterruptSampling) -> Vec<ReferenceLine> {
    vec![ReferenceLine { on: AxisName::X, value: sampling.outcome.rate_pps, label: "requested".to_owned() }]
}

fn late(sampling: &InterruptSampling, all: &[&SamplingOutcome]) -> Figure {
    let mut series = vec![plain(
        "simulated".to_owned(),
        all.iter().map(|found| found.rate_pps).collect(),
        all.iter().map(|found| found.late_ratio).collect(),
    )];
    let closed = || all.iter().filter_map(|found| Some((found.rate_pps, found.late_ratio_expected?)));
    if closed().next().is_some() {
        let (x, y) = closed().unzip();
        series.push(plain("closed form".to_owned(), x, y));
    }
    Figure {
        id: "interrupt-late".to_owned(),
        title: "Packets that wait, over the rate".to_owned(),
        caption:
            "If the simulation differs from the closed form, interrupts and packets are synchronous or nearly \
             synchronous."
                .to_owned(),
        x: axis("rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear),
        y: axis("of all packets", "late_ratio", Unit::Ratio, Scale::Linear),
        mark: Mark::Point,
        series,
        lines: asked(sampling),
    }
}

fn longest(sampling: &InterruptSampling, all: &[&SamplingOutcome]) -> Figure {
    let of = |value: fn(&SamplingOutcome) -> f64| all.iter().map(|found| value(found)).collect::<Vec<f64>>();
    let rates = of(|found| found.rate_pps);
    Figure {
        id: "interrupt-longest".to_owned(),
        title: "The longest wait, over the rate".to_owned(),
        caption:
            "If packets and an interrupt are synchronous, the longest wait can be shorter than the interrupt."
                .to_owned(),
        x: axis("rate", "rate_pps", Unit::PacketsPerSecond, Scale::Linear),
        y: axis("longest wait", "max_wait_ns", Unit::Nanoseconds, Scale::Linear),
        mark: Mark::Point,
        series: vec![plain("simulated".to_owned(), rates, of(|found| found.max_wait_ns))],
        lines: asked(sampling),
    }
}

fn rests(m: &mut Markup, sampling: &InterruptSampling) {
    if let Some(measured) = &sampling.measured {
        let clock = if measured.clock.is_empty() { "unknown".to_owned() } else { measured.clock.clone() };
        let what = format!(
            "{}, median {}",
            format::rate(measured.rate_pps),
            format::duration(measured.median_ns as f64)
        );
        basis(
            m,
            vec![[
                what,
                format::count(measured.packets),
                clock,
                format::duration_short(measured.granularity_ns),
            ]],
        );
    }
    m.tag("p").class("rests").text(format_args!(
        "Simulated: {} packets that each need the core for {}; interrupts take {} of each second. Phases that \
         were not given are random, with seed {}. Simulated interrupts are exactly periodic and of constant \
         length; real ones vary in length.",
        format::count(sampling.packets),
        format::duration(sampling.service_ns as f64),
        format::duration(sampling.interrupts_ns),
        sampling.seed
    ));
}
