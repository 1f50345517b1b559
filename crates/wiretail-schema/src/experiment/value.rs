//! What a key may hold: the kinds of values, as files write them, and the types that the program reads them as.

use std::fmt;
use std::ops::RangeInclusive;

use crate::host::plan::Rules;
use crate::search::{Goal, Method, Over};
use crate::units::Duration;
use crate::units::rate::{Percent, Rate};
use crate::units::sizes::FrameSizes;

/// What kind of value a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// The name of a file, or a word that stands for one.
    File,
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number from the first to the second; [`u64::MAX`] stands for no upper limit.
    Count(u64, u64),
    /// Packets a second: "10 kpps".
    Rate,
    /// A span of time: "2 s".
    Duration,
    /// Bytes of a frame on the wire, without the frame check sequence, or a mix of sizes: "100 B".
    Size,
    /// A share in percent: "1 %".
    Percent,
    /// What a search looks for: "ndr, pdr 0.5%".
    Goals,
}

impl Kind {
    /// What is expected, with an example.
    pub fn expected(self) -> String {
        let fixed = match self {
            Self::Text => "a text in quotes",
            Self::File => "the name of a file in quotes",
            Self::Bool => "true or false",
            Self::Choice(words) => return format!("one of {}", words.join(", ")),
            Self::Count(least, u64::MAX) => return format!("a whole number of {least} or more"),
            Self::Count(least, most) => return format!("a whole number from {least} to {most}"),
            Self::Rate => "a rate in quotes, with its unit, such as \"10 kpps\"",
            Self::Duration => "a duration in quotes, with its unit, such as \"2 s\"",
            Self::Size => {
                "a frame size in quotes, such as \"100 B\", \"imix-csit\", \"imix-trex\" or \"7x60,4x566,1x1514\""
            }
            Self::Percent => "a share in quotes, with its unit, such as \"1 %\"",
            Self::Goals => "goals in quotes, with commas between, such as \"ndr, pdr 0.5%, 100us@99.9%\"",
        };
        fixed.to_owned()
    }

    /// Whether files write it without quotes.
    pub fn is_bare(self) -> bool {
        matches!(self, Self::Bool | Self::Count(..))
    }

    /// Numbers of this range instead of all.
    pub(super) const fn within(self, limits: RangeInclusive<u64>) -> Self {
        match self {
            Self::Count(..) => Self::Count(*limits.start(), *limits.end()),
            _ => panic!("only numbers have limits"),
        }
    }
}

/// The type of a key's value.
pub(super) trait Value: Sized {
    /// How files write it.
    const KIND: Kind;

    /// Reads it; None for a text that is not such a value.
    fn parse(text: &str) -> Option<Self>;

    /// Writes it so that it reads as the same value.
    fn text(&self) -> String;

    /// In its base unit: packets a second, ns, bytes, millionths, the number itself, the position among choices; 0 for texts.
    fn number(&self) -> u64 {
        0
    }

    /// Whether it names a file.
    fn is_file(&self) -> bool {
        false
    }
}

/// Whether a text is a value of this type, within the limits of its key.
pub(super) fn takes<T: Value>(kind: Kind, text: &str) -> bool {
    let is_within = match kind {
        Kind::Count(least, most) => text.parse().is_ok_and(|number: u64| (least..=most).contains(&number)),
        _ => true,
    };
    is_within && T::parse(text).is_some()
}

impl Value for String {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl Value for bool {
    const KIND: Kind = Kind::Bool;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> u64 {
        u64::from(*self)
    }
}

/// The types that are written as Rust's own `parse` and `to_string` have them: with the kind, and their number.
macro_rules! plain_values {
    ($($Type:ty: $kind:expr, |$value:ident| $number:expr;)+) => {$(
        impl Value for $Type {
            const KIND: Kind = $kind;

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn text(&self) -> String {
                self.to_string()
            }

            fn number(&self) -> u64 {
                let $value = self;
                $number
            }
        }
    )+};
}

plain_values! {
    u16: Kind::Count(0, u16::MAX as u64), |number| u64::from(*number);
    u32: Kind::Count(0, u32::MAX as u64), |number| u64::from(*number);
    u64: Kind::Count(0, u64::MAX), |number| *number;
    Rate: Kind::Rate, |rate| rate.pps;
    FrameSizes: Kind::Size, |sizes| sizes.mean().round() as u64;
    Percent: Kind::Percent, |share| share.millionths;
}

impl Value for Duration {
    const KIND: Kind = Kind::Duration;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|duration: &Self| duration.ns >= 0)
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> u64 {
        self.ns_unsigned()
    }
}

/// A file that an experiment names; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileName(pub String);

impl Value for FileName {
    const KIND: Kind = Kind::File;

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn text(&self) -> String {
        self.0.clone()
    }

    fn is_file(&self) -> bool {
        !self.0.is_empty()
    }
}

/// The rules that an intrusion detection system filters by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSet {
    /// None.
    None,
    /// Suricata's own event rules.
    Packaged,
    /// A cached Emerging Threats set.
    Emerging,
    /// Those of a file.
    File(String),
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Packaged => "packaged",
            Self::Emerging => "emerging",
            Self::File(file) => file,
        })
    }
}

impl Value for RuleSet {
    const KIND: Kind = Kind::File;

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" => Self::None,
            "packaged" => Self::Packaged,
            "emerging" => Self::Emerging,
            file => Self::File(file.to_owned()),
        })
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl Value for Rules {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// What a search looks for, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Goals(pub Vec<Goal>);

impl Value for Goals {
    const KIND: Kind = Kind::Goals;

    fn parse(text: &str) -> Option<Self> {
        Goal::list(text).ok().map(Self)
    }

    fn text(&self) -> String {
        self.0.iter().map(Goal::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Reads and writes an enum by its words, in the order of its variants.
macro_rules! choice_value {
    ($Type:ident { $($Variant:ident = $word:literal),+ }) => {
        impl $crate::experiment::value::Value for $Type {
            const KIND: $crate::experiment::value::Kind = $crate::experiment::value::Kind::Choice(&[$($word),+]);

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$Variant),)+
                    _ => None,
                }
            }

            fn text(&self) -> String {
                match self { $(Self::$Variant => $word,)+ }.to_owned()
            }

            fn number(&self) -> u64 {
                *self as u64
            }
        }
    };
}
pub(super) use choice_value;

choice_value!(Method { Mlrsearch = "mlrsearch", Binary = "binary", Linear = "linear" });
choice_value!(Over { Rate = "rate", Burst = "burst" });
