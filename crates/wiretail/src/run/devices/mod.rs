//! The devices under test of a trial: started, awaited, asked what they counted, stopped.
//!
//! A wire, a bridge and a router are parts of the testbed: the kernel forwards. A bare skeleton is a thread of this
//! process. Everything else is a program ([`mod@program`]), one file a kind, in one of the deployments.
//!
//! | `dut.kind` | where |
//! |---|---|
//! | `skeleton` | [`skeleton`] |
//! | `skeleton` that is deployed, `xdp-redirect`, `dpdk-l2fwd` | [`forward`] |
//! | `dpdk-testpmd` | [`testpmd`] |
//! | `suricata` | [`suricata`] |
//! | `snort3` | [`snort3`] |
//! | `ovs`, and `dut.switch` | [`ovs`] |
//! | `command` | [`program::command`] |

mod counts;
mod deploy;
mod eal;
mod forward;
pub mod interference;
mod kernel;
mod ovs;
mod process;
mod program;
mod skeleton;
mod snort3;
mod suricata;
mod testpmd;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::counters::stalls::StallLog;
use wiretail_dataplane::interference::Injected;
use wiretail_dataplane::interference::own::Origin;
use wiretail_dataplane::skeleton::SkeletonReport;
use wiretail_host::{Namespace, Plan, Step};
use wiretail_schema::experiment::{Deployment, DutKind, Trial};
use wiretail_schema::run::{DeviceCounts, DutRecord, TapRecord};

pub use self::counts::disagreement;
use self::counts::{Counts, reconcile};
use self::deploy::{bare, deploy, inside};
pub use self::deploy::{refuse, stays};
use self::ovs::{Around, Datapath};
use self::process::Process;
use self::program::{Program, Site};
use super::testbed::{Testbed, sockets};
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::{Guests, Middle, Switch, Topology};

/// How much longer a virtual machine may take, in software.
const BOOT: Duration = Duration::from_secs(60);
/// What a switch between the devices is called.
const SWITCH: &str = "switch";

/// The devices of a trial, and what joins them.
pub struct Devices<'scope> {
    devices: Vec<Device<'scope>>,
}

/// A device that runs.
struct Device<'scope> {
    /// "dut1", or "dut1 to dut3" where one thread serves them all.
    name: String,
    /// The nodes that it forwards in.
    nodes: Vec<usize>,
    part: Part<'scope>,
    /// Its counters before the trial's first packet.
    before: Option<Counts>,
    /// Timer interrupts of a guest's isolated core: before the first packet of all trials, and since.
    timer: (Option<u64>, Option<u64>),
}

/// Who forwards.
enum Part<'scope> {
    /// The kernel, between two links of a namespace.
    Kernel(Namespace),
    /// A thread that forwards until it is told to stop.
    Skeleton {
        /// Ends with what it did.
        thread: ScopedJoinHandle<'scope, Result<SkeletonReport>>,
        /// What it shares with others.
        shared: &'scope Shared,
    },
    /// A program.
    Program(Box<Process>),
}

/// What devices say of themselves.
#[derive(Default)]
pub struct DeviceReport {
    /// The skeleton's counters; None where there is none.
    pub record: Option<DutRecord>,
    /// When its core was taken from it; None where it is not known to poll.
    pub stalls: Option<StallLog>,
    /// How it disturbed itself, on purpose.
    pub interferences: Vec<Injected>,
    /// What the reader should know of them.
    pub notes: Vec<String>,
    /// What those counted of all packets that tell it at their end.
    pub counts: Vec<Counted>,
}

/// What a device counted.
#[derive(Debug, Clone)]
pub struct Counted {
    device: String,
    /// The nodes that it forwards in.
    nodes: Vec<usize>,
    counts: Counts,
}

/// What a thread needs while it runs; outlives it.
#[derive(Default)]
pub struct Shared {
    /// Its live counters.
    pub counters: SharedCounters,
    /// Its number, once it runs.
    thread: AtomicI32,
    /// From when on it disturbs itself.
    origin: Origin,
    stop: AtomicBool,
}

/// What a trial's devices need of the host before the testbed is made, and until it is gone: memory for DPDK, a folder
/// for the sockets of virtual machines. `run` is the name of the run in its journal.
pub fn needs(trial: &Trial, topology: &Topology, run: &str) -> Plan {
    let mut plan = Plan::new();
    plan.extend(ovs::memory(trial, topology));
    if !topology.shared().is_empty() {
        plan.push(Step::AddDirectory { path: sockets(run) });
    }
    plan
}

