//! Reads facts about the host without changing it.
//!
//! - `record`: everything that an audit reads, as a single text file;
//! - `snapshot`: facts about the host on which a measurement ran;
//! - `state`: comparison of the host before and after a run;
//! - `privileges`: capabilities of this process.

pub mod privileges;
pub mod record;
pub mod snapshot;
pub mod state;
