//! A recording to send again: captured frames with their original gaps.
//!
//! The whole recording is in memory before the first packet is sent, so that the loop reads no files.

use crate::error::{DataplaneError, plan};

/// Maximum total size of the frames: 1 GiB.
pub const RECORDING_BYTES_MAX: usize = 1 << 30;

/// Minimum frame length in bytes: an Ethernet header.
pub const RECORDED_LEN_MIN: usize = 14;

/// Maximum frame length in bytes: an MTU of 1500 and a VLAN tag.
pub const RECORDED_LEN_MAX: usize = 1518;

/// Recorded frames and their departure times.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
    first_ns: i64,
}

/// One frame of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Departure time in ns after the first frame.
    pub(crate) after_ns: u64,
    /// Offset in the bytes of all frames.
    pub(crate) start: u32,
    pub(crate) len: u16,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} frames, {} bytes)", self.frames.len(), self.bytes.len())
    }
}

impl Recording {
    /// Adds a frame that was captured at `ts_ns`. If a frame has an earlier timestamp than the previous
    /// frame, both depart at the same time, so that the order of frames is kept.
    ///
    /// # Errors
    /// Returns an error if the frame cannot be sent, or if the recording would exceed
    /// [`RECORDING_BYTES_MAX`].
    pub fn push(&mut self, ts_ns: i64, frame: &[u8]) -> Result<(), DataplaneError> {
        let number = self.frames.len() + 1;
        if !(RECORDED_LEN_MIN..=RECORDED_LEN_MAX).contains(&frame.len()) {
            return Err(plan(
                format!("length of frame {number} of the recording"),
                frame.len(),
                "14 to 1518 bytes; longer frames result from segmentation offload: record again \
                 with `ethtool -K INTERFACE tso off gso off gro off lro off`",
            ));
        }
        if self.bytes.len() + frame.len() > RECORDING_BYTES_MAX {
            return Err(plan(
                "size of the recording in bytes",
                format!("more than {RECORDING_BYTES_MAX} with frame {number}"),
                "at most 1 GiB, because the whole recording must be in memory; send a part of the recording",
            ));
        }
        if self.frames.is_empty() {
            self.first_ns = ts_ns;
        }
        let last_ns = self.frames.last().map_or(0, |last| last.after_ns);
        let after_ns = u64::try_from(ts_ns.saturating_sub(self.first_ns)).unwrap_or(0).max(last_ns);
        let start = self.bytes.len() as u32;
        self.frames.push(Recorded { after_ns, start, len: frame.len() as u16 });
        self.bytes.extend_from_slice(frame);
        Ok(())
    }

    /// Number of frames.
    pub fn packets(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Time from the first departure to the last one, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.frames.last().map_or(0, |last| last.after_ns)
    }

    /// Mean rate in packets per second: number of gaps divided by the duration. `None` if the duration is
    /// zero.
    pub fn rate_pps(&self) -> Option<f64> {
        let duration_ns = self.duration_ns();
        (duration_ns > 0).then(|| (self.packets() - 1) as f64 * 1e9 / duration_ns as f64)
    }

    /// Median of the gaps that are not 0, in ns; 0 if there is none.
    pub(crate) fn median_gap_ns(&self) -> u64 {
        let gaps = self.frames.windows(2).map(|pair| pair[1].after_ns - pair[0].after_ns);
        let mut gaps: Vec<u64> = gaps.filter(|gap_ns| *gap_ns > 0).collect();
        let middle = gaps.len() / 2;
        if gaps.is_empty() { 0 } else { *gaps.select_nth_unstable(middle).1 }
    }

    /// Scales all gaps by one factor to reach this mean rate.
    ///
    /// # Errors
    /// Returns an error if the rate is 0 or the recording has no gaps.
    pub fn scale_to(&mut self, rate_pps: u64) -> Result<(), DataplaneError> {
        let duration_ns = self.duration_ns();
        if duration_ns == 0 || rate_pps == 0 {
            let expected = "two packets at different times, and a rate above 0, to scale the recording";
            return Err(plan(
                "recording",
                format!("{} packets in {duration_ns} ns", self.packets()),
                expected,
            ));
        }
        let wanted_ns = u128::from(self.packets() - 1) * 1_000_000_000 / u128::from(rate_pps);
        for frame in &mut self.frames {
            let scaled = u128::from(frame.after_ns) * wanted_ns / u128::from(duration_ns);
            frame.after_ns = u64::try_from(scaled).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    /// The bytes of all frames, concatenated.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The frames in order.
    pub(crate) fn frames(&self) -> &[Recorded] {
        &self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(timestamps: &[i64]) -> Recording {
        let mut recording = Recording::default();
        for (at, timestamp) in timestamps.iter().enumerate() {
            recording.push(*timestamp, &[at as u8; 60]).unwrap();
        }
        recording
    }

    fn departures(recording: &Recording) -> Vec<u64> {
        recording.frames().iter().map(|frame| frame.after_ns).collect()
    }

    #[test]
    fn keeps_gaps_and_order() {
        let recording = recording(&[1_000, 1_500, 1_400, 3_000]);
        assert_eq!(departures(&recording), [0, 500, 500, 2_000]);
        assert_eq!((recording.packets(), recording.duration_ns()), (4, 2_000));
        assert_eq!(recording.median_gap_ns(), 1_500);
        assert_eq!(recording.rate_pps(), Some(1.5e6));
        assert_eq!(recording.bytes()[recording.frames()[3].start as usize], 3);
    }

    #[test]
    fn scales_gaps_to_rate() {
        let mut recording = recording(&[0, 1_000, 4_000]);
        recording.scale_to(1_000).unwrap();
        assert_eq!(departures(&recording), [0, 500_000, 2_000_000]);
        assert_eq!(recording.rate_pps(), Some(1_000.0));
        assert!(Recording::default().scale_to(1).is_err());
        assert!(recording.scale_to(0).is_err());
    }

    #[test]
    fn rejects_frames_that_cannot_be_sent() {
        let mut recording = recording(&[0]);
        let error = recording.push(1, &[0; 1519]).unwrap_err().to_string();
        assert!(error.contains("frame 2 of the recording is 1519") && error.contains("gso off"), "{error}");
        assert!(recording.push(1, &[0; 13]).is_err());
        assert_eq!(recording.rate_pps(), None);
    }
}
