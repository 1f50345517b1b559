//! libmoon's legacy trailer: the NIC (Intel X550 and X552) appends the receive timestamp to the frame, and
//! libmoon writes the buffer to the file unchanged.
//!
//! The last eight bytes are two little-endian words: nanoseconds within the second, then seconds (libmoon,
//! `lua/packet.lua`, `pkt:getTimestamp`: high * 10^9 + low; <https://github.com/libmoon/libmoon>). The frame
//! length in the record header includes them.

use super::Frame;

pub(super) const RESOLUTION_NS: f64 = 1.0;
pub(super) const CLOCK_SOURCE: &str = "NIC, timestamp after each frame (libmoon trailer)";

/// If this many initial frames have no timestamp, the capture is considered to have no trailers.
const PATIENCE: u64 = 1000;

/// Shortest frame that can carry a timestamp: an Ethernet header and the trailer.
const SHORTEST: usize = 14 + 8;

/// Numbers of frames with and without a timestamp.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    with: u64,
    pub(super) without: u64,
}

impl Counts {
    /// Removes the trailer from a frame and returns the frame with the trailer's timestamp; `None` if the
    /// capture cut the frame or the bytes are not a timestamp. Frames are no longer counted once the capture
    /// is known to have no trailers. The counts therefore do not depend on the number of frames in the
    /// buffer.
    #[inline(always)]
    pub(super) fn set_timestamp<'a>(&mut self, frame: &Frame<'a>) -> Option<Frame<'a>> {
        if self.are_hopeless(false) {
            return None;
        }
        let timestamped = set_timestamp(frame);
        self.with += u64::from(timestamped.is_some());
        self.without += u64::from(timestamped.is_none());
        timestamped
    }

    /// Whether the capture has no trailers. `at_end` is set if no further frame follows.
    pub(super) fn are_hopeless(&self, at_end: bool) -> bool {
        self.with == 0 && (self.without >= PATIENCE || at_end && self.without > 0)
    }
}

#[inline(always)]
fn set_timestamp<'a>(frame: &Frame<'a>) -> Option<Frame<'a>> {
    if frame.data.len() != frame.wire_len as usize || frame.data.len() < SHORTEST {
        return None;
    }
    let (data, timestamp) = frame.data.split_last_chunk::<8>()?;
    let word = |at: usize| {
        u32::from_le_bytes([timestamp[at], timestamp[at + 1], timestamp[at + 2], timestamp[at + 3]])
    };
    let (nanoseconds, seconds) = (word(0), word(4));
    let ts_ns = i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds);
    (nanoseconds < 1_000_000_000).then_some(Frame { ts_ns, wire_len: frame.wire_len - 8, data, ..*frame })
}

#[cfg(test)]
mod tests {
    use crate::test_support::{PcapBuilder, collect, open_with, udp4};
    use crate::{CaptureError, OpenOptions, Timestamps};

    fn options() -> OpenOptions {
        OpenOptions { timestamps: Timestamps::Trailer, ..OpenOptions::default() }
    }

    fn timestamped(id: u32, seconds: u32, nanoseconds: u32) -> Vec<u8> {
        let mut frame = udp4(id, 60);
        frame.extend(nanoseconds.to_le_bytes());
        frame.extend(seconds.to_le_bytes());
        frame
    }

    #[test]
    fn timestamps_are_read_and_removed_from_the_frames() {
        let mut file = PcapBuilder::new(false, false);
        file.frame(7_000, &timestamped(1, 3, 999_999_999), 68);
        file.frame(8_000, &timestamped(2, 4_000_000_000, 12), 68);
        // The frame was cut by the snap length, so its last bytes are not the trailer.
        file.frame(9_000, &timestamped(3, 5, 12)[..60], 68);
        let mut reader = open_with(&file.bytes, &options()).unwrap();
        let frames = collect(&mut reader).unwrap();
        let seen: Vec<_> = frames.iter().map(|f| (f.ts_ns, f.data.clone(), f.wire_len)).collect();
        let expected = vec![(3_999_999_999, udp4(1, 60), 60), (4_000_000_000_000_000_012, udp4(2, 60), 60)];
        assert_eq!(seen, expected);
        assert_eq!(reader.frames_without_trailer(), 1);
        assert_eq!(reader.resolution_ns(), 1.0);
        assert!(reader.clock_source().contains("libmoon"));
    }

    #[test]
    fn a_capture_without_trailers_is_an_error() {
        let mut file = PcapBuilder::new(false, true);
        let mut frame = udp4(1, 60);
        frame[52..].fill(0xff);
        file.frame(1, &frame, 60).frame(2, &frame, 60);
        let error = collect(&mut open_with(&file.bytes, &options()).unwrap()).unwrap_err();
        assert!(matches!(error, CaptureError::NoTrailer { frames: 2, .. }), "{error}");
        for _ in 0..5000 {
            file.frame(3, &frame, 60);
        }
        let error = collect(&mut open_with(&file.bytes, &options()).unwrap()).unwrap_err();
        assert!(matches!(error, CaptureError::NoTrailer { .. }), "{error}");
    }
}
