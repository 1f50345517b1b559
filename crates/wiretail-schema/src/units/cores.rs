//! Sets of CPU cores, in the kernel's notation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of CPU cores in the kernel's notation: `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CoreSet(Vec<u32>);

impl CoreSet {
    /// Creates a set from core numbers in any order.
    pub fn new(cores: impl IntoIterator<Item = u32>) -> Self {
        let mut cores: Vec<u32> = cores.into_iter().collect();
        cores.sort_unstable();
        cores.dedup();
        CoreSet(cores)
    }

    /// Parses a list such as `0-3,8`. Blank text gives an empty set.
    ///
    /// # Errors
    /// Returns a message with the expected format if the text is not a list of cores.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not a list of cores; expected a list such as 0-3,8");
        let mut cores = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                return Err(fault());
            };
            if first > last || last > 65_535 {
                return Err(fault());
            }
            cores.extend(first..=last);
        }
        Ok(CoreSet::new(cores))
    }

    /// Returns the cores in ascending order.
    pub fn cores(&self) -> &[u32] {
        &self.0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains `core`.
    pub fn contains(&self, core: u32) -> bool {
        self.0.binary_search(&core).is_ok()
    }

    /// Returns the cores that are not in `other`.
    pub fn without(&self, other: &CoreSet) -> CoreSet {
        CoreSet(self.0.iter().copied().filter(|core| !other.contains(*core)).collect())
    }

    /// Returns the union of both sets.
    pub fn or(&self, other: &CoreSet) -> CoreSet {
        CoreSet::new(self.0.iter().chain(&other.0).copied())
    }

    /// Returns the intersection of both sets.
    pub fn and(&self, other: &CoreSet) -> CoreSet {
        CoreSet(self.0.iter().copied().filter(|core| other.contains(*core)).collect())
    }

    /// Formats the set as a kernel CPU mask: hexadecimal words of 32 cores, highest first.
    pub fn mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word = |number: u32| {
            let bits = self.0.iter().filter(|core| **core / 32 == number);
            bits.fold(0_u32, |word, core| word | 1 << (core % 32))
        };
        let text: Vec<String> = (0..words)
            .rev()
            .map(|number| {
                if number + 1 == words {
                    format!("{:x}", word(number))
                } else {
                    format!("{:08x}", word(number))
                }
            })
            .collect();
        text.join(",")
    }

    /// Parses a kernel CPU mask: `3`, `ff,00000000`.
    ///
    /// # Errors
    /// Returns a message with the expected format if the text is not a mask.
    pub fn parse_mask(text: &str) -> Result<Self, String> {
        let mut cores = Vec::new();
        for (number, word) in text.trim().rsplit(',').enumerate() {
            let word = u32::from_str_radix(word, 16).map_err(|_| {
                format!("{text:?} is not a mask of cores; expected hexadecimal words such as ff,00000003")
            })?;
            let first = 32 * u32::try_from(number).unwrap_or(u32::MAX / 32);
            cores.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit));
        }
        Ok(CoreSet::new(cores))
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (number, run) in runs.enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for CoreSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CoreSet::parse(&text)
    }
}

impl From<CoreSet> for String {
    fn from(set: CoreSet) -> String {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CoreSet {
        CoreSet::parse(text).expect("a list")
    }

    #[test]
    fn lists_and_masks_round_trip() {
        for text in ["", "0", "0-1", "0-3,8", "1,3,5-7,64"] {
            assert_eq!(set(text).to_string(), text);
            assert_eq!(CoreSet::parse_mask(&set(text).mask()), Ok(set(text)), "{text}");
        }
        assert_eq!(set("0-1,32,63").mask(), "80000001,00000003");
        assert_eq!(set("64").mask(), "1,00000000,00000000");
        for wrong in ["a", "3-1", "0-", "1-99999999"] {
            assert!(CoreSet::parse(wrong).is_err(), "{wrong}");
        }
        assert!(CoreSet::parse_mask("xyz").is_err());
    }
}
