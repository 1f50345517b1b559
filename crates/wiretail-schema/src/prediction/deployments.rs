//! Parser for the deployments of the capacity model: a TOML file with a `[[deployment]]` table for each of
//! them.
//!
//! A median is a duration, or a list of three durations: value, lower and upper bound of its confidence
//! interval. `interrupts` is a list of texts as parsed by [`InterruptSpec`]. `interrupt-time` is the total
//! time per second spent in all interrupts. `overload` is two rates `A..B`: the highest rate carried and the
//! lowest rate not carried.

use std::fmt;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};

use super::capacity::Estimate;
use super::interrupt::InterruptSpec;
use crate::units::rate::Rate;
use crate::units::{Duration, UnitError};

/// A deployment given by hand or in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentSpec {
    /// Name of the deployment.
    pub name: String,
    /// Median delay through the device under test, in ns.
    pub dut_median_ns: Estimate,
    /// Median delay through a forwarder that does no work, in ns.
    pub forwarder_median_ns: Estimate,
    /// Interrupts on the device's core.
    pub interrupts: Vec<InterruptSpec>,
    /// Total time per second spent in other interrupts.
    pub interrupt_time: Option<Duration>,
    /// Measured overload.
    pub overload: Option<OverloadBounds>,
}

/// Bounds of a measured overload, in packets per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverloadBounds {
    /// Highest rate carried.
    pub carried_pps: u64,
    /// Lowest rate not carried.
    pub overloaded_pps: u64,
}

impl FromStr for OverloadBounds {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let expected = "the bounds of an overload: the highest rate carried and the lowest rate not carried, such as 80kpps..90kpps";
        let error = || UnitError { text: text.to_owned(), expected };
        let (low, high) = text.split_once("..").ok_or_else(error)?;
        let bounds = Self {
            carried_pps: low.parse::<Rate>().map_err(|_| error())?.pps,
            overloaded_pps: high.parse::<Rate>().map_err(|_| error())?.pps,
        };
        if bounds.carried_pps < bounds.overloaded_pps { Ok(bounds) } else { Err(error()) }
    }
}

/// An error in a file of deployments, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentsError {
    /// Line in the file, from 1; 0 if a required part is missing.
    pub line: usize,
    /// Description of the error, and the expected content.
    pub message: String,
}

impl fmt::Display for DeploymentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DeploymentsError {}

/// Parses deployments from TOML.
///
/// # Errors
/// Returns an error if the text is not TOML, a key is unknown or missing, or a value is invalid.
pub fn parse_deployments(text: &str) -> Result<Vec<DeploymentSpec>, DeploymentsError> {
    let error = |offset: usize, message: String| {
        let line = text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        DeploymentsError { line, message }
    };
    let document = DeTable::parse(text)
        .map_err(|wrong| error(wrong.span().map_or(0, |span| span.start), wrong.message().to_owned()))?;
    let mut found = Vec::new();
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        let tables = match value.get_ref() {
            DeValue::Array(tables) if name == "deployment" => tables,
            _ => {
                return Err(error(
                    key.span().start,
                    format!("unknown key {name}; expected tables [[deployment]]"),
                ));
            }
        };
        for table in tables {
            let at = table.span().start;
            let DeValue::Table(keys) = table.get_ref() else {
                return Err(error(at, "expected a table [[deployment]]".to_owned()));
            };
            found.push(deployment(keys, at).map_err(|(offset, message)| error(offset, message))?);
        }
    }
    if found.is_empty() {
        let message = "no deployment; expected tables [[deployment]]".to_owned();
        return Err(DeploymentsError { line: 0, message });
    }
    Ok(found)
}

