//! Output of a run: the run directory, results, plots and terminal tables.

pub mod breakdown;
pub mod directory;
pub mod explanation;
pub mod job;
pub mod lost;
pub mod packets;
pub mod report;
pub mod results;
pub mod table;
