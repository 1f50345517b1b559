//! Reads a capture that is to be sent again.

use std::path::Path;

use anyhow::{Context, Result, bail};
use wiretail_capture::read::{CaptureReader, OpenOptions};
use wiretail_dataplane::recording::Recording;

/// The packets of a capture, with their gaps scaled to a mean rate where one is given.
///
/// # Errors
/// A capture that can't be read, is empty, or holds packets that can't be sent.
pub fn read(path: &Path, rate_pps: Option<u64>) -> Result<Recording> {
    let name = || path.display().to_string();
    let mut reader = CaptureReader::open(path, &OpenOptions::default())?;
    let mut recording = Recording::default();
    let mut failure = Ok(());
    while reader.read(&mut |frame| {
        if failure.is_ok() {
            failure = recording.push(frame.ts_ns, frame.data);
        }
    })? {}
    failure.with_context(name)?;
    if recording.packets() == 0 {
        bail!("{}: holds no packet to send", name());
    }
    if let Some(rate_pps) = rate_pps {
        recording.scale_to(rate_pps).with_context(name)?;
    }
    Ok(recording)
}
