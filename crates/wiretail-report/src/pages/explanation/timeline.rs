//! A small drawing of the core's activity while a packet was in the device.

use wiretail_schema::causes::{Certainty, PacketExplanation, TimelineSpan, TrialExplanation};
use wiretail_schema::summary::figure::{Axis, Scale, Unit};

use super::words::cause_and_sender;
use crate::format;
use crate::html::Markup;
use crate::pages::explanation::breakdown::{CERTAINTIES, colour, place};
use crate::plot::legend;
use crate::plot::marks::n;
use crate::plot::scale::{self, Extent, Ruler};
use crate::plot::text;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 92.0;
/// Ends of the time axis.
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Upper edge and height of the packet's lane, followed by those of the core's lane.
const PACKET: (f64, f64) = (8.0, 14.0);
const CORE: (f64, f64) = (30.0, 26.0);
/// Upper edge and height of the device's own work, within the core's lane.
const OWN: (f64, f64) = (CORE.0 + 8.0, CORE.1 - 16.0);
/// Vertical position of the time axis.
const AXIS: f64 = 66.0;
/// Maximum number of spans drawn; if there are more, the shortest are omitted.
const MOST: usize = 400;

/// Fill patterns shared by the drawings of a page.
pub fn patterns(m: &mut Markup) {
    m.tag("svg").class("plot patterns").attr("width", 0).attr("height", 0).attr("aria-hidden", true).body(
        |m| {
            m.tag("defs").body(|m| {
                pattern(m, "texture-modelled", 6, |m| {
                    m.tag("path").class("hatch").attr("d", "M-1 1l2 -2M-1 7l8 -8M5 7l2 -2").close();
                });
                pattern(m, "texture-inferred", 5, |m| {
                    m.tag("circle").class("dot").attr("cx", 2.5).attr("cy", 2.5).attr("r", 1.2).close();
                });
            });
        },
    );
    m.line();
}

fn pattern(m: &mut Markup, id: &'static str, size: u32, content: impl FnOnce(&mut Markup)) {
    let tag = m.tag("pattern").attr("id", id).attr("width", size).attr("height", size);
    tag.attr("patternUnits", "userSpaceOnUse").body(content);
}

/// Draws one packet's timeline, if it has one.
pub fn draw(m: &mut Markup, explanation: &TrialExplanation, packet: &PacketExplanation, rank: usize) {
    if packet.timeline.is_empty() {
        return;
    }
    let spans = || packet.timeline.iter();
    let low = spans().map(|span| span.from_ns).min().unwrap_or(0).min(0);
    let high = spans().map(|span| span.to_ns).max().unwrap_or(0).max(packet.delay_ns).max(low + 1);
    // Events long before the packet would leave too little room for the rest.
    let low = low.max(-packet.delay_ns.max(1));
    let extent = Extent { low: low as f64, high: high as f64 };
    let ruler = Ruler::new(Scale::Linear, extent, LEFT, RIGHT);
    let name = format!(
        "Activity of core {} while the packet of rank {rank} was in the device",
        explanation.evidence.core
    );
    m.tag("svg")
        .class("plot timeline tips")
        .attr("viewBox", format_args!("0 0 {WIDTH} {HEIGHT}"))
        .attr("role", "img")
        .attr("aria-label", name)
        .body(|m| {
            axis(m, &ruler, extent);
            lane(m, "packet", PACKET);
            lane(m, &format!("core {}", explanation.evidence.core), CORE);
            own(m);
            in_device(m, &ruler, packet);
            core(m, explanation, packet, &ruler, extent);
            for at in [0.0, packet.delay_ns as f64] {
                let d = format!("M{} {}V{AXIS}", n(ruler.clamped(at)), n(PACKET.0 - 4.0));
                m.tag("path").class("when").attr("d", d).close();
            }
        });
    m.line();
}

fn lane(m: &mut Markup, name: &str, (top, height): (f64, f64)) {
    text(m, "label", LEFT - 10.0, top + height / 2.0 + 4.0, "end", name);
    let rect = m.tag("rect").class("lane").attr("x", n(LEFT)).attr("y", n(top));
    rect.attr("width", n(RIGHT - LEFT)).attr("height", n(height)).close();
}

/// Draws the device's own thread in the background.
fn own(m: &mut Markup) {
    let (top, height) = OWN;
    m.tag("g").class("k-own").body(|m| {
        let rect = m.tag("rect").class("body").attr("x", n(LEFT)).attr("y", n(top));
        rect.attr("width", n(RIGHT - LEFT)).attr("height", n(height)).close();
    });
}

