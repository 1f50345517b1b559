//! Renders a figure as SVG. All information is visible without scripts, so that it also appears in print.

pub mod hover;
pub mod legend;
pub mod marks;
pub mod scale;

use wiretail_schema::summary::figure::{Axis, AxisName, Figure, Mark, ReferenceLine, Scale, Unit};

use self::legend::Legend;
use self::marks::{Paths, n};
use self::scale::{Extent, Ruler, Ticks};
use crate::csv::length;
use crate::html::Markup;

/// Space that a figure takes up on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Full page width.
    Wide,
    /// Half of the page width.
    Half,
}

impl Size {
    fn width(self) -> f64 {
        match self {
            Self::Wide => 960.0,
            Self::Half => 468.0,
        }
    }

    fn height(self) -> f64 {
        match self {
            Self::Wide => 400.0,
            Self::Half => 310.0,
        }
    }
}

/// A figure with its layout of axes, ticks and legend.
#[derive(Debug)]
pub struct Plot<'a> {
    figure: &'a Figure,
    width: f64,
    height: f64,
    pub x: Ruler,
    /// Vertical axis; `start` is its lower end, the larger number.
    pub y: Ruler,
    x_ticks: Ticks,
    y_ticks: Ticks,
    legend: Legend,
    /// Whether the legend is next to the name of the vertical axis.
    beside: bool,
    empty: bool,
}

/// Number of colors. Further curves reuse the colors, starting with the first, but have another shape.
const COLOURS: usize = 6;
const HEAD: f64 = 26.0;

impl<'a> Plot<'a> {
    pub fn new(figure: &'a Figure, size: Size) -> Self {
        let (width, height) = (size.width(), size.height());
        let data = extents(figure);
        let empty = data.is_none();
        let (x_data, y_data) = data.unwrap_or((PLACEHOLDER, PLACEHOLDER));
        let x_reach = reach(figure, AxisName::X, &figure.x, x_data);
        let y_reach = reach(figure, AxisName::Y, &figure.y, y_data);
        let x_domain = scale::domain(&figure.x, pad(figure, x_reach), false, figure.x.scale == Scale::Log);
        let above = if figure.mark == Mark::Point { raised(&figure.y, y_reach) } else { y_reach };
        let mut y_domain = scale::domain(&figure.y, above, from_zero(figure, y_reach), true);
        if figure.y.scale == Scale::Log && figure.y.unit == Unit::Packets {
            // A single packet must be visible, and distinguishable from zero packets, which are drawn on the
            // axis.
            y_domain.low = y_reach.low * 0.6;
        }

        let labels = legend_labels(figure, y_domain);
        let legend = Legend::new(figure, &labels, width - 80.0);
        let two_rows = figure.x.scale == Scale::Nines;
        // The legend is placed next to the name of the vertical axis if there is room, and in separate rows
        // otherwise.
        let beside = legend.fits(width - 60.0 - legend::text_width(&figure.y.label) * 1.6);
        let top = HEAD + if beside { 0.0 } else { legend.height() };
        let bottom = height - if two_rows { 58.0 } else { 44.0 };
        let y_ticks = scale::ticks(&figure.y, y_domain, bottom - top, 34.0);
        let widest = y_ticks.major.iter().map(|t| legend::text_width(&t.label)).fold(0.0, f64::max);
        let left = (widest + 12.0).clamp(34.0, width / 3.0);
        let right = width - 14.0;
        let x_ticks = scale::ticks(&figure.x, x_domain, right - left, 72.0);
        Self {
            figure,
            width,
            height,
            x: Ruler::new(figure.x.scale, x_domain, left, right),
            y: Ruler::new(figure.y.scale, y_domain, bottom, top),
            x_ticks,
            y_ticks,
            legend,
            beside,
            empty,
        }
    }

    /// Draws the figure as an element of a page; `prefix` makes its element ids unique there.
    pub fn draw(&self, m: &mut Markup, prefix: &str) {
        self.root(m, prefix, false);
    }

