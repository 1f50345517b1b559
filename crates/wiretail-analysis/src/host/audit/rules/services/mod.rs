//! Audit rules for services.

pub mod audit_trail;
pub mod irqbalance;
pub mod tuned;
