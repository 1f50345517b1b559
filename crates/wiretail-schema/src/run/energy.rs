//! Energy used during a trial, measured by processor counters (RAPL) or by a command that prints watts.
//!
//! The host is in one of three *states*: idle (no part of the trial runs), available (the device runs and
//! waits), processing (packets cross the device). [`Readings`] holds the raw meter readings; [`Energy`] holds
//! the result for each state.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// File name of the meter readings in a trial's directory.
pub const ENERGY_FILE: &str = "energy.csv";

/// Energy used during a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// Source of the readings.
    pub source: EnergySource,
    /// Why there is no source, or why some states have no numbers; null if all numbers are present.
    pub reason: Option<String>,
    /// Uncertainty of the time of a reading, in ns. RAPL updates its counters about every millisecond, and a
    /// command is read once per interval. Null if there is no source.
    pub resolution_ns: Option<u64>,
    /// Energy of each state, in order of the states; states that were not measured are omitted.
    pub states: Vec<StateEnergy>,
    /// Packets sent by the load generator in the processing state.
    pub packets: u64,
    /// Energy per million packets, including all other consumption of the host at that time; null if not
    /// measured.
    pub per_million_packets: Option<Joules>,
    /// Additional energy per million packets, compared with a device that runs and waits for the same time;
    /// null if not measured.
    pub per_million_packets_above_available: Option<Joules>,
}

/// An amount of energy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joules {
    /// Energy, in J.
    pub joules: f64,
    /// Uncertainty caused by the times of the readings, in J. Excludes the error of the meter itself.
    pub uncertainty_j: f64,
}

/// Source of energy readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// Processor counters: running average power limit (RAPL), read through the kernel's powercap interface.
    Rapl,
    /// A command that prints watts, such as one for a metered outlet or a BMC.
    Command,
    /// No source.
    None,
}

/// State of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyState {
    /// No part of the trial runs.
    Idle,
    /// The device runs, but receives no packets.
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

/// Energy used in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateEnergy {
    /// State of the host.
    pub state: EnergyState,
    /// Duration of the measurement, in s.
    pub seconds: f64,
    /// Number of readings.
    pub readings: u64,
    /// Total energy of all counted domains.
    pub total: Joules,
    /// Mean power, in W.
    pub watts: f64,
    /// Energy by domain of the meter.
    pub domains: Vec<DomainEnergy>,
}

/// Energy used by one domain of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DomainEnergy {
    /// Name of the domain, over all sockets: "package", "dram", "core", "uncore" or "psys"; "metered" for a
    /// command.
    pub domain: String,
    /// Energy, in J.
    pub joules: f64,
    /// Mean power, in W.
    pub watts: f64,
    /// Whether the domain is part of the total. Cores are part of their package, and psys includes the other
    /// domains.
    pub counted: bool,
}

impl Energy {
    /// Returns a result without a source, with the reason.
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

    /// Returns the energy of a state; `None` if it was not measured.
    pub fn state(&self, state: EnergyState) -> Option<&StateEnergy> {
        self.states.iter().find(|measured| measured.state == state)
    }
}

/// Raw meter readings of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Readings {
    /// Source of the readings.
    pub source: EnergySource,
    /// Uncertainty of the time of a reading, in ns, as in [`Energy`].
    pub resolution_ns: u64,
    /// Names of the domains, and whether each is part of the total.
    pub domains: Vec<(String, bool)>,
    /// Readings in order of time.
    pub readings: Vec<Reading>,
    /// Time at which the meter failed, in ns, and the reason; `None` if it did not fail.
    pub ended: Option<(u64, String)>,
}

/// One reading of the meter.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Time of the reading on the monotonic clock, in ns.
    pub at_ns: u64,
    /// One value per domain: joules since the start of the meter for RAPL, watts for a command.
    pub values: Vec<f64>,
}

/// Time span that the host spent in one state, in ns on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSpan {
    /// State of the host.
    pub state: EnergyState,
    /// Start of the span, in ns.
    pub from_ns: u64,
    /// End of the span, in ns.
    pub to_ns: u64,
}
