//! Recommendations from runs with injected delays.

use wiretail_schema::causes::{CauseKind, CauseRow, ExplainedTrial, TrialExplanation};
use wiretail_schema::host::audit::{Audit, Verdict};
use wiretail_schema::host::recommendation::{
    Advice, Deployment, MatrixRow, Origin, Recommendation, Recommendations, Stand,
};
use wiretail_schema::host::record::HostRecord;
use wiretail_schema::packet::FlowRule;
use wiretail_schema::run::energy::{Energy, EnergySource, EnergyState, Joules, StateEnergy};
use wiretail_schema::run::scenario::SegmentResult;
use wiretail_schema::run::{
    GUEST_EMULATED, GUEST_ON_PROCESSOR, HostSnapshot, RUN_SCHEMA, Run, SettingRecord, TapRecord, TrialRecord,
    TrialState,
};
use wiretail_schema::search::{
    Effort, Ending, Goal, GoalResult, Method, Over, SEARCH_SCHEMA, Search, SearchTrial, Searches,
};
use wiretail_schema::summary::{Key, Summary};

use super::{RunInput, recommend};
use crate::host::audit::{Question, audit};
use crate::matching::{Observer, Outcome, Sent};
use crate::metrics::measurement::Measurement;
use crate::metrics::tap::TapTally;
use crate::summary::{CaptureFacts, Context, summarize};

const OPTIMIZED: &str = include_str!("../../../tests/hosts/optimized.txt");
const MICROVM: &str = include_str!("../../../tests/hosts/microvm.txt");
const LAPTOP: &str = include_str!("../../../tests/hosts/laptop.txt");

/// Packets per trial: 20 are beyond p99.9, two beyond p99.99.
const PACKETS: u64 = 20_000;

fn of_host(text: &str) -> Audit {
    audit(&HostRecord::parse(text).expect("a record"), &Question::default(), "0")
}

/// Audit of a host without any readings.
fn nothing() -> Audit {
    audit(&HostRecord::default(), &Question::default(), "0")
}

/// Delays of about one microsecond, except for one packet in a hundred, which takes about `tail_ns`.
fn summary(tail_ns: i64, lost: u64) -> Summary {
    let facts = CaptureFacts {
        path: String::new(),
        format: String::new(),
        interface: None,
        clock_source: "kernel software".to_owned(),
        resolution_ns: 1.0,
        packets_without_key: 0,
        packets_without_time: 0,
        packets_dropped: 0,
        wire_bytes: 0,
        truncated: None,
    };
    let mut measurement = Measurement::new(1_000_000_000, 0, 1, 0);
    for sequence in 0..PACKETS + lost {
        let sent =
            Sent { ts_ns: sequence as i64 * 10_000, key: sequence, sequence, duplicates_before: 0, flow: 0 };
        if sequence < lost {
            measurement.outcome(&Outcome::Lost { sent, early: None });
            continue;
        }
        let usual = 1_000 + (sequence * 7 % 997) as i64;
        let late = tail_ns + (sequence * 13 % 1009) as i64;
        measurement.matched(&sent, if sequence % 100 == 50 { late } else { usual });
    }
    let context = Context {
        version: "0".to_owned(),
        title: String::new(),
        pre: facts.clone(),
        post: facts,
        key: Key { rule: "signature".to_owned(), chosen_automatically: false, tried: Vec::new() },
        flow_rule: FlowRule::FiveTuple,
        flow_names: Vec::new(),
        budgets: Vec::new(),
    };
    summarize(context, measurement, &TapTally::default(), &TapTally::default()).expect("packets").0
}

/// Description of a trial: settings, tail in ns, lost packets, note.
type Planted<'a> = (&'a [(&'a str, &'a str)], i64, u64, &'a str);

fn setting((key, text): &(&str, &str)) -> SettingRecord {
    let number = text.strip_suffix(" kpps").and_then(|number| number.parse::<u64>().ok());
    SettingRecord { key: (*key).to_owned(), text: (*text).to_owned(), number: number.map_or(0, |n| n * 1000) }
}

