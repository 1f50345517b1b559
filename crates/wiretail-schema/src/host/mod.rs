//! Hosts: [`record`], all that an audit reads of one, as one text; [`audit`], what it found; [`plan`], how one is to be set up.

pub mod audit;
pub mod plan;
pub mod record;
