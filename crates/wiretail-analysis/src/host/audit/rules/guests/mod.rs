//! Audit rules for virtual machines and containers.

pub mod cfs_quota;
pub mod cpu_model;
pub mod cpuset_partition;
pub mod guest_memory;
pub mod halt_polling;
pub mod rights;
pub mod sriov;
pub mod vcpu_pinning;
