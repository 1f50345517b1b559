//! The documents, one folder or file each, and the tables they share.

pub mod cells;
pub mod comparison;
pub mod explanation;
pub mod page;
pub mod prediction;
pub mod recommendation;
pub mod report;
pub mod run;
pub mod tables;
