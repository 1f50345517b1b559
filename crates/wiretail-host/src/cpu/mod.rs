//! Cores: which exist, who runs on them, and moving others off.

pub mod cores;
pub mod idle;
pub mod load;
pub mod tasks;
pub mod threads;
