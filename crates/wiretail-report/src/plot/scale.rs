//! Maps values to positions on an axis, and chooses the axis's range and ticks.

use wiretail_schema::summary::figure::{Axis, Scale, Unit};

use crate::format;

#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Value in the axis's own unit.
    pub value: f64,
    /// Label, in the displayed unit.
    pub label: String,
    /// Second label below the first one: "1 in 1 000" below "99.9 %".
    pub below: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ticks {
    /// Labeled ticks in ascending order.
    pub major: Vec<Tick>,
    pub minor: Vec<f64>,
    /// Displayed unit, if the labels do not contain it.
    pub unit: &'static str,
}

/// Range of values that an axis must show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    pub low: f64,
    pub high: f64,
}

impl Extent {
    /// The extent of the values that `scale` can show; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>, scale: Scale) -> Option<Self> {
        let shown = values.filter(|&v| position(scale, v).is_some());
        shown.fold(None, |extent: Option<Self>, v| {
            Some(extent.map_or(Self { low: v, high: v }, |e| Self { low: e.low.min(v), high: e.high.max(v) }))
        })
    }

    /// Extends the range to include `value`.
    pub fn with(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }
}

/// Position of a value on a scale, in units of the scale: the value itself, its decades, or its nines. `None`
/// for a value that the scale cannot show, such as zero on a logarithmic scale.
pub fn position(scale: Scale, value: f64) -> Option<f64> {
    let place = match scale {
        Scale::Linear => value,
        Scale::Log if value > 0.0 => value.log10(),
        Scale::Nines if (0.0..100.0).contains(&value) => -((100.0 - value) / 100.0).log10(),
        Scale::Log | Scale::Nines => return None,
    };
    place.is_finite().then_some(place)
}

/// An axis, which maps a domain of values to a section of the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruler {
    scale: Scale,
    /// Position of the domain's start, see [`position`].
    pub from: f64,
    /// Position of the domain's end.
    pub to: f64,
    /// Coordinate of the domain's start in the drawing.
    pub start: f64,
    /// Coordinate of the domain's end in the drawing.
    pub end: f64,
}

impl Ruler {
    /// Maps `domain` to the section from `start` to `end`. On a vertical axis `end` is smaller, because SVG
    /// counts downwards.
    pub fn new(scale: Scale, domain: Extent, start: f64, end: f64) -> Self {
        let from = position(scale, domain.low).unwrap_or(0.0);
        let to = position(scale, domain.high).unwrap_or(from + 1.0);
        Self { scale, from, to: if to > from { to } else { from + 1.0 }, start, end }
    }

    /// Coordinate of `value` in the drawing, possibly beyond the ends; `None` if the scale cannot show it.
    pub fn at(&self, value: f64) -> Option<f64> {
        let share = (position(self.scale, value)? - self.from) / (self.to - self.from);
        Some(self.start + share * (self.end - self.start))
    }

    /// Like `at`, but limited to the axis. Values that the scale cannot show are placed at the lower end.
    pub fn clamped(&self, value: f64) -> f64 {
        let (low, high) = (self.start.min(self.end), self.start.max(self.end));
        self.at(value).map_or(self.start, |at| at.clamp(low, high))
    }

    pub fn shows(&self, value: f64) -> bool {
        const SLACK: f64 = 1e-9;
        let width = self.to - self.from;
        position(self.scale, value)
            .is_some_and(|p| p >= self.from - SLACK * width && p <= self.to + SLACK * width)
    }
}

/// The domain of an axis that shows `extent`. It is rounded outwards if `round` is set. It starts at zero if
/// `from_zero` is set and the scale has a zero.
pub fn domain(axis: &Axis, extent: Extent, from_zero: bool, round: bool) -> Extent {
    let Extent { mut low, mut high } = extent;
    match axis.scale {
        Scale::Linear => {
            if from_zero {
                (low, high) = (low.min(0.0), high.max(0.0));
            }
            if high <= low {
                let half = if low == 0.0 { 1.0 } else { low.abs() * 0.05 };
                (low, high) = (low - if low == 0.0 { 0.0 } else { half }, high + half);
            }
            if round {
                (low, high) = round_linear(axis.unit, low, high);
            }
        }
        Scale::Log => {
            let linear = (round && is_short(low, high)).then(|| round_linear(axis.unit, low, high));
            if let Some(rounded) = linear.filter(|(low, _)| *low > 0.0) {
                (low, high) = rounded;
            } else if round || high <= low {
                (low, high) = (round_log(low, false), round_log(high, true));
            }
            if high <= low {
                (low, high) = (low / 2.0, high * 2.0);
            }
        }
        Scale::Nines => {
            if high <= low {
                (low, high) = (0.0, high.max(90.0));
            }
        }
    }
    Extent { low, high }
}

