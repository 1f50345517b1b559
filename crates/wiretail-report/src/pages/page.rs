//! Parts that all documents share: the page itself, sections, answers, tiles and figures.

use wiretail_schema::summary::figure::Figure;

use crate::html::Markup;
use crate::plot::hover;
use crate::plot::{Plot, Size};

/// Forbids all requests: the page contains its styles and scripts and must not load anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// Renders an HTML document that needs no other files.
pub fn document(title: &str, content: impl FnOnce(&mut Markup)) -> String {
    let mut m = Markup::with_capacity(512 * 1024);
    m.prologue("<!DOCTYPE html>\n");
    m.tag("html").attr("lang", "en").body(|m| {
        m.tag("head").body(|m| {
            m.tag("meta").attr("charset", "utf-8").close();
            m.tag("meta").attr("http-equiv", "Content-Security-Policy").attr("content", POLICY).close();
            m.tag("meta")
                .attr("name", "viewport")
                .attr("content", "width=device-width, initial-scale=1")
                .close();
            m.tag("meta").attr("name", "color-scheme").attr("content", "light dark").close();
            m.tag("link").attr("rel", "icon").attr("href", "data:,").close();
            m.tag("title").text(title);
            m.asset("style", include_str!("../assets/plot.css"));
            m.asset("style", include_str!("../assets/report.css"));
            m.asset("style", include_str!("../assets/causes.css"));
        });
        m.line();
        m.tag("body").body(|m| {
            content(m);
            m.asset("script", include_str!("../assets/report.js"));
        });
    });
    m.line();
    m.finish()
}

pub fn section(m: &mut Markup, id: &'static str, heading: &str, content: impl FnOnce(&mut Markup)) {
    m.tag("section").attr("id", id).body(|m| {
        m.tag("h2").text(heading);
        content(m);
    });
    m.line();
}

/// A prominent answer: class, sign and word; subject; reason; and the data on which it is based.
pub fn answer(
    m: &mut Markup,
    (class, sign, word): (&'static str, &str, &str),
    what: &str,
    reason: &str,
    basis: &str,
) {
    m.tag("article").class(format_args!("card {class}")).body(|m| {
        m.tag("p").class("outcome").body(|m| {
            m.tag("span").class("sign").attr("aria-hidden", true).text(sign);
            m.tag("strong").text(word);
            m.tag("span").class("budget").text(what);
        });
        m.tag("p").class("reason").text(reason);
        m.tag("p").class("basis").text(basis);
    });
}

/// A key number: its name, its value, and the data on which it is based.
pub fn tile(m: &mut Markup, name: &str, value: &str, exact: &str, lines: &[String], warning: Option<&str>) {
    m.tag("div").class(if warning.is_some() { "tile unsupported" } else { "tile" }).body(|m| {
        m.tag("dt").text(name);
        let dd = m.tag("dd").class("value");
        let dd = if exact.is_empty() { dd } else { dd.attr("title", exact) };
        dd.text(value);
        for line in lines {
            m.tag("dd").text(line);
        }
        if let Some(warning) = warning {
            m.tag("dd").class("warning").text(warning);
        }
    });
}

/// A figure with its heading, drawing, caption and data.
pub fn figure(m: &mut Markup, figure: &Figure, size: Size, index: usize) {
    let plot = Plot::new(figure, size);
    let class = if size == Size::Wide { "wide" } else { "half" };
    m.tag("figure").class(class).attr("data-figure", &figure.id).body(|m| {
        m.tag("h3").body(|m| {
            m.tag("span").text(&figure.title);
            // The script sets the link's address. Without scripts the link has no address and is hidden.
            m.tag("a")
                .class("csv")
                .attr("download", format_args!("{}.csv", figure.id))
                .attr("aria-label", format_args!("{}: data as CSV", figure.title))
                .text("CSV");
        });
        m.tag("div").class("frame").body(|m| {
            plot.draw(m, &format!("figure-{index}"));
        });
        m.tag("figcaption").text(&figure.caption);
        m.json("figure-data", &hover::data(figure, &plot));
    });
    m.line();
}

/// Writes the footer with the program's version.
pub fn footer(m: &mut Markup, version: &str) {
    m.tag("footer").body(|m| {
        m.tag("p").text(format_args!(
            "Written by wiretail {version}. This file is self-contained: it loads nothing and sends nothing."
        ));
    });
    m.line();
}
