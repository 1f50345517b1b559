//! Text below the rows of a table.

use std::io::{self, Write};

/// Columns of text that is wrapped.
const WIDTH: usize = 108;
/// Blanks before it.
const INDENT: usize = 16;

/// A text below a row, behind a label.
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