fn trial(number: usize, (settings, _, _, note): &Planted<'_>) -> TrialRecord {
    let tap = |name: &str| TapRecord {
        name: name.to_owned(),
        place: String::new(),
        timestamp_source: "kernel software".to_owned(),
        packets: PACKETS,
        drops: 0,
    };
    TrialRecord {
        notes: Some(*note)
            .filter(|note| !note.is_empty())
            .map(|note| format!("dut1: {note}"))
            .into_iter()
            .collect(),
        settings: settings.iter().map(setting).collect(),
        taps: vec![tap("pre"), tap("post")],
        ..TrialRecord::blank(number, 1, &format!("trial-{number}"), TrialState::Valid)
    }
}

fn run(directory: &str, planted: &[Planted<'_>]) -> RunInput {
    let trials: Vec<TrialRecord> =
        (1..).zip(planted).map(|(number, planted)| trial(number, planted)).collect();
    let results = (1..).zip(planted).map(|(trial, (_, tail_ns, lost, _))| SegmentResult {
        trial,
        segment: 0,
        summary: summary(*tail_ns, *lost),
    });
    RunInput {
        directory: directory.to_owned(),
        results: results.collect(),
        run: Run {
            schema: RUN_SCHEMA.to_owned(),
            wiretail_version: "0".to_owned(),
            title: "planted".to_owned(),
            seed: 1,
            started_s: 0,
            trials_planned: trials.len(),
            factors: ["dut.kind", "dut.deployment", "traffic.rate"].map(str::to_owned).to_vec(),
            host: HostSnapshot::default(),
            trials,
        },
        searches: None,
        explanations: Vec::new(),
    }
}

fn one(found: &Recommendations, kind: Advice) -> &Recommendation {
    found.recommendations.iter().find(|one| one.kind == kind).expect("all five")
}

fn stands(found: &Recommendations) -> Vec<Stand> {
    found.recommendations.iter().map(|one| one.stand).collect()
}

fn row<'a>(found: &'a Recommendations, deployment: Deployment, profile: &str) -> &'a MatrixRow {
    let is_it = |row: &&MatrixRow| row.deployment == deployment && row.profile == profile;
    found.matrix.rows.iter().find(is_it).expect("a row")
}

const BARE: &[(&str, &str)] = &[
    ("dut.kind", "skeleton"),
    ("dut.deployment", "bare"),
    ("dut.wait", "spin"),
    ("traffic.rate", "2 kpps"),
    ("trial.duration", "5 s"),
];
const RUNC: &[(&str, &str)] = &[
    ("dut.kind", "skeleton"),
    ("dut.deployment", "container"),
    ("dut.container", "runc"),
    ("dut.wait", "spin"),
    ("traffic.rate", "2 kpps"),
    ("trial.duration", "3 s"),
];
const VM: &[(&str, &str)] = &[
    ("dut.kind", "skeleton"),
    ("dut.deployment", "vm"),
    ("dut.kernel", "standard"),
    ("dut.boot", "tuned"),
    ("dut.network", "tap"),
    ("dut.wait", "spin"),
    ("traffic.rate", "2 kpps"),
    ("trial.duration", "5 s"),
];

