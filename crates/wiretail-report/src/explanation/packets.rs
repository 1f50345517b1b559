//! The worst packets one by one: a sentence and a picture each.

use wiretail_schema::causes::{PacketExplanation, TrialExplanation};

use super::shares;
use super::timeline;
use super::words::sentence;
use crate::format;
use crate::html::Markup;
use crate::page;

/// Packets that are shown.
pub const SHOWN: usize = 50;
/// Of those, packets that are open.
const OPEN: usize = 10;

/// The packets that are shown one by one.
pub fn shown(explanation: &TrialExplanation) -> &[PacketExplanation] {
    &explanation.worst[..explanation.worst.len().min(SHOWN)]
}

/// The section.
pub fn section(m: &mut Markup, explanation: &TrialExplanation) {
    let packets = shown(explanation);
    if packets.is_empty() {
        return;
    }
    let heading = match packets.len() {
        1 => "The worst packet".to_owned(),
        count => format!("The {count} worst packets, one by one"),
    };
    page::section(m, "packets", &heading, |m| {
        m.tag("p").class("hint").text(format_args!(
            "Each picture shows core {}, on which the device forwards, from shortly before the packet came until it left. \
             Time 0 is when the packet came.",
            explanation.evidence.core
        ));
        timeline::patterns(m);
        let mut causes: Vec<usize> =
            packets.iter().flat_map(|packet| &packet.timeline).filter_map(|span| span.cause).collect();
        causes.sort_unstable();
        causes.dedup();
        shares::key(m, &explanation.causes, &causes, true);
        let (open, more) = packets.split_at(packets.len().min(OPEN));
        list(m, explanation, open, 0);
        if !more.is_empty() {
            m.tag("details").class("more").body(|m| {
                m.tag("summary").text(format_args!("Ranks {} to {}", OPEN + 1, packets.len()));
                list(m, explanation, more, OPEN);
            });
        }
    });
}

fn list(m: &mut Markup, explanation: &TrialExplanation, packets: &[PacketExplanation], before: usize) {
    m.tag("ol").class("packets").attr("start", before + 1).body(|m| {
        for (place, packet) in packets.iter().enumerate() {
            one(m, explanation, packet, before + place + 1);
        }
    });
    m.line();
}

fn one(m: &mut Markup, explanation: &TrialExplanation, packet: &PacketExplanation, rank: usize) {
    m.tag("li").body(|m| {
        m.tag("p").class("said").body(|m| {
            m.tag("span").class("rank").text(format_args!("{rank}"));
            let said = sentence(explanation, packet);
            // The delay is what the eye looks for.
            let (delay, rest) = said.split_at(said.find([',', ':']).unwrap_or(said.len()));
            m.tag("strong").attr("title", format::exact_ns(packet.delay_ns)).text(delay);
            m.text(rest);
        });
        m.tag("p").class("where").text(format_args!(
            "packet {} of the stream, {} after the first; {}",
            format::count(packet.index),
            format::duration(packet.at_ns as f64),
            match packet.ahead {
                0 => "no other packet was in the device when it came".to_owned(),
                1 => "one other packet was in the device when it came".to_owned(),
                ahead => format!("{} other packets were in the device when it came", format::count(ahead)),
            }
        ));
        timeline::draw(m, explanation, packet, rank);
    });
    m.line();
}
