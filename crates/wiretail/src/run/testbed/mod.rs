//! A testbed that stands: its namespaces, the ports and taps in them.

pub mod cpus;
pub mod neighbour;
pub mod profile;
pub mod topology;
pub mod traffic;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Result;
use wiretail_dataplane::port::PortSpec;
use wiretail_dataplane::timestamper::TapSpec;
use wiretail_host::trace::{Recorder, TraceSpec};
use wiretail_host::{JOURNAL_FOLDER, Journal, Namespace, Plan};

use crate::run::testbed::topology::{TapPlace, Topology};

/// The folder of the sockets of a run. Its path is short, as that of a socket is 107 bytes at most (unix(7)).
pub fn sockets(run: &str) -> PathBuf {
    Path::new(JOURNAL_FOLDER).join(format!("{run}-sockets"))
}

/// It is removed when dropped, or by [`Testbed::remove`] with a message if that fails.
pub struct Testbed {
    journal: Journal,
    topology: Topology,
    names: Vec<String>,
    /// Keep the namespaces open, in the order of the nodes.
    nodes: Vec<OwnedFd>,
}

impl Testbed {
    /// Makes the testbed, every step journalled before it is done: first what its devices need besides, which
    /// is there until all of them have ended.
    ///
    /// # Errors
    /// The step that failed; what was done before is undone.
    pub fn build(mut journal: Journal, topology: Topology, needs: &Plan) -> Result<Self> {
        let prefix = journal.run().to_owned();
        journal.apply_all(needs)?;
        journal.apply_all(&topology.plan(&prefix))?;
        let names = topology.nodes(&prefix);
        let open = |name: &String| Namespace::new(name)?.open();
        let nodes = names.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { journal, topology, names, nodes })
    }

    /// Makes further changes of the host, which are undone with the testbed.
    ///
    /// # Errors
    /// The step that failed.
    pub fn change(&mut self, plan: &Plan) -> Result<()> {
        Ok(self.journal.apply_all(plan)?)
    }

    /// Starts to record the kernel's trace; what that makes in the kernel is removed with the testbed.
    ///
    /// # Errors
    /// The kernel can't be traced.
    pub fn trace(&mut self, spec: &TraceSpec) -> Result<Recorder> {
        Ok(Recorder::start(&mut self.journal, spec)?)
    }

    /// Undoes every step.
    ///
    /// # Errors
    /// What could not be undone; `wiretail clean` tries again.
    pub fn remove(mut self) -> Result<()> {
        self.journal.undo_all()?;
        Ok(())
    }

    /// Name of the run in its journal, with which the names of its namespaces start.
    pub fn name(&self) -> &str {
        self.journal.run()
    }

    /// Where a virtual machine meets the switch, by the switch's end of the link that is shared memory.
    pub fn socket(&self, link: &str) -> PathBuf {
        sockets(self.name()).join(link)
    }

    /// What it was built by.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Where packets leave for the device: the load generator's end, and for both ways also the sink's.
    pub fn sources(&self) -> Vec<PortSpec<'_>> {
        let ends = [(0, "out"), (self.topology.sink(), "in")];
        let ways = if self.topology.both_directions { 2 } else { 1 };
        ends.into_iter().take(ways).map(|(node, interface)| self.port(node, interface)).collect()
    }

    /// The ways through the devices, each from one link to the other: all forward ones, then those back.
    pub fn ways(&self) -> Vec<(PortSpec<'_>, PortSpec<'_>)> {
        let devices = 1..=self.topology.devices;
        let forward = devices.clone().map(|node| (self.port(node, "in"), self.port(node, "out")));
        let back = devices.rev().map(|node| (self.port(node, "out"), self.port(node, "in")));
        let back = back.filter(|_| self.topology.both_directions);
        forward.chain(back).collect()
    }

    /// The namespace of a node.
    ///
    /// # Errors
    /// None but a name that is no name.
    pub fn namespace(&self, node: usize) -> Result<Namespace> {
        Ok(Namespace::new(&self.names[node])?)
    }

    /// The taps, in the order of [`Topology::taps`].
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
