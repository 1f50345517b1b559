//! The worst packets, each with a sentence and a drawing.

use std::collections::HashMap;

use wiretail_schema::causes::{PacketExplanation, TrialExplanation};

use super::timeline;
use super::words::sentence;
use crate::format;
use crate::html::Markup;
use crate::pages::explanation::breakdown;
use crate::pages::page;

/// Number of worst packets that are shown. One bar shows the breakdown of all of them together.
pub const SHOWN: usize = 50;
/// Number of unfolded incidents, and total number of incidents shown. Each incident shows its worst packet.
const OPEN: usize = 10;
const INCIDENTS: usize = 50;

/// The packets of an incident by rank, starting at 0; the first one is the worst.
type Incident = Vec<usize>;

pub fn shown(explanation: &TrialExplanation) -> &[PacketExplanation] {
    &explanation.worst[..explanation.worst.len().min(SHOWN)]
}

pub fn section(m: &mut Markup, explanation: &TrialExplanation) {
    if explanation.worst.is_empty() {
        return;
    }
    page::section(m, "packets", "The worst packets", |m| {
        m.tag("p").class("hint").text(format_args!(
            "Each drawing shows core {}, which runs the device, from shortly before the packet arrived until it \
             left. Time 0 is the arrival of the packet. If there are very many events, the shortest are omitted. \
             Packets that queued behind each other form one incident: its worst packet is shown, and the others \
             among the {SHOWN} worst are folded.",
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

/// The packets in the order of their ranks, grouped by incident.
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

/// The other packets of an incident. Their number is shown, and those among the worst packets are listed.
fn rest(m: &mut Markup, explanation: &TrialExplanation, others: &[usize]) {
    let many = match others.len() {
        1 => "1 more delayed packet in the same incident".to_owned(),
        count => format!("{} more delayed packets in the same incident", format::count(count as u64)),
    };
    let worst = &others[..others.partition_point(|&rank| rank < SHOWN)];
    if worst.is_empty() {
        m.tag("p").class("where").text(many);
        return;
    }
    m.tag("details").body(|m| {
        m.tag("summary").text(match worst.len() == others.len() {
            true => many,
            false => format!("{many}; shown are those among the {SHOWN} worst"),
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
            // The delay is highlighted because it is what readers look for.
            let (delay, rest) = said.split_at(said.find([',', ':']).unwrap_or(said.len()));
            m.tag("strong").attr("title", format::exact_ns(packet.delay_ns)).text(delay);
            m.text(rest);
        });
        m.tag("p").class("where").text(format_args!(
            "packet {} of the stream, {} after the first; {}",
            format::count(packet.index),
            format::duration(packet.at_ns as f64),
            match packet.ahead {
                0 => "no other packet was in the device when it arrived".to_owned(),
                1 => "one other packet was in the device when it arrived".to_owned(),
                ahead => format!("{} other packets were in the device when it arrived", format::count(ahead)),
            }
        ));
        timeline::draw(m, explanation, packet, rank);
    });
    m.line();
}
