//! Writes HTML and SVG markup; no other module does.
//!
//! Only whole elements are appended to a [`Markup`]. Names of elements and attributes are literals, and every
//! text and attribute value is escaped by `Escaped`. A file name therefore cannot become markup, and callers
//! cannot forget to escape. Scripts and styles are literals too. The only exception is embedded data. It is
//! JSON with `<` written as `\u003c`, so that it cannot close its element.

use std::fmt::{self, Display, Write};

use serde_json::Value;

#[derive(Debug, Default)]
pub struct Markup {
    text: String,
}

impl Markup {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { text: String::with_capacity(capacity) }
    }

    /// Starts an element; finish it with [`Tag::body`], [`Tag::text`] or [`Tag::close`].
    pub fn tag(&mut self, name: &'static str) -> Tag<'_> {
        self.text.push('<');
        self.text.push_str(name);
        Tag { markup: self, name }
    }

    /// Appends escaped text.
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        write!(Escaped(&mut self.text), "{text}").expect("writing to a string does not fail");
        self
    }

    /// Appends a document type or another line outside of elements.
    pub fn prologue(&mut self, line: &'static str) {
        self.text.push_str(line);
    }

    /// Appends a style or script element. Its text must not be escaped, so only literals are accepted.
    pub fn asset(&mut self, name: &'static str, text: &'static str) {
        debug_assert!(!text.contains("</"), "an asset cannot hold an end tag");
        let _ = write!(self.text, "<{name}>\n{text}</{name}>\n");
    }

    /// Appends data for the script.
    pub fn json(&mut self, class: &'static str, data: &Value) {
        let json = data.to_string().replace('<', "\\u003c");
        let _ = writeln!(self.text, "<script type=\"application/json\" class=\"{class}\">{json}</script>");
    }

    /// Appends a line feed, which makes the HTML source easier to read.
    pub fn line(&mut self) {
        self.text.push('\n');
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// An element with an open start tag, to which attributes can be added.
#[must_use = "call body, text or close to finish the element"]
pub struct Tag<'a> {
    markup: &'a mut Markup,
    name: &'static str,
}

impl<'a> Tag<'a> {
    /// Adds an attribute; its value is escaped.
    pub fn attr(self, name: &'static str, value: impl Display) -> Self {
        let text = &mut self.markup.text;
        let _ = write!(text, " {name}=\"");
        let _ = write!(Escaped(text), "{value}");
        text.push('"');
        self
    }

    pub fn class(self, names: impl Display) -> Self {
        self.attr("class", names)
    }

    /// Writes the element's content and its end tag.
    pub fn body(self, content: impl FnOnce(&mut Markup)) -> &'a mut Markup {
        let Self { markup, name } = self;
        markup.text.push('>');
        content(markup);
        let _ = write!(markup.text, "</{name}>");
        markup
    }

    /// Writes an element that contains only text.
    pub fn text(self, text: impl Display) -> &'a mut Markup {
        self.body(|m| {
            m.text(text);
        })
    }

    /// Closes an element without content: void in HTML (`meta`), childless in SVG (`path`).
    pub fn close(self) -> &'a mut Markup {
        self.markup.text.push_str("/>");
        self.markup
    }
}

/// Escapes everything written through it. Characters that XML forbids become U+FFFD, so that a stand-alone
/// SVG stays well-formed for any file name.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' | '\n' | '\r' => self.0.push(c),
                '\0'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                // Bidirectional control characters could make one name look like another.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut m = Markup::default();
        m.tag("p").attr("title", "\"><script>alert('1')</script>").text("<img src=x onerror=alert(1)>&");
        assert_eq!(
            m.finish(),
            "<p title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\">\
             &lt;img src=x onerror=alert(1)&gt;&amp;</p>"
        );
    }

    #[test]
    fn elements_nest_and_close() {
        let mut m = Markup::default();
        m.tag("g").class("a b").body(|m| {
            m.tag("path").attr("d", "M0 0").close();
            m.text("x");
        });
        assert_eq!(m.finish(), "<g class=\"a b\"><path d=\"M0 0\"/>x</g>");
    }

    #[test]
    fn data_cannot_end_its_element() {
        let mut m = Markup::default();
        m.json("d", &json!({"name": "</script><script>alert(1)</script><!--"}));
        let text = m.finish();
        assert_eq!(text.matches('<').count(), 2, "{text}");
        assert!(text.contains("\\u003c/script>"), "{text}");
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        let mut m = Markup::default();
        m.text("a\u{0}b\u{1b}[31m\u{202e}gpj.exe");
        assert_eq!(m.finish(), "a\u{fffd}b\u{fffd}[31m\u{fffd}gpj.exe");
    }
}
