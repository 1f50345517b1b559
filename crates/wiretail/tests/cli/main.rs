//! The command line as its users meet it: the real program on real files.

mod corrupted;
mod explain;
mod forward;
mod host;
mod host_noise;
mod host_recommend;
mod inputs;
mod outputs;
mod planted;
mod predict;
mod published;
mod run;
mod setup;
mod support;
mod tail;
mod trace;
mod traffic;
mod tuning;
mod twin;
mod twin_runs;
