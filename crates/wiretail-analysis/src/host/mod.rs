//! Host setup: its audit, its tuning plan, and the measured effect of each setting.
//!
//! - [`audit`]: rules that judge a recorded host;
//! - [`tuning`]: the plan of settings, and its output formats;
//! - [`mitigation`]: mitigations per cause of latency;
//! - [`noise`]: time taken from a core, measured without packets;
//! - [`ablation`]: the effect of each setting, from trials with and without it;
//! - [`recommendation`]: the papers' recommendations, checked against measured trials.

pub mod ablation;
pub mod audit;
pub mod mitigation;
pub mod noise;
pub mod recommendation;
pub mod tuning;
