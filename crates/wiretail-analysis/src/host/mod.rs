//! How a host is set up, how it should be, and what each setting is worth.
//!
//! - [`audit`]: rules that judge a recorded host;
//! - [`tuning`]: the plan of settings, and its output formats;
//! - [`mitigation`]: what helps against a cause;
//! - [`noise`]: how long a core is taken away, without packets;
//! - [`ablation`]: what each setting is worth, from trials with and without it;
//! - [`recommendation`]: what the papers advise, weighed against one's own runs.

pub mod ablation;
pub mod audit;
pub mod mitigation;
pub mod noise;
pub mod recommendation;
pub mod tuning;