    fn root(&self, m: &mut Markup, prefix: &str, stand_alone: bool) {
        let (title, desc) = (format!("{prefix}-title"), format!("{prefix}-desc"));
        let mut svg = m
            .tag("svg")
            .class("plot")
            .attr("viewBox", format_args!("0 0 {} {}", n(self.width), n(self.height)))
            .attr("role", "img")
            .attr("aria-labelledby", format_args!("{title} {desc}"));
        svg = if stand_alone {
            svg.attr("xmlns", "http://www.w3.org/2000/svg")
                .attr("width", n(self.width))
                .attr("height", n(self.height))
        } else {
            svg.attr("tabindex", 0)
        };
        svg.body(|m| {
            m.tag("title").attr("id", title).text(&self.figure.title);
            m.tag("desc").attr("id", desc).text(description(self.figure));
            if stand_alone {
                m.asset("style", include_str!("../assets/plot.css"));
                m.tag("rect").class("paper").attr("width", "100%").attr("height", "100%").close();
            }
            self.grid(m);
            self.curves(m);
            self.lines(m);
            self.axes(m);
            if self.beside {
                self.legend.draw(m, self.x.end - self.legend.width(), -1.0);
            } else {
                self.legend.draw(m, self.x.start, HEAD - 4.0);
            }
            if self.empty {
                let (x, y) = ((self.x.start + self.x.end) / 2.0, (self.y.start + self.y.end) / 2.0);
                text(m, "none", x, y, "middle", "no data to draw");
            }
            // Covers everything, so that pointer events also arrive between the curves. Its empty title
            // prevents browsers from showing the figure's title as a tooltip.
            m.tag("rect").class("catch").attr("width", n(self.width)).attr("height", n(self.height)).body(
                |m| {
                    m.tag("title").text("");
                },
            );
        });
    }

    fn grid(&self, m: &mut Markup) {
        let vertical = |path: &mut String, value: f64| {
            if let Some(x) = self.x.at(value) {
                path.push_str(&format!("M{} {}V{}", n(x), n(self.y.start), n(self.y.end)));
            }
        };
        let horizontal = |path: &mut String, value: f64| {
            if let Some(y) = self.y.at(value) {
                path.push_str(&format!("M{} {}H{}", n(self.x.start), n(y), n(self.x.end)));
            }
        };
        let (mut minor, mut major) = (String::new(), String::new());
        self.x_ticks.minor.iter().for_each(|&v| vertical(&mut minor, v));
        self.y_ticks.minor.iter().for_each(|&v| horizontal(&mut minor, v));
        self.x_ticks.major.iter().for_each(|t| vertical(&mut major, t.value));
        self.y_ticks.major.iter().for_each(|t| horizontal(&mut major, t.value));
        m.tag("path").class("minor").attr("d", minor).close();
        m.tag("path").class("grid").attr("d", major).close();
    }

    fn curves(&self, m: &mut Markup) {
        let many = self.figure.series.len() > 1;
        let coincide = self.coincide();
        for (index, series) in self.figure.series.iter().enumerate() {
            let colour = index % COLOURS;
            m.tag("g").class(format_args!("series s{colour}")).attr("data-series", &series.name).body(|m| {
                let (closed, open) = marks::band(series, &self.x, &self.y, self.figure.mark == Mark::Step);
                path(m, "band", closed);
                path(m, "band open", open);
                let floor = (self.figure.y.unit == Unit::Packets).then_some(self.y.start);
                let spots = marks::spots(series, &self.x, &self.y, floor);
                let few = spots.len() <= 30;
                match self.figure.mark {
                    Mark::Bar => {
                        path(m, if many { "bar many" } else { "bar" }, marks::bars(series, &self.x, &self.y))
                    }
                    Mark::Point => {
                        let Paths { firm, weak } = marks::points(&spots);
                        let class = if index % 2 == 0 { "dots" } else { "dots square" };
                        let sparse = self.figure.series.iter().all(|series| series.x.len() <= SPARSE);
                        path(m, &format!("{class}{}", if sparse { " sparse" } else { "" }), firm);
                        path(m, "dots weak", weak);
                    }
                    Mark::Line | Mark::Step => {
                        let thinned = marks::thinned(spots.clone());
                        let Paths { firm, weak } = match self.figure.mark {
                            Mark::Step => {
                                // Time series omit points without packets.
                                let timed = self.figure.x.unit == Unit::Seconds;
                                let usual = marks::spacing(&thinned).max(2.0);
                                let longest = if timed { usual } else { f64::INFINITY };
                                marks::step(&thinned, self.x.end, longest)
                            }
                            _ => marks::line(&thinned),
                        };
                        path(m, if coincide && index == 0 { "line under" } else { "line" }, firm);
                        path(m, "line weak", weak);
                    }
                }
                if self.figure.mark == Mark::Line && (few || many) {
                    self.knots(m, &spots, index, few);
                }
            });
            m.line();
        }
    }

