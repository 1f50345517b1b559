//! A synthetic run with trials in every state. The numbers of all trials come from one summary and are scaled
//! by the load.

use serde_json::json;
use wiretail_schema::causes::ExplainedTrial;
use wiretail_schema::run::breakdown::{Addition, TrialCurves};
use wiretail_schema::run::calibration::Calibration;
use wiretail_schema::run::overhead::Overhead;
use wiretail_schema::run::scenario::{
    Overload, OverloadMark, OverloadSign, RATE, Ranking, Scenario, SegmentResult,
};
use wiretail_schema::run::*;
use wiretail_schema::summary::{Percentile, Summary};

#[path = "breakdown.rs"]
mod breakdown;

use breakdown::{additions, divide, rankings};

/// Properties that vary between the trials of a sample.
pub struct Plan<'a> {
    /// Devices, each with its batch if it has one.
    pub devices: &'a [(&'a str, Option<u64>)],
    /// Offered rates, in kpps.
    pub rates_kpps: &'a [u64],
    /// Packets sent back to back.
    pub bursts: &'a [u64],
    /// Number of repeats of each trial.
    pub repeats: u64,
    /// Length of each trial as a multiple of the base.
    pub stretch: i64,
    /// Whether a trial also has a return path.
    pub back: bool,
    /// Whether the devices are connected by a switch, which makes a breakdown of the delay possible.
    pub switched: bool,
}

/// Input of a run's page.
pub struct Sample {
    pub run: Run,
    pub results: Vec<SegmentResult>,
    pub overloads: Vec<OverloadMark>,
    /// Ranks of its devices.
    pub rankings: Vec<Ranking>,
    /// Breakdowns of its trials.
    pub curves: Vec<TrialCurves>,
    /// Delay that its devices add to the skeleton.
    pub additions: Vec<Addition>,
    /// What delayed the worst packets in its traced trials.
    pub explanations: Vec<ExplainedTrial>,
    /// Overhead of tracing the trials.
    pub overheads: Vec<Overhead>,
}

impl Sample {
    pub fn page(&self) -> String {
        wiretail_report::run(&wiretail_report::RunPage {
            run: &self.run,
            results: &self.results,
            overloads: &self.overloads,
            rankings: &self.rankings,
            curves: &self.curves,
            additions: &self.additions,
            explanations: &self.explanations,
            overheads: &self.overheads,
            searches: None,
            ablation: None,
        })
    }
}

/// A run and its results. With `hostile`, all external names contain markup.
pub fn run(plan: &Plan<'_>, base: &Summary, hostile: bool) -> Sample {
    let mut run = empty(hostile);
    let mut results = Vec::new();
    let mut divided = Vec::new();
    for repeat in 1..=plan.repeats {
        for (device, &(kind, batch)) in plan.devices.iter().enumerate() {
            for &kpps in plan.rates_kpps {
                for &burst in plan.bursts {
                    let number = run.trials.len() + 1;
                    let settings = settings(kind, batch, kpps, burst);
                    let mut trial = trial(number, repeat, settings, plan.back, hostile);
                    let load = (kpps as f64 / 40.0 / (device + 1) as f64).powi(6);
                    let factor = 1.0 + load.min(40.0) + 0.2 * burst as f64 + 0.6 * device as f64;
                    let factor = factor + 0.01 * repeat as f64;
                    for segment in 0..trial.segments.len() {
                        let factor = factor * (1.0 + 0.1 * segment as f64);
                        let summary =
                            stretched(base, factor, (load - 3.0).clamp(0.0, 60.0) / 100.0, plan.stretch);
                        results.push(SegmentResult { trial: number, segment, summary });
                    }
                    if plan.switched {
                        divided.push(divide(&mut trial, base, factor));
                    }
                    spoil(&mut trial);
                    if trial.state == TrialState::Failed {
                        results.retain(|result| result.trial != number);
                    }
                    run.trials.push(trial);
                }
            }
        }
    }
    run.trials_planned = run.trials.len() + usize::from(hostile);
    let highest = plan.rates_kpps.iter().max().copied().unwrap_or(1);
    let marks = run.trials.first().filter(|_| plan.rates_kpps.len() > 2).map(|trial| OverloadMark {
        scenario: Scenario::of(&run, trial, &[RATE]),
        overload: Overload {
            rate_pps: highest * 1000,
            sign: OverloadSign::Loss { ratio: 0.12, limit: Overload::LOSS_MIN },
        },
    });
    let overloads = marks.into_iter().collect();
    let rankings = rankings(&run, &results);
    let additions = additions(&run, &divided);
    Sample {
        run,
        results,
        overloads,
        rankings,
        curves: divided,
        additions,
        explanations: Vec::new(),
        overheads: Vec::new(),
    }
}

