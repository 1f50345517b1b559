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
/// Of the incidents that they belong to, those that are open.
const OPEN: usize = 10;

/// The packets of an incident, by their ranks from 0: the worst of them is the first.
type Incident = Vec<usize>;

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
             Time 0 is when the packet came. Packets that waited one behind the other are one incident: the worst of \
             them is shown, the others are folded.",
            explanation.evidence.core
        ));
        timeline::patterns(m);
        let mut causes: Vec<usize> =
            packets.iter().flat_map(|packet| &packet.timeline).filter_map(|span| span.cause).collect();
        causes.sort_unstable();
        causes.dedup();
        shares::key(m, &explanation.causes, &causes, true);
        let incidents = incidents(packets);
        let (open, more) = incidents.split_at(incidents.len().min(OPEN));
        list(m, explanation, open);
        if !more.is_empty() {
            let count: usize = more.iter().map(Vec::len).sum();
            m.tag("details").class("more").body(|m| {
                m.tag("summary").text(match count {
                    1 => "1 more packet".to_owned(),
                    count => format!("{count} more packets"),
                });
                list(m, explanation, more);
            });
        }
    });
}

/// The packets in the order of their ranks, each with those of the same incident.
fn incidents(packets: &[PacketExplanation]) -> Vec<Incident> {
    let mut incidents: Vec<Incident> = Vec::new();
    for (rank, packet) in packets.iter().enumerate() {
        match incidents.iter_mut().find(|incident| packets[incident[0]].incident == packet.incident) {
            Some(incident) => incident.push(rank),
            None => incidents.push(vec![rank]),
        }
    }
    incidents
}

fn list(m: &mut Markup, explanation: &TrialExplanation, incidents: &[Incident]) {
    m.tag("ul").class("packets").body(|m| {
        for incident in incidents {
            let Some((&first, others)) = incident.split_first() else { continue };
            m.tag("li").body(|m| {
                one(m, explanation, first);
                if !others.is_empty() {
                    m.tag("details").body(|m| {
                        m.tag("summary").text(match others {
                            [rank] => format!("Rank {} is of the same incident", rank + 1),
                            ranks => {
                                format!("{} more of these packets are of the same incident", ranks.len())
                            }
                        });
                        others.iter().for_each(|&rank| one(m, explanation, rank));
                    });
                }
            });
            m.line();
        }
    });
    m.line();
}

/// A packet by its rank from 0.
fn one(m: &mut Markup, explanation: &TrialExplanation, rank: usize) {
    let (packet, rank) = (&explanation.worst[rank], rank + 1);
    m.tag("div").class("packet").body(|m| {
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
