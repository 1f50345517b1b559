//! Wrapped text below the rows of a table.

use std::io::{self, Write};

/// Width of wrapped text, in columns.
const WIDTH: usize = 108;
/// Indentation, in columns.
const INDENT: usize = 16;

/// Writes a text below a row, after a label.
pub(super) fn wrapped(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    let indent = " ".repeat(INDENT);
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let mut line = format!("{indent}{label}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = format!("{indent}{}", " ".repeat(label.len()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
