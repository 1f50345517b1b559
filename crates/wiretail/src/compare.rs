//! `wiretail compare`: several results side by side.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use wiretail_analysis::comparison::{Cell, Row, compare};
use wiretail_report::format::{count, duration, ratio};
use wiretail_report::{Change, Difference, DifferenceRow};
use wiretail_schema::summary::figure::Unit;
use wiretail_schema::summary::{SUMMARY_SCHEMA, Summary};

use crate::analyze::outputs;
use crate::cli::CompareArgs;

/// Runs `wiretail compare`.
///
/// # Errors
/// Returns an error if a result can't be read or parsed.
pub fn run(arguments: &CompareArgs) -> Result<ExitCode> {
    let results: Vec<(String, Summary)> =
        arguments.results.iter().map(|path| Ok((name(path), read(path)?))).collect::<Result<_>>()?;
    let summaries: Vec<&Summary> = results.iter().map(|(_, summary)| summary).collect();
    let rows = compare(&summaries);
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &as_json(&results, &rows, arguments.tolerance))?;
        writeln!(out)?;
    } else {
        out.write_all(table(&results, &rows, arguments.tolerance).as_bytes())?;
    }
    if let Some(path) = &arguments.out {
        let differences: Vec<DifferenceRow> =
            rows.iter().map(|row| difference_row(row, arguments.tolerance)).collect();
        let title = results.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" · ");
        let page = wiretail_report::comparison(&title, &results, &differences);
        outputs::write_file(path, page.as_bytes())?;
    }
    let worse =
        rows.iter().flat_map(|row| &row.cells).any(|cell| judge(cell, arguments.tolerance) == Change::Worse);
    Ok(if arguments.check && worse { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn name(path: &Path) -> String {
    path.display().to_string().trim_end_matches('/').to_owned()
}

/// Reads a result: a directory written by `analyze --out`, or its summary.json.
fn read(path: &Path) -> Result<Summary> {
    let file = if path.is_dir() { path.join("summary.json") } else { path.to_owned() };
    let shown = file.display();
    let text = std::fs::read(&file).with_context(|| {
        format!(
            "{shown}: cannot be read; expected a directory of `wiretail analyze --out`, or its summary.json"
        )
    })?;
    let document: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{shown}: is not JSON"))?;
    match document.get("schema").and_then(|schema| schema.as_str()) {
        Some(SUMMARY_SCHEMA) => {}
        Some(other) => bail!(
            "{shown}: is a {other}; expected {SUMMARY_SCHEMA}: analyze the captures again with this version"
        ),
        None => bail!("{shown}: has no schema; expected a summary.json of `wiretail analyze --out`"),
    }
    serde_json::from_value(document).with_context(|| format!("{shown}: is not a complete {SUMMARY_SCHEMA}"))
}

/// Judges a difference. Only percentiles, the mean and the loss ratio have a confidence interval. Extreme
/// values, which depend on a single packet, are shown but not judged.
fn judge(cell: &Cell, tolerance: f64) -> Change {
    let (Some(difference), Some((low, high))) = (cell.difference, cell.difference_interval) else {
        return Change::Unclear;
    };
    let allowed = (cell.value - difference).abs() * tolerance;
    if cell.is_worse_by(tolerance) {
        Change::Worse
    } else if high < -allowed {
        Change::Better
    } else if low >= -allowed && high <= allowed {
        Change::Same
    } else {
        Change::Unclear
    }
}

fn difference_row(row: &Row, tolerance: f64) -> DifferenceRow {
    let difference = |cell: &Cell| {
        Some(Difference {
            value: cell.difference.filter(|difference| difference.is_finite())?,
            low: cell.difference_interval.map(|(low, _)| low),
            high: cell.difference_interval.map(|(_, high)| high),
            change: judge(cell, tolerance),
        })
    };
    DifferenceRow {
        quantity: row.name.clone(),
        unit: if row.is_time { Unit::Nanoseconds } else { Unit::Ratio },
        differences: row.cells.iter().skip(1).map(difference).collect(),
    }
}

fn shown(row: &Row, value: f64) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else if row.is_time {
        duration(value)
    } else {
        ratio(value)
    }
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::Same => "same",
        Change::Unclear => "",
        Change::Worse => "WORSE",
    }
}

fn table(results: &[(String, Summary)], rows: &[Row], tolerance: f64) -> String {
    let mut text = String::new();
    for (place, (name, summary)) in results.iter().enumerate() {
        let note = if place == 0 { ", the baseline" } else { "" };
        let _ = writeln!(text, "  [{}] {name}: {} packets{note}", place + 1, count(summary.delay.count));
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, "  {:>15}", row.name);
        for cell in &row.cells {
            let _ =
                write!(text, "  {:>10}{}", shown(row, cell.value), if cell.supported { " " } else { "?" });
            if let Some(difference) = cell.difference {
                let sign = if difference >= 0.0 { "+" } else { "−" };
                let interval = cell.difference_interval.map_or(String::new(), |(low, high)| {
                    format!(" [{} … {}]", signed(row, low), signed(row, high))
                });
                let change = format!(
                    "({sign}{}{interval}) {}",
                    shown(row, difference.abs()),
                    word(judge(cell, tolerance))
                );
                let _ = write!(text, " {change:<48}");
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str(
        "\n  In brackets: difference to the baseline and its 95 % confidence interval; ? too few packets.\n",
    );
    text
}

fn signed(row: &Row, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", shown(row, value.abs()))
}

fn as_json(results: &[(String, Summary)], rows: &[Row], tolerance: f64) -> serde_json::Value {
    let number = |value: f64| if value.is_finite() { json!(value) } else { json!(null) };
    let bounds = |interval: Option<(f64, f64)>| interval.map(|(low, high)| json!([low, high]));
    let cell = |cell: &Cell| {
        json!({
            "value": number(cell.value),
            "interval": bounds(cell.interval),
            "supported": cell.supported,
            "difference": cell.difference.map(number),
            "difference_interval": bounds(cell.difference_interval),
            "change": word(judge(cell, tolerance)).to_lowercase(),
        })
    };
    let row = |row: &Row| {
        let unit = if row.is_time { "ns" } else { "ratio" };
        json!({ "name": row.name, "unit": unit, "cells": row.cells.iter().map(cell).collect::<Vec<_>>() })
    };
    json!({
        "schema": "wiretail.comparison/1",
        "results": results.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "tolerance": tolerance,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