#[test]
fn without_runs_only_audit_rules_are_evidence() {
    let found = recommend(&nothing(), &[], "0");
    // Without readings, it is unknown whether the host has a NIC.
    assert_eq!(stands(&found)[..3], [Stand::NoEvidenceYet; 3]);
    assert_eq!(one(&found, Advice::Virtualisation).stand, Stand::NoEvidenceYet);
    assert!(found.matrix.rows.iter().all(|row| row.latency.is_empty() && row.next.is_some()));
    assert_eq!(found.matrix.rows.len(), 4);

    // This host has a NIC with hardware timestamps and nothing to change about it.
    let found = recommend(&of_host(OPTIMIZED), &[], "0");
    let none = Stand::NoEvidenceYet;
    assert_eq!(stands(&found), [Stand::Follow, none, none, Stand::AlreadySo, none]);
    // This host has a NIC with settings to change.
    let found = recommend(&of_host(LAPTOP), &[], "0");
    assert_eq!(stands(&found), [Stand::Follow, none, none, Stand::Follow, none]);
    let nic = one(&found, Advice::Nic);
    let aspm = nic
        .evidence
        .iter()
        .find(|fact| fact.from == Origin::Rule { rule: "pcie-aspm".into(), verdict: Verdict::Improvable });
    assert!(aspm.is_some_and(|fact| fact.says.contains("powersave")), "{nic:?}");
    assert!(nic.next.iter().any(|step| step.command.contains("pcie_aspm")), "{nic:?}");
    for found in found.recommendations.iter().filter(|one| one.stand == none) {
        assert!(!found.next.is_empty() && !found.source.is_empty(), "{found:?}");
    }
}

#[test]
fn reports_slower_virtual_machine() {
    let runs = [run("runs/a", &[(BARE, 5_000, 0, ""), (VM, 50_000, 0, GUEST_ON_PROCESSOR)])];
    let found = recommend(&of_host(OPTIMIZED), &runs, "0");
    let isolation_boundary = one(&found, Advice::Virtualisation);
    assert_eq!(isolation_boundary.stand, Stand::DoesNotApply, "{isolation_boundary:?}");
    assert!(
        isolation_boundary.says.contains("slower than bare under each of 1 loads"),
        "{}",
        isolation_boundary.says
    );
    let fact = &isolation_boundary.evidence[0];
    assert!(
        fact.says.contains("slower at p99.9, ") && fact.says.contains("the intervals do not overlap"),
        "{}",
        fact.says
    );
    let [bare, vm] = ["bare", "vm (standard kernel, tuned boot)"].map(|name| {
        fact.delays.iter().find(|delay| delay.of == name && delay.percentile == 99.9).expect("its p99.9")
    });
    assert!(
        (5_000..6_009).contains(&bare.value_ns) && (50_000..51_009).contains(&vm.value_ns),
        "{bare:?} {vm:?}"
    );
    assert!(bare.high_ns < vm.low_ns && bare.supported && vm.supported);
    assert_eq!((bare.packets, vm.trials[0].trials.as_slice()), (PACKETS, &[2][..]));
    // p99.99 is based on only two packets.
    let latency = &row(&found, Deployment::Vm, "tuned boot").latency[0];
    let supported: Vec<(f64, bool)> =
        latency.delays.iter().map(|delay| (delay.percentile, delay.supported)).collect();
    assert_eq!(supported, [(99.9, true), (99.99, false), (100.0, true)]);
    assert_eq!(latency.emulated, Some(false));
    assert!(row(&found, Deployment::Vm, "plain boot").latency.is_empty());
}

#[test]
fn overlapping_intervals_are_indistinguishable() {
    // The interval covers all repeats, and one bare trial had delays as long as the container's.
    let runs = [run("runs/a", &[(BARE, 5_000, 0, ""), (BARE, 9_000, 0, ""), (RUNC, 8_990, 0, "")])];
    let found = recommend(&nothing(), &runs, "0");
    let isolation_boundary = one(&found, Advice::Virtualisation);
    assert_eq!(isolation_boundary.stand, Stand::Follow);
    assert!(
        isolation_boundary.says.contains("ontainer (runc) is indistinguishable from bare"),
        "{}",
        isolation_boundary.says
    );
    assert!(
        isolation_boundary.evidence[0].says.contains("indistinguishable at p99.9"),
        "{:?}",
        isolation_boundary.evidence[0]
    );
}

