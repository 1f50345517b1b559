//! Reading the host: nothing here changes it.
//!
//! - `record`: everything an audit reads, as one text; `snapshot`: what a measurement ran on;
//! - `state`: the host before and after, compared; `privileges`: what this process may do.

pub mod privileges;
pub mod record;
pub mod snapshot;
pub mod state;
