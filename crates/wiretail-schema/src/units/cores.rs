//! Sets of cores, as the kernel writes them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of cores, written as the kernel writes it: `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CoreSet(Vec<u32>);

impl CoreSet {
    /// Of these cores.
    pub fn new(cores: impl IntoIterator<Item = u32>) -> Self {
        let mut cores: Vec<u32> = cores.into_iter().collect();
        cores.sort_unstable();
        cores.dedup();
        CoreSet(cores)
    }

    /// Parses `0-3,8`; blank is none.
    ///
    /// # Errors
    /// A message with what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is no list of cores; expected one like 0-3,8");
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

    /// In ascending order.
    pub fn cores(&self) -> &[u32] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `core` is in it.
    pub fn contains(&self, core: u32) -> bool {
        self.0.binary_search(&core).is_ok()
    }

    /// Those that are not in `other`.
    pub fn without(&self, other: &CoreSet) -> CoreSet {
        CoreSet(self.0.iter().copied().filter(|core| !other.contains(*core)).collect())
    }

    /// Those that are in either.
    pub fn or(&self, other: &CoreSet) -> CoreSet {
        CoreSet::new(self.0.iter().chain(&other.0).copied())
    }

    /// Those that are in both.
    pub fn and(&self, other: &CoreSet) -> CoreSet {
        CoreSet(self.0.iter().copied().filter(|core| other.contains(*core)).collect())
    }

    /// As the kernel's masks are written: hexadecimal words of 32 cores, the highest first.
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

    /// Parses a mask: `3`, `ff,00000000`.
    ///
    /// # Errors
    /// A message with what was expected.
    pub fn parse_mask(text: &str) -> Result<Self, String> {
        let mut cores = Vec::new();
        for (number, word) in text.trim().rsplit(',').enumerate() {
            let word = u32::from_str_radix(word, 16).map_err(|_| {
                format!("{text:?} is no mask of cores; expected hexadecimal words like ff,00000003")
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
    fn lists_and_masks() {
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
