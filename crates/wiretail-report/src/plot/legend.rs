//! The legend, which explains the colors, bands and dashes of a plot.

use wiretail_schema::summary::figure::{Figure, Mark};

use crate::html::Markup;
use crate::plot::marks::{n, shape};
use crate::plot::{path, text};

const ROW: f64 = 18.0;
/// Width of the sample to the left of a text, including the gap between them.
const SAMPLE: f64 = 28.0;
/// Horizontal gap between two entries.
const GAP: f64 = 20.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Curve(usize),
    Band,
    Weak,
    Reference,
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    text: String,
    x: f64,
    row: usize,
}

/// A legend laid out in rows. It has no entries if the plot needs no explanation.
#[derive(Debug)]
pub struct Legend {
    entries: Vec<Entry>,
    width: f64,
    mark: Mark,
    many: bool,
}

impl Legend {
    /// Lays out the legend of `figure` in rows of at most `width`. `labels` belong to reference lines without
    /// a label in the drawing.
    pub fn new(figure: &Figure, labels: &[&str], width: f64) -> Self {
        let many = figure.series.len() > 1;
        let mut wanted = Vec::new();
        if many {
            let names = figure.series.iter().enumerate();
            wanted.extend(names.map(|(i, s)| (Kind::Curve(i), shortened(&s.name))));
        }
        if figure.series.iter().any(|s| !s.low.is_empty() && !s.high.is_empty()) {
            wanted.push((Kind::Band, "95\u{a0}% confidence interval".to_owned()));
        }
        if figure.series.iter().any(|s| s.supported.contains(&false)) {
            wanted.push((Kind::Weak, "not supported: n(1\u{2212}p) < 10".to_owned()));
        }
        wanted.extend(labels.iter().map(|label| (Kind::Reference, (*label).to_owned())));
        let (mut x, mut row) = (0.0, 0);
        let mut entries = Vec::new();
        let mut widest: f64 = 0.0;
        for (kind, text) in wanted {
            let needed = SAMPLE + text_width(&text);
            if x > 0.0 && x + needed > width {
                (x, row) = (0.0, row + 1);
            }
            entries.push(Entry { kind, text, x, row });
            widest = widest.max(x + needed);
            x += needed + GAP;
        }
        Self { entries, width: widest, mark: figure.mark, many }
    }

    /// Whether the legend fits into one row of this width.
    pub fn fits(&self, width: f64) -> bool {
        self.width <= width && self.entries.last().is_none_or(|last| last.row == 0)
    }

    pub fn width(&self) -> f64 {
        self.width
    }

    pub fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |last| (last.row + 1) as f64 * ROW)
    }

    /// Draws the rows from (`left`, `top`) downwards.
    pub fn draw(&self, m: &mut Markup, left: f64, top: f64) {
        for entry in &self.entries {
            let (x, y) = (left + entry.x, top + entry.row as f64 * ROW + 9.0);
            m.tag("g").class(self.class(entry.kind)).body(|m| {
                self.sample(m, entry.kind, x, y);
                text(m, "label", x + SAMPLE - 6.0, y + 4.0, "start", &entry.text);
            });
        }
    }

    fn class(&self, kind: Kind) -> String {
        match kind {
            Kind::Curve(index) => format!("key s{}", index % 6),
            Kind::Band | Kind::Weak => "key s0".to_owned(),
            Kind::Reference => "key".to_owned(),
        }
    }

    fn sample(&self, m: &mut Markup, kind: Kind, x: f64, y: f64) {
        let stroke = format!("M{} {}h18", n(x), n(y));
        match (kind, self.mark) {
            (Kind::Band, _) => {
                m.tag("path").class("band").attr("d", format!("M{} {}h18v10h-18z", n(x), n(y - 5.0))).close();
            }
            (Kind::Reference, _) => path(m, "ref", stroke),
            (Kind::Weak, Mark::Point) => {
                m.tag("path").class("dots weak").attr("d", format!("M{} {}h0", n(x + 9.0), n(y))).close();
            }
            (Kind::Weak, _) => {
                m.tag("path").class("line weak").attr("d", stroke).close();
            }
            (Kind::Curve(index), Mark::Point) => {
                let class = if index % 2 == 0 { "dots sparse" } else { "dots square sparse" };
                m.tag("path").class(class).attr("d", format!("M{} {}h0", n(x + 9.0), n(y))).close();
            }
            (Kind::Curve(_), Mark::Bar) => {
                m.tag("path")
                    .class("bar many")
                    .attr("d", format!("M{} {}h18v10h-18z", n(x), n(y - 5.0)))
                    .close();
            }
            (Kind::Curve(index), mark) => {
                m.tag("path").class("line").attr("d", stroke).close();
                if mark == Mark::Line && self.many {
                    m.tag("path").class("knot").attr("d", shape(index, x + 9.0, y)).close();
                }
            }
        }
    }
}

/// Shortens long names. File names are usually distinguished by their beginning and end, so the middle is
/// cut.
pub fn shortened(name: &str) -> String {
    const LONGEST: usize = 44;
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= LONGEST {
        return name.to_owned();
    }
    let head: String = chars[..LONGEST / 2].iter().collect();
    let tail: String = chars[chars.len() - LONGEST / 2..].iter().collect();
    format!("{head}…{tail}")
}

/// Estimates the width of a label from the advance widths of a common sans-serif font at the labels' size.
pub fn text_width(text: &str) -> f64 {
    const SIZE: f64 = 12.0;
    let em = |c: char| match c {
        '\u{202f}' => 0.2,
        '.' | ',' | ' ' | '\u{a0}' | 'i' | 'l' | 'j' | '·' | ':' => 0.28,
        'f' | 't' | 'r' | '(' | ')' | '-' => 0.34,
        'm' | 'w' | '%' | '@' | 'M' | 'W' => 0.86,
        c if c.is_uppercase() => 0.68,
        _ => 0.556,
    };
    text.chars().map(em).sum::<f64>() * SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("{}{}", "a".repeat(60), ".pcap");
        let short = shortened(&name);
        assert_eq!(short.chars().count(), 45);
        assert!(short.ends_with("a.pcap") && short.contains('…'));
        assert_eq!(shortened("Üben.pcap"), "Üben.pcap");
    }
}
