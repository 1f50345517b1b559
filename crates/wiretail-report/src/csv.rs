//! Writes a figure's data as CSV (RFC 4180, with plain line feeds). The CSV files next to the report and the
//! download links in the report hold the same bytes.

use std::fmt::Write;

use wiretail_schema::summary::figure::{Figure, Series};

/// Returns the figure's data as CSV. The columns are `series` and one per axis. If the figure has such data,
/// further columns contain the bounds of the confidence interval and whether each point is supported. A bound
/// that is missing from the data is an empty field.
pub fn csv(figure: &Figure) -> String {
    let mut text = header(figure);
    text.push('\n');
    let columns = Columns::of(figure);
    for series in &figure.series {
        let name = field(&series.name);
        for index in 0..length(series) {
            text.push_str(&name);
            text.push(',');
            push_row(&mut text, series, index, columns);
            text.push('\n');
        }
    }
    text
}

/// The optional columns that a figure has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Whether any series has a confidence interval.
    pub interval: bool,
    /// Whether any series distinguishes supported from unsupported points.
    pub supported: bool,
}

impl Columns {
    pub fn of(figure: &Figure) -> Self {
        Self {
            interval: figure.series.iter().any(|s| !s.low.is_empty() || !s.high.is_empty()),
            supported: figure.series.iter().any(|s| !s.supported.is_empty()),
        }
    }
}

/// Number of points of a series that have both coordinates.
pub(crate) fn length(series: &Series) -> usize {
    series.x.len().min(series.y.len())
}

/// Returns the header line without its line feed.
pub(crate) fn header(figure: &Figure) -> String {
    let (x, y) = (&figure.x.column, &figure.y.column);
    let mut columns = vec!["series".to_owned(), field(x), field(y)];
    let has = Columns::of(figure);
    if has.interval {
        columns.push(field(&format!("{y}_low")));
        columns.push(field(&format!("{y}_high")));
    }
    if has.supported {
        columns.push("supported".to_owned());
    }
    columns.join(",")
}

/// Appends one point's fields after the series name.
pub(crate) fn push_row(text: &mut String, series: &Series, index: usize, columns: Columns) {
    push_number(text, series.x[index]);
    text.push(',');
    push_number(text, series.y[index]);
    if columns.interval {
        for bound in [&series.low, &series.high] {
            text.push(',');
            bound.get(index).iter().for_each(|&&value| push_number(text, value));
        }
    }
    if columns.supported {
        let supported = series.supported.get(index).copied().unwrap_or(true);
        text.push_str(if supported { ",true" } else { ",false" });
    }
}

/// Appends the shortest decimal without exponent that parses to the same number. Appends nothing if the
/// number is not finite.
fn push_number(text: &mut String, value: f64) {
    if value.is_finite() {
        write!(text, "{value}").expect("writing to a string does not fail");
    }
}

/// Returns `text` as a field, quoted if RFC 4180 requires it.
pub(crate) fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::summary::figure::{Axis, Mark, Scale, Unit};

    use super::*;

    fn axis(column: &str) -> Axis {
        Axis {
            label: column.to_owned(),
            column: column.to_owned(),
            unit: Unit::Nanoseconds,
            scale: Scale::Linear,
        }
    }

    fn figure(series: Vec<Series>) -> Figure {
        Figure {
            id: "f".to_owned(),
            title: String::new(),
            caption: String::new(),
            x: axis("time_s"),
            y: axis("delay_ns"),
            mark: Mark::Line,
            series,
            lines: Vec::new(),
        }
    }

    fn series(name: &str) -> Series {
        Series {
            name: name.to_owned(),
            x: vec![0.1, 1e-9],
            y: vec![12.5, 3e9],
            low: Vec::new(),
            high: Vec::new(),
            supported: Vec::new(),
            bar_width: None,
        }
    }

    #[test]
    fn plain_figures_have_three_columns() {
        assert_eq!(
            csv(&figure(vec![series("a"), series("b, \"c\"")])),
            "series,time_s,delay_ns\na,0.1,12.5\na,0.000000001,3000000000\n\
             \"b, \"\"c\"\"\",0.1,12.5\n\"b, \"\"c\"\"\",0.000000001,3000000000\n"
        );
    }

    #[test]
    fn a_missing_bound_is_an_empty_field() {
        let with = Series {
            low: vec![12.0, 13.0],
            high: vec![14.0, f64::INFINITY],
            supported: vec![true, false],
            ..series("a")
        };
        assert_eq!(
            csv(&figure(vec![with, series("b")])),
            "series,time_s,delay_ns,delay_ns_low,delay_ns_high,supported\n\
             a,0.1,12.5,12,14,true\na,0.000000001,3000000000,13,,false\n\
             b,0.1,12.5,,,true\nb,0.000000001,3000000000,,,true\n"
        );
    }
}
