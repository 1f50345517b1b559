//! Hosts: [`record`], all that an audit reads of one, as one text; [`audit`], what it found; [`plan`], how one is to be set up;
//! [`noise`], how long its cores are taken away; [`proof`], what each setting is worth; [`recommend`], what follows for its user.

pub mod audit;
pub mod noise;
pub mod plan;
pub mod proof;
pub mod recommend;
pub mod record;
