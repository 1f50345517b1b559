//! Tests of whole pages and figures: external names never become markup, and figures with unusual numbers are
//! still drawn.

use wiretail_schema::summary::Analysis;
use wiretail_schema::summary::figure::{Axis, AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};

#[path = "../examples/sample/causes.rs"]
mod causes;
#[path = "../examples/sample/comparison.rs"]
mod comparison;
#[path = "pages/energy.rs"]
mod energy;
#[path = "pages/explanation.rs"]
mod explanation;
#[path = "../examples/sample/figures.rs"]
mod figures;
#[path = "../examples/sample/numbers.rs"]
mod numbers;
#[path = "pages/prediction.rs"]
mod prediction;
#[path = "../examples/sample/run.rs"]
mod run;

fn analysis(hostile: bool) -> Analysis {
    let (summary, packets) = numbers::summary(1, hostile);
    Analysis { figures: figures::all(&summary, &packets), summary }
}

/// The names of all elements in order, without the text of scripts and styles.
fn elements(page: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..end];
        if !name.is_empty() {
            names.push(name);
        }
        if matches!(name, "script" | "style") {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("scripts and styles end") + close.len()..];
        }
    }
    names
}

#[test]
fn hostile_names_add_no_element() {
    let mut hostile = analysis(true);
    // Both samples have the same number of findings; they only differ in text.
    hostile.summary.findings.remove(0);
    let (tame, hostile) = (wiretail_report::report(&analysis(false)), wiretail_report::report(&hostile));
    // The header repeats file names only if the title does not contain them; here, both titles do.
    assert_eq!(elements(&tame), elements(&hostile));
    assert!(hostile.contains("&lt;img src=x onerror=alert(1)&gt;.pcap"));
    assert!(!hostile.contains("<img") && !hostile.contains("\"><script>"));
}

#[test]
fn a_report_is_self_contained_and_small() {
    let analysis = analysis(false);
    let page = wiretail_report::report(&analysis);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">") && page.ends_with("</html>\n"));
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    for address in ["http:", "https:", "//cdn", "@import", "url("] {
        let found = page.matches(address).count();
        // The address of the SVG namespace is only a name; nothing is loaded from it.
        let names = page.matches("\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(found, if address == "http:" { names } else { 0 }, "{address}");
    }
    for figure in &analysis.figures {
        assert!(page.contains(&format!("data-figure=\"{}\"", figure.id)));
    }
}

#[test]
fn a_comparison_escapes_its_names() {
    let (summary, _) = numbers::summary(1, true);
    let names = ["<img src=y>", "\"><script>alert(1)</script>", "c"];
    let results = names.map(|name| (name.to_owned(), summary.clone()));
    let page = wiretail_report::comparison("<h1>", &results, &comparison::comparison([names[0], names[1]]));
    assert!(!page.contains("<img") && page.contains("&lt;img src=y&gt;"));
    assert_eq!(
        elements(&page).iter().filter(|name| **name == "script").count(),
        2,
        "data and the page's own"
    );
}

/// A plan with a trial in every state.
const PLAN: run::Plan<'_> = run::Plan {
    devices: &[("wire", None), ("skeleton", Some(1)), ("skeleton", Some(32))],
    rates_kpps: &[10, 20, 80],
    bursts: &[1, 16],
    repeats: 1,
    stretch: 1,
    back: true,
    switched: false,
};

/// Devices connected by a switch. The trial of one device is invalid.
const SWITCHED: run::Plan<'_> = run::Plan {
    devices: &[("skeleton", Some(1)), ("suricata-fwd", None)],
    rates_kpps: &[10, 50],
    bursts: &[1],
    repeats: 2,
    switched: true,
    ..PLAN
};

fn run_page(plan: &run::Plan<'_>, hostile: bool) -> String {
    run::run(plan, &numbers::summary(1, false).0, hostile).page()
}

