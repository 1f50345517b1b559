//! Hosts: [`record`], all that an audit reads of one, as one text; [`audit`], what it found; [`plan`], how one is to be set up;
//! [`noise`], how long its cores are taken away.

pub mod audit;
pub mod noise;
pub mod plan;
pub mod record;
