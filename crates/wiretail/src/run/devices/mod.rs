//! Starts and stops the devices under test of a trial, waits until they are ready, and reads their counters.
//!
//! Wires, bridges and routers are part of the testbed, because the kernel forwards their packets. A bare
//! skeleton is a thread of this process. Every other device is a program ([`mod@program`]) with a module for
//! each kind. It is deployed bare, in a container or in a virtual machine.
//!
//! | `dut.kind` | module |
//! |---|---|
//! | `skeleton` | [`skeleton`] |
//! | `skeleton` in a container or virtual machine, `xdp-redirect`, `dpdk-l2fwd` | [`forward`] |
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

/// Additional time for the start of a virtual machine, whose processor may be emulated in software.
const BOOT: Duration = Duration::from_secs(60);
/// Name of the switch between the devices.
const SWITCH: &str = "switch";

/// The running devices of a trial, and the switch between them.
pub struct Devices<'scope> {
    devices: Vec<Device<'scope>>,
}

struct Device<'scope> {
    /// "dut1", or "dut1 to dut3" if one thread serves all of them.
    name: String,
    /// Nodes in which the device forwards.
    nodes: Vec<usize>,
    part: Part<'scope>,
    /// Counters before the trial's first packet.
    before: Option<Counts>,
    /// Timer interrupts of a guest's isolated core: the number before the first packet of all trials, and the
    /// number since then.
    timer: (Option<u64>, Option<u64>),
}

/// The part of the system that forwards.
enum Part<'scope> {
    /// The kernel, between two links of a namespace.
    Kernel(Namespace),
    /// A thread that forwards until it is asked to stop.
    Skeleton {
        thread: ScopedJoinHandle<'scope, Result<SkeletonReport>>,
        /// State that the thread shares with others.
        shared: &'scope Shared,
    },
    Program(Box<Process>),
}

/// What devices report about themselves.
#[derive(Default)]
pub struct DeviceReport {
    /// The skeleton's counters; `None` if the device is not a skeleton.
    pub record: Option<DutRecord>,
    /// Times at which the device lost its core; `None` unless the device is known to poll.
    pub stalls: Option<StallLog>,
    /// Events of the interference that the device injected into itself.
    pub interferences: Vec<Injected>,
    /// Notes for the trial's record.
    pub notes: Vec<String>,
    /// Counters over all packets, from devices that report them only when they stop.
    pub counts: Vec<Counted>,
}

#[derive(Debug, Clone)]
pub struct Counted {
    device: String,
    /// Nodes in which the device forwards.
    nodes: Vec<usize>,
    counts: Counts,
}

/// State that a device thread needs while it runs. It outlives the thread.
#[derive(Default)]
pub struct Shared {
    pub counters: SharedCounters,
    /// The thread's number, once the thread runs.
    thread: AtomicI32,
    /// Origin of the times of the self-injected interference.
    origin: Origin,
    stop: AtomicBool,
}

/// Returns the host changes that a trial's devices need. They take effect before the testbed is built, and
/// last until it is removed. They reserve memory for DPDK and create a folder for the sockets of virtual
/// machines. `run` is the name of the run in its journal.
pub fn needs(trial: &Trial, topology: &Topology, run: &str) -> Plan {
    let mut plan = Plan::new();
    plan.extend(ovs::memory(trial, topology));
    if !topology.shared().is_empty() {
        plan.push(Step::AddDirectory { path: sockets(run) });
    }
    plan
}

/// Starts the devices of a trial; the output of programs goes into `directory`.
///
/// # Errors
/// Returns an error if a port cannot be opened or a program cannot be started.
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

/// Returns whether the device is a thread of this process.
fn is_thread(trial: &Trial) -> bool {
    trial.dut.kind == DutKind::Skeleton && trial.dut.deployment == Deployment::Bare
}

/// Returns the program of a trial at this site.
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
            bail!("dut.kind = \"{kind}\" does not support dut.deployment = \"{}\"", trial.dut.deployment)
        }
    }
}

impl Devices<'_> {
    /// Waits until the programs report that they are ready.
    ///
    /// # Errors
    /// Returns an error if a program ended or was not ready in time; the message includes the last lines of
    /// its output.
    pub fn await_ready(&mut self, stop: &AtomicBool) -> Result<()> {
        // All programs are checked in turn, because a program may be waiting for another program that has
        // ended.
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
                bail!("interrupted while the program was starting");
            }
            std::thread::sleep(process::LOOK_EVERY);
        }
        self.devices.iter_mut().try_for_each(|device| match &mut device.part {
            Part::Program(process) => process.begin(),
            _ => Ok(()),
        })
    }

    /// Checks that all devices are still running.
    ///
    /// # Errors
    /// Returns an error if a device has ended; for a program, the message includes the last lines of its
    /// output.
    pub fn check(&self) -> Result<()> {
        self.devices.iter().try_for_each(|device| match &device.part {
            Part::Program(process) => process.check(),
            Part::Skeleton { thread, .. } if thread.is_finished() => bail!("the skeleton has ended"),
            _ => Ok(()),
        })
    }

    /// Sets the origin of the times of the skeleton's self-injected interference, in ns of CLOCK_MONOTONIC.
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
    /// Returns an error if a program does not report its counters.
    pub fn begin_counting(&mut self) -> Result<()> {
        self.devices.iter_mut().try_for_each(|device| {
            device.before = device.counts()?;
            if device.timer.0.is_none() {
                device.timer.0 = device.guest_timer()?;
            }
            Ok(())
        })
    }

    /// Reads all counters after the last packet. Returns the difference for devices that report counters
    /// while they run.
    ///
    /// # Errors
    /// Returns an error if a program does not report its counters.
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

    /// Returns the numbers of the existing threads that forward packets, except threads of the kernel and of
    /// a switch.
    pub fn packet_threads(&self) -> Vec<i32> {
        let devices = self.devices.iter().filter(|device| device.name != SWITCH);
        let threads = devices.flat_map(|device| match &device.part {
            Part::Kernel(_) => Vec::new(),
            Part::Skeleton { shared, .. } => vec![shared.thread.load(Ordering::Relaxed)],
            Part::Program(process) => process.packet_threads(),
        });
        threads.collect()
    }

    /// Stops all devices, even if one fails. Returns their reports, and an error if a device could not run or
    /// ended early.
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

/// Returns the counters of devices, each with the packets seen by the taps around the device.
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

    /// Number of timer interrupts so far on the program's core in a virtual machine; `None` for other
    /// devices.
    fn guest_timer(&self) -> Result<Option<u64>> {
        match &self.part {
            Part::Program(process) => process.guest_timer(),
            _ => Ok(None),
        }
    }

    /// Reads the current counters; `None` if the device has none.
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
