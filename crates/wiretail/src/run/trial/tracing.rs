//! Records the kernel's trace of a trial (`trace.record`). The recording begins before the devices start and
//! ends after their last counters are read. A second file lists the role of each task and core
//! ([`TraceRoles`]). Both files are analyzed later.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use wiretail_dataplane::counters::stalls::StallLog;
use wiretail_dataplane::noise::spin::{SpinPlan, THRESHOLD_NS, interfere, spin};
use wiretail_host::trace::{Recorder, TraceSpec};
use wiretail_host::{CoreSet, is_realtime};
use wiretail_schema::causes::trace::{Gap, ROLES_FILE, ROLES_SCHEMA, Spin, TraceInfo, TraceRoles};
use wiretail_schema::experiment::{
    Deployment, DutKind, GeneratorPacing, IdsCapture, OvsDatapath, SkeletonRelease, SkeletonWait, Trial,
};

use crate::analyze::outputs;
use crate::run::testbed::Testbed;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::Middle;
use crate::run::trial::store;

/// Folder of the trace in the trial's directory.
pub const FOLDER: &str = "trace";
/// Time for which the device's core is observed before the traffic, in ns. It is about 150 kernel ticks.
const SPIN_NS: u64 = 600_000_000;
/// Interval between the events that are triggered during this time.
const INTERFERENCE_EVERY: Duration = Duration::from_millis(2);

pub fn is_traced(trial: &Trial) -> bool {
    trial.trace.record
}

/// Refuses a traced trial that keeps no packets, because an explanation needs them.
///
/// # Errors
/// Returns an error if the trial is refused; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    if is_traced(trial) && store::is_soak(trial) {
        bail!(
            "trace.record = true requires the packets of the trial, but this trial keeps none, because it \
             sends too many or because trial.capture = \"none\"; set trace.record = false, or a shorter \
             trial.duration"
        );
    }
    Ok(())
}

/// A running trace. If it is dropped before its testbed is removed, the recording ends and no document is
/// written.
pub struct Tracing {
    folder: PathBuf,
    recorder: Recorder,
    roles: TraceRoles,
    in_sender: bool,
}

/// A completed trace whose documents are not written yet.
pub struct Traced {
    folder: PathBuf,
    info: TraceInfo,
    roles: TraceRoles,
    /// Whether the kernel forwards in the context of the sender.
    in_sender: bool,
}

/// Starts a trace into the trial's directory, if the trial requests one.
///
/// # Errors
/// Returns an error if no core can be traced or the kernel cannot be traced.
pub fn start(
    trial: &Trial,
    testbed: &mut Testbed,
    assignment: Option<&CpuAssignment>,
    directory: &Path,
) -> Result<Option<Tracing>> {
    if !is_traced(trial) {
        return Ok(None);
    }
    let Some(assignment) = assignment else {
        bail!(
            "trace.record = true: the core to trace is unknown, because the machine reports no usable core; \
             set trace.record = false"
        );
    };
    let folder = directory.join(FOLDER);
    crate::trace::prepare(&folder)?;
    let spec = TraceSpec {
        stacks: trial.trace.stacks,
        page_faults: trial.trace.page_faults,
        buffer_kib: trial.trace.buffer << 10,
        drain_core: Some(assignment.housekeeping),
        ..TraceSpec::new(&folder, watched(assignment))
    };
    let recorder = testbed.trace(&spec).context("the trial can't be traced (trace.record = true)")?;
    let in_sender = testbed.topology().middle != Middle::Ports;
    let roles = TraceRoles {
        schema: ROLES_SCHEMA.to_owned(),
        // The kernel's own devices run on the generator's core, so the device's core is that core here.
        core: assignment.device,
        fifo: assignment.fifo,
        polls: polls(trial, in_sender),
        batch: batch(trial),
        feeding: Some(assignment.generator).filter(|core| *core != assignment.device),
        spin: Some(calibrate(assignment, spec.page_faults)?),
        ..TraceRoles::default()
    };
    Ok(Some(Tracing { folder, recorder, roles, in_sender }))
}

/// Measures the overhead of events on the device's core, at the device's priority. Rare events are triggered
/// from the housekeeping core.
fn calibrate(assignment: &CpuAssignment, page_faults: bool) -> Result<Spin> {
    let (here, beside) = (assignment.for_device(), assignment.for_control());
    let plan =
        SpinPlan { core: assignment.device, duration_ns: SPIN_NS, threshold_ns: THRESHOLD_NS, page_faults };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let interfering = scope.spawn(|| beside.apply().map(|_| interfere(INTERFERENCE_EVERY, &stop)));
        let spinning = scope.spawn(|| here.apply().and_then(|_| spin(&plan)));
        let spun = spinning.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        stop.store(true, Ordering::Relaxed);
        interfering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(spun?)
    })
}

/// Selects the cores to trace: the device's core, and the core that sends packets to it. The sending core is
/// excluded if it is also the housekeeping core, as on a machine with two cores. The housekeeping core drains
/// the trace, so most of its events are unrelated to the packets.
fn watched(assignment: &CpuAssignment) -> CoreSet {
    let feeding = Some(assignment.generator).filter(|core| *core != assignment.housekeeping);
    CoreSet::new(std::iter::once(assignment.device).chain(feeding))
}

