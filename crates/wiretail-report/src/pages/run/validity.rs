//! Shows whether the numbers can be trusted, based on the records of the load generator, the taps, the device
//! and the cores.

use std::borrow::Cow;

use wiretail_schema::run::{GeneratorRecord, StallCause, StallCauseRecord, StallRecord, TrialRecord};

use super::{Page, counted, energy};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page;

/// Number of stalls that are listed individually.
const STALLS_SHOWN: usize = 20;
const ROWS: usize = 30;

pub fn section(m: &mut Markup, page: &Page<'_>) {
    page::section(m, "validity", "Validity", |m| {
        m.tag("p").class("hint").text(
            "Behavior of the testbed, apart from the device under test. A trial is invalid if this behavior \
             could be mistaken for that of the device.",
        );
        stalls(m, page);
        pauses(m, page);
        calibration(m, page);
        accounting(m, page);
        filtering(m, page);
        let trials = &page.run.trials;
        folded(m, page, "Load generator", trials.len(), generator);
        folded(m, page, "Taps", trials.iter().map(|trial| trial.taps.len()).sum(), taps);
        let counting = trials.iter().map(|trial| trial.devices.len()).sum();
        if counting > 0 {
            folded(m, page, "Device counters", counting, devices);
        }
        let skeletons = trials.iter().filter(|trial| trial.dut.is_some()).count();
        if skeletons > 0 {
            folded(m, page, "Faults of the skeleton", skeletons, skeleton);
        }
        if let Some(reason) = energy::absent(page) {
            m.tag("p").class("rests").text(format_args!("Energy was not measured: {reason}."));
        }
    });
}

