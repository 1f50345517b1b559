//! The pages of predictions: their numbers match the document, the verdict is at the top, and names are
//! escaped.

use wiretail_schema::prediction::capacity::*;
use wiretail_schema::prediction::sampling::*;
use wiretail_schema::prediction::tail::*;
use wiretail_schema::search::Goal;

use super::elements;

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x>";

fn estimate(value: f64, low: f64, high: Option<f64>) -> Estimate {
    Estimate { value, low, high }
}

/// A deployment with an overload, one with the results of a search, and one without measurements.
fn model(name: &str) -> CapacityModel {
    let median = |trial: &str| MedianBasis {
        trial: format!("{trial} ({name})"),
        packets: 123_456,
        clock: name.to_owned(),
        granularity_ns: 12.5,
    };
    let inputs = CapacityInputs {
        name: name.to_owned(),
        dut_median_ns: estimate(13_000.0, 12_900.0, Some(13_100.0)),
        forwarder_median_ns: Estimate::exact(3_000.0),
        interrupts: vec![InterruptLoad::new(name.to_owned(), Estimate::exact(250.0), 4_000.0)],
        overload_pps: Some([80_000, 90_000]),
        basis: Some(CapacityBasis { dut: median("2"), forwarder: median("1") }),
    };
    let capacity = Capacity {
        cpu_ns: estimate(10_000.0, 9_900.0, Some(10_100.0)),
        interrupts_ns: Estimate::exact(1e6),
        max_pps: estimate(99_900.0, 98_910.0, None),
    };
    let validation = |goal: &str, bounds: [Option<u64>; 2], judgement, error| SearchValidation {
        search: name.to_owned(),
        goal: goal.parse().expect("a goal"),
        lower_pps: bounds[0],
        upper_pps: bounds[1],
        judgement,
        error,
    };
    let against =
        CapacityValidation { judgement: Judgement::Off, reason: format!("off: {name}"), error: 0.11 };
    let overloaded = Deployment { inputs, capacity, against: Some(against), searched: Vec::new() };
    let mut searched = overloaded.clone();
    (searched.against, searched.inputs.overload_pps, searched.inputs.basis) = (None, None, None);
    let mut alone = searched.clone();
    alone.inputs.interrupts.clear();
    searched.searched = vec![
        validation("ndr", [Some(102_000), Some(103_000)], Some(Judgement::LowerBound), Some(-0.020_588)),
        validation("pdr 0.5%", [Some(99_000), Some(101_000)], Some(Judgement::Inside), Some(0.0)),
        validation("pdr 1%", [None, None], None, None),
    ];
    CapacityModel {
        schema: CAPACITY_SCHEMA.to_owned(),
        wiretail_version: "1.2.3".to_owned(),
        deployments: vec![overloaded, searched, alone],
    }
}

fn level(level_ns: f64, expected: f64, observed: Option<u64>) -> LevelForecast {
    let error = observed.map(|observed| expected / observed as f64 - 1.0);
    LevelForecast { level_ns, basis: Basis::Fitted, seen: 7, expected, low: 10, high: 30, observed, error }
}

fn tail(name: &str) -> TailPrediction {
    let candidate = |threshold_ns: f64| Candidate {
        threshold_ns,
        exceedances: 300,
        events: 200,
        mean_excess_ns: 1_000.0,
        shape: -0.1,
        shape_low: -0.2,
        shape_high: 0.05,
        modified_scale_ns: 3_000.0,
        anderson_darling: 0.4,
        fit_chance: 0.02,
        counts_chance: 0.5,
        sizes_chance: 0.5,
    };
    let quantile =
        |ns: f64| FittedQuantile { observed_ns: ns, fitted_ns: ns, low_ns: ns - 5.0, high_ns: ns + 5.0 };
    let fit = Fit {
        threshold_ns: 20_000.0,
        exceedances: 300,
        events: 200,
        thin: false,
        shape: -0.1,
        shape_low: -0.2,
        shape_high: 0.05,
        shape_by_moments: Some(-0.12),
        scale_ns: 1_234.0,
        end_ns: Some(32_340.0),
        dispersion: 1.5,
        maximum_chance: 0.4,
        quantiles: (0..200).map(|place| quantile(20_000.0 + 10.0 * f64::from(place))).collect(),
        below: None,
    };
    let once = |once_in_ns: i64, delay_ns: f64| ReturnLevel {
        once_in_ns,
        once_in_packets: once_in_ns as f64 * 1e-5,
        delay_ns,
        low_ns: delay_ns - 100.0,
        high_ns: delay_ns + 200.0,
    };
    TailPrediction {
        schema: TAIL_SCHEMA.to_owned(),
        wiretail_version: "1.2.3".to_owned(),
        pre: name.to_owned(),
        post: name.to_owned(),
        clock: name.to_owned(),
        trim_ns: 1_000_000_000,
        calibrate: Some(0.2),
        tail: Tail {
            packets: 58_000,
            span_ns: 5_800_000_000,
            rate_pps: 10_000.0,
            granularity_ns: 12.5,
            run_packets: 10,
            seed: 1,
            refused: None,
            candidates: vec![candidate(19_000.0), candidate(20_000.0)],
            fit: Some(fit),
            return_levels: vec![once(60_000_000_000, 25_600.0), once(144_000_000_000_000, 31_700.0)],
            forecast: Some(Forecast {
                packets: 232_000,
                confidence: 0.95,
                levels: vec![level(20_000.0, 20.0, Some(16)), level(21_000.0, 12.0, Some(31))],
                holds: Some(false),
            }),
            support: vec![Support { percentile: 99.0, packets: 1_000, seconds: Some(0.1), supported: true }],
        },
    }
}

