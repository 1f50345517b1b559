//! Hosts: [`record`], all that an audit reads of one, as one text; [`audit`], what it found.

pub mod audit;
pub mod record;