/// Starts the devices of a trial; what programs print goes into `directory`.
///
/// # Errors
/// Ports that can't be opened, a program that can't be started.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    trial: &Trial,
    seed: u64,
    testbed: &mut Testbed,
    assignment: Option<&CpuAssignment>,
    directory: &Path,
    shared: &'env Shared,
) -> Result<Devices<'scope>> {
    let topology = *testbed.topology();
    let mut devices = Vec::new();
    let nodes = 1..=topology.devices;
    let directory = &std::path::absolute(directory)?;
    let patience = Duration::from(trial.dut.ready_timeout);
    let place = assignment.map(CpuAssignment::for_device).unwrap_or_default();
    if matches!(topology.middle, Middle::Nothing | Middle::Bridge | Middle::Router) {
        for node in nodes {
            let part = Part::Kernel(testbed.namespace(node)?);
            devices.push(Device::new(format!("dut{node}"), vec![node], part));
        }
    } else if is_thread(trial) {
        let thread = skeleton::start(scope, trial, seed, testbed, assignment, shared)?;
        let name = if topology.devices == 1 {
            "dut1".to_owned()
        } else {
            format!("dut1 to dut{}", topology.devices)
        };
        devices.push(Device::new(name, nodes.collect(), Part::Skeleton { thread, shared }));
    } else {
        let patience = if topology.guests == Guests::None { patience } else { patience + BOOT };
        for node in nodes {
            let site = Site {
                node,
                pairs: vec![("in".to_owned(), "out".to_owned())],
                both_directions: topology.both_directions,
                core: assignment.map(|assignment| assignment.device),
                housekeeping: assignment.map(|assignment| assignment.housekeeping),
                directory: directory.clone(),
            };
            let program = program(trial, &inside(trial, site.clone()))?;
            process::write_files(&program, directory)?;
            let deployed = deploy(trial, program, &site, testbed)?;
            let process = process::start(scope, deployed, place, directory, patience)?;
            devices.push(Device::new(format!("dut{node}"), vec![node], Part::Program(Box::new(process))));
        }
    }
    if let Some(node) = topology.switch_node().filter(|_| topology.switch == Switch::Ovs) {
        let datapath = ovs::datapath_of_switch(trial);
        let place = assignment
            .map(|assignment| assignment.for_switch(datapath == Datapath::Dpdk))
            .unwrap_or_default();
        let site = Site {
            node,
            pairs: topology.patches(),
            both_directions: topology.both_directions,
            core: place.cpu.map(|core| core as u32),
            housekeeping: assignment.map(|assignment| assignment.housekeeping),
            directory: directory.clone(),
        };
        let guests =
            topology.shared().into_iter().map(|link| (link.clone(), testbed.socket(&link))).collect();
        let around = Around { guests, taps_see_departures: topology.tap_senders };
        let program = Program { name: SWITCH.to_owned(), ..ovs::program(datapath, &site, &around)? };
        let deployed = bare(program, testbed.namespace(node)?)?;
        let process = process::start(scope, deployed, place, directory, patience)?;
        devices.push(Device::new(SWITCH.to_owned(), vec![node], Part::Program(Box::new(process))));
    }
    Ok(Devices { devices })
}

/// Whether the device is a thread of this process.
fn is_thread(trial: &Trial) -> bool {
    trial.dut.kind == DutKind::Skeleton && trial.dut.deployment == Deployment::Bare
}

/// The program of a trial at this site.
fn program(trial: &Trial, site: &Site) -> Result<Program> {
    match trial.dut.kind {
        DutKind::Command => Ok(program::command(trial, site)),
        DutKind::Skeleton | DutKind::XdpRedirect | DutKind::DpdkL2fwd => forward::program(trial, site),
        DutKind::Bridge => Ok(kernel::bridge(site)),
        DutKind::DpdkTestpmd => Ok(testpmd::program(trial, site)),
        DutKind::Suricata => suricata::program(trial, site),
        DutKind::Snort3 => snort3::program(trial, site),
        DutKind::Ovs if trial.dut.deployment == Deployment::Bare => {
            ovs::program(ovs::datapath_of_device(trial), site, &Around::default())
        }
        kind @ (DutKind::Ovs | DutKind::LinuxRouter | DutKind::Wire) => {
            bail!("dut.kind = \"{kind}\" can't be deployed so")
        }
    }
}

