//! The data behind a plot.
//!
//! One type for every figure: the analysis fills it, the report draws it, the CSV writer prints it.
//! A figure holds the numbers as they are (ns, packets, seconds); how they are scaled for the eye
//! is the report's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One plot with everything needed to draw it and to write it as CSV.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Stable name: part of file names and of links, lower-case with dashes.
    pub id: String,
    /// Heading for people.
    pub title: String,
    /// What the reader should look for, in one or two sentences, and what the figure rests on.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// How the points are drawn.
    pub mark: Mark,
    /// The data, one entry a curve.
    pub series: Vec<Series>,
    /// Horizontal or vertical reference lines, such as latency budgets.
    pub lines: Vec<ReferenceLine>,
}

/// An axis: what it shows, in which unit, on which scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What is shown, for people: "one-way delay".
    pub label: String,
    /// Column name in the CSV, with its unit: `delay_ns`.
    pub column: String,
    /// Unit of the values.
    pub unit: Unit,
    /// How values are spread over the axis.
    pub scale: Scale,
}

/// Unit of the values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds; shown as ns, µs, ms or s.
    Nanoseconds,
    /// Seconds since the start of the measurement.
    Seconds,
    /// A number of packets.
    Packets,
    /// Packets a second.
    PacketsPerSecond,
    /// A share between 0 and 1.
    Ratio,
    /// A percentile p in percent, between 0 and 100.
    Percentile,
    /// A number without a unit.
    Number,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Even.
    Linear,
    /// Logarithmic to base 10.
    Log,
    /// For percentiles: position log10(1/(1-p)), so that each further nine takes the same space.
    Nines,
}

/// How the points of a figure are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A line from point to point.
    Line,
    /// A line that keeps each value up to the next point.
    Step,
    /// Points alone.
    Point,
    /// Bars from zero, of width `Series::bar_width`.
    Bar,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name in the legend and in the CSV.
    pub name: String,
    /// Horizontal values.
    pub x: Vec<f64>,
    /// Vertical values, as many as `x`.
    pub y: Vec<f64>,
    /// Lower bound of the confidence interval at each point, or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    /// Upper bound of the confidence interval at each point, or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    /// Whether the value at each point rests on enough packets, or empty where all do; points that
    /// do not are drawn faint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<bool>,
    /// Width of each bar in the unit of `x`; `x` is its left edge. None for other marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar_width: Option<f64>,
}

/// A reference line with its label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceLine {
    /// Which axis the value lies on.
    pub on: AxisName,
    /// Where.
    pub value: f64,
    /// Text beside the line.
    pub label: String,
}

/// One of the two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AxisName {
    /// Horizontal axis: the line is vertical.
    X,
    /// Vertical axis: the line is horizontal.
    Y,
}
