//! Frame sizes of synthetic traffic: a single length, or a mix of several.
//!
//! Experiment files and the command line use the same notation. Lengths exclude the frame check sequence of 4
//! bytes: a packet that is commonly said to be 64 bytes long has a length of 60 in this notation.

use std::fmt;
use std::str::FromStr;

use crate::units::UnitError;

/// Shortest frame in bytes, the minimum of Ethernet.
pub const SIZE_MIN: u16 = 60;

/// Longest frame in bytes. Load generators and links may allow less.
pub const SIZE_MAX: u16 = 9000;

/// Largest number of frames in one cycle of a mix.
pub const CYCLE_MAX: u32 = 4096;

/// Named mixes: lengths in bytes, and the number of frames of each per cycle.
///
/// - `imix-csit`: "IMIX" of FD.io CSIT, 7 of 64, 4 of 570 and 1 of 1518 bytes with frame check sequence
///   (CSIT's methodology, "Packet sizes": `IMIX_v4_1`).
/// - `imix-trex`: the mix of Cisco's TRex, `imix_table` in its `scripts/stl/imix.py`: 28, 16 and 4 packets of
///   60, 590 and 1514 bytes, to which the NIC adds the frame check sequence. (Some versions of that file have
///   20 instead of 16.)
pub const NAMED_MIXES: [(&str, [(u16, u32); 3]); 2] =
    [("imix-csit", [(60, 7), (566, 4), (1514, 1)]), ("imix-trex", [(60, 28), (590, 16), (1514, 4)])];

/// Sizes of frames, in bytes without the frame check sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameSizes {
    /// All frames have the same length.
    Fixed(u16),
    /// A mix of several lengths.
    Mix {
        /// Lengths, and the number of frames of each per cycle.
        parts: Vec<(u16, u32)>,
        /// Name of the mix if it is one of [`NAMED_MIXES`] and was given by name.
        name: Option<&'static str>,
    },
}

const SIZES: &str = "a frame size of 60 to 9000 bytes such as 100B, imix-csit, imix-trex, or a mix of up to \
                     4096 frames such as 7x60,4x566,1x1514 (sizes without the frame check sequence)";

impl FrameSizes {
    /// Returns the lengths in bytes, and the number of frames of each per cycle.
    pub fn parts(&self) -> Vec<(u16, u32)> {
        match self {
            Self::Fixed(len) => vec![(*len, 1)],
            Self::Mix { parts, .. } => parts.clone(),
        }
    }

    /// Returns the mean length in bytes.
    pub fn mean(&self) -> f64 {
        let (mut bytes, mut frames) = (0.0, 0.0);
        for (len, count) in self.parts() {
            bytes += f64::from(len) * f64::from(count);
            frames += f64::from(count);
        }
        bytes / frames
    }
}

impl FromStr for FrameSizes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), expected: SIZES };
        let trimmed = text.trim();
        if let Some((name, parts)) = NAMED_MIXES.iter().find(|(name, _)| *name == trimmed) {
            return Ok(Self::Mix { parts: parts.to_vec(), name: Some(name) });
        }
        if !trimmed.contains('x') {
            // A bare number is ambiguous, so a single length requires a unit.
            let number = trimmed.strip_suffix('B').ok_or_else(error)?;
            return length(number).map(Self::Fixed).ok_or_else(error);
        }
        let part = |part: &str| {
            let (count, len) = part.split_once('x')?;
            let len = len.trim_end();
            Some((length(len.strip_suffix('B').unwrap_or(len))?, whole(count)?))
        };
        let parts: Vec<_> = trimmed.split(',').map(part).collect::<Option<_>>().ok_or_else(error)?;
        let frames: u64 = parts.iter().map(|(_, count)| u64::from(*count)).sum();
        let fits = frames <= u64::from(CYCLE_MAX) && parts.iter().all(|(_, count)| *count > 0);
        if fits { Ok(Self::Mix { parts, name: None }) } else { Err(error()) }
    }
}

/// Parses a frame length and checks its limits.
fn length(text: &str) -> Option<u16> {
    u16::try_from(whole(text)?).ok().filter(|len| (SIZE_MIN..=SIZE_MAX).contains(len))
}

/// Parses a whole number without a sign.
fn whole(text: &str) -> Option<u32> {
    let digits = text.trim();
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(len) => write!(f, "{len}B"),
            Self::Mix { name: Some(name), .. } => f.write_str(name),
            Self::Mix { parts, name: None } => {
                for (at, (len, count)) in parts.iter().enumerate() {
                    write!(f, "{}{count}x{len}", if at == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_sizes_with_unit_or_by_name() {
        let sizes = |text: &str| text.parse::<FrameSizes>();
        assert_eq!(sizes("100B"), Ok(FrameSizes::Fixed(100)));
        assert_eq!(sizes(" 100 B "), Ok(FrameSizes::Fixed(100)));
        let mix = FrameSizes::Mix { parts: vec![(60, 7), (566, 4), (1514, 1)], name: None };
        assert_eq!(sizes("7x60,4x566,1x1514"), Ok(mix.clone()));
        assert_eq!(sizes("7x60 B, 4x566B, 1 x 1514 B"), Ok(mix));
        for wrong in [
            "",
            "100",
            "59B",
            "9001B",
            "-100B",
            "+100B",
            "1.5B",
            "0x60",
            "x60",
            "7x",
            "7x60,",
            ",7x60",
            "4097x60",
            "imix",
            "7x59",
            "1x60x2",
            "B",
            "99999999999x60",
        ] {
            let message = sizes(wrong).unwrap_err().to_string();
            assert!(message.contains("imix-csit"), "{wrong}: {message}");
        }
    }

    #[test]
    fn named_mixes_match_their_sources() {
        let csit: FrameSizes = "imix-csit".parse().unwrap();
        assert_eq!((csit.to_string().as_str(), csit.parts().len()), ("imix-csit", 3));
        // CSIT states 353.83 bytes, with frame check sequence.
        assert!((csit.mean() + 4.0 - 353.833).abs() < 0.001, "{}", csit.mean());
        let trex: FrameSizes = "imix-trex".parse().unwrap();
        assert_eq!(trex.parts(), [(60, 28), (590, 16), (1514, 4)]);
        assert_eq!(FrameSizes::Fixed(100).mean(), 100.0);
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            if let Ok(sizes) = text.parse::<FrameSizes>() {
                prop_assert!(sizes.parts().iter().all(|(len, count)| *len >= SIZE_MIN && *count > 0));
            }
        }

        #[test]
        fn nearly_valid_text_stays_in_range(text in "[0-9xB, ]{0,24}") {
            if let Ok(sizes) = text.parse::<FrameSizes>() {
                prop_assert_eq!(sizes.to_string().parse(), Ok(sizes));
            }
        }

        #[test]
        fn mixes_round_trip(parts in prop::collection::vec((SIZE_MIN..=SIZE_MAX, 1..=512u32), 1..=8)) {
            let mix = FrameSizes::Mix { parts, name: None };
            prop_assert_eq!(mix.to_string().parse(), Ok(mix));
        }
    }
}