impl Devices<'_> {
    /// Waits until the programs say that they are ready.
    ///
    /// # Errors
    /// One ended, or did not say so in time; with its last words.
    pub fn await_ready(&mut self, stop: &AtomicBool) -> Result<()> {
        // All of them at once: one may wait for another, which has ended.
        let begun = Instant::now();
        loop {
            let mut ready = true;
            for device in &self.devices {
                if let Part::Program(process) = &device.part {
                    ready &= process.is_ready(begun)?;
                }
            }
            if ready {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted while the program started");
            }
            std::thread::sleep(process::LOOK_EVERY);
        }
        self.devices.iter_mut().try_for_each(|device| match &mut device.part {
            Part::Program(process) => process.begin(),
            _ => Ok(()),
        })
    }

    /// Whether all still run.
    ///
    /// # Errors
    /// One that has ended; a program with its last words.
    pub fn check(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| match &device.part {
            Part::Program(process) => process.check(),
            Part::Skeleton { thread, .. } if thread.is_finished() => bail!("the skeleton has ended"),
            _ => Ok(()),
        })
    }

    /// From this time on, CLOCK_MONOTONIC in ns, the times of what a skeleton does to itself count.
    pub fn begin_interfering(&self, origin_ns: u64) {
        for device in &self.devices {
            if let Part::Skeleton { shared, .. } = &device.part {
                shared.origin.set(origin_ns);
            }
        }
    }

    /// Reads all counters before the first packet.
    ///
    /// # Errors
    /// A program that does not tell them.
    pub fn begin_counting(&mut self) -> Result<()> {
        self.devices.iter_mut().try_for_each(|device| {
            device.before = device.counts()?;
            if device.timer.0.is_none() {
                device.timer.0 = device.guest_timer()?;
            }
            Ok(())
        })
    }

    /// Reads them again after the last one: what those counted meanwhile that tell it while they run.
    ///
    /// # Errors
    /// A program that does not tell them.
    pub fn end_counting(&mut self) -> Result<Vec<Counted>> {
        let mut all = Vec::new();
        for device in &mut self.devices {
            if let Some(before) = device.timer.0 {
                device.timer.1 = device.guest_timer()?.map(|now| now.saturating_sub(before));
            }
            let Some(before) = &device.before else { continue };
            let counts = device.counts()?.map(|now| now.since(before));
            all.extend(counts.map(|counts| device.counted(counts)));
        }
        Ok(all)
    }

    /// Numbers of the threads that move packets, as far as they are there: not the kernel's, nor a switch's.
    pub fn packet_threads(&self) -> Vec<i32> {
        let devices = self.devices.iter().filter(|device| device.name != SWITCH);
        let threads = devices.flat_map(|device| match &device.part {
            Part::Kernel(_) => Vec::new(),
            Part::Skeleton { shared, .. } => vec![shared.thread.load(Ordering::Relaxed)],
            Part::Program(process) => process.packet_threads(),
        });
        threads.collect()
    }

    /// Stops all: what they did, and whether one could not run, or ended before; the others are stopped all the same.
    pub fn stop(self) -> (DeviceReport, Result<()>) {
        let mut report = DeviceReport::default();
        let mut fault = Ok(());
        for device in self.devices {
            if let Some(interrupts) = device.timer.1 {
                let name = &device.name;
                report.notes.push(format!("{name}: {interrupts} timer interrupts on the program's core of the virtual machine, from the first packet to the last"));
            }
            let counted = device.counted(Counts::default());
            let stopped = match device.part {
                Part::Kernel(_) => Ok(()),
                Part::Program(process) => {
                    report.notes.extend(process.guest_note().map(|note| format!("{}: {note}", device.name)));
                    report.notes.extend(process.note().map(|note| format!("{}: {note}", device.name)));
                    process.stop().map(|last| {
                        report.counts.extend(last.map(|counts| Counted { counts, ..counted }));
                    })
                }
                Part::Skeleton { thread, shared } => {
                    shared.stop.store(true, Ordering::Relaxed);
                    let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    done.map(|done| {
                        report.record = Some(skeleton::record(&done));
                        report.stalls = Some(done.stalls);
                        report.interferences = done.interferences;
                    })
                }
            };
            fault = fault.and(stopped);
        }
        (report, fault)
    }
}

/// What devices counted, beside what the taps around each saw.
pub fn reconciled(counted: &[Counted], topology: &Topology, taps: &[TapRecord]) -> Vec<DeviceCounts> {
    let beside = |one: &Counted| reconcile(&one.device, &one.nodes, &one.counts, topology, taps);
    counted.iter().map(beside).collect()
}

impl<'scope> Device<'scope> {
    fn new(name: String, nodes: Vec<usize>, part: Part<'scope>) -> Self {
        Self { name, nodes, part, before: None, timer: (None, None) }
    }

    fn counted(&self, counts: Counts) -> Counted {
        Counted { device: self.name.clone(), nodes: self.nodes.clone(), counts }
    }

    /// Timer interrupts of the program's core so far, where it is in a virtual machine.
    fn guest_timer(&self) -> Result<Option<u64>> {
        match &self.part {
            Part::Program(process) => process.guest_timer(),
            _ => Ok(None),
        }
    }

    /// Its counters now; None where it has none.
    fn counts(&self) -> Result<Option<Counts>> {
        match &self.part {
            Part::Kernel(namespace) => {
                let links = namespace.links()?;
                let of = |name: &str| links.iter().find(|link| link.name == name);
                let both = of("in").zip(of("out"));
                Ok(both.map(|(left, right)| Counts {
                    received: left.traffic.received + right.traffic.received,
                    sent: left.traffic.sent + right.traffic.sent,
                    dropped: left.traffic.dropped_in + right.traffic.dropped_in,
                    failed: left.traffic.dropped_out + right.traffic.dropped_out,
                    ..Counts::default()
                }))
            }
            Part::Skeleton { shared, .. } => {
                let now = shared.counters.ask();
                Ok(Some(Counts {
                    received: now.received,
                    sent: now.sent,
                    dropped: now.dropped,
                    failed: now.failed,
                    ..Counts::default()
                }))
            }
            Part::Program(process) => process.counts(),
        }
    }
}
