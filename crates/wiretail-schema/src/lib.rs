//! What Wiretail writes down: units, packet records, results, figures. No I/O.
//!
//! Layers, each standing on the one before it:
//!
//! - [`units`]: durations, percentiles and budgets, parsed from text with their unit and never
//!   from a bare number; [`sizes`]: lengths of frames and mixes of them;
//! - [`packet`]: what the analysis knows of a packet: when it was seen, which packet it is, which
//!   flow it belongs to;
//! - [`experiment`]: what is measured, under which load, how often;
//! - [`run`]: what was done, and whether it is valid; [`calibration`]: what known delays say about it;
//!   [`shares`]: whose the delay is; [`scenario`]: its trials side by side;
//! - [`interval`]: what a soak writes down every second; [`trace`]: what stands beside a trace of the kernel;
//! - [`interference`]: what a device was disturbed by on purpose; [`energy`]: what a trial took of energy;
//!   [`stalls`]: when the cores of those who never sleep were taken from them;
//! - [`explain`]: what delayed packets, as far as it can be told without a trace; [`causes`]: by a trace;
//!   [`overhead`]: what tracing changes of what it observes;
//! - [`predict`]: what another load would do, by models, and which delays are to come;
//! - [`host`]: what a host says of itself, and what an audit finds in it; [`cores`]: sets of its cores;
//! - [`random`]: what everything random is made of, from the seed that is written down;
//! - [`summary`] and [`figure`]: the results. `summary` is the document that `--json` prints and
//!   `summary.json` holds; `figure` is the data behind every plot and its CSV.
//!
//! Every crate of the workspace depends on this one, and this one on none of them.

pub mod causes;
pub mod experiment;
pub mod host;
pub mod packet;
pub mod prediction;
pub mod random;
pub mod run;
pub mod search;
pub mod summary;
pub mod units;
