//! A chart with one row per value: the predicted value with its interval, drawn over the range of the
//! measured value.

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::summary::figure::{Axis, Scale};

use crate::html::Markup;
use crate::plot::legend::{shortened, text_width};
use crate::plot::marks::{n, shape};
use crate::plot::scale::{self, Extent, Ruler};
use crate::plot::{path, text};

const WIDTH: f64 = 960.0;
/// Height of the key, of a row, and of the axis at the bottom.
const KEY: f64 = 30.0;
const ROW: f64 = 34.0;
const FOOT: f64 = 42.0;
/// Half the height of the bar that shows the measured range.
const HALF: f64 = 11.0;

/// Axis and key of a chart.
pub struct Frame<'a> {
    /// The predicted quantity, its unit and scale.
    pub axis: Axis,
    /// Key texts for the predicted mark and for the measured range.
    pub key: [&'a str; 2],
}

pub struct Lane {
    pub name: String,
    /// Tooltip with the values of the row, one per line.
    pub tip: String,
    /// Predicted value and its bounds, in the unit of the axis.
    pub predicted: Estimate,
    /// Known bounds of the measured value.
    pub measured: [Option<f64>; 2],
    /// The measured value, if it is a single value.
    pub middle: Option<f64>,
}

/// Draws the rows, if there are any.
pub fn draw(m: &mut Markup, frame: &Frame<'_>, lanes: &[Lane]) {
    let axis = &frame.axis;
    let values = lanes.iter().flat_map(|lane| {
        let Estimate { value, low, high } = lane.predicted;
        [Some(value), Some(low), high, lane.measured[0], lane.measured[1], lane.middle]
    });
    let Some(extent) = Extent::of(values.flatten(), axis.scale) else { return };
    let extent = match axis.scale {
        Scale::Linear => {
            let air = (extent.high - extent.low).max(extent.high * 0.1) * 0.06;
            Extent { low: (extent.low - air).max(0.0), high: extent.high + air }
        }
        _ => extent,
    };
    let domain = scale::domain(axis, extent, extent.low < 0.35 * extent.high, true);
    let widest = lanes.iter().map(|lane| text_width(&shortened(&lane.name))).fold(60.0, f64::max);
    let ruler = Ruler::new(axis.scale, domain, (widest * 1.08 + 18.0).min(WIDTH / 2.0), WIDTH - 24.0);
    let height = KEY + ROW * lanes.len() as f64 + FOOT;
    let svg = m.tag("svg").class("plot tips").attr("viewBox", format_args!("0 0 {WIDTH} {}", n(height)));
    svg.attr("role", "img").attr("aria-label", said(lanes)).body(|m| {
        key(m, frame.key, ruler.start);
        granularity(m, axis, &ruler, domain, KEY + ROW * lanes.len() as f64);
        for (place, one) in lanes.iter().enumerate() {
            lane(m, &ruler, one, KEY + ROW * (place as f64 + 0.5));
        }
    });
    m.line();
}

/// The chart as text, for screen readers.
fn said(lanes: &[Lane]) -> String {
    lanes
        .iter()
        .map(|lane| format!("{}: {}.", lane.name, lane.tip.replace('\n', "; ")))
        .collect::<Vec<_>>()
        .join(" ")
}

fn key(m: &mut Markup, [predicted, measured]: [&str; 2], left: f64) {
    let entries = [("s0", predicted), ("s1", measured)];
    let mut x = left;
    for (place, (class, name)) in entries.into_iter().enumerate() {
        m.tag("g").class(format_args!("key {class}")).body(|m| {
            if place == 0 {
                path(m, "line", format!("M{} 12h20", n(x)));
                path(m, "knot", shape(0, x + 10.0, 12.0));
            } else {
                stretch(m, x, x + 20.0, 12.0, 6.0);
            }
            text(m, "label", x + 28.0, 16.0, "start", name);
        });
        x += 28.0 + text_width(name) + 28.0;
    }
}

fn granularity(m: &mut Markup, axis: &Axis, ruler: &Ruler, domain: Extent, bottom: f64) {
    let ticks = scale::ticks(axis, domain, ruler.end - ruler.start, 72.0);
    for tick in &ticks.major {
        let Some(at) = ruler.at(tick.value) else { continue };
        path(m, "grid", format!("M{} {}V{}", n(at), n(KEY), n(bottom)));
        text(m, "label", at, bottom + 17.0, "middle", &tick.label);
    }
    path(m, "axis", format!("M{} {}H{}", n(ruler.start), n(bottom), n(ruler.end)));
    // If the labels contain their units, the name of the axis has none.
    let name = match ticks.unit {
        "" => axis.label.clone(),
        unit => format!("{} [{unit}]", axis.label),
    };
    text(m, "name", ruler.end, bottom + 36.0, "end", &name);
}

fn lane(m: &mut Markup, ruler: &Ruler, lane: &Lane, y: f64) {
    m.tag("g").attr("data-tip", format!("{}\n{}", lane.name, lane.tip)).body(|m| {
        // Makes the whole row react to the pointer.
        let catch = m.tag("rect").class("catch").attr("x", 0).attr("y", n(y - ROW / 2.0));
        catch.attr("width", n(WIDTH)).attr("height", n(ROW)).close();
        text(m, "name", 0.0, y + 4.0, "start", &shortened(&lane.name));
        let at = |value: Option<f64>| value.map(|value| ruler.clamped(value));
        m.tag("g").class("s1").body(|m| {
            match lane.measured.map(at) {
                [Some(from), Some(to)] => stretch(m, from, to, y, HALF),
                [Some(one), None] | [None, Some(one)] => edge(m, one, y, HALF),
                [None, None] => {}
            }
            if let Some(middle) = at(lane.middle) {
                path(m, "knot", shape(1, middle, y));
            }
        });
        m.tag("g").class("s0").body(|m| {
            let Estimate { value, low, high } = lane.predicted;
            let (from, to) = (ruler.clamped(low), high.map_or(ruler.end, |high| ruler.clamped(high)));
            if !lane.predicted.is_exact() {
                path(m, "line", format!("M{} {}H{}", n(from), n(y), n(to)));
                path(m, "line", format!("M{} {}v8", n(from), n(y - 4.0)));
                // Without an upper bound, the line extends to the edge of the drawing.
                if high.is_some() {
                    path(m, "line", format!("M{} {}v8", n(to), n(y - 4.0)));
                }
            }
            path(m, "knot", shape(0, ruler.clamped(value), y));
        });
    });
    m.line();
}

fn stretch(m: &mut Markup, from: f64, to: f64, y: f64, half: f64) {
    path(m, "band", format!("M{} {}H{}v{}H{}z", n(from), n(y - half), n(to), n(2.0 * half), n(from)));
    edge(m, from, y, half);
    edge(m, to, y, half);
}

fn edge(m: &mut Markup, at: f64, y: f64, half: f64) {
    path(m, "line", format!("M{} {}v{}", n(at), n(y - half), n(2.0 * half)));
}
