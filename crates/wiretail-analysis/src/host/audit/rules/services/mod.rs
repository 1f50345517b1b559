//! Services.

pub mod audit_trail;
pub mod irqbalance;
pub mod tuned;
