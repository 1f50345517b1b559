//! Hosts: [`record`], all that an audit reads of one, as one text; [`audit`], what it found; [`plan`], how one is to be set up;
//! [`noise`], how long its cores are taken away; [`ablation`], what each setting is worth; [`recommendation`], what follows for its user.

pub mod ablation;
pub mod audit;
pub mod noise;
pub mod plan;
pub mod recommendation;
pub mod record;