/// Chooses the ticks of `axis` over `domain` for an axis of `length` units, with at least `spacing` units
/// between labels.
pub fn ticks(axis: &Axis, domain: Extent, length: f64, spacing: f64) -> Ticks {
    match axis.scale {
        Scale::Linear => linear_ticks(axis.unit, domain, length / spacing),
        Scale::Log if is_short(domain.low, domain.high) => linear_ticks(axis.unit, domain, length / spacing),
        Scale::Log => log_ticks(axis.unit, domain, length / spacing),
        Scale::Nines => nines_ticks(domain),
    }
}

/// Whether a logarithmic axis is too short for ticks at 1, 2 and 5 times powers of ten. Such ticks would
/// leave it almost unlabeled, and rounding an end to one of them would leave half of it empty.
fn is_short(low: f64, high: f64) -> bool {
    high > low && high / low < 8.0
}

/// Rounds both ends outwards to a multiple of the tick distance.
fn round_linear(unit: Unit, low: f64, high: f64) -> (f64, f64) {
    let (size, _) = displayed(unit, low.abs().max(high.abs()));
    let step = step((high - low) / size, 8.0) * size;
    ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step)
}

fn linear_ticks(unit: Unit, domain: Extent, wanted: f64) -> Ticks {
    let (size, name) = displayed(unit, domain.low.abs().max(domain.high.abs()));
    let (low, high) = (domain.low / size, domain.high / size);
    let step = step(high - low, wanted.max(2.0));
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (low / step - 1e-6).ceil() as i64;
    let last = (high / step + 1e-6).floor() as i64;
    // There are more ticks only if the domain cannot be divided in double precision.
    const MOST: usize = 60;
    let major = (first..=last).take(MOST).map(|k| {
        let shown = k as f64 * step;
        let label = format::fixed(shown, decimals);
        Tick { value: shown * size, label, below: None }
    });
    Ticks { major: major.collect(), minor: Vec::new(), unit: name }
}

fn log_ticks(unit: Unit, domain: Extent, wanted: f64) -> Ticks {
    let (from, to) = (domain.low.log10(), domain.high.log10());
    let decades = to - from;
    let stride = (decades / wanted.max(2.0)).ceil().max(1.0) as i32;
    let finer = decades * 3.0 <= wanted * 1.4;
    let mut ticks = Ticks { major: Vec::new(), minor: Vec::new(), unit: "" };
    for exponent in (from.floor() as i32)..=(to.ceil() as i32) {
        for digit in 1..=9 {
            let value = decimal(digit, exponent);
            if value < domain.low * (1.0 - 1e-9) || value > domain.high * (1.0 + 1e-9) {
                continue;
            }
            let labelled = digit == 1 && exponent % stride == 0 || finer && matches!(digit, 2 | 5);
            if labelled {
                ticks.major.push(Tick { value, label: with_unit(unit, value), below: None });
            } else if stride == 1 || digit == 1 {
                ticks.minor.push(value);
            }
        }
    }
    ticks
}

fn nines_ticks(domain: Extent) -> Ticks {
    let mut ticks = Ticks { major: Vec::new(), minor: Vec::new(), unit: "" };
    let shown = |p: f64| p >= domain.low - 1e-9 && p <= domain.high + (100.0 - domain.high) * 1e-6;
    let mut push = |p: f64, one_in: u64| {
        if shown(p) {
            let below = format!("1 in {}", format::count(one_in));
            ticks.major.push(Tick { value: p, label: format::percentile(p), below: Some(below) });
        }
    };
    push(0.0, 1);
    push(50.0, 2);
    push(90.0, 10);
    for nines in 2..=9_u32 {
        push(100.0 - decimal(1, 2 - nines as i32), 10_u64.pow(nines));
    }
    for exponent in -7..=1 {
        for digit in (2..=9).rev() {
            let p = 100.0 - decimal(digit, exponent);
            if p != 50.0 && shown(p) {
                ticks.minor.push(p);
            }
        }
    }
    ticks.minor.sort_by(f64::total_cmp);
    ticks
}

