//! Reading the host. Nothing here changes it.
//!
//! - `record`: everything that an audit reads, as a single text file; `snapshot`: the host that a measurement
//!   ran on;
//! - `state`: comparison of the host before and after a run; `privileges`: capabilities of this process.

pub mod privileges;
pub mod record;
pub mod snapshot;
pub mod state;