#[test]
fn ignores_emulated_virtual_machines() {
    let runs = [run("runs/a", &[(BARE, 5_000, 0, ""), (VM, 50_000, 0, GUEST_EMULATED)])];
    let found = recommend(&nothing(), &runs, "0");
    let isolation_boundary = one(&found, Advice::Virtualisation);
    assert_eq!(isolation_boundary.stand, Stand::NoEvidenceYet);
    assert!(
        isolation_boundary.says.contains("emulated")
            && isolation_boundary.evidence[0].says.contains("not counted"),
        "{isolation_boundary:?}"
    );
    assert_eq!(row(&found, Deployment::Vm, "tuned boot").latency[0].emulated, Some(true));
    // A run without this information is counted, with a remark.
    let runs = [run("runs/a", &[(BARE, 5_000, 0, ""), (VM, 50_000, 0, "")])];
    let found = recommend(&nothing(), &runs, "0");
    assert!(
        one(&found, Advice::Virtualisation).evidence[0]
            .says
            .contains("does not record whether the processor was emulated")
    );
}

#[test]
fn compares_only_trials_with_equal_conditions() {
    let other_rate: Vec<(&str, &str)> =
        VM.iter().map(|pair| if pair.0 == "traffic.rate" { (pair.0, "5 kpps") } else { *pair }).collect();
    let mut runs = [
        run("runs/a", &[(BARE, 5_000, 0, ""), (&other_rate, 50_000, 0, "")]),
        run("runs/b", &[(VM, 50_000, 0, "")]),
    ];
    let compared = |runs: &[RunInput]| one(&recommend(&nothing(), runs, "0"), Advice::Virtualisation).stand;
    // Another run on the same host is compared.
    assert_eq!(compared(&runs), Stand::DoesNotApply);
    runs[1].run.host.kernel = Some("another".to_owned());
    assert_eq!(compared(&runs), Stand::NoEvidenceYet);
    // Invalid trials are ignored.
    runs[1].run.host.kernel = None;
    runs[1].run.trials[0].state = TrialState::Invalid;
    let found = recommend(&nothing(), &runs, "0");
    assert_eq!(one(&found, Advice::Virtualisation).stand, Stand::NoEvidenceYet);
    assert_eq!((found.runs[1].trials, found.runs[1].valid), (1, 0));
}

#[test]
fn distinguishes_hardware_and_software_timestamps() {
    let mut runs = [run("runs/a", &[(BARE, 5_000, 0, ""), (BARE, 5_000, 0, "")])];
    let found = recommend(&of_host(OPTIMIZED), &runs, "0");
    let timestamps = one(&found, Advice::HardwareTimestamps);
    assert_eq!(timestamps.stand, Stand::Follow);
    assert!(
        timestamps.says.contains("2 trials have software timestamps, and a NIC of this host can timestamp"),
        "{}",
        timestamps.says
    );
    for trial in &mut runs[0].run.trials {
        trial.taps.iter_mut().for_each(|tap| tap.timestamp_source = "hardware".to_owned());
    }
    assert_eq!(
        one(&recommend(&of_host(OPTIMIZED), &runs, "0"), Advice::HardwareTimestamps).stand,
        Stand::AlreadySo
    );
    // A single tap with software timestamps makes the trial a software trial.
    runs[0].run.trials[1].taps[0].timestamp_source = "kernel software".to_owned();
    let found = recommend(&of_host(OPTIMIZED), &runs, "0");
    assert!(one(&found, Advice::HardwareTimestamps).says.starts_with("1 trial has software timestamps"));
}

fn at(rate: &'static str) -> Vec<(&'static str, &'static str)> {
    BARE.iter().map(|pair| if pair.0 == "traffic.rate" { (pair.0, rate) } else { *pair }).collect()
}

