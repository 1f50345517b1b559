//! CPU cores: topology, load, idle states, and moving tasks between them.

pub mod cores;
pub mod idle;
pub mod load;
pub mod tasks;
pub mod threads;