fn sampling(name: &str) -> InterruptSampling {
    let outcome = |rate_pps: f64| SamplingOutcome {
        rate_pps,
        late: 900,
        late_ratio: 0.003,
        late_ratio_expected: (rate_pps != 10_000.0).then_some(0.0031),
        max_wait_ns: 12_000.0,
        mean_wait_ns: 18.0,
        overloaded: false,
        beats: vec![Beat { beat_hz: 52.0, packets_apart: 40.2 }],
    };
    let worst =
        |wait: f64| (0..40).map(|at| LatePacket { at_ns: f64::from(at) * 1e8, wait_ns: wait }).collect();
    InterruptSampling {
        schema: SAMPLING_SCHEMA.to_owned(),
        wiretail_version: "1.2.3".to_owned(),
        seed: 1,
        packets: 300_000,
        service_ns: 0,
        interrupts: vec![SampledInterrupt {
            name: name.to_owned(),
            rate_hz: 250.0,
            length_ns: 12_000,
            phase_ns: 5.0,
        }],
        interrupts_ns: 3e6,
        max_pps: None,
        outcome: outcome(10_052.0),
        sensitivity: vec![outcome(9_000.0), outcome(10_000.0)],
        worst: worst(12_000.0),
        measured: Some(MeasuredLate {
            pre: name.to_owned(),
            post: name.to_owned(),
            packets: 290_000,
            clock: name.to_owned(),
            granularity_ns: 12.5,
            rate_pps: 10_052.0,
            median_ns: 3_175,
            worst: worst(10_000.0),
            against: Some(SamplingValidation {
                max_wait_ns: 10_000.0,
                wait_error: 0.2,
                long_ns: 6_000.0,
                long_simulated: 0.0015,
                long_measured: 0.002,
                long_error: Some(-0.25),
                long_or_more: false,
            }),
        }),
    }
}

fn pages(name: &str) -> [String; 3] {
    [
        wiretail_report::capacity(&model(name)),
        wiretail_report::tail(&tail(name)),
        wiretail_report::interrupts(&sampling(name)),
    ]
}

