//! A running testbed: its namespaces, ports and taps.

pub mod changes;
pub mod cpus;
pub mod neighbour;
pub mod profile;
pub mod sysctl;
pub mod topology;
pub mod traffic;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use wiretail_dataplane::port::PortSpec;
use wiretail_dataplane::timestamper::TapSpec;
use wiretail_host::trace::{Recorder, TraceSpec};
use wiretail_host::{JOURNAL_FOLDER, Journal, Namespace, Plan};

use crate::run::testbed::topology::{TapPlace, Topology};

/// Returns the folder of a run's sockets. The path is short because a socket's path is limited to 107 bytes
/// (unix(7)).
pub fn sockets(run: &str) -> PathBuf {
    Path::new(JOURNAL_FOLDER).join(format!("{run}-sockets"))
}

/// A running testbed. It is removed when dropped, or by [`Testbed::remove`], which reports failures.
pub struct Testbed {
    journal: Journal,
    topology: Topology,
    names: Vec<String>,
    /// Handles that keep the namespaces open, in the order of the nodes.
    nodes: Vec<OwnedFd>,
}

impl Testbed {
    /// Builds the testbed with the steps of this plan, and journals every step before executing it. They are
    /// reverted in reverse order, after all devices have ended.
    ///
    /// # Errors
    /// Returns an error if a step failed; earlier steps are reverted.
    pub fn build(mut journal: Journal, topology: Topology, plan: &Plan) -> Result<Self> {
        journal.apply_all(plan)?;
        let names = topology.nodes(journal.run());
        let open = |name: &String| Namespace::new(name)?.open();
        let nodes = names.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { journal, topology, names, nodes })
    }

    /// Makes further changes to the host, which are reverted with the testbed.
    ///
    /// # Errors
    /// Returns an error if a step failed.
    pub fn change(&mut self, plan: &Plan) -> Result<()> {
        Ok(self.journal.apply_all(plan)?)
    }

    /// Runs the commands of a plan. A command that has not ended is stopped when `stop` is set.
    ///
    /// # Errors
    /// Returns an error if a command failed; the message includes the last lines of its output.
    pub fn run_commands(&mut self, plan: &Plan, stop: &AtomicBool) -> Result<()> {
        Ok(plan.steps().iter().try_for_each(|step| self.journal.apply_interruptibly(step, stop))?)
    }

    /// Starts to record the kernel's trace. Changes to the kernel's tracing state are reverted with the
    /// testbed.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be traced.
    pub fn trace(&mut self, spec: &TraceSpec) -> Result<Recorder> {
        Ok(Recorder::start(&mut self.journal, spec)?)
    }

    /// Reverts every step.
    ///
    /// # Errors
    /// Returns an error if a step could not be reverted (`wiretail clean` tries again), or if a command that
    /// is run at the end failed.
    pub fn remove(mut self) -> Result<()> {
        let undone = self.journal.undo_all()?;
        if !undone.failures.is_empty() {
            bail!("{}", undone.failures.join("; "));
        }
        Ok(())
    }

    /// Name of the run in its journal, which is also the prefix of the namespaces' names.
    pub fn name(&self) -> &str {
        self.journal.run()
    }

    /// Path of the socket between a virtual machine and the switch, for the switch's end of a shared-memory
    /// link.
    pub fn socket(&self, link: &str) -> PathBuf {
        sockets(self.name()).join(link)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Ports that send packets to the device: the load generator's port, and the sink's port if there is
    /// traffic in both directions.
    pub fn sources(&self) -> Vec<PortSpec<'_>> {
        let ends = [(0, "out"), (self.topology.sink(), "in")];
        let ways = if self.topology.both_directions { 2 } else { 1 };
        ends.into_iter().take(ways).map(|(node, interface)| self.port(node, interface)).collect()
    }

    /// Paths through the devices, each from one link to the other. All forward paths come before the reverse
    /// paths.
    pub fn ways(&self) -> Vec<(PortSpec<'_>, PortSpec<'_>)> {
        let devices = 1..=self.topology.devices;
        let forward = devices.clone().map(|node| (self.port(node, "in"), self.port(node, "out")));
        let back = devices.rev().map(|node| (self.port(node, "out"), self.port(node, "in")));
        let back = back.filter(|_| self.topology.both_directions);
        forward.chain(back).collect()
    }

    /// Returns the namespace of a node.
    ///
    /// # Errors
    /// Returns an error if the node's name is invalid.
    pub fn namespace(&self, node: usize) -> Result<Namespace> {
        Ok(Namespace::new(&self.names[node])?)
    }

    pub fn taps<'a>(&'a self, assignment: &'a [TapPlace]) -> Vec<TapSpec<'a>> {
        let tap = |(number, place): (usize, &'a TapPlace)| TapSpec {
            netns: Some(self.netns(place.node)),
            interface: &place.link,
            direction: place.direction,
            tap: number as u16,
        };
        assignment.iter().enumerate().map(tap).collect()
    }

    fn port<'a>(&'a self, node: usize, interface: &'a str) -> PortSpec<'a> {
        PortSpec { netns: Some(self.netns(node)), interface }
    }

    fn netns(&self, node: usize) -> BorrowedFd<'_> {
        self.nodes[node].as_fd()
    }
}