#[test]
fn a_run_shows_each_trial_with_its_state() {
    let page = run_page(&PLAN, false);
    assert!(page.contains("18 trials planned, 15 valid, 1 invalid, 1 failed, 1 interrupted"));
    assert!(page.contains("class=\"banner\"") && page.contains("1 of 18 trials is invalid"));
    for (state, number) in [("✓ valid", 15), ("✕ invalid", 1), ("✕ failed", 1), ("! interrupted", 1)] {
        assert_eq!(page.matches(state).count(), number, "{state}");
    }
    assert!(page.contains("the device did not forward within 10 s"), "a reason");
    assert!(page.contains("3 stalls of the load generator"), "a note");
    assert!(page.contains("Known delays") && page.contains("✓ yes"), "the calibration");
    assert!(page.contains("<a href=\"./trials/0001-wire-10kpps-1/report.html\">report</a>"));
    assert!(page.contains("<a href=\"./trials/0001-wire-10kpps-1/back/report.html\">report</a>"));
    assert!(!page.contains("./trials/0003-"), "the failed trial has no report to link to");
    assert_eq!(page.matches("<a href=").count(), 2 * 17, "one link a segment that was analysed");
    assert!(page.contains("class=\"number weak\""), "unsupported percentiles are marked");
    assert!(
        page.contains(">80 kpps<small>overload</small>") && page.contains("overloaded from 80\u{a0}kpps on")
    );
    assert!(page.contains("burst 16 (invalid)"), "numbers of an invalid trial are drawn under that name");
}

