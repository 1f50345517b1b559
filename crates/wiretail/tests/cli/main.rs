//! End-to-end tests of the command line with the real program and real files.

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
