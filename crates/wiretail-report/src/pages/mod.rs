//! The documents, one module each, and the tables that they share.

pub mod cells;
pub mod comparison;
pub mod explanation;
pub mod page;
pub mod prediction;
pub mod recommendation;
pub mod report;
pub mod run;
pub mod tables;