fn empty(hostile: bool) -> Run {
    let title = if hostile { "</title><script>alert(1)</script>" } else { "Three devices under rising load" };
    let host = HostSnapshot {
        kernel: Some("6.18.0".to_owned()),
        realtime_kernel: true,
        cpu_model: Some("Example Processor 9000".to_owned()),
        cores_online: Some("0-7".to_owned()),
        cores_isolated: Some("2-7".to_owned()),
        clocksource: Some("tsc".to_owned()),
        hypervisor: true,
        machine: Some(if hostile { "<b>QEMU</b>" } else { "QEMU, Standard PC" }.to_owned()),
        ..HostSnapshot::default()
    };
    Run {
        schema: RUN_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: title.to_owned(),
        seed: 1,
        started_s: 1_700_000_000,
        trials_planned: 0,
        factors: ["dut.kind", "dut.batch", "traffic.rate", "traffic.burst"].map(str::to_owned).to_vec(),
        host,
        trials: Vec::new(),
    }
}

fn settings(kind: &str, batch: Option<u64>, kpps: u64, burst: u64) -> Vec<SettingRecord> {
    let record = |key: &str, text: String, number| SettingRecord { key: key.to_owned(), text, number };
    let mut settings = vec![record("dut.kind", kind.to_owned(), 0)];
    settings.extend(batch.map(|batch| record("dut.batch", batch.to_string(), batch)));
    settings.push(record("traffic.rate", format!("{kpps} kpps"), kpps * 1000));
    settings.push(record("traffic.burst", burst.to_string(), burst));
    settings.push(record("trial.duration", "2 s".to_owned(), 2_000_000_000));
    settings
}

fn trial(number: usize, repeat: u64, settings: Vec<SettingRecord>, back: bool, hostile: bool) -> TrialRecord {
    let words: Vec<String> = settings.iter().take(3).map(|s| s.text.replace(' ', "")).collect();
    let name = if hostile { "<img src=x onerror=alert(1)>".to_owned() } else { words.join("-") };
    let directory =
        if hostile { "javascript:alert(1)".to_owned() } else { format!("trials/{number:04}-{name}") };
    let segment = |name: &str, pre: &str, post: &str, directory: String| {
        json!({
            "name": name, "pre": pre, "post": post, "directory": directory, "analysed": true,
        })
    };
    let mut segments = vec![segment("forward", "pre", "post", directory.clone())];
    if back {
        let name = if hostile { "<i>back" } else { "back" };
        segments.push(segment(name, "back-pre", "back-post", format!("{directory}/back")));
    }
    let offered_pps = settings.iter().find(|s| s.key == RATE).map_or(0, |s| s.number);
    let tap = |name: &str, drops: u64| {
        json!({
            "name": name,
            "place": "in of the device under test, arriving",
            "timestamp_source": "kernel software",
            "packets": 300_010,
            "drops": drops,
        })
    };
    // As in manifest.json: optional fields without a value are omitted.
    let record = json!({
        "number": number,
        "repeat": repeat,
        "name": name,
        "directory": directory,
        "state": "valid",
        "reasons": [],
        "notes": [],
        "retries": 0,
        "settings": settings,
        "generator": {
            "offered_pps": offered_pps,
            "sent": 300_010,
            "sent_bytes": 30_001_000,
            "failed": 0,
            "late": 12,
            "late_limit_ns": 100_000,
            "lateness_ns": [210, 1_900, 14_000, 310_000],
        },
        "taps": [tap("pre", 0), tap("post", u64::from(number == 2) * 7)],
        "segments": segments,
        "stalls": {"threshold_ns": 20_000, "causes": [], "longest": []},
    });
    let mut trial: TrialRecord = serde_json::from_value(record).expect("a trial as it is written");
    trial.calibration = (number == 1).then_some(Calibration {
        injected_ns: 1_000_000,
        every: 1000,
        delayed: 300,
        others: 299_700,
        recovered_ns: 1_000_400,
        found: 300,
        in_stalls: 0,
    });
    let device = |name: &str, received, sent, tapped_out| DeviceCounts {
        device: if hostile { "<u>dut" } else { name }.to_owned(),
        received,
        sent,
        tapped_in: Some(300_010),
        tapped_out,
        ..DeviceCounts::default()
    };
    trial.devices = vec![
        device("dut1", 300_010, 300_000, Some(300_000)),
        device("dut2", 300_010 - number as u64 / 8, 300_000, None),
    ];
    trial.dut = Some(DutRecord { received: 300_010, sent: 300_000, dropped: 10, ..DutRecord::default() });
    trial
}