/// The unit used to display values up to `high`, and its size in the axis's own unit.
pub fn displayed(unit: Unit, high: f64) -> (f64, &'static str) {
    match unit {
        Unit::Nanoseconds => format::time_unit(high),
        Unit::Seconds if high >= 3.0 * 3600.0 => (3600.0, "h"),
        Unit::Seconds if high >= 1800.0 => (60.0, "min"),
        Unit::Seconds if high >= 1.0 || high == 0.0 => (1.0, "s"),
        Unit::Seconds => {
            let (ns, name) = format::time_unit(high * 1e9);
            (ns / 1e9, name)
        }
        Unit::Packets if high >= 1e7 => (1e6, "millions"),
        Unit::Packets => (1.0, ""),
        Unit::PacketsPerSecond => format::rate_unit(high),
        Unit::Ratio => (0.01, "%"),
        Unit::Percentile => (1.0, "%"),
        Unit::Number => (1.0, ""),
    }
}

/// Formats a value with its unit as briefly as possible.
pub fn with_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => format::duration_short(value),
        Unit::Seconds => format::duration_short(value * 1e9),
        Unit::Packets if value >= 1e6 => format::power_of_ten(value),
        Unit::Packets => format::short(value),
        Unit::PacketsPerSecond => {
            let (size, name) = format::rate_unit(value);
            format!("{}{}{name}", format::short(value / size), format::SPACE)
        }
        Unit::Ratio => format::ratio(value),
        Unit::Percentile => format::percentile(value),
        Unit::Number => format::short(value),
    }
}

/// Returns the step (1, 2 or 5 times a power of ten) that divides `width` into at most `wanted` parts.
fn step(width: f64, wanted: f64) -> f64 {
    let rough = width / wanted;
    let exponent = rough.log10().floor() as i32;
    let factor = rough / decimal(1, exponent);
    match factor {
        f if f <= 1.0 + 1e-9 => decimal(1, exponent),
        f if f <= 2.0 + 1e-9 => decimal(2, exponent),
        f if f <= 5.0 + 1e-9 => decimal(5, exponent),
        _ => decimal(1, exponent + 1),
    }
}

/// Rounds down or up to 1, 2 or 5 times a power of ten.
fn round_log(value: f64, upwards: bool) -> f64 {
    let exponent = (value.log10() + 1e-12).floor() as i32;
    let steps = [decimal(1, exponent), decimal(2, exponent), decimal(5, exponent), decimal(1, exponent + 1)];
    if upwards {
        steps.into_iter().find(|&s| s >= value * (1.0 - 1e-9)).unwrap_or(steps[3])
    } else {
        steps.into_iter().rev().find(|&s| s <= value * (1.0 + 1e-9)).unwrap_or(steps[0])
    }
}

/// Returns the double closest to `digit` times ten to the `exponent`. For example, it returns 0.3, which
/// differs from 3 · 0.1.
fn decimal(digit: u32, exponent: i32) -> f64 {
    format!("{digit}e{exponent}").parse().expect("a digit and an exponent are a number")
}

#[cfg(test)]
mod tests {
    use wiretail_schema::units::THIN;

