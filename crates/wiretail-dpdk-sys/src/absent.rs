//! Placeholder types for builds without DPDK. No value of these types can exist, because [`Eal::start`]
//! always fails.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use crate::{DirectionCounts, DpdkError, ForwarderConfig, Inside, Packet, PortCounts, PortOptions};

/// Proof that DPDK was started.
#[derive(Debug, Clone, Copy)]
pub struct Eal(Infallible);

impl Eal {
    /// Always fails.
    ///
    /// # Errors
    /// Returns [`DpdkError::NotBuilt`].
    pub fn start(_arguments: &[String]) -> Result<Self, DpdkError> {
        Err(DpdkError::NotBuilt)
    }
}

/// An open port.
#[derive(Debug)]
pub struct Port(Infallible);

#[allow(clippy::missing_errors_doc)]
impl Port {
    pub fn open(eal: Eal, _device: &str, _options: PortOptions, _inside: Inside) -> Result<Self, DpdkError> {
        match eal.0 {}
    }

    pub fn driver(&self) -> &str {
        match self.0 {}
    }

    pub fn is_link_up(&self) -> bool {
        match self.0 {}
    }

    pub fn has_timestamps(&self) -> bool {
        match self.0 {}
    }

    pub fn counts(&self) -> PortCounts {
        match self.0 {}
    }

    pub fn clock_ticks(&self) -> Option<u64> {
        match self.0 {}
    }

    pub fn send(&mut self, _frames: &[&[u8]], _patience_ns: u64) -> (usize, Option<i32>) {
        match self.0 {}
    }

    pub fn receive(&mut self, _most: usize, _sink: &mut dyn FnMut(Packet<'_>)) -> usize {
        match self.0 {}
    }
}

/// A forwarder between ports.
#[derive(Debug)]
pub struct Forwarder(Infallible);

#[allow(clippy::missing_errors_doc)]
impl Forwarder {
    pub fn new(
        ports: Vec<Port>,
        _forwarding_paths: &[(usize, usize)],
        _config: ForwarderConfig,
    ) -> Result<Self, DpdkError> {
        match ports.first() {
            Some(port) => match port.0 {},
            None => Err(DpdkError::NotBuilt),
        }
    }

    pub fn watcher(&self) -> Watcher {
        match self.0 {}
    }

    pub fn run(&mut self, _stop: &AtomicBool) {
        match self.0 {}
    }
}

/// Reads the counters of a forwarder.
#[derive(Debug, Clone)]
pub struct Watcher(Infallible);

impl Watcher {
    pub fn forwarding_paths(&self) -> Vec<DirectionCounts> {
        match self.0 {}
    }

    pub fn ports(&self) -> &[Port] {
        match self.0 {}
    }
}