    /// Whether two curves coincide for most of their length, like the rates of both taps. The first curve is
    /// then drawn wider, so that it is visible below the second.
    fn coincide(&self) -> bool {
        let [first, second] = self.figure.series.as_slice() else { return false };
        let close = |ruler: &Ruler, a: f64, b: f64| (ruler.clamped(a) - ruler.clamped(b)).abs() < 1.5;
        let near = (0..length(first).min(length(second)))
            .filter(|&i| close(&self.x, first.x[i], second.x[i]) && close(&self.y, first.y[i], second.y[i]))
            .count();
        near * 2 > first.y.len().min(second.y.len())
    }

    /// Draws the data points of a curve with few points, or shapes along one of several curves.
    fn knots(&self, m: &mut Markup, spots: &[Option<marks::Spot>], index: usize, few: bool) {
        if few {
            for spot in spots.iter().flatten() {
                let class = if spot.supported { "knot" } else { "knot weak" };
                path(m, class, marks::shape(index, spot.x, spot.y));
            }
        } else {
            path(m, "knot", marks::shapes(spots, index, 130.0));
        }
    }

    /// Draws reference lines with their labels. For a line beyond the end of the axis, a note is placed there
    /// instead.
    fn lines(&self, m: &mut Markup) {
        let mut lines: Vec<&ReferenceLine> = self.figure.lines.iter().collect();
        lines.sort_by(|a, b| b.value.total_cmp(&a.value));
        let (shown, beyond): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| self.ruler(line.on).shows(line.value));
        let mut heights: Vec<f64> = Vec::new();
        let mut labels: Vec<(f64, f64, usize)> = Vec::new();
        for line in shown {
            let at = self.ruler(line.on).clamped(line.value);
            match line.on {
                AxisName::Y => {
                    let crowded = heights.iter().any(|other| (other - at).abs() < 17.0);
                    heights.push(at);
                    self.horizontal(m, at, &line.label, crowded);
                }
                AxisName::X => self.vertical(m, at, &line.label, &mut labels),
            }
        }
        for (index, line) in beyond.into_iter().enumerate() {
            let arrow = if line.on == AxisName::X { '→' } else { '↑' };
            let y = self.y.end + 14.0 + 15.0 * index as f64;
            text(m, "ref-label", self.x.end - 6.0, y, "end", &format!("{} {arrow}", line.label));
        }
    }

    fn ruler(&self, name: AxisName) -> &Ruler {
        match name {
            AxisName::X => &self.x,
            AxisName::Y => &self.y,
        }
    }

    /// Draws a horizontal line, labeled above it, or below it if another line or the edge is close.
    fn horizontal(&self, m: &mut Markup, at: f64, label: &str, crowded: bool) {
        path(m, "ref", format!("M{} {}H{}", n(self.x.start), n(at), n(self.x.end)));
        let y = if crowded || at - self.y.end < 14.0 { at + 13.0 } else { at - 5.0 };
        if !labels_in_legend(self.figure) {
            text(m, "ref-label", self.x.start + 8.0, y, "start", label);
        }
    }

    /// Draws a vertical line, labeled at its lower end because distributions fill the upper one. The label
    /// goes to the lowest row with enough room; `taken` holds the labels placed so far: from, to, row.
    fn vertical(&self, m: &mut Markup, at: f64, label: &str, taken: &mut Vec<(f64, f64, usize)>) {
        path(m, "ref", format!("M{} {}V{}", n(at), n(self.y.start), n(self.y.end)));
        let width = legend::text_width(label) + 12.0;
        let flip = at + width > self.x.end;
        let (from, to) = if flip { (at - width, at) } else { (at, at + width) };
        let free = |row: &usize| !taken.iter().any(|(f, t, r)| r == row && *f < to && from < *t);
        let row = (0..).find(free).unwrap_or(0);
        taken.push((from, to, row));
        let (x, anchor) = if flip { (at - 6.0, "end") } else { (at + 6.0, "start") };
        text(m, "ref-label", x, self.y.start - 8.0 - 15.0 * row as f64, anchor, label);
    }

    fn axes(&self, m: &mut Markup) {
        path(m, "axis", format!("M{} {}H{}", n(self.x.start), n(self.y.start), n(self.x.end)));
        let mut right = f64::NEG_INFINITY;
        for tick in &self.x_ticks.major {
            let Some(at) = self.x.at(tick.value) else { continue };
            let below = tick.below.as_deref().unwrap_or("");
            let half = legend::text_width(&tick.label).max(legend::text_width(below)) / 2.0;
            // The outermost labels move inwards to stay inside the drawing. A tick whose label would overlap
            // the left neighbor loses the label but keeps its line.
            let middle = at.min(self.width - half).max(half);
            if middle - half < right + 6.0 {
                continue;
            }
            right = middle + half;
            m.tag("g").class("tick x").attr("data-value", tick.value).body(|m| {
                path(m, "axis", format!("M{} {}v4", n(at), n(self.y.start)));
                text(m, "label", middle, self.y.start + 17.0, "middle", &tick.label);
                if !below.is_empty() {
                    text(m, "label faint", middle, self.y.start + 31.0, "middle", below);
                }
            });
        }
        for tick in &self.y_ticks.major {
            let Some(at) = self.y.at(tick.value) else { continue };
            m.tag("g").class("tick y").attr("data-value", tick.value).attr("data-at", n(at)).body(|m| {
                text(m, "label", self.x.start - 6.0, at + 4.0, "end", &tick.label);
            });
        }
        text(m, "name", 0.0, 12.0, "start", &axis_name(&self.figure.y, &self.y_ticks));
        text(m, "name", self.x.end, self.height - 6.0, "end", &axis_name(&self.figure.x, &self.x_ticks));
    }
}

