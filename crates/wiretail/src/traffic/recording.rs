//! Reads a capture for replay.

use std::path::Path;

use anyhow::{Context, Result};
use wiretail_capture::{CaptureReader, Frame, LinkType, OpenOptions};
use wiretail_dataplane::generator::recording::Recording;

/// Reads a capture into memory. If a mean rate in packets per second is given, the packets' times are scaled
/// to this rate.
///
/// # Errors
/// Returns an error if the capture cannot be read, is empty, or contains packets that cannot be sent.
pub fn read(path: &Path, rate_pps: Option<u64>) -> Result<Recording> {
    let mut reader = CaptureReader::open(path, &OpenOptions::default())?;
    let mut recording = Recording::default();
    let mut failure = Ok(());
    let file = path.display();
    let mut number = 0_u64;
    let mut take = |frame: &Frame<'_>| {
        number += 1;
        if failure.is_err() {
            return;
        }
        failure = match frame.link {
            LinkType::Ethernet if frame.data.len() >= frame.wire_len as usize => {
                recording.push(frame.ts_ns, frame.data).with_context(|| file.to_string())
            }
            LinkType::Ethernet => Err(anyhow::anyhow!(
                "{file}: packet {number} was captured with {} of its {} bytes; expected complete frames; \
                 record again without a limit (tcpdump -s 0)",
                frame.data.len(),
                frame.wire_len
            )),
            other => Err(anyhow::anyhow!(
                "{file}: packet {number} is {}; expected Ethernet frames; record on one interface, not on \
                 `any`",
                other.name()
            )),
        };
    };
    while reader.read(&mut take)? {}
    failure?;
    if let Some(truncation) = reader.truncation() {
        eprintln!(
            "wiretail: {file}: damaged at byte {}: {}; the packets before that position are sent",
            truncation.offset, truncation.detail
        );
    }
    if let Some(rate_pps) = rate_pps {
        recording.scale_to(rate_pps).with_context(|| format!("{file}: cannot be scaled to the rate"))?;
    }
    Ok(recording)
}
