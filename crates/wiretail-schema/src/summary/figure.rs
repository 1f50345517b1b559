//! Data of a plot.
//!
//! All figures share one type. The analysis fills it in, the report draws it, and the CSV writer prints it. A
//! figure holds plain values (ns, packets, seconds); the report scales them for display.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plot, with everything needed to draw it and to write it as CSV.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Stable identifier, lower case with dashes. Part of file names and links.
    pub id: String,
    /// Heading of the figure.
    pub title: String,
    /// Caption of one or two sentences: what to look for, and the data that the figure is based on.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// How the points are drawn.
    pub mark: Mark,
    /// Curves of the figure.
    pub series: Vec<Series>,
    /// Horizontal or vertical reference lines, such as latency budgets.
    pub lines: Vec<ReferenceLine>,
}

/// An axis: label, unit and scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Label of the axis: "one-way delay".
    pub label: String,
    /// Column name in the CSV file, with its unit: `delay_ns`.
    pub column: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Scale of the axis.
    pub scale: Scale,
}

/// Unit of the values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds; displayed as ns, µs, ms or s.
    Nanoseconds,
    /// Seconds since the start of the measurement.
    Seconds,
    /// A number of packets.
    Packets,
    /// Packets per second.
    PacketsPerSecond,
    /// A ratio between 0 and 1.
    Ratio,
    /// A percentile p in percent, between 0 and 100.
    Percentile,
    /// A number without a unit.
    Number,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic, base 10.
    Log,
    /// For percentiles: the position is log10(1/(1-p)), so that each further nine takes the same space.
    Nines,
}

/// How the points of a figure are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A step line that keeps each value until the next point.
    Step,
    /// Points only.
    Point,
    /// Bars from zero with width `Series::bar_width`.
    Bar,
}

/// A curve of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name in the legend and in the CSV file.
    pub name: String,
    /// Horizontal values.
    pub x: Vec<f64>,
    /// Vertical values, one per value of `x`.
    pub y: Vec<f64>,
    /// Lower bound of the confidence interval at each point; empty if there are no intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    /// Upper bound of the confidence interval at each point; empty if there are no intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    /// Whether enough packets support the value at each point; empty if all points are supported. Unsupported
    /// points are drawn faint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<bool>,
    /// Width of each bar in the unit of `x`, which is the left edge of the bar. Null for other marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar_width: Option<f64>,
}

/// A reference line with its label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceLine {
    /// Axis that the value belongs to.
    pub on: AxisName,
    /// Position of the line on that axis.
    pub value: f64,
    /// Text next to the line.
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