/// Renders the figure as a separate file that includes its styles.
pub fn stand_alone(figure: &Figure) -> String {
    let mut m = Markup::with_capacity(64 * 1024);
    Plot::new(figure, Size::Wide).root(&mut m, "figure", true);
    m.line();
    m.finish()
}

const PLACEHOLDER: Extent = Extent { low: 1.0, high: 10.0 };

/// Ranges of the data on both axes; `None` if no point can be shown on both.
fn extents(figure: &Figure) -> Option<(Extent, Extent)> {
    let (xs, ys) = (figure.x.scale, figure.y.scale);
    let mut x_values = Vec::new();
    let mut y_values = Vec::new();
    for series in &figure.series {
        for i in 0..length(series) {
            let (x, y) = (series.x[i], series.y[i]);
            if scale::position(ys, y).is_none()
                || scale::position(xs, x).is_none() && series.bar_width.is_none()
            {
                continue;
            }
            x_values.push(x);
            x_values.extend(series.bar_width.map(|w| x + w));
            y_values.push(y);
            y_values.extend(series.low.get(i));
            y_values.extend(series.high.get(i));
        }
        x_values.extend(step_end(figure, &series.x));
    }
    Some((Extent::of(x_values.into_iter(), xs)?, Extent::of(y_values.into_iter(), ys)?))
}

/// Position at which the last step ends. The last step is as long as the one before. Time series omit
/// intervals without packets, so their last step is as long as the shortest step.
fn step_end(figure: &Figure, x: &[f64]) -> Option<f64> {
    let (Mark::Step, [.., before, last]) = (figure.mark, x) else { return None };
    let shortest = x.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    Some(last + if figure.x.unit == Unit::Seconds { shortest } else { last - before })
}

/// Whether the legend names the horizontal lines: among points, a label in the drawing would cover some of them.
fn labels_in_legend(figure: &Figure) -> bool {
    figure.mark == Mark::Point
}

