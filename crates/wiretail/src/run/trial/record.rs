//! Builds the record of a trial: all counters, and whether they describe the device.

use anyhow::Result;
use wiretail_dataplane::clock::clock_offset;
use wiretail_schema::experiment::{CoreIdle, Trial};
use wiretail_schema::run::pauses::Pause;
use wiretail_schema::run::stalls::{STALLS_FILE, StallSpan};
use wiretail_schema::run::{SegmentRecord, TapRecord, TrialState};

use crate::analyze::outputs;
use crate::run::devices::{self, DeviceReport};
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::{Segment, TapPlace, Topology};
use crate::run::trial::attempt::{Attempt, Recorded};
use crate::run::trial::execution::{Sent, TrialExecution};
use crate::run::trial::store::SOURCE;
use crate::run::trial::validity;

/// Returns the record of each executed trial, including the devices' final reports. Writes the stalls of each
/// trial into the trial's directory.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn record_all(
    attempts: &[Attempt<'_>],
    takes: &[TrialExecution],
    device: &DeviceReport,
    topology: &Topology,
    assignment: Option<&CpuAssignment>,
) -> Result<Vec<Recorded>> {
    let alone = attempts.len() == 1;
    let mut all = Vec::new();
    for (attempt, take) in attempts.iter().zip(takes) {
        let (sent, clock) = (&take.sent, clock_offset());
        let stalls = validity::list(&sent.generator.stalls, device.stalls.as_ref(), &sent.traffic, &clock);
        outputs::write_file(&attempt.directory.join(STALLS_FILE), StallSpan::list(&stalls).as_bytes())?;
        all.push(record(attempt.trial, topology, assignment, take, device, alone));
    }
    if !alone {
        for note in at_the_end(device, topology, &all) {
            all.iter_mut().for_each(|recorded| recorded.record.notes.push(note.clone()));
        }
    }
    Ok(all)
}

/// Returns notes on devices whose counters, over all trials of the session, differ from the packets that the
/// taps saw. Such notes concern devices that are kept for several trials and report their counters only when
/// they end.
fn at_the_end(device: &DeviceReport, topology: &Topology, all: &[Recorded]) -> Vec<String> {
    let mut taps = tap_records(topology);
    for (place, tap) in taps.iter_mut().enumerate() {
        tap.packets = all.iter().map(|recorded| recorded.record.taps[place].packets).sum();
    }
    let counts = devices::reconciled(&device.counts, topology, &taps);
    let notes = counts.iter().filter_map(devices::disagreement);
    notes.map(|note| format!("over all {} trials with the same device: {note}", all.len())).collect()
}

/// Returns the record of one trial. `alone` means that the device served only this trial.
fn record(
    trial: &Trial,
    topology: &Topology,
    assignment: Option<&CpuAssignment>,
    take: &TrialExecution,
    device: &DeviceReport,
    alone: bool,
) -> Recorded {
    let sent = &take.sent;
    let mut record = validity::blank(trial, TrialState::Valid, Vec::new());
    let clock = clock_offset();
    let generator = validity::generator_record(trial, &sent.generator, &clock);
    record.taps = tap_records(topology);
    for (tap, report) in record.taps.iter_mut().zip(&take.taps) {
        (tap.packets, tap.drops) = (report.packets, report.drops + report.missing);
    }
    record.devices = devices::reconciled(&sent.counted, topology, &record.taps);
    if alone {
        record.dut = device.record;
        record.devices.extend(devices::reconciled(&device.counts, topology, &record.taps));
    }
    let stalls = validity::stalls(&sent.generator.stalls, device.stalls.as_ref(), &sent.traffic, &clock);
    record.reasons = validity::faults(trial, &generator, &record.taps, &stalls);
    record.notes = stalls.notes;
    record.notes.extend(record.devices.iter().filter_map(devices::disagreement));
    if trial.host.fifo && !assignment.is_some_and(|assignment| assignment.fifo) {
        record.notes.push("no real-time priority: the load generator shares its core".to_owned());
    }
    if let (Some(times @ 1..), CoreIdle::Poll) = (sent.slept, trial.host.idle) {
        record.notes.push(format!("the device's core slept {times} times, although polling was requested"));
    }
    record.notes.extend(sent.noise.as_ref().map(|noise| noise.note()));
    record.notes.extend(device.notes.iter().cloned());
    record.stalls = stalls.record;
    record.pauses = pauses(sent);
    record.generator = Some(generator);
    record.interrupts.clone_from(&sent.interrupts);
    record.segments = segment_records(topology, &record.directory);
    record.state = match (sent.generator.complete, record.reasons.is_empty()) {
        (false, _) => {
            let sent = sent.generator.sent;
            record.reasons.insert(0, format!("interrupted after {sent} packets"));
            TrialState::Interrupted
        }
        (true, true) => TrialState::Valid,
        (true, false) => TrialState::Invalid,
    };
    Recorded { record, stalls: stalls.spans }
}

/// Returns the pauses that began before the end of the traffic.
fn pauses(sent: &Sent) -> Vec<Pause> {
    let clock = clock_offset().realtime_minus_monotonic_ns;
    let end_ns = sent.traffic.end as i64 + clock;
    sent.pauses.shifted(clock).list().take_while(|pause| pause.start_ns < end_ns).collect()
}

/// Returns the segments of a trial in this directory. They are not evaluated yet.
pub fn segment_records(topology: &Topology, directory: &str) -> Vec<SegmentRecord> {
    let taps = topology.taps();
    let segments = topology.segments().into_iter().enumerate();
    let record = |(number, segment): (usize, Segment)| SegmentRecord {
        pre: taps[segment.pre].name.clone(),
        post: taps[segment.post].name.clone(),
        directory: match number {
            0 => directory.to_owned(),
            _ => format!("{directory}/{}", segment.name),
        },
        name: segment.name,
        analysed: false,
    };
    segments.map(record).collect()
}

/// Returns the taps of a trial, with all counters at zero.
pub fn tap_records(topology: &Topology) -> Vec<TapRecord> {
    let record = |place: &TapPlace| TapRecord {
        name: place.name.clone(),
        place: place.describe(topology),
        timestamp_source: SOURCE.name().to_owned(),
        packets: 0,
        drops: 0,
    };
    topology.taps().iter().map(record).collect()
}
