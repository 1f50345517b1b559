//! The command line as its users meet it: the real program on real files.

mod analyze;
mod commands;
mod explain;
mod forward;
mod host;
mod predict;
mod run;
mod setup;
mod support;
mod trace;
mod traffic;
