//! Provides the data of a drawn figure to the script, for hover and the CSV download.
//!
//! Each curve's data is stored as the text of its CSV rows. The download is therefore identical to the output
//! of [`mod@crate::csv`], and hover shows the same digits as the file.

use serde_json::{Value, json};
use wiretail_schema::summary::figure::{Axis, Figure};

use crate::csv::{self, Columns};
use crate::plot::Plot;
use crate::plot::scale::Ruler;

/// Returns the data of `figure` as drawn by `plot`.
pub fn data(figure: &Figure, plot: &Plot<'_>) -> Value {
    let columns = Columns::of(figure);
    let series: Vec<Value> = figure
        .series
        .iter()
        .map(|series| {
            let mut rows = String::new();
            for index in 0..csv::length(series) {
                csv::push_row(&mut rows, series, index, columns);
                rows.push('\n');
            }
            json!({
                "name": series.name,
                "field": csv::field(&series.name),
                "rows": rows,
                "width": series.bar_width,
            })
        })
        .collect();
    json!({
        "file": format!("{}.csv", figure.id),
        "header": csv::header(figure),
        "mark": figure.mark,
        "x": axis(&figure.x, &plot.x),
        "y": axis(&figure.y, &plot.y),
        "series": series,
    })
}

fn axis(axis: &Axis, ruler: &Ruler) -> Value {
    json!({
        "label": axis.label,
        "unit": axis.unit,
        "scale": axis.scale,
        "from": ruler.from,
        "to": ruler.to,
        "start": ruler.start,
        "end": ruler.end,
    })
}
