//! Documents about a host.
//!
//! - [`record`]: everything that an audit reads from a host, as a single text file.
//! - [`audit`]: the findings of an audit.
//! - [`plan`]: the settings to change.
//! - [`noise`]: measured interruptions of the host's cores.
//! - [`ablation`]: the effect of each setting.
//! - [`sysctl`]: kernel settings that an experiment changes during a trial.
//! - [`recommendation`]: recommendations for the user of the host.

pub mod ablation;
pub mod audit;
pub mod noise;
pub mod plan;
pub mod recommendation;
pub mod record;
pub mod sysctl;
