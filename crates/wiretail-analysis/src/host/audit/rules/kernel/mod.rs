//! Audit rules for the running kernel.

pub mod fair_server;
pub mod interrupts;
pub mod irq_affinity;
pub mod kernel_threads;
pub mod machine_check;
pub mod nmi_watchdog;
pub mod rt_throttling;
pub mod soft_watchdog;
pub mod tasks;
pub mod tick;
pub mod timer_migration;
pub mod vm_stat_interval;
pub mod workqueue;