/// A table of all trials, folded if it has many rows.
fn folded(
    m: &mut Markup,
    page: &Page<'_>,
    name: &'static str,
    rows: usize,
    draw: fn(&mut Markup, &Page<'_>),
) {
    if rows <= ROWS {
        return draw(m, page);
    }
    m.tag("details").body(|m| {
        m.tag("summary").body(|m| {
            m.tag("strong").text(name);
            m.text(format_args!(": {}", counted(page.run.trials.len(), "trial")));
        });
        draw(m, page);
    });
    m.line();
}

/// A trial's heading in a table.
fn heading(trial: &TrialRecord) -> Cell {
    Cell::text(&trial.name)
}

/// A number of intentional events. Zero is drawn faint.
fn injected(count: u64) -> Cell {
    Cell::count(count).class(if count == 0 { "number zero" } else { "number" })
}

/// A number of faults. Zero is drawn faint, and any other number is marked.
fn fault(count: u64) -> Cell {
    Cell::count(count).class(if count == 0 { "number zero" } else { "number worse" })
}

fn generator(m: &mut Markup, page: &Page<'_>) {
    let records = || page.run.trials.iter().filter_map(|trial| trial.generator.as_ref());
    let (skips, shifts) =
        (records().any(|record| record.skipped > 0), records().any(|record| record.shifted_ns > 0));
    let mut names = head(["trial", "requested", "sent", "not accepted", "late"]).to_vec();
    names.extend(skips.then_some("skipped".into()));
    names.extend(shifts.then_some("shifted by".into()));
    names.extend(head(["p50", "p99", "p99.9", "max"]));
    let rows = page.run.trials.iter().map(|trial| {
        let mut cells = vec![heading(trial)];
        match &trial.generator {
            Some(generator) => cells.extend(generator_cells(generator, skips, shifts)),
            None => cells.extend((1..names.len()).map(|_| Cell::number("none").class("number zero"))),
        }
        cells
    });
    let limit = records().next().map_or(0, |generator| generator.late_limit_ns);
    let skipped = if skips { ", packets skipped because their departure was missed" } else { "" };
    let shifted = if shifts { ", delay of the schedule after all shifts" } else { "" };
    let caption = format!(
        "Load generator: packets sent, packets that the kernel did not accept, packets later than {}{skipped}{shifted}; \
         lateness is the actual minus the intended departure time",
        format::duration_short(limit as f64)
    );
    table(m, &caption, &names, rows);
}

/// `skips`, `shifts`: whether there are columns for skipped packets and for shifts of the schedule.
fn generator_cells(generator: &GeneratorRecord, skips: bool, shifts: bool) -> Vec<Cell> {
    let share = |part: u64, whole: u64| format::ratio(part as f64 / whole.max(1) as f64);
    let of_planned = |count: u64| {
        let share = share(count, generator.sent + generator.skipped);
        Cell::count(count).exact(format_args!("{share} of the packets planned"))
    };
    let (late, skipped) = (of_planned(generator.late), of_planned(generator.skipped));
    let mut cells = vec![
        Cell::number(format::rate(generator.offered_pps as f64)).exact(generator.offered_pps),
        Cell::count(generator.sent),
        fault(generator.failed),
        late.class(if generator.late == 0 { "number zero" } else { "number" }),
    ];
    let ns = |ns: u64| Cell::ns(i64::try_from(ns).unwrap_or(i64::MAX));
    cells.extend(skips.then(|| skipped.class(if generator.skipped == 0 { "number zero" } else { "number" })));
    cells.extend(shifts.then(|| ns(generator.shifted_ns)));
    cells.extend(generator.lateness_ns.map(ns));
    cells
}

fn taps(m: &mut Markup, page: &Page<'_>) {
    let rows = page.run.trials.iter().flat_map(|trial| {
        trial.taps.iter().map(|tap| {
            vec![
                heading(trial),
                Cell::text(&tap.name),
                Cell::text(&tap.place).class("meaning"),
                Cell::text(&tap.timestamp_source).class("meaning"),
                Cell::count(tap.packets),
                fault(tap.drops),
            ]
        })
    });
    let names = ["trial", "tap", "location", "timestamps", "packets", "dropped by the capture"];
    table(m, "Taps: packets dropped by the capture itself are not loss of the device", &head(names), rows);
}

/// Device counters, next to the packet counts of the taps around the device.
fn devices(m: &mut Markup, page: &Page<'_>) {
    let rows = page.run.trials.iter().flat_map(|trial| {
        trial.devices.iter().map(|device| {
            let tapped = |tap: Option<u64>| {
                let untapped = Cell::number("no tap").exact("not every path has a tap at this point");
                tap.map_or(untapped.class("number zero"), Cell::count)
            };
            let agree = match (device.agrees(), device.tapped_in.or(device.tapped_out)) {
                (false, _) => Cell::text("✕ no").class("worse"),
                (true, Some(_)) => Cell::text("✓ yes"),
                (true, None) => Cell::text("unknown").class("zero"),
            };
            vec![
                heading(trial),
                Cell::text(&device.device),
                Cell::count(device.received),
                tapped(device.tapped_in),
                Cell::count(device.sent),
                tapped(device.tapped_out),
                fault(device.dropped),
                injected(device.filtered),
                fault(device.failed),
                agree,
            ]
        })
    });
    let names =
        ["trial", "device", "taken", "tap", "sent", "tap", "dropped", "filtered", "not sent", "agree"];
    let caption = "Device counters and packets seen by the taps, summed over all directions of a device. A \
                   device may include the packets that it dropped in the packets that it took";
    table(m, caption, &head(names), rows);
}

/// The skeleton's additional counters.
fn skeleton(m: &mut Markup, page: &Page<'_>) {
    let rows = page.run.trials.iter().filter_map(|trial| {
        let dut = trial.dut?;
        Some(vec![
            heading(trial),
            fault(dut.dropped),
            injected(dut.faults_dropped),
            injected(dut.faults_duplicated),
            injected(dut.faults_swapped),
        ])
    });
    let names = ["trial", "ring full", "dropped on purpose", "sent twice", "swapped"];
    let caption = "Faults of the skeleton: packets that found its ring full, and intentional faults";
    table(m, caption, &head(names), rows);
}

/// Intentional faults and their measurement.
fn accounting(m: &mut Markup, page: &Page<'_>) {
    let names =
        ["trial", "packets", "dropped", "lost", "sent twice", "duplicates", "swapped", "reordered", "exact"];
    let caption = "Known faults: intentional faults counted by the device, and their measurement";
    known(m, page, caption, &head(names), |trial| {
        let accounting = trial.accounting.as_ref()?;
        let counts = [
            accounting.packets,
            accounting.dropped,
            accounting.lost,
            accounting.duplicated,
            accounting.duplicates,
            accounting.swapped,
            accounting.reordered,
        ];
        Some((counts.map(Cell::count).to_vec(), accounting.holds()))
    });
}

/// Filters that match a payload text, and the packets that they dropped.
fn filtering(m: &mut Markup, page: &Page<'_>) {
    let names = ["trial", "packets", "marked", "marked and lost", "others lost", "exact"];
    let caption =
        "Filter: packets that contain the filtered text, and packets that were lost (listed in lost.csv)";
    known(m, page, caption, &head(names), |trial| {
        let filtering = trial.filtering.as_ref()?;
        let counts = [filtering.packets, filtering.marked, filtering.marked_lost, filtering.others_lost];
        Some((counts.map(Cell::count).to_vec(), filtering.holds()))
    });
}

/// Intentional delays of the device, and their measurement.
fn calibration(m: &mut Markup, page: &Page<'_>) {
    let names = ["trial", "added", "recovered", "error", "delayed", "found", "in stalls", "recovered?"];
    let caption = "Known delays: delays that the device added on purpose, and their measurement";
    known(m, page, caption, &head(names), |trial| {
        let calibration = trial.calibration.as_ref()?;
        let cells = vec![
            span(calibration.injected_ns),
            Cell::ns(calibration.recovered_ns),
            Cell::ns(calibration.error_ns()),
            Cell::count(calibration.delayed),
            Cell::count(calibration.found),
            Cell::count(calibration.in_stalls),
        ];
        Some((cells, calibration.holds()))
    });
}

/// Intentional faults: a row for each trial with cells. The last column shows whether they were measured
/// exactly.
fn known(
    m: &mut Markup,
    page: &Page<'_>,
    caption: &str,
    names: &[Cow<'_, str>],
    cells: impl Fn(&TrialRecord) -> Option<(Vec<Cell>, bool)>,
) {
    let row = |trial: &TrialRecord| {
        let (cells, holds) = cells(trial)?;
        let exact = if holds { Cell::text("✓ yes") } else { Cell::text("✕ no").class("worse") };
        Some([vec![heading(trial)], cells, vec![exact]].into_iter().flatten().collect())
    };
    let rows: Vec<Vec<Cell>> = page.run.trials.iter().filter_map(row).collect();
    if !rows.is_empty() {
        table(m, caption, names, rows);
    }
}

/// A cause as text, and what it means for the reader.
fn meaning(cause: StallCause) -> (&'static str, &'static str) {
    match cause {
        StallCause::AllCoresPaused => (
            "all cores paused",
            "All busy cores stood still at the same time: the hypervisor or the firmware paused the machine. \
             Nothing in the machine can prevent these pauses; delays of this length are due to the host, not \
             to the device.",
        ),
        StallCause::Scheduler => (
            "scheduler",
            "Another task ran on the core, possibly because of the scheduler's fair server, which takes 50 ms of \
             each second from a real-time thread that never sleeps. Isolated cores and a disabled fair server \
             avoid these stalls.",
        ),
        StallCause::OneCorePaused => (
            "one core paused",
            "One core stood still while the scheduler ran no other task on it. The cause is either \
             interrupts or a hypervisor that took the core. To distinguish the two, move interrupts to other \
             cores.",
        ),
    }
}

fn stalls(m: &mut Markup, page: &Page<'_>) {
    let trials = &page.run.trials;
    let mut causes: Vec<(StallCauseRecord, usize)> = Vec::new();
    for record in trials.iter().flat_map(|trial| &trial.stalls.causes) {
        match causes.iter_mut().find(|(sum, _)| sum.cause == record.cause) {
            Some((sum, in_trials)) => {
                sum.count += record.count;
                sum.total_ns = sum.total_ns.saturating_add(record.total_ns);
                sum.longest_ns = sum.longest_ns.max(record.longest_ns);
                *in_trials += 1;
            }
            None => causes.push((record.clone(), 1)),
        }
    }
    causes.sort_by_key(|(sum, _)| sum.cause);
    let threshold = trials.iter().map(|trial| trial.stalls.threshold_ns).max().unwrap_or(0);
    let threshold = format::duration_short(threshold as f64);
    if causes.is_empty() {
        if !trials.is_empty() {
            m.tag("p").class("rests").text(format_args!("No role lost its core for {threshold} or longer."));
        }
        return;
    }
    let rows = causes.iter().map(|(sum, in_trials)| {
        let (name, meaning) = meaning(sum.cause);
        vec![
            Cell::text(name),
            Cell::count(sum.count),
            Cell::count(*in_trials as u64),
            span(sum.total_ns),
            span(sum.longest_ns),
            Cell::text(meaning).class("meaning"),
        ]
    });
    let caption = format!("Stalls: periods of {threshold} or longer in which a role lost its core");
    table(m, &caption, &head(["cause", "stalls", "in trials", "together", "longest", "meaning"]), rows);
    longest(m, trials);
}

/// States which trials paused, and why their numbers do not show it.
fn pauses(m: &mut Markup, page: &Page<'_>) {
    let trials = &page.run.trials;
    let paused = || trials.iter().filter(|trial| !trial.pauses.is_empty());
    let Some(pause) = paused().find_map(|trial| trial.pauses.first()) else { return };
    let counts = || paused().map(|trial| trial.pauses.len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let count = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let length = format::duration_short((pause.end_ns - pause.start_ns) as f64);
    m.tag("p").class("rests").text(format_args!(
        "{} of {} paused {count} times for {length}: no packet was due, and Wiretail's polling threads slept, so that \
         ordinary tasks did not starve on their cores. No statistic counts the pauses (trial.pauses).",
        paused().count(),
        counted(trials.len(), "trial"),
    ));
}

fn longest(m: &mut Markup, trials: &[TrialRecord]) {
    let mut all: Vec<(&TrialRecord, &StallRecord)> = trials
        .iter()
        .flat_map(|trial| trial.stalls.longest.iter().map(move |stall| (trial, stall)))
        .collect();
    if all.is_empty() {
        return;
    }
    all.sort_by_key(|(_, stall)| std::cmp::Reverse(stall.duration_ns));
    all.truncate(STALLS_SHOWN);
    m.tag("details").body(|m| {
        m.tag("summary").body(|m| {
            m.tag("strong").text("The longest stalls");
            m.text(format_args!(": {}", all.len()));
        });
        let rows = all.iter().map(|(trial, stall)| {
            let began = format::utc(stall.start_ns).unwrap_or_else(|| format::exact_ns(stall.start_ns));
            vec![
                span(stall.duration_ns),
                Cell::text(meaning(stall.cause).0),
                Cell::text(&stall.role),
                Cell::text(&trial.name),
                Cell::text(began).exact(format_args!("{} ns", stall.start_ns)),
            ]
        });
        table(m, "The longest stalls", &head(["length", "cause", "role", "trial", "began"]), rows);
    });
    m.line();
}

fn span(ns: u64) -> Cell {
    Cell::ns(i64::try_from(ns).unwrap_or(i64::MAX))
}
