//! Documents about a host.
//!
//! - [`record`]: everything that an audit reads from a host, as a single text file.
//! - [`audit`]: the findings of an audit.
//! - [`plan`]: the settings to change.
//! - [`noise`]: measured interruptions of its cores.
//! - [`ablation`]: the effect of each setting.
//! - [`recommendation`]: recommendations for its user.

pub mod ablation;
pub mod audit;
pub mod noise;
pub mod plan;
pub mod recommendation;
pub mod record;