/// Labels of the horizontal lines on an axis with this domain, if the legend names them.
fn legend_labels(figure: &Figure, y_domain: Extent) -> Vec<&str> {
    let axis = Ruler::new(figure.y.scale, y_domain, 0.0, 1.0);
    let lines = figure.lines.iter().filter(|line| line.on == AxisName::Y && axis.shows(line.value));
    lines.filter(|_| labels_in_legend(figure)).map(|line| line.label.as_str()).collect()
}

/// The extent of the data and of the reference lines close to it. A budget of a hundred times the delay would
/// compress the data of a linear plot into its lowest line, so distant lines are excluded.
fn reach(figure: &Figure, on: AxisName, axis: &Axis, data: Extent) -> Extent {
    let near = |value: f64| match axis.scale {
        Scale::Linear => {
            value <= data.high + 0.6 * (data.high - data.low.min(0.0)) && value >= data.low.min(0.0)
        }
        Scale::Log => value > 0.0 && value <= data.high * 300.0 && value >= data.low / 10.0,
        Scale::Nines => value >= data.low && value <= data.high,
    };
    let lines = figure.lines.iter().filter(|line| line.on == on && near(line.value));
    let headroom = if axis.scale == Scale::Nines { 1.0 } else { 1.08 };
    lines.fold(data, |extent, line| {
        extent.with(line.value * if line.value > data.high { headroom } else { 1.0 })
    })
}

/// Curves with at most this many points get larger dots.
const SPARSE: usize = 100;

/// Points need a margin at the ends of the axis; lines do not.
fn pad(figure: &Figure, extent: Extent) -> Extent {
    if figure.mark != Mark::Point || figure.x.scale != Scale::Linear {
        return extent;
    }
    let air = (extent.high - extent.low) * 0.012;
    let low = extent.low - air;
    // The margin must not extend the axis to negative times.
    Extent { low: if extent.low >= 0.0 { low.max(0.0) } else { low }, high: extent.high + air }
}

/// Extends the extent slightly, so that the highest point is not on the edge.
fn raised(axis: &Axis, extent: Extent) -> Extent {
    let high = match axis.scale {
        Scale::Linear => extent.high + 0.02 * (extent.high - extent.low),
        Scale::Log => extent.high * 1.05,
        Scale::Nines => extent.high,
    };
    Extent { high, ..extent }
}

/// Quantities are compared by length and start at zero, as do delays close to zero.
fn from_zero(figure: &Figure, data: Extent) -> bool {
    figure.mark == Mark::Bar
        || matches!(figure.y.unit, Unit::Packets | Unit::PacketsPerSecond | Unit::Ratio)
        || data.low > 0.0 && data.low < 0.4 * data.high
}

/// The name of the axis, with the unit that its labels omit.
fn axis_name(axis: &Axis, ticks: &Ticks) -> String {
    let unit = if ticks.unit.is_empty() { String::new() } else { format!(" [{}]", ticks.unit) };
    let scale = if axis.scale == Scale::Log { ", log scale" } else { "" };
    format!("{}{unit}{scale}", axis.label)
}

/// Describes the figure in words, for screen readers.
fn description(figure: &Figure) -> String {
    let mut text =
        format!("{} Vertical: {}. Horizontal: {}.", figure.caption, figure.y.label, figure.x.label);
    for series in &figure.series {
        let extent = Extent::of(series.y.iter().copied(), figure.y.scale);
        let name = &series.name;
        text.push_str(&extent.map_or(format!(" {name}: nothing to draw."), |e| {
            let (low, high) =
                (scale::with_unit(figure.y.unit, e.low), scale::with_unit(figure.y.unit, e.high));
            format!(" {name}: {} points, from {low} to {high}.", length(series))
        }));
    }
    text
}

/// Draws a path of this class unless it is empty.
pub fn path(m: &mut Markup, class: &str, d: String) {
    if !d.is_empty() {
        m.tag("path").class(class).attr("d", d).close();
    }
}

pub fn text(m: &mut Markup, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let tag = m.tag("text").class(class).attr("x", n(x)).attr("y", n(y));
    tag.attr("text-anchor", anchor).text(content);
}