/// The document embedded in a page.
fn document(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("class=\"document\">").expect("a document");
    let (text, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(text).expect("JSON")
}

fn plain(page: &str) -> String {
    page.replace(['\u{a0}', '\u{202f}'], " ")
}

#[test]
fn shows_both_components_of_a_mixture() {
    let mut prediction = tail("x");
    let fit = prediction.tail.fit.as_mut().expect("a fit");
    fit.thin = true;
    fit.below = Some(Component {
        threshold_ns: 18_000.0,
        exceedances: 420,
        events: 400,
        share: 0.75,
        shape: 0.2,
        scale_ns: 321.0,
        anderson_darling: 0.5,
        fit_chance: 0.3,
    });
    let page = plain(&wiretail_report::tail(&prediction));
    assert!(page.contains("TWO COMPONENTS") && page.contains("400 events above 18.00 µs"), "{page}");
    assert!(page.contains("lower component from") && page.contains("75 % of them below"), "{page}");
    assert!(!plain(&wiretail_report::tail(&tail("x"))).contains("lower component"));
}

#[test]
fn hostile_names_add_no_element_to_a_prediction() {
    for (tame, hostile) in pages("tame").iter().zip(pages(HOSTILE)) {
        assert_eq!(elements(tame), elements(&hostile));
        assert!(!hostile.contains("<img") && hostile.contains("&lt;script&gt;alert(1)"));
    }
}

#[test]
fn a_prediction_contains_its_document_and_source() {
    let documents = [
        serde_json::to_value(model(HOSTILE)),
        serde_json::to_value(tail(HOSTILE)),
        serde_json::to_value(sampling(HOSTILE)),
    ];
    let sources = ["docs/kpi/capacity.md", "docs/kpi/extreme-values.md", "docs/kpi/capacity.md"];
    for ((page, expected), source) in pages(HOSTILE).iter().zip(documents).zip(sources) {
        assert_eq!(document(page), expected.expect("JSON"));
        assert!(page.contains(&format!("<code>{source}</code>")));
        assert!(page.contains("wiretail 1.2.3") && page.contains("12.5\u{a0}ns"), "version and clock's grid");
        for address in ["url(", "@import", "src=\"", "//cdn"] {
            assert!(!page.contains(address), "{address}");
        }
    }
}

#[test]
fn compares_capacities_with_measurements() {
    let page = plain(&wiretail_report::capacity(&model("x")));
    assert!(page.contains("Compared with measurements: 1 right, 1 a lower bound, 1 wrong, 1 open."));
    for (word, class) in
        [("RIGHT", "pass"), ("LOWER BOUND", "undecided"), ("WRONG", "fail"), ("OPEN", "undecided")]
    {
        assert_eq!(page.matches(&format!("<strong>{word}</strong>")).count(), 1, "{word}");
        assert!(page.contains(&format!("card {class}")));
    }
    assert!(page.contains(
        "Predicted: 99.9 kpps (98.91 kpps to unbounded). Measured: 80 kpps to 90 kpps. Error: +11.0 %."
    ));
    for cell in [
        ">+11.0 %<",
        ">\u{2212}2.1 %<",
        ">0 %<",
        ">102 kpps to 103 kpps<",
        ">nothing found<",
        ">NDR, search x<",
        ">not measured<",
        ">13.00 µs<small>12.90 µs to 13.10 µs</small>",
        ">4.000 µs<",
        ">123 456<",
    ] {
        assert!(page.contains(cell), "{cell}");
    }
    assert!(page.contains("For medians given as numbers"));
    assert!(page.contains(&Goal::to_string(&"pdr 0.5%".parse().expect("a goal"))));
    // One line for the overload, three for the searched goals, and one for the deployment without
    // measurements.
    assert_eq!(page.matches("data-tip=\"").count(), 5);
    let none = CapacityModel { deployments: Vec::new(), ..model("x") };
    assert!(wiretail_report::capacity(&none).contains("There is no measurement"));
}

#[test]
fn compares_observed_events_with_the_predicted_tail() {
    let found = tail("x");
    let page = plain(&wiretail_report::tail(&found));
    assert!(page.contains("<h1 class=\"long\">31.70 µs once in 40 h</h1>"));
    assert!(
        page.contains("<strong>DOES NOT HOLD</strong>") && page.contains("predicted bands: above 21.00 µs.")
    );
    for cell in
        [">+25.0 %<", ">\u{2212}61.3 %<", ">✓ inside<", ">✕ outside<", ">10 to 30<", ">\u{2212}0.100<"]
    {
        assert!(page.contains(cell), "{cell}");
    }
    for figure in ["events", "return-levels", "quantiles", "mean-excess", "shape", "modified-scale"] {
        assert!(page.contains(&format!("data-figure=\"tail-{figure}\"")), "{figure}");
    }
    let mut refused = found.clone();
    let reason = "delays are <uneven>".to_owned();
    refused.tail.refused = Some(Refusal { kind: RefusalKind::NonStationary, reason });
    (refused.tail.fit, refused.tail.forecast) = (None, None);
    refused.tail.return_levels.clear();
    let page = plain(&wiretail_report::tail(&refused));
    assert!(page.contains("<article class=\"card fail\">") && page.contains("<strong>REFUSED</strong>"));
    assert!(
        page.contains("Delays are &lt;uneven&gt;.")
            && page.contains("No prediction is possible for these delays")
    );
    assert!(
        !page.contains("tail-quantiles") && page.contains("tail-mean-excess"),
        "the tried thresholds are still shown"
    );
    let mut unchecked = found;
    unchecked.tail.forecast.as_mut().expect("one").holds = None;
    assert!(wiretail_report::tail(&unchecked).contains("NOT VALIDATED"));
}

#[test]
fn shows_the_simulated_and_the_measured_pattern() {
    let found = sampling("tick");
    let page = plain(&wiretail_report::interrupts(&found));
    for cell in [
        ">+20.0 %<",
        ">\u{2212}25.0 %<",
        ">12.00 µs simulated<",
        ">10.00 µs measured<",
        ">repeats every 19.23 ms<",
    ] {
        assert!(page.contains(cell), "{cell}");
    }
    for figure in ["interrupt-sampling", "interrupt-late", "interrupt-longest"] {
        assert!(page.contains(&format!("data-figure=\"{figure}\"")), "{figure}");
    }
    let waits = wiretail_report::waits(&found);
    assert_eq!((waits.series.len(), waits.series[1].y[0]), (2, 10_000.0));
    let alone = InterruptSampling { measured: None, ..found.clone() };
    let page = wiretail_report::interrupts(&alone);
    assert!(page.contains("There is no measurement") && !page.contains("Predicted and measured"));
    let mut overloaded = found;
    overloaded.outcome.overloaded = true;
    assert!(wiretail_report::interrupts(&overloaded).contains("<strong>OVERLOADED</strong>"));
}