#[test]
fn a_run_has_a_figure_for_each_of_its_factors() {
    let page = run_page(&PLAN, false);
    for id in [
        "percentiles-3",
        "p50-over-rate-1",
        "p99-9-over-rate-1",
        "loss-over-rate-1",
        "bursts-1",
        "segments-1",
    ] {
        assert!(page.contains(&format!("data-figure=\"{id}\"")), "{id}");
    }
    assert!(!page.contains("data-figure=\"percentiles-4\""), "one figure a rate");
    let plain = run::Plan { rates_kpps: &[10], bursts: &[1], back: false, ..PLAN };
    let page = run_page(&plain, false);
    for section in ["load", "bursts", "segments", "segment-percentiles"] {
        assert!(!page.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    let one = run_page(&run::Plan { devices: &[("wire", None)], rates_kpps: &[10, 20, 40], ..plain }, false);
    assert!(!one.contains("data-figure=\"percentiles-2\""), "the rates of a single device in one figure");
    assert!(page.contains("<section id=\"over-time\""), "the sample lasts 30 s");
    assert_eq!(page.matches(" shown; repeats are not pooled").count(), 0);
    let page = run_page(&run::Plan { repeats: 3, ..plain }, false);
    assert!(page.contains("the one with the median p99.9 is shown; repeats are not pooled"));
    assert!(page.contains("<small>repeat 3</small>"));
}

#[test]
fn a_long_run_is_folded_and_a_run_without_trials_is_shown() {
    let many = run::Plan { bursts: &[1, 2, 4, 8], repeats: 3, back: false, ..PLAN };
    let page = run_page(&many, false);
    assert!(
        page.contains("<strong>wire</strong>: 36 trials")
            && page.contains("<strong>skeleton</strong>: 72 trials")
    );
    let mut sample = run::run(&PLAN, &numbers::summary(1, false).0, false);
    sample.run.trials.clear();
    sample.results.clear();
    let page = sample.page();
    assert!(page.contains("18 trials of the plan did not run") && page.ends_with("</html>\n"));
}

#[test]
fn devices_behind_a_switch_have_their_breakdown() {
    let page = run_page(&SWITCHED, false);
    // Each direction of each scenario has three distributions. All devices except the skeleton also have the
    // delay that they add to it.
    let drawn = |id: &str| page.matches(&format!("data-figure=\"{id}")).count();
    assert_eq!((drawn("shares-"), drawn("added-")), (2 * 2 * 2, 2 * 2));
    assert_eq!(page.matches("<td>infrastructure</td>").count(), 2 * (8 - 1), "but of the failed trial");
    assert!(page.contains("Delay that the VNF adds to the skeleton") && page.contains("<td>2 devices</td>"));
    assert!(page.contains("n(1−p) = "), "sample size of a percentile");
    assert!(!run_page(&PLAN, false).contains("<section id=\"shares\""), "only behind a switch");
}

#[test]
fn ranks_devices_and_shows_their_counters_next_to_the_taps() {
    let page = run_page(&SWITCHED, false);
    assert!(
        page.contains("<section id=\"ranking\"")
            && page.contains(">1–2<")
            && page.contains("not distinguished by")
    );
    assert!(page.contains("Device counters and packets seen by the taps"));
    assert!(page.contains("✕ no") && page.contains("✓ yes") && page.contains("no tap"));
    let alone = run::Plan { devices: &[("wire", None)], ..PLAN };
    assert!(!run_page(&alone, false).contains("<section id=\"ranking\""), "a single device has no rank");
}

#[test]
fn hostile_names_add_no_element_to_a_run() {
    let (tame, hostile) = (run_page(&SWITCHED, false), run_page(&SWITCHED, true));
    assert_eq!(elements(&tame), elements(&hostile));
    assert!(!hostile.contains("<u>dut") && hostile.contains("&lt;u&gt;dut"));
    let (tame, hostile) = (run_page(&PLAN, false), run_page(&PLAN, true));
    assert_eq!(elements(&tame), elements(&hostile));
    for markup in ["<img", "<script>alert", "<b>QEMU", "<i>back", "href=\"javascript:"] {
        assert!(!hostile.contains(markup), "{markup}");
    }
    assert!(hostile.contains("&lt;img src=x onerror=alert(1)&gt;"));
}

#[test]
fn shows_an_analysis_without_packets() {
    let mut analysis = analysis(false);
    let summary = &mut analysis.summary;
    summary.delay.percentiles.clear();
    (summary.delay.count, summary.delay.mean_ns, summary.delay.stddev_ns) = (0, f64::NAN, f64::NAN);
    summary.curve.clear();
    summary.worst.clear();
    summary.flows.largest.clear();
    for figure in &mut analysis.figures {
        figure.series.iter_mut().for_each(|series| (series.x, series.y) = (Vec::new(), Vec::new()));
    }
    let page = wiretail_report::report(&analysis);
    assert_eq!(page.matches("no data to draw").count(), analysis.figures.len());
    let results = [("a".to_owned(), analysis.summary)];
    assert!(
        wiretail_report::comparison("t", &results, &comparison::comparison(["a", "b"]))
            .contains("no data to draw")
    );
}

#[test]
fn draws_figures_with_unusual_numbers() {
    let odd: &[&[f64]] = &[
        &[],
        &[0.0],
        &[5.0],
        &[-3.0, 0.0, 4.0],
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0],
        &[1e300, 2e300],
        &[5e-324, 1e-300],
        &[1.7e18, 1.7e18 + 256.0],
        &[99.999_999_9, 100.0, 101.0],
        &[i64::MIN as f64, i64::MAX as f64],
    ];
    let scales = [Scale::Linear, Scale::Log, Scale::Nines];
    let units = [
        Unit::Nanoseconds,
        Unit::Seconds,
        Unit::Packets,
        Unit::PacketsPerSecond,
        Unit::Ratio,
        Unit::Percentile,
    ];
    for mark in [Mark::Line, Mark::Step, Mark::Point, Mark::Bar] {
        for (xs, ys) in scales.iter().flat_map(|x| scales.iter().map(move |y| (*x, *y))) {
            for unit in units {
                for values in odd {
                    let svg = wiretail_report::svg(&figure(mark, (xs, ys), unit, values));
                    assert!(svg.ends_with("</svg>\n"));
                    assert!(
                        !svg.contains("NaN") && !svg.contains("inf"),
                        "{mark:?} {xs:?} {ys:?} {unit:?}: {svg}"
                    );
                    assert!(svg.len() < 100_000, "{mark:?} {xs:?} {ys:?} {unit:?} {values:?}: {}", svg.len());
                }
            }
        }
    }
}

fn figure(mark: Mark, (xs, ys): (Scale, Scale), unit: Unit, values: &[f64]) -> Figure {
    let axis = |scale| Axis { label: "label".to_owned(), column: "column".to_owned(), unit, scale };
    let series = Series {
        name: "name".to_owned(),
        x: values.to_vec(),
        y: values.to_vec(),
        low: values.to_vec(),
        high: values.iter().rev().copied().collect(),
        supported: vec![false],
        bar_width: (mark == Mark::Bar).then_some(1.0),
    };
    Figure {
        id: "id".to_owned(),
        title: "title".to_owned(),
        caption: "caption".to_owned(),
        x: axis(xs),
        y: axis(ys),
        mark,
        series: vec![series.clone(), series],
        lines: [AxisName::X, AxisName::Y]
            .map(|on| ReferenceLine { on, value: 50.0, label: "line".to_owned() })
            .to_vec(),
    }
}