/// Parses one table, which begins at `start`. An error has the offset of the key that it refers to.
fn deployment(table: &DeTable<'_>, start: usize) -> Result<DeploymentSpec, (usize, String)> {
    let (mut name, mut dut, mut forwarder) = (None, None, None);
    let (mut interrupts, mut interrupt_time, mut overload) = (Vec::new(), None, None);
    for (key, value) in table {
        let texts = match value.get_ref() {
            DeValue::String(text) => vec![text.to_string()],
            DeValue::Array(list) => {
                let text = |value: &DeValue<'_>| match value {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                };
                list.iter().filter_map(|value| text(value.get_ref())).collect()
            }
            _ => Vec::new(),
        };
        let key_name = key.get_ref().as_ref();
        let at = |message: String| (key.span().start, format!("{key_name}: {message}"));
        let one = || match texts.as_slice() {
            [text] => Ok(text.as_str()),
            _ => Err(at("expected one text in quotes".to_owned())),
        };
        match key_name {
            "name" => name = Some(one()?.to_owned()),
            "dut-median" => dut = Some(estimate(&texts).map_err(at)?),
            "forwarder-median" => forwarder = Some(estimate(&texts).map_err(at)?),
            "interrupts" => {
                let read = |text: &String| text.parse().map_err(|error: UnitError| at(error.to_string()));
                interrupts = texts.iter().map(read).collect::<Result<_, _>>()?;
            }
            "interrupt-time" => {
                interrupt_time = Some(one()?.parse().map_err(|error: UnitError| at(error.to_string()))?)
            }
            "overload" => overload = Some(one()?.parse().map_err(|error: UnitError| at(error.to_string()))?),
            _ => {
                return Err(at("unknown key; expected name, dut-median, forwarder-median, interrupts, interrupt-time or \
                               overload"
                    .to_owned()));
            }
        }
    }
    let missing = |key: &str| (start, format!("the deployment has no {key}"));
    Ok(DeploymentSpec {
        name: name.ok_or_else(|| missing("name"))?,
        dut_median_ns: dut.ok_or_else(|| missing("dut-median"))?,
        forwarder_median_ns: forwarder.ok_or_else(|| missing("forwarder-median"))?,
        interrupts,
        interrupt_time,
        overload,
    })
}

/// Parses a median with its interval from one or three durations.
fn estimate(texts: &[String]) -> Result<Estimate, String> {
    let expected = "expected a duration such as \"14.5us\", or a list of three: value, lower and upper bound";
    let values = texts.iter().map(|text| text.parse::<Duration>()).collect::<Result<Vec<_>, _>>();
    let values: Vec<f64> =
        values.map_err(|error| error.to_string())?.iter().map(|duration| duration.ns as f64).collect();
    match values.as_slice() {
        [value] => Ok(Estimate::exact(*value)),
        [value, low, high] if low <= value && value <= high => {
            Ok(Estimate { value: *value, low: *low, high: Some(*high) })
        }
        _ => Err(expected.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_deployments() {
        let text = r#"
[[deployment]]
name = "bare metal"
dut-median = ["14.5us", "14.4us", "14.6us"]
forwarder-median = "3.1us"
interrupts = ["LOC 250/s 3.2us", "IWI 7500/90s 4us"]
interrupt-time = "1us"
overload = "80kpps..90kpps"

[[deployment]]
name = "no interrupts"
dut-median = "2us"
forwarder-median = "1us"
"#;
        let found = parse_deployments(text).unwrap();
        assert_eq!(found[0].dut_median_ns, Estimate { value: 14_500.0, low: 14_400.0, high: Some(14_600.0) });
        assert_eq!((found[0].interrupts.len(), found[0].interrupt_time), (2, Some(Duration::from_ns(1000))));
        let overload = OverloadBounds { carried_pps: 80_000, overloaded_pps: 90_000 };
        assert_eq!(found[0].overload, Some(overload));
        assert_eq!((found[1].name.as_str(), found[1].interrupts.len()), ("no interrupts", 0));
    }

    #[test]
    fn reports_errors_with_line() {
        let wrong = |text: &str| parse_deployments(text).unwrap_err().to_string();
        assert!(wrong("").contains("[[deployment]]"));
        assert!(wrong("[[deployments]]\nname = \"x\"").contains("unknown key deployments"));
        assert!(wrong("\n[[deployment]]\nname = \"x\"").contains("no dut-median"));
        let wrong = wrong("[[deployment]]\nname = \"x\"\ndut-median = \"3\"\nforwarder-median = \"1us\"");
        assert!(wrong.starts_with("line 3: dut-median: '3' is not a duration"), "{wrong}");
        for bounds in ["90kpps..80kpps", "80kpps", "80..90", "1kpps..1kpps"] {
            assert!(bounds.parse::<OverloadBounds>().is_err(), "{bounds}");
        }
        assert!(estimate(&["3us", "4us", "5us"].map(str::to_owned)).is_err());
    }
}
