//! What a run writes and prints: its directory, results, figures, terminal.

pub mod breakdown;
pub mod directory;
pub mod explanation;
pub mod job;
pub mod lost;
pub mod packets;
pub mod report;
pub mod results;
pub mod table;
