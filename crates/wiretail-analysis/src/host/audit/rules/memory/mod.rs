//! Audit rules for memory.

pub mod compaction;
pub mod hugepages;
pub mod ksm;
pub mod locked_memory;
pub mod numa_balancing;
pub mod swappiness;
pub mod thp;
