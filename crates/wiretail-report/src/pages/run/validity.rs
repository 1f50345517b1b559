//! Whether the numbers may be trusted: what the load generator, the taps, the device and the cores did.

use std::borrow::Cow;

use wiretail_schema::run::{GeneratorRecord, StallCause, StallCauseRecord, StallRecord, TrialRecord};

use super::{Page, counted, energy};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page;

/// Stalls that are listed one by one.
const STALLS_SHOWN: usize = 20;
/// Longer tables are folded.
const ROWS: usize = 30;

/// The section.
pub fn section(m: &mut Markup, page: &Page<'_>) {
    page::section(m, "validity", "Validity", |m| {
        m.tag("p").class("hint").text(
            "What the testbed did, apart from the device under test. A trial is invalid where this could pass for \
             the device's doing.",
        );
        stalls(m, page);
        calibration(m, page);
        accounting(m, page);
        filtering(m, page);
        let trials = &page.run.trials;
        folded(m, page, "Load generator", trials.len(), generator);
        folded(m, page, "Taps", trials.iter().map(|trial| trial.taps.len()).sum(), taps);
        let counting = trials.iter().map(|trial| trial.devices.len()).sum();
        if counting > 0 {
            folded(m, page, "What the devices counted", counting, devices);
        }
        let skeletons = trials.iter().filter(|trial| trial.dut.is_some()).count();
        if skeletons > 0 {
            folded(m, page, "The skeleton's own faults", skeletons, skeleton);
        }
        if let Some(reason) = energy::absent(page) {
            m.tag("p").class("rests").text(format_args!("Energy was not measured: {reason}."));
        }
    });
}

/// A table of all trials, folded where it has many rows.
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

/// A count of what was done on purpose, faint where it is zero.
fn injected(count: u64) -> Cell {
    Cell::count(count).class(if count == 0 { "number zero" } else { "number" })
}

/// A count, faint where it is zero and marked where it is not.
fn fault(count: u64) -> Cell {
    Cell::count(count).class(if count == 0 { "number zero" } else { "number worse" })
}

fn generator(m: &mut Markup, page: &Page<'_>) {
    let names = ["trial", "asked for", "sent", "not taken", "late", "p50", "p99", "p99.9", "max"];
    let rows = page.run.trials.iter().map(|trial| {
        let mut cells = vec![heading(trial)];
        match &trial.generator {
            Some(generator) => cells.extend(generator_cells(generator)),
            None => cells.extend((1..names.len()).map(|_| Cell::number("none").class("number zero"))),
        }
        cells
    });
    let limit =
        page.run.trials.iter().find_map(|trial| trial.generator.as_ref()).map_or(0, |g| g.late_limit_ns);
    let caption = format!(
        "Load generator: packets sent, those that the kernel did not take, those later than {}; lateness, actual \
         minus intended departure",
        format::duration_short(limit as f64)
    );
    table(m, &caption, &head(names), rows);
}

fn generator_cells(generator: &GeneratorRecord) -> Vec<Cell> {
    let share = generator.late as f64 / generator.sent.max(1) as f64;
    let late = Cell::count(generator.late).exact(format_args!("{} of those sent", format::ratio(share)));
    let mut cells = vec![
        Cell::number(format::rate(generator.offered_pps as f64)).exact(generator.offered_pps),
        Cell::count(generator.sent),
        fault(generator.failed),
        late.class(if generator.late == 0 { "number zero" } else { "number" }),
    ];
    cells.extend(generator.lateness_ns.map(|ns| Cell::ns(i64::try_from(ns).unwrap_or(i64::MAX))));
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
    let names = ["trial", "tap", "where", "stamps", "packets", "dropped by the capture"];
    table(m, "Taps: what the capture itself drops is not the device's loss", &head(names), rows);
}

/// What devices counted, beside what the taps around them saw.
fn devices(m: &mut Markup, page: &Page<'_>) {
    let rows = page.run.trials.iter().flat_map(|trial| {
        trial.devices.iter().map(|device| {
            let tapped = |tap: Option<u64>| {
                let untapped = Cell::number("no tap").exact("not every way has a tap there");
                tap.map_or(untapped.class("number zero"), Cell::count)
            };
            let agree = match (device.agrees(), device.tapped_in.or(device.tapped_out)) {
                (false, _) => Cell::text("✕ no").class("worse"),
                (true, Some(_)) => Cell::text("✓ yes"),
                (true, None) => Cell::text("can't be told").class("zero"),
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
    let caption = "What the devices counted, beside what the taps saw: all directions of a device together. What it \
                   dropped may be among what it took";
    table(m, caption, &head(names), rows);
}

/// What the skeleton counts beyond that.
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
    let caption = "The skeleton's own faults: packets that found its ring full, and what it did on purpose";
    table(m, caption, &head(names), rows);
}

/// Known faults against what was measured of them.
fn accounting(m: &mut Markup, page: &Page<'_>) {
    let names =
        ["trial", "packets", "dropped", "lost", "sent twice", "duplicates", "swapped", "reordered", "exact"];
    let caption =
        "Known faults: what the device did on purpose, by its own count, and what was measured of it";
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

/// Filters by a text, and which packets they took.
fn filtering(m: &mut Markup, page: &Page<'_>) {
    let names = ["trial", "packets", "marked", "of these lost", "others lost", "exact"];
    let caption =
        "Filter: packets that carry the text it looks for, and those that were lost (named in lost.csv)";
    known(m, page, caption, &head(names), |trial| {
        let filtering = trial.filtering.as_ref()?;
        let counts = [filtering.packets, filtering.marked, filtering.marked_lost, filtering.others_lost];
        Some((counts.map(Cell::count).to_vec(), filtering.holds()))
    });
}

/// Delays that the device added on purpose, and what of them was measured.
fn calibration(m: &mut Markup, page: &Page<'_>) {
    let names = ["trial", "added", "recovered", "error", "delayed", "found", "in stalls", "recovered?"];
    let caption = "Known delays: what the device added on purpose, and what was measured of it";
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

/// What was done on purpose: a row for each trial that has cells, and in its last column whether that was measured exactly.
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

/// A cause in words, and what it means for the reader.
fn meaning(cause: StallCause) -> (&'static str, &'static str) {
    match cause {
        StallCause::AllCoresPaused => (
            "all cores paused",
            "All busy cores stood still at the same time: the hypervisor, or firmware, paused the machine. Nothing \
             in it can prevent that; delays as long as these pauses are the host's, not the device's.",
        ),
        StallCause::Scheduler => (
            "scheduler",
            "The scheduler gave the core to others: to the fair server, which takes 50 ms of each second from a \
             real-time thread that never sleeps, or to another task. Isolated cores and a fair server that is \
             switched off avoid it.",
        ),
        StallCause::OneCorePaused => (
            "one core paused",
            "One core stood still while the scheduler ran nobody else there: interrupts, or a hypervisor that took \
             one core. Moving interrupts away tells the two apart.",
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
            m.tag("p")
                .class("rests")
                .text(format_args!("No core was taken from its role for {threshold} or longer."));
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
    let caption = format!("Stalls: times of {threshold} or longer for which a role's core was taken from it");
    table(m, &caption, &head(["cause", "stalls", "in trials", "together", "longest", "meaning"]), rows);
    longest(m, trials);
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
        table(m, "The longest stalls", &head(["length", "cause", "who", "trial", "began"]), rows);
    });
    m.line();
}

fn span(ns: u64) -> Cell {
    Cell::ns(i64::try_from(ns).unwrap_or(i64::MAX))
}
