//! Runs Wiretail's own minimal forwarder in a thread of this process. The thread serves all hops and
//! directions.

use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::Result;
use rustix::thread::gettid;
use wiretail_dataplane::interference::own::OwnInterference;
use wiretail_dataplane::port::PortKind;
use wiretail_dataplane::skeleton::faults::{FaultPlan, FaultSchedule};
use wiretail_dataplane::skeleton::{Delay, Release, Skeleton, SkeletonPlan, SkeletonReport, Wait};
use wiretail_schema::experiment::{SkeletonRelease, SkeletonSocket, SkeletonWait, Trial};
use wiretail_schema::run::DutRecord;

use super::Shared;
use crate::run::devices::interference;
use crate::run::testbed::Testbed;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::traffic;

/// Starts the forwarder's thread.
///
/// # Errors
/// Returns an error if a port cannot be opened.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    trial: &Trial,
    seed: u64,
    testbed: &Testbed,
    assignment: Option<&CpuAssignment>,
    shared: &'env Shared,
) -> Result<ScopedJoinHandle<'scope, Result<SkeletonReport>>> {
    let mut skeleton = Skeleton::open(&testbed.ways(), plan(trial, seed))?.resting(shared.pauses.clone());
    let lasting_ns = shared.pauses.lasting_ns(trial.trial.duration.ns_unsigned());
    if let Some(plan) = interference::plan(trial, seed, lasting_ns) {
        skeleton = skeleton.interfered(OwnInterference::new(&plan, shared.origin.clone())?);
    }
    let place = assignment.map(CpuAssignment::for_device).unwrap_or_default();
    Ok(scope.spawn(move || {
        shared.thread.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        place.apply()?;
        Ok(skeleton.run(&shared.stop, &shared.counters))
    }))
}

/// Converts the forwarder's report for the trial's record.
pub fn record(report: &SkeletonReport) -> DutRecord {
    DutRecord {
        received: report.received,
        sent: report.sent,
        dropped: report.dropped,
        failed: report.failed + report.oversize,
        faults_dropped: report.faults_dropped,
        faults_duplicated: report.faults_duplicated,
        faults_swapped: report.faults_swapped,
    }
}

fn plan(trial: &Trial, seed: u64) -> SkeletonPlan {
    let dut = &trial.dut;
    let (ns, every) = (dut.delay.ns_unsigned(), dut.delay_every);
    let faults = FaultPlan {
        packets: traffic::packets(trial),
        drop_every: dut.drop_every,
        duplicate_every: dut.duplicate_every,
        swap_every: dut.swap_every,
        seed,
    };
    SkeletonPlan {
        batch: dut.batch as usize,
        release: match dut.release {
            SkeletonRelease::Immediate => Release::Immediate,
            SkeletonRelease::Batch => Release::Batch,
        },
        delay: (ns > 0 && every > 0).then_some(Delay { ns, every }),
        faults: FaultSchedule::seeded(&faults),
        work_ns: dut.work.ns_unsigned(),
        wait: match dut.wait {
            SkeletonWait::Spin => Wait::Spin,
            SkeletonWait::Block => Wait::Block,
        },
        port: match dut.socket {
            SkeletonSocket::Packet => PortKind::default(),
            SkeletonSocket::Xdp => PortKind::Xdp,
        },
        ..SkeletonPlan::default()
    }
}