#[test]
fn finds_rise_of_tail_below_breaking_point() {
    let rates = ["10 kpps", "20 kpps", "30 kpps", "40 kpps", "50 kpps"].map(at);
    // Half of the packets are lost at the highest rate.
    let tails = [5_000, 5_100, 30_000, 60_000, 90_000];
    let lost = [0, 0, 0, 0, PACKETS];
    let planted: Vec<Planted<'_>> = (0..5).map(|i| (rates[i].as_slice(), tails[i], lost[i], "")).collect();
    let found = recommend(&nothing(), &[run("runs/sweep", &planted)], "0");
    let spare = one(&found, Advice::SpareCapacity);
    assert_eq!(spare.stand, Stand::Follow);
    assert!(spare.says.contains("p99.9 starts to rise at 60 % of the breaking point"), "{}", spare.says);
    let rates: Vec<(&str, u64)> =
        spare.evidence[0].rates.iter().map(|rate| (rate.of.as_str(), rate.pps)).collect();
    let expected = [
        ("highest measured outside of searches", 50_000),
        ("overloaded from", 50_000),
        ("p99.9 rises from", 30_000),
    ];
    assert_eq!(rates, expected);
    // Without an overload, the spare capacity is unknown.
    let found = recommend(&nothing(), &[run("runs/sweep", &planted[..4])], "0");
    let spare = one(&found, Advice::SpareCapacity);
    assert_eq!(spare.stand, Stand::NoEvidenceYet);
    assert!(spare.next.iter().any(|step| step.command.contains("wiretail search")), "{spare:?}");
}

/// Search with the given results, over the trials of its run.
fn searches(trials: usize, ndr: u64, budget: u64) -> Searches {
    let found = |goal: &str, lower: u64| GoalResult {
        goal: goal.parse::<Goal>().expect("a goal"),
        ending: Ending::Found,
        lower: Some(lower),
        upper: Some(lower + 1_000),
        forwarded_pps: None,
        held: None,
        reason: String::new(),
    };
    let trial = |number| SearchTrial {
        number,
        load: 0,
        duration_ns: 0,
        invalid: Vec::new(),
        sent: 0,
        lost: 0,
        stretch: 0.0,
        missed: Vec::new(),
        poor: Vec::new(),
    };
    let search = Search {
        number: 1,
        repeat: 1,
        name: "skeleton".to_owned(),
        settings: Vec::new(),
        effort: Effort {
            method: Method::Mlrsearch,
            over: Over::Rate,
            lowest: 0,
            highest: 0,
            width: 0.01,
            full_ns: 0,
            first_ns: 0,
            trials: 1,
            exceed: 0.5,
            verify: 0,
            stretch: 0.0,
        },
        goals: vec![found("ndr", ndr), found("100us@99.9%", budget)],
        trials: (1..=trials).map(trial).collect(),
        sending_s: 1.0,
        elapsed_s: 1.0,
        complete: true,
    };
    Searches {
        schema: SEARCH_SCHEMA.to_owned(),
        wiretail_version: "0".to_owned(),
        title: String::new(),
        seed: 1,
        started_s: 0,
        factors: Vec::new(),
        searches_planned: 1,
        searches: vec![search],
    }
}

#[test]
fn compares_measured_rates_with_search_result() {
    let (low, high) = (at("20 kpps"), at("80 kpps"));
    let mut searched = run("runs/search", &[(&high, 5_000, 0, "")]);
    searched.searches = Some(searches(1, 80_000, 60_000));
    let of = |runs: &[RunInput]| {
        let found = recommend(&nothing(), runs, "0");
        let spare = one(&found, Advice::SpareCapacity).clone();
        (spare.stand, spare.says, spare.evidence)
    };
    // The search is the only evidence.
    let (stand, says, evidence) = of(&[searched.clone()]);
    assert_eq!(
        (stand, says.contains("up to 75 % of the breaking point: stay below this rate")),
        (Stand::Follow, true),
        "{says}"
    );
    assert_eq!(evidence[0].from, Origin::Search { run: "runs/search".into(), search: 1 });
    // A run at a lower rate has spare capacity.
    let (stand, says, _) = of(&[searched.clone(), run("runs/a", &[(&low, 5_000, 0, "")])]);
    assert_eq!((stand, says.contains("its load was at most 25 %")), (Stand::AlreadySo, true), "{says}");
    // A run at the breaking point has none.
    let (stand, ..) = of(&[searched, run("runs/a", &[(&high, 5_000, 0, "")])]);
    assert_eq!(stand, Stand::Follow);
}

