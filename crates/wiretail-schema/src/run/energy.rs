//! What a trial took of energy, by what a meter said: counters of the processor (RAPL), or a command that prints watts.
//!
//! The host is in one of three *states*: idle (nothing of the trial runs), available (the device runs and waits), processing
//! (packets cross it). What a meter said is [`Readings`]; what follows for each state is [`Energy`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file in a trial's directory that holds what the meter said.
pub const ENERGY_FILE: &str = "energy.csv";

/// What a trial took of energy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// What measured it.
    pub source: EnergySource,
    /// Why there is no source, or why not every state has numbers; None where all is there.
    pub reason: Option<String>,
    /// How exactly a reading is known to belong to its moment, in ns: RAPL's counters are written anew about every
    /// millisecond, a command is read at its interval. None without a source.
    pub resolution_ns: Option<u64>,
    /// What each state took, in their order; those that were not measured are left out.
    pub states: Vec<StateEnergy>,
    /// Packets that the load generator sent while the state was processing.
    pub packets: u64,
    /// What a million packets took, all that the host takes meanwhile included.
    pub per_million_packets: Option<Joules>,
    /// What they took beyond a device that runs and waits for as long.
    pub per_million_packets_above_available: Option<Joules>,
}

/// An amount of energy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joules {
    /// In J.
    pub joules: f64,
    /// How far it may be off by the times of the readings, in J. The meter's own error is not in it.
    pub uncertainty_j: f64,
}

/// What measures energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// Counters of the processor: running average power limit, as the kernel's powercap tells them.
    Rapl,
    /// A command that prints watts: a metered outlet, a BMC.
    Command,
    /// Nothing.
    None,
}

/// What the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyState {
    /// Nothing of the trial runs.
    Idle,
    /// The device runs, and no packet comes.
    Available,
    /// Packets are sent through the device.
    Processing,
}

impl fmt::Display for EnergyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Available => "available",
            Self::Processing => "processing",
        })
    }
}

/// What a state took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateEnergy {
    /// Which.
    pub state: EnergyState,
    /// How long it was measured, in s.
    pub seconds: f64,
    /// Readings that its numbers rest on.
    pub readings: u64,
    /// All domains that are counted, together.
    pub total: Joules,
    /// The same for each second, in W.
    pub watts: f64,
    /// What the meter tells apart.
    pub domains: Vec<DomainEnergy>,
}

/// What a part of the host took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DomainEnergy {
    /// Which: "package", "dram", "core", "uncore", "psys"; of a command "metered". All sockets together.
    pub domain: String,
    /// In J.
    pub joules: f64,
    /// For each second, in W.
    pub watts: f64,
    /// Whether it is in the total: cores are a part of their package, and psys holds what the others do.
    pub counted: bool,
}

impl Energy {
    /// Where there is no source, and why.
    pub fn none(reason: String) -> Self {
        Self {
            source: EnergySource::None,
            reason: Some(reason),
            resolution_ns: None,
            states: Vec::new(),
            packets: 0,
            per_million_packets: None,
            per_million_packets_above_available: None,
        }
    }

    /// What a state took; None where it was not measured.
    pub fn state(&self, state: EnergyState) -> Option<&StateEnergy> {
        self.states.iter().find(|measured| measured.state == state)
    }
}

/// What a meter said in the course of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Readings {
    /// What it is.
    pub source: EnergySource,
    /// As in [`Energy`].
    pub resolution_ns: u64,
    /// Names of its domains, and whether each is counted.
    pub domains: Vec<(String, bool)>,
    /// In the order of their times.
    pub readings: Vec<Reading>,
    /// When it gave up, in ns, and why.
    pub ended: Option<(u64, String)>,
}

/// What a meter said at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, in ns of the monotonic clock.
    pub at_ns: u64,
    /// For each domain: of RAPL the joules since the meter began, of a command the watts.
    pub values: Vec<f64>,
}

/// From when to when the host was in a state, in ns of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSpan {
    /// Which.
    pub state: EnergyState,
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}
