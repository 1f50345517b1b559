//! The analysis of a trial's segment, with the settings that `analyze` would use.

use std::path::Path;

use anyhow::Result;
use wiretail_capture::{InterfaceChoice, OpenOptions};
use wiretail_schema::experiment::Trial;
use wiretail_schema::packet::FlowRule;
use wiretail_schema::run::SegmentRecord;

use crate::analyze::evaluate::Job;
use crate::analyze::pipeline::Settings;
use crate::analyze::source::Source;
use crate::run::trial::store;

/// Returns the evaluation job of a segment whose captures are in `folder`. The job writes no files.
///
/// # Errors
/// Returns an error if a capture cannot be read.
pub fn job(folder: &Path, trial: &Trial, segment: &SegmentRecord) -> Result<Job<'static>> {
    let capture = |tap: &str| {
        let interface = Some(InterfaceChoice::Name(tap.to_owned()));
        let options = OpenOptions { interface, ..OpenOptions::default() };
        Source::open(&store::capture_path(folder), options, false)
    };
    let streams = u64::from(trial.traffic.streams);
    let name = if segment.name == "forward" { String::new() } else { format!(", {}", segment.name) };
    Ok(Job {
        title: format!("{}{name}", trial.name),
        settings: Settings {
            trim_ns: trial.trial.warm_up.ns,
            flows: if streams > 1 { FlowRule::Stream } else { FlowRule::FiveTuple },
            ..Settings::default()
        },
        ..Job::of(capture(&segment.pre)?, capture(&segment.post)?)
    })
}
