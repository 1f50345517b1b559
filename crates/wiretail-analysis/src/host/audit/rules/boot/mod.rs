//! Audit rules for the boot line and the kernel configuration.

pub mod boot_line;
pub mod iommu;
pub mod isolcpus;
pub mod nohz_full;
pub mod rcu_nocbs;
pub mod realtime_kernel;
