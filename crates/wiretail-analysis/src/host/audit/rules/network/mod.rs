//! Audit rules for NICs.

pub mod nic_coalescing;
pub mod nic_driver;
pub mod nic_eee;
pub mod nic_firmware;
pub mod nic_node;
pub mod nic_offloads;
pub mod nic_pause;
pub mod nic_pcie;
pub mod nic_queues;
pub mod nic_rings;
pub mod nic_timestamps;
pub mod nics;
pub mod pcie_aspm;
pub mod rps;
