//! Audit rules for processors.

pub mod cache_partition;
pub mod clocksource;
pub mod core_distance;
pub mod energy_bias;
pub mod governor;
pub mod idle_states;
pub mod mitigations;
pub mod smi;
pub mod smt;
pub mod steal;
pub mod turbo;
