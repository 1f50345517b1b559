//! Cells, rows and tables. All tables of the pages are built from them.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use crate::format;
use crate::html::Markup;

/// A cell with the displayed value and, as its tooltip, the exact value.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    shown: String,
    exact: Option<String>,
    note: Option<String>,
    link: Option<String>,
    swatch: Option<String>,
    /// CSS classes; "number" formats the cell as a number.
    pub class: &'static str,
}

impl Cell {
    pub fn text(text: impl Display) -> Self {
        Self { shown: text.to_string(), ..Self::default() }
    }

    pub fn number(shown: impl Display) -> Self {
        Self { shown: shown.to_string(), class: "number", ..Self::default() }
    }

    /// An integer, such as a number of packets.
    pub fn count(value: u64) -> Self {
        Self::number(format::count(value))
    }

    /// A duration in whole nanoseconds.
    pub fn ns(ns: i64) -> Self {
        Self::number(format::duration(ns as f64)).exact(format::exact_ns(ns))
    }

    /// An average duration.
    pub fn ns_mean(ns: f64) -> Self {
        Self::number(format::duration(ns)).exact(format!("{ns} ns"))
    }

    /// A ratio between 0 and 1.
    pub fn ratio(share: f64) -> Self {
        Self::number(format::ratio(share)).exact(share.to_string())
    }

    fn is_number(&self) -> bool {
        self.class.starts_with("number")
    }

    /// Adds a second line below the value.
    pub fn note(self, note: impl Display) -> Self {
        Self { note: Some(note.to_string()), ..self }
    }

    pub fn exact(self, exact: impl Display) -> Self {
        Self { exact: Some(exact.to_string()), ..self }
    }

    /// Links to a file below the page's directory. Characters with a meaning in URLs (`?`, `#`, a leading
    /// scheme) are encoded, because the path consists of file names.
    pub fn link(self, path: &str) -> Self {
        Self { link: Some(address(path)), ..self }
    }

    /// Adds a color swatch of this class before the text.
    pub fn swatch(self, class: String) -> Self {
        Self { swatch: Some(class), ..self }
    }

    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

/// A row of a table, with optional lines below it that span the whole width.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The cells; the first one is the row's heading.
    pub cells: Vec<Cell>,
    /// CSS class of the row, or "".
    pub class: &'static str,
    /// CSS class and text of each line below the row.
    pub beneath: Vec<(&'static str, String)>,
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::default() }
    }
}

/// Renders a table; the first cell of each row is its heading.
pub fn table(
    m: &mut Markup,
    caption: &str,
    head: &[Cow<'_, str>],
    rows: impl IntoIterator<Item = impl Into<Row>>,
) {
    let rows: Vec<Row> = rows.into_iter().map(Into::into).collect();
    let region = m.tag("div").class("scroll").attr("tabindex", 0).attr("role", "region");
    region.attr("aria-label", caption).body(|m| {
        m.tag("table").body(|m| {
            m.tag("caption").text(caption);
            m.tag("thead").body(|m| {
                m.tag("tr").body(|m| {
                    for (column, name) in head.iter().enumerate() {
                        let numbers =
                            rows.iter().any(|row| row.cells.get(column).is_some_and(Cell::is_number));
                        let tag = m.tag("th").attr("scope", "col");
                        if numbers { tag.class("number") } else { tag }.text(name);
                    }
                });
            });
            m.tag("tbody").body(|m| {
                for row in rows {
                    let tag = m.tag("tr");
                    let tag = if row.class.is_empty() { tag } else { tag.class(row.class) };
                    tag.body(|m| row_cells(m, row.cells));
                    m.line();
                    for (class, text) in row.beneath {
                        m.tag("tr").class("beneath").body(|m| {
                            m.tag("td").class(class).attr("colspan", head.len()).text(text);
                        });
                        m.line();
                    }
                }
            });
        });
    });
    m.line();
}

fn row_cells(m: &mut Markup, row: Vec<Cell>) {
    for (index, cell) in row.into_iter().enumerate() {
        let tag = if index == 0 { m.tag("th").attr("scope", "row") } else { m.tag("td") };
        let tag = if cell.class.is_empty() { tag } else { tag.class(cell.class) };
        let tag = match cell.exact {
            Some(exact) => tag.attr("title", exact),
            None => tag,
        };
        tag.body(|m| {
            if let Some(class) = cell.swatch {
                swatch(m, &class);
            }
            match cell.link {
                Some(address) => m.tag("a").attr("href", address).text(cell.shown),
                None => m.text(cell.shown),
            };
            if let Some(note) = cell.note {
                m.tag("small").text(note);
            }
        });
    }
}

/// A color swatch and the name of the curve or cause that is drawn in this color.
pub fn swatch(m: &mut Markup, class: &str) {
    m.tag("span").class(format_args!("swatch {class}")).attr("aria-hidden", true).text("");
}

/// Returns a path as a relative address. It starts with `./`, and all special characters are percent-encoded.
pub fn address(path: &str) -> String {
    let mut address = String::from("./");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => address.push(byte as char),
            byte => {
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

/// Returns column headings.
pub fn head<const N: usize>(names: [&'static str; N]) -> [Cow<'static, str>; N] {
    names.map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_below_the_page() {
        assert_eq!(address("trials/0001-wire-10kpps/report.html"), "./trials/0001-wire-10kpps/report.html");
        assert_eq!(address("javascript:alert(1)"), "./javascript%3Aalert%281%29");
        assert_eq!(address("a b?c#d\u{e9}"), "./a%20b%3Fc%23d%C3%A9");
    }
}