/// Returns whether the packet threads never go to sleep on their own.
fn polls(trial: &Trial, in_sender: bool) -> bool {
    let dut = &trial.dut;
    if in_sender {
        return trial.traffic.pacing == GeneratorPacing::Spin;
    }
    match dut.kind {
        DutKind::Skeleton => {
            dut.wait == SkeletonWait::Spin || dut.deployment != Deployment::Bare || delays(trial)
        }
        DutKind::Ovs => dut.datapath == OvsDatapath::Dpdk,
        DutKind::Suricata | DutKind::Snort3 => dut.capture == IdsCapture::Dpdk,
        DutKind::DpdkTestpmd | DutKind::DpdkL2fwd => true,
        DutKind::Wire | DutKind::Bridge | DutKind::LinuxRouter | DutKind::XdpRedirect => false,
        DutKind::Command => false,
    }
}

/// Returns whether the skeleton delays packets. A skeleton that delays packets does not sleep.
fn delays(trial: &Trial) -> bool {
    trial.dut.delay.ns > 0 && trial.dut.delay_every > 0
}

/// Maximum number of packets that leave the device together.
fn batch(trial: &Trial) -> u64 {
    let dut = &trial.dut;
    let releases = match dut.kind {
        DutKind::Skeleton => dut.release == SkeletonRelease::Batch,
        kind => matches!(kind, DutKind::DpdkTestpmd | DutKind::DpdkL2fwd),
    };
    if releases { u64::from(dut.batch) } else { 1 }
}

impl Tracing {
    /// Ends the recording. `threads` are the device's packet threads, which are still running.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn finish(mut self, threads: Vec<i32>) -> Result<Traced> {
        if !self.in_sender {
            let realtime = |thread: &i32| is_realtime(Path::new("/"), *thread);
            self.roles.fifo = !threads.is_empty() && threads.iter().all(realtime);
            self.roles.threads = threads;
        }
        let info = self.recorder.finish().context("cannot finish the trace of the trial")?;
        Ok(Traced { folder: self.folder, info, roles: self.roles, in_sender: self.in_sender })
    }
}

impl Traced {
    /// Writes the roles. They include the sending thread, and the device's stalls while packets were in
    /// flight (in ns of the monotonic clock).
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write_roles(
        &mut self,
        sender: i32,
        stalls: Option<&StallLog>,
        traffic: &Range<u64>,
    ) -> Result<()> {
        if self.in_sender {
            self.roles.threads = vec![sender];
        }
        if let Some(log) = stalls.filter(|_| self.roles.polls) {
            let gaps = log.kept().iter();
            let gaps = gaps
                .map(|stall| Gap { from_ns: stall.start_ns, to_ns: stall.start_ns + stall.duration_ns })
                .filter(|gap| gap.to_ns > traffic.start && gap.from_ns < traffic.end);
            self.roles.stalls = gaps.collect();
            // If there were too many stalls to list, some were only counted. A period without a listed stall
            // may still contain a stall.
            self.roles.logs_stalls = log.count() == log.kept().len() as u64;
        }
        let mut text = serde_json::to_vec_pretty(&self.roles)?;
        text.push(b'\n');
        outputs::write_file(&self.folder.join(ROLES_FILE), &text)
    }

    /// Looks up the symbol names and writes the trace's document. This takes a while, so it runs after the
    /// measurement.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn complete(self) -> Result<()> {
        crate::trace::complete(&self.folder, self.info)
            .context("cannot write the documents of the trial's trace")
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::experiment::Experiment;

    use super::*;

    fn trial(dut: &str, more: &str) -> Trial {
        let text = format!(
            "title = \"t\"\nseed = 1\n[trace]\nrecord = true\n[dut]\n{dut}\n[trial]\n{more}\n[traffic]\nrate = \"1 kpps\"\n"
        );
        Experiment::parse(&text).expect("an experiment").trials().remove(0)
    }

    #[test]
    fn traces_feeding_core_only_if_it_has_no_other_work() {
        let assignment = |generator| CpuAssignment {
            housekeeping: 0,
            generator,
            device: 3,
            reader: 1,
            quiet: CoreSet::new([3]),
            fifo: true,
        };
        let cores = |generator| watched(&assignment(generator)).to_string();
        assert_eq!((cores(0), cores(2), cores(3)), ("3".to_owned(), "2-3".to_owned(), "3".to_owned()));
    }

    #[test]
    fn detects_polling_and_batching_devices() {
        for (dut, expected) in [
            ("kind = \"skeleton\"\nbatch = 32", (true, 1)),
            ("kind = \"skeleton\"\nbatch = 32\nrelease = \"batch\"", (true, 32)),
            ("kind = \"skeleton\"\nwait = \"block\"", (false, 1)),
            ("kind = \"skeleton\"\nwait = \"block\"\ndelay = \"1 us\"\ndelay-every = 9", (true, 1)),
            ("kind = \"dpdk-l2fwd\"\nbatch = 8", (true, 8)),
            ("kind = \"suricata\"", (false, 1)),
            ("kind = \"suricata\"\ncapture = \"dpdk\"", (true, 1)),
            ("kind = \"ovs\"\ndatapath = \"dpdk\"", (true, 1)),
            ("kind = \"command\"\ncommand = \"true\"", (false, 1)),
        ] {
            let trial = trial(dut, "");
            assert_eq!((polls(&trial, false), batch(&trial)), expected, "{dut}");
        }
        assert!(polls(&trial("kind = \"bridge\"", ""), true));
    }

    #[test]
    fn rejects_traced_trial_without_packets() {
        assert!(refuse(&trial("kind = \"wire\"", "")).is_ok());
        let refused = refuse(&trial("kind = \"wire\"", "capture = \"none\"")).unwrap_err();
        assert!(refused.to_string().contains("trial.capture"), "{refused}");
    }
}