#[test]
fn recommends_kernel_by_how_device_waits() {
    let sleeps: Vec<(&str, &str)> =
        BARE.iter().map(|pair| if pair.0 == "dut.wait" { (pair.0, "block") } else { *pair }).collect();
    let mut runs = [run("runs/a", &[(BARE, 5_000, 0, "")]), run("runs/b", &[(&sleeps, 5_000, 0, "")])];
    let of = |runs: &[RunInput]| one(&recommend(&nothing(), runs, "0"), Advice::KernelByArchitecture).clone();
    assert_eq!(of(&runs[..1]).stand, Stand::AlreadySo);
    let sleeping = of(&runs[1..]);
    assert_eq!(sleeping.stand, Stand::Follow, "{sleeping:?}");
    assert!(sleeping.says.contains("sleeps until a packet arrives"), "{}", sleeping.says);
    // The same program is better under a real-time kernel of the same machine: measured evidence.
    let mut other = run("runs/rt", &[(&sleeps, 2_500, 0, "")]);
    other.run.host.realtime_kernel = true;
    other.run.host.kernel = Some("6.1-rt".to_owned());
    let measured = of(&[runs[1].clone(), other.clone()]);
    assert_eq!(measured.stand, Stand::Follow);
    assert!(measured.says.contains("better in 1, worse in 0"), "{}", measured.says);
    // If it is worse, the measured trials take precedence over the papers.
    other.results[0].summary = summary(70_000, 0);
    assert_eq!(of(&[runs[1].clone(), other]).stand, Stand::DoesNotApply);
    // A polling device does not benefit from it.
    runs[0].run.host.realtime_kernel = true;
    assert_eq!(of(&runs[..1]).stand, Stand::Follow);
    // A device in the kernel neither polls nor sleeps.
    let bridge: Vec<(&str, &str)> = vec![("dut.kind", "bridge"), ("traffic.rate", "2 kpps")];
    assert_eq!(of(&[run("runs/c", &[(&bridge, 5_000, 0, "")])]).stand, Stand::NoEvidenceYet);
}

#[test]
fn uses_explanations_and_energy_as_evidence() {
    let mut input = run("runs/a", &[(BARE, 5_000, 0, "")]);
    let cause = |kind, ns| CauseRow {
        kind,
        name: String::new(),
        events: 1,
        total_ns: ns,
        tail_packets: 1,
        tail_ns: [ns, 0, 0],
        tail_queued_ns: 0,
        longest_ns: ns,
        without_ns: Vec::new(),
    };
    let explanation = TrialExplanation {
        tail_lost_ns: 1_000,
        causes: vec![cause(CauseKind::Paused, 600), cause(CauseKind::Timer, 250)],
        ..TrialExplanation::default()
    };
    input.explanations.push(ExplainedTrial { trial: 1, explanation });
    let total = Joules { joules: 50.0, uncertainty_j: 0.0 };
    input.run.trials[0].energy = Some(Energy {
        source: EnergySource::Rapl,
        states: vec![StateEnergy {
            state: EnergyState::Processing,
            seconds: 5.0,
            readings: 9,
            total,
            watts: 10.0,
            domains: Vec::new(),
        }],
        per_million_packets: Some(total),
        ..Energy::none(String::new())
    });
    let found = recommend(&of_host(MICROVM), &[input], "0");
    let says = |kind| {
        one(&found, kind).evidence.iter().map(|fact| fact.says.as_str()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        says(Advice::KernelByArchitecture).contains("0 % passed while the device slept, 25 % in interrupts")
    );
    assert!(says(Advice::Virtualisation).contains("60 % of the tail's excess delay"));
    let taken = &row(&found, Deployment::Bare, "regular boot").resources;
    assert!(
        taken
            .iter()
            .any(|fact| fact.says.contains("10.0 W") && fact.says.contains("50.0 J per million packets")),
        "{taken:?}"
    );
    assert!(taken.iter().any(|fact| fact.says.contains("occupies a full core")), "{taken:?}");
    assert!(
        found.matrix.host_security.iter().any(|fact| fact.says.contains("spectre")),
        "{:?}",
        found.matrix.host_security
    );
}