/// Makes the second, third and fourth trial invalid, failed and interrupted.
fn spoil(trial: &mut TrialRecord) {
    let (state, reason) = match trial.number {
        2 => (TrialState::Invalid, "the capture dropped 7 packets at post: <script>alert(2)</script>"),
        3 => (TrialState::Failed, "the device did not forward within 10 s"),
        4 => (TrialState::Interrupted, "stopped by a signal after 1.2 s"),
        5 => {
            trial.notes.push("3 stalls of the load generator, together 1.2 ms".to_owned());
            return;
        }
        _ => return,
    };
    trial.state = state;
    trial.reasons.push(reason.to_owned());
    trial.retries = 1;
    if state == TrialState::Failed {
        trial.segments.iter_mut().for_each(|segment| segment.analysed = false);
        (trial.generator, trial.dut) = (None, None);
        trial.breakdown.clear();
        trial.devices.clear();
    }
    let causes = [StallCause::AllCoresPaused, StallCause::Scheduler, StallCause::OneCorePaused];
    trial.stalls.causes = causes
        .map(|cause| StallCauseRecord { cause, count: 3, total_ns: 5_400_000, longest_ns: 4_100_000 })
        .to_vec();
    trial.stalls.longest = vec![StallRecord {
        start_ns: 1_700_000_001_200_000_000,
        duration_ns: 4_100_000,
        role: "load generator".to_owned(),
        cause: StallCause::AllCoresPaused,
    }];
}

/// Returns the numbers with all delays multiplied by `factor`, a share of the packets lost, and the time
/// stretched.
fn stretched(base: &Summary, factor: f64, loss: f64, time: i64) -> Summary {
    let mut summary = base.clone();
    let longer = |ns: i64| (ns as f64 * factor) as i64;
    let delay = &mut summary.delay;
    (delay.min_ns, delay.max_ns) = (longer(delay.min_ns), longer(delay.max_ns));
    delay.mean_ns *= factor;
    let stretch = |p: &mut Percentile| {
        (p.value_ns, p.low_ns, p.high_ns) = (longer(p.value_ns), longer(p.low_ns), p.high_ns.map(longer));
    };
    delay.percentiles.iter_mut().for_each(stretch);
    summary.curve.iter_mut().for_each(|point| point.delay_ns = longer(point.delay_ns));
    for interval in &mut summary.intervals {
        (interval.start_ns, interval.length_ns) = (interval.start_ns * time, interval.length_ns * time);
        (interval.min_ns, interval.max_ns) = (longer(interval.min_ns), longer(interval.max_ns));
    }
    let lost = (summary.loss.sent as f64 * loss) as u64;
    summary.loss.lost = lost;
    summary.loss.ratio = lost as f64 / summary.loss.sent as f64;
    (summary.loss.ratio_low, summary.loss.ratio_high) =
        (summary.loss.ratio * 0.97, summary.loss.ratio * 1.03);
    summary
}