    use super::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis { label: String::new(), column: String::new(), unit, scale }
    }

    fn labels(axis: &Axis, low: f64, high: f64, length: f64) -> (Vec<String>, &'static str) {
        let ticks = ticks(axis, Extent { low, high }, length, 80.0);
        (ticks.major.into_iter().map(|t| t.label.replace([THIN, format::SPACE], " ")).collect(), ticks.unit)
    }

    #[test]
    fn linear_ticks_step_by_1_2_5_in_the_displayed_unit() {
        let ns = axis(Unit::Nanoseconds, Scale::Linear);
        assert_eq!(
            labels(&ns, 0.0, 31_000.0, 400.0),
            (["0", "10", "20", "30"].map(String::from).to_vec(), "µs")
        );
        assert_eq!(
            labels(&ns, -1.2e6, 1.2e6, 480.0),
            (["\u{2212}1.0", "\u{2212}0.5", "0.0", "0.5", "1.0"].map(String::from).to_vec(), "ms")
        );
        let seconds = axis(Unit::Seconds, Scale::Linear);
        assert_eq!(
            labels(&seconds, 0.0, 5400.0, 480.0),
            (["0", "20", "40", "60", "80"].map(String::from).to_vec(), "min")
        );
        assert_eq!(
            labels(&axis(Unit::Packets, Scale::Linear), 0.0, 12_000.0, 320.0).0,
            ["0", "5 000", "10 000"]
        );
    }

    #[test]
    fn log_ticks_carry_their_unit_and_have_minor_lines() {
        let ns = axis(Unit::Nanoseconds, Scale::Log);
        let all = ticks(&ns, Extent { low: 1e3, high: 1e6 }, 300.0, 60.0);
        let shown: Vec<_> = all.major.iter().map(|t| t.label.replace([THIN, format::SPACE], " ")).collect();
        assert_eq!(shown, ["1 µs", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(all.minor.len(), 24);
        assert!(all.minor.contains(&30_000.0));
        // With twelve decades on 300 units, every third decade has a label and the others have only lines.
        let wide = ticks(&ns, Extent { low: 1.0, high: 1e12 }, 300.0, 60.0);
        assert_eq!(wide.major.len(), 5);
        // If the range is less than a decade, the ticks are evenly spaced and share one unit, even on a
        // logarithmic axis.
        assert_eq!(
            labels(&ns, 12_000.0, 18_000.0, 300.0),
            (["12", "14", "16", "18"].map(String::from).to_vec(), "µs")
        );
    }

    #[test]
    fn nines_are_equally_spaced() {
        let ruler = Ruler::new(Scale::Nines, Extent { low: 0.0, high: 99.999_99 }, 0.0, 700.0);
        for (p, at) in [(0.0, 0.0), (90.0, 100.0), (99.0, 200.0), (99.999, 500.0), (99.999_99, 700.0)] {
            assert!((ruler.at(p).unwrap() - at).abs() < 1e-6, "{p}");
        }
        assert_eq!(ruler.at(100.0), None);
        let all =
            ticks(&axis(Unit::Percentile, Scale::Nines), Extent { low: 0.0, high: 99.999 }, 700.0, 60.0);
        let shown: Vec<_> = all.major.iter().map(|t| t.label.replace([THIN, format::SPACE], " ")).collect();
        assert_eq!(shown, ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
        assert_eq!(all.major[6].below.as_deref(), Some("1 in 100\u{202f}000"));
    }

    #[test]
    fn short_log_axes_end_at_the_next_tick() {
        let axis = axis(Unit::PacketsPerSecond, Scale::Log);
        let rounded = |low, high| {
            let found = domain(&axis, Extent { low, high }, false, true);
            (found.low, found.high)
        };
        assert_eq!(rounded(61_000.0, 84_000.0), (60_000.0, 85_000.0));
        // Powers of ten are kept if the range is a decade or more, or if an end would become zero.
        assert_eq!(rounded(61_000.0, 840_000.0), (50_000.0, 1_000_000.0));
        assert_eq!(rounded(11.0, 80.0), (10.0, 80.0));
    }

    #[test]
    fn values_outside_the_scale_have_no_position() {
        let ruler = Ruler::new(Scale::Log, Extent { low: 10.0, high: 1000.0 }, 200.0, 0.0);
        assert_eq!(ruler.at(100.0), Some(100.0));
        assert_eq!(ruler.at(0.0), None);
        assert_eq!(ruler.clamped(0.0), 200.0);
        assert_eq!(ruler.clamped(1e9), 0.0);
        assert!(ruler.shows(1000.0) && !ruler.shows(1001.0));
        assert_eq!(Extent::of([0.0, -5.0, f64::NAN].into_iter(), Scale::Log), None);
    }

    #[test]
    fn domains_round_outwards_and_never_collapse() {
        let ns = axis(Unit::Nanoseconds, Scale::Linear);
        let got = domain(&ns, Extent { low: 3_200.0, high: 18_700.0 }, true, true);
        assert_eq!(got, Extent { low: 0.0, high: 20_000.0 });
        let log = axis(Unit::Nanoseconds, Scale::Log);
        let got = domain(&log, Extent { low: 3_200.0, high: 18_700.0 }, false, true);
        assert_eq!(got, Extent { low: 2_000.0, high: 20_000.0 });
        for axis in [ns, log, axis(Unit::Percentile, Scale::Nines)] {
            for value in [0.0, 50.0] {
                let got = domain(&axis, Extent { low: value, high: value }, false, true);
                assert!(got.high > got.low || value == 0.0 && axis.scale == Scale::Log, "{axis:?} {got:?}");
            }
        }
    }
}
