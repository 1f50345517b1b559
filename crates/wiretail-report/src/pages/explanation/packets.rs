//! The worst packets one by one: a sentence and a picture each.

use std::collections::HashMap;

use wiretail_schema::causes::{PacketExplanation, TrialExplanation};

use super::timeline;
use super::words::sentence;
use crate::format;
use crate::html::Markup;
use crate::pages::explanation::breakdown;
use crate::pages::page;

/// The worst packets: their shares are drawn together, and each is shown.
pub const SHOWN: usize = 50;
/// Incidents that are open, and that are shown at all: of each the worst packet.
const OPEN: usize = 10;
const INCIDENTS: usize = 50;

/// The packets of an incident, by their ranks from 0: the worst of them is the first.
type Incident = Vec<usize>;

/// The worst packets.
pub fn shown(explanation: &TrialExplanation) -> &[PacketExplanation] {
    &explanation.worst[..explanation.worst.len().min(SHOWN)]
}

/// The section.
pub fn section(m: &mut Markup, explanation: &TrialExplanation) {
    if explanation.worst.is_empty() {
        return;
    }
    page::section(m, "packets", "The worst packets, one by one", |m| {
        m.tag("p").class("hint").text(format_args!(
            "Each picture shows core {}, on which the device forwards, from shortly before the packet came until it left. \
             Time 0 is when the packet came. Of very many events the shortest are left out. Packets that waited one \
             behind the other are one incident: its worst packet is shown, others of the {SHOWN} worst are folded.",
            explanation.evidence.core
        ));
        timeline::patterns(m);
        let mut causes: Vec<usize> = explanation
            .worst
            .iter()
            .flat_map(|packet| &packet.timeline)
            .filter_map(|span| span.cause)
            .collect();
        causes.sort_unstable();
        causes.dedup();
        breakdown::key(m, &explanation.causes, &causes, true);
        let mut incidents = incidents(&explanation.worst);
        incidents.truncate(INCIDENTS);
        let (open, more) = incidents.split_at(incidents.len().min(OPEN));
        list(m, explanation, open);
        if !more.is_empty() {
            m.tag("details").class("more").body(|m| {
                m.tag("summary").text(match more.len() {
                    1 => "1 more incident".to_owned(),
                    count => format!("{count} more incidents"),
                });
                list(m, explanation, more);
            });
        }
    });
}

/// The packets in the order of their ranks, each with those of the same incident.
fn incidents(packets: &[PacketExplanation]) -> Vec<Incident> {
    let mut incidents: Vec<Incident> = Vec::new();
    let mut places = HashMap::new();
    for (rank, packet) in packets.iter().enumerate() {
        let place = *places.entry(packet.incident).or_insert(incidents.len());
        match incidents.get_mut(place) {
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
                    rest(m, explanation, others);
                }
            });
            m.line();
        }
    });
    m.line();
}

/// The other packets of an incident: how many, and those of the worst one by one.
fn rest(m: &mut Markup, explanation: &TrialExplanation, others: &[usize]) {
    let many = match others.len() {
        1 => "1 more late packet is of the same incident".to_owned(),
        count => format!("{} more late packets are of the same incident", format::count(count as u64)),
    };
    let worst = &others[..others.partition_point(|&rank| rank < SHOWN)];
    if worst.is_empty() {
        m.tag("p").class("where").text(many);
        return;
    }
    m.tag("details").body(|m| {
        m.tag("summary").text(match worst.len() == others.len() {
            true => many,
            false => format!("{many}; here those of the {SHOWN} worst"),
        });
        worst.iter().for_each(|&rank| one(m, explanation, rank));
    });
}

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
