//! Kinds of values that a key may hold, in the notation of the file, and their types in the program.

use std::fmt;
use std::ops::RangeInclusive;

use crate::host::plan::Rules;
use crate::host::sysctl::Sysctls;
use crate::search::{Goal, Method, Over};
use crate::units::Duration;
use crate::units::rate::{Percent, Rate};
use crate::units::sizes::FrameSizes;

/// Kind of value that a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// A file name, or a word that replaces the file name.
    File,
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number between these two limits, inclusive. An upper limit of [`u64::MAX`] means no limit.
    Count(u64, u64),
    /// Packets per second: "10 kpps".
    Rate,
    /// A duration: "2 s".
    Duration,
    /// Frame size in bytes, without the frame check sequence, or a mix of sizes: "100 B".
    Size,
    /// A percentage: "1 %".
    Percent,
    /// Goals of a search: "ndr, pdr 0.5%".
    Goals,
    /// Kernel settings: "net.core.busy_poll = 50".
    Sysctls,
}

impl Kind {
    /// Returns the expected notation, with an example.
    pub fn expected(self) -> String {
        let fixed = match self {
            Self::Text => "a text in quotes",
            Self::File => "the name of a file in quotes",
            Self::Bool => "true or false",
            Self::Choice(words) => return format!("one of {}", words.join(", ")),
            Self::Count(least, u64::MAX) => return format!("a whole number of at least {least}"),
            Self::Count(least, most) => return format!("a whole number from {least} to {most}"),
            Self::Rate => "a rate in quotes, with its unit, such as \"10 kpps\"",
            Self::Duration => "a duration in quotes, with its unit, such as \"2 s\"",
            Self::Size => {
                "a frame size in quotes, such as \"100 B\", \"imix-csit\", \"imix-trex\" or \"7x60,4x566,1x1514\""
            }
            Self::Percent => "a share in quotes, with its unit, such as \"1 %\"",
            Self::Goals => "goals in quotes, separated by commas, such as \"ndr, pdr 0.5%, 100us@99.9%\"",
            Self::Sysctls => "kernel settings in quotes, such as \"net.core.busy_poll = 50\", or \"none\"",
        };
        fixed.to_owned()
    }

    /// Returns whether the value is written without quotes.
    pub fn is_bare(self) -> bool {
        matches!(self, Self::Bool | Self::Count(..))
    }

    /// Returns the kind with limits on the number.
    pub(super) const fn within(self, limits: RangeInclusive<u64>) -> Self {
        match self {
            Self::Count(..) => Self::Count(*limits.start(), *limits.end()),
            _ => panic!("only numbers have limits"),
        }
    }
}

/// Type of a key's value.
pub(super) trait Value: Sized {
    /// Kind of the value.
    const KIND: Kind;

    /// Parses a value; `None` if the text is not valid.
    fn parse(text: &str) -> Option<Self>;

    /// Formats the value as text that parses to the same value.
    fn text(&self) -> String;

    /// Returns the value in its base unit: packets per second, ns, bytes, millionths, the plain number, or
    /// the index of the choice; 0 for texts.
    fn number(&self) -> u64 {
        0
    }

    /// Returns whether the value names a file.
    fn is_file(&self) -> bool {
        false
    }
}

/// Returns whether a text is a value of this type, within the limits of its key.
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

/// Implements [`Value`] for types that use Rust's own `parse` and `to_string`, given their kind and number.
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

/// A file named in an experiment; empty if there is none.
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

/// Rules that an intrusion detection system filters by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSet {
    /// No rules.
    None,
    /// Suricata's own event rules.
    Packaged,
    /// A cached Emerging Threats set.
    Emerging,
    /// Rules from a file.
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

impl Value for Sysctls {
    const KIND: Kind = Kind::Sysctls;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// A command line for the shell; `None` if no command is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand(pub Option<String>);

impl Value for ShellCommand {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Option<Self> {
        Some(Self(Some(text.to_owned()).filter(|text| !["", "none"].contains(&text.trim()))))
    }

    fn text(&self) -> String {
        self.0.clone().unwrap_or_else(|| "none".to_owned())
    }
}

/// Goals of a search, in order.
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

/// Implements [`Value`] for an enum, given its words in the order of its variants.
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
