//! placeholder
pub mod published;
