//! The kernel's trace of a trial (`trace.record`): recorded from before its devices start until they were asked their
//! last counters; and, beside it, who was who ([`TraceRoles`]). What it all means is found out later, from the files.

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

/// Folder of the trace in that of its trial.
pub const FOLDER: &str = "trace";
/// How long the device's core is looked at before there are packets, in ns: some 150 ticks of the kernel.
const SPIN_NS: u64 = 600_000_000;
/// How often it is disturbed meanwhile.
const INTERFERENCE_EVERY: Duration = Duration::from_millis(2);

/// Whether a trial is traced.
pub fn is_traced(trial: &Trial) -> bool {
    trial.trace.record
}

/// Refuses a trial whose trace nobody could read.
///
/// # Errors
/// Why not, and which key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    if is_traced(trial) && store::is_soak(trial) {
        bail!(
            "trace.record = true explains single packets, and this trial keeps none: it has too many of them, or \
             trial.capture = \"none\"; set trace.record = false, or a shorter trial.duration"
        );
    }
    Ok(())
}

/// A trace under way. Dropped before its testbed is removed, it ends without a document.
pub struct Tracing {
    folder: PathBuf,
    recorder: Recorder,
    roles: TraceRoles,
    in_sender: bool,
}

/// A trace that has ended, and lacks its documents.
pub struct Traced {
    folder: PathBuf,
    info: TraceInfo,
    roles: TraceRoles,
    /// Whether the kernel forwards, in the context of who sends.
    in_sender: bool,
}

/// Starts to trace into the trial's directory, if the trial asks for it.
///
/// # Errors
/// It asks for it, and there is no core to watch, or the kernel can't be traced.
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
            "trace.record = true: it is not known which core to watch, as the machine says of none that it is usable; \
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
        // The kernel's own devices are on the generator's core, which is this one then.
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

/// Finds out what events cost on the device's core, in the place that the device will have; the rarer ones are provoked
/// from the core of everything else.
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

/// The device's core, and that which feeds it. Not if that one does everything else too, the draining of the trace
/// included: with two cores its events would be of everybody but the packets.
fn watched(assignment: &CpuAssignment) -> CoreSet {
    let feeding = Some(assignment.generator).filter(|core| *core != assignment.housekeeping);
    CoreSet::new(std::iter::once(assignment.device).chain(feeding))
}

/// Whether the packet threads never sleep of themselves.
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

/// Whether the skeleton delays packets: it does not sleep then.
fn delays(trial: &Trial) -> bool {
    trial.dut.delay.ns > 0 && trial.dut.delay_every > 0
}

/// Most packets that leave the device together.
fn batch(trial: &Trial) -> u64 {
    let dut = &trial.dut;
    let releases = match dut.kind {
        DutKind::Skeleton => dut.release == SkeletonRelease::Batch,
        kind => matches!(kind, DutKind::DpdkTestpmd | DutKind::DpdkL2fwd),
    };
    if releases { u64::from(dut.batch) } else { 1 }
}

impl Tracing {
    /// Ends the recording; the device's packet threads, of which these are the numbers, are still there.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn finish(mut self, threads: Vec<i32>) -> Result<Traced> {
        if !self.in_sender {
            let realtime = |thread: &i32| is_realtime(Path::new("/"), *thread);
            self.roles.fifo = !threads.is_empty() && threads.iter().all(realtime);
            self.roles.threads = threads;
        }
        let info = self.recorder.finish().context("the trial's trace")?;
        Ok(Traced { folder: self.folder, info, roles: self.roles, in_sender: self.in_sender })
    }
}

impl Traced {
    /// Writes down who was who: the thread that sent, and the device's stalls while packets were under way (in ns of
    /// the monotonic clock).
    ///
    /// # Errors
    /// A file that can't be written.
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
            // Of very many, some are only counted: where none is listed, one may have been all the same.
            self.roles.logs_stalls = log.count() == log.kept().len() as u64;
        }
        let mut text = serde_json::to_vec_pretty(&self.roles)?;
        text.push(b'\n');
        outputs::write_file(&self.folder.join(ROLES_FILE), &text)
    }

    /// Looks up the names in it, and writes its document. That takes a while: nothing is measured any more.
    ///
    /// # Errors
    /// Files that can't be read or written.
    pub fn complete(self) -> Result<()> {
        crate::trace::complete(&self.folder, self.info).context("the trial's trace")
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
    fn what_feeds_the_device_is_watched_where_it_does_nothing_else() {
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
    fn who_polls_and_who_batches() {
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
    fn a_trial_without_packets_is_not_traced() {
        assert!(refuse(&trial("kind = \"wire\"", "")).is_ok());
        let refused = refuse(&trial("kind = \"wire\"", "capture = \"none\"")).unwrap_err();
        assert!(refused.to_string().contains("trial.capture"), "{refused}");
    }
}