/// The packet's lane: from arrival to departure.
fn in_device(m: &mut Markup, ruler: &Ruler, packet: &PacketExplanation) {
    let (from, to) = (ruler.clamped(0.0), ruler.clamped(packet.delay_ns as f64));
    let (top, height) = PACKET;
    let rect = m.tag("rect").class("within").attr("x", n(from)).attr("y", n(top));
    rect.attr("width", n((to - from).max(1.0))).attr("height", n(height)).close();
    let said = format!("in the device for {}", format::about(packet.delay_ns as f64));
    let (width, ends) =
        (legend::text_width(&said), legend::text_width("arrived") + legend::text_width("left"));
    if width + ends + 48.0 < to - from {
        text(m, "label strong", from + 6.0, top + 11.0, "start", "arrived");
        text(m, "label strong", (from + to) / 2.0, top + 11.0, "middle", &said);
        text(m, "label strong", to - 6.0, top + 11.0, "end", "left");
    }
}

/// The core's lane: its activity in the colors of the causes.
fn core(
    m: &mut Markup,
    explanation: &TrialExplanation,
    packet: &PacketExplanation,
    ruler: &Ruler,
    extent: Extent,
) {
    let visible = |span: &&TimelineSpan| span.to_ns > span.from_ns && (span.to_ns as f64) > extent.low;
    let mut spans: Vec<&TimelineSpan> = packet.timeline.iter().filter(visible).collect();
    if spans.len() > MOST {
        spans.sort_by_key(|span| std::cmp::Reverse(span.to_ns.saturating_sub(span.from_ns)));
        spans.truncate(MOST);
    }
    spans.sort_by_key(|span| span.from_ns);
    for span in spans {
        let (from, to) = (ruler.clamped(span.from_ns as f64), ruler.clamped(span.to_ns as f64));
        let own = span.cause.is_none();
        let (top, height) = if own { OWN } else { CORE };
        let width = (to - from).max(0.8);
        let class =
            span.cause.map_or_else(|| "k-own v0".to_owned(), |cause| colour(&explanation.causes, cause));
        let name = span.cause.map_or_else(
            || "the device's own work".to_owned(),
            |cause| cause_and_sender(explanation, cause, span.sender),
        );
        let tip = format!(
            "{name}\n{}, {}\nfrom {} to {}",
            format::duration(span.to_ns.saturating_sub(span.from_ns) as f64),
            CERTAINTIES[place(span.certainty)],
            format::duration(span.from_ns as f64),
            format::duration(span.to_ns as f64),
        );
        m.tag("g").class(format_args!("span {class}")).attr("data-tip", tip).body(|m| {
            let rect = |m: &mut Markup, class: &str, fill: Option<&str>| {
                let tag = m.tag("rect").class(class).attr("x", n(from)).attr("y", n(top));
                let tag = tag.attr("width", n(width)).attr("height", n(height));
                if let Some(fill) = fill { tag.attr("fill", fill) } else { tag }.close();
            };
            rect(m, "body", None);
            match span.certainty {
                Certainty::Observed => {}
                Certainty::Modelled => rect(m, "texture", Some("url(#texture-modelled)")),
                Certainty::Inferred => rect(m, "texture", Some("url(#texture-inferred)")),
            }
            // Show only the name if the sender does not fit.
            let short = span.cause.map(|cause| cause_and_sender(explanation, cause, None));
            let label = [Some(name.clone()), short].into_iter().flatten().filter(|_| !own);
            if let Some(label) = label.into_iter().find(|label| legend::text_width(label) + 16.0 < width) {
                let half = legend::text_width(&label) / 2.0 + 5.0;
                let middle = (from + to) / 2.0;
                let tag = m.tag("rect").class("pill").attr("x", n(middle - half)).attr("y", n(CORE.0 + 5.0));
                tag.attr("width", n(2.0 * half)).attr("height", 16).attr("rx", 2).close();
                text(m, "label strong", middle, CORE.0 + 17.0, "middle", &label);
            }
        });
    }
}

/// Ticks below the core's lane, and the labels of both markers.
fn axis(m: &mut Markup, ruler: &Ruler, extent: Extent) {
    let axis =
        Axis { label: String::new(), column: String::new(), unit: Unit::Nanoseconds, scale: Scale::Linear };
    let ticks = scale::ticks(&axis, extent, RIGHT - LEFT, 80.0);
    m.tag("path").class("axis").attr("d", format!("M{LEFT} {AXIS}H{RIGHT}")).close();
    let mut right = f64::NEG_INFINITY;
    for tick in &ticks.major {
        let Some(at) = ruler.at(tick.value).filter(|_| ruler.shows(tick.value)) else { continue };
        m.tag("path").class("axis").attr("d", format!("M{} {AXIS}v4", n(at))).close();
        let label = if ticks.unit.is_empty() {
            tick.label.clone()
        } else {
            format!("{}{}{}", tick.label, format::SPACE, ticks.unit)
        };
        let half = legend::text_width(&label) / 2.0;
        if at - half < right + 6.0 || at + half > WIDTH {
            continue;
        }
        right = at + half;
        text(m, "label", at, AXIS + 18.0, "middle", &label);
    }
}
