//! Builds the load generator's plan for the traffic of a trial.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use wiretail_dataplane::generator::frame::Addresses;
use wiretail_dataplane::generator::marks::Marks;
use wiretail_dataplane::generator::plan::{End, GeneratorPlan, LatePolicy, Pacing, Pattern, Sizes, Stream};
use wiretail_dataplane::generator::recording::Recording;
use wiretail_schema::experiment::{self, Directions, GeneratorPacing, TrafficPattern, Trial};
use wiretail_schema::run::pauses::Pauses;
use wiretail_schema::units::sizes::FrameSizes;

use crate::run::testbed::topology::{MAC_GENERATOR, MAC_SINK, Middle, Topology};

const IP_GENERATOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const IP_SINK: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

/// Ethertype of probes: reserved for experiments on a local network (IEEE 802, "Local Experimental Ethertype
/// 1").
const ETHERTYPE_PROBE: [u8; 2] = [0x88, 0xb5];
/// Protocol of probes that routers forward: reserved for experiments (RFC 3692).
const PROTOCOL_PROBE: u8 = 253;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];

/// Returns the plan of a trial. The plan starts as soon as the testbed and the devices are ready.
///
/// # Errors
/// Returns an error if a value does not fit a packet, or a recording cannot be read.
pub fn plan(trial: &Trial, seed: u64) -> Result<GeneratorPlan> {
    let traffic = &trial.traffic;
    let ways: u16 = match traffic.directions {
        Directions::OneWay => 1,
        Directions::Both => 2,
    };
    // Streams of both directions alternate, so that each direction has the configured rate.
    let rate_pps = traffic.rate.pps * u64::from(ways);
    let pattern = match traffic.pattern {
        TrafficPattern::Poisson => Pattern::Poisson { rate_pps },
        TrafficPattern::OnOff => {
            let (on_ns, off_ns) = (traffic.on.ns_unsigned(), traffic.off.ns_unsigned());
            Pattern::OnOff { rate_pps, on_ns, off_ns }
        }
        // A recording contains its own departure times.
        TrafficPattern::Constant | TrafficPattern::Replay if traffic.burst == 1 => {
            Pattern::Constant { rate_pps }
        }
        TrafficPattern::Constant | TrafficPattern::Replay => {
            Pattern::Bursts { rate_pps, burst: traffic.burst * u32::from(ways) }
        }
    };
    let port_to = traffic.port;
    let topology = Topology::of(trial);
    let [first_there, first_back] = topology.first_hops();
    let there = Addresses {
        mac_from: MAC_GENERATOR.0,
        mac_to: first_there.0,
        ip_from: IP_GENERATOR,
        ip_to: IP_SINK,
        port_to,
    };
    let back = Addresses {
        mac_from: MAC_SINK.0,
        mac_to: first_back.0,
        ip_from: IP_SINK,
        ip_to: IP_GENERATOR,
        port_to,
    };
    let sizes = match &traffic.size {
        FrameSizes::Fixed(len) => Sizes::Fixed(*len),
        mix @ FrameSizes::Mix { .. } => Sizes::Imix(mix.parts()),
    };
    let flows = traffic.flows;
    let recording = recording(trial)?;
    if recording.is_some() && ways == 2 {
        bail!(
            "traffic.pattern = \"replay\" sends in one direction only; expected traffic.directions = \
             \"one-way\""
        );
    }
    if recording.is_some() && topology.middle == Middle::Router {
        bail!(
            "traffic.pattern = \"replay\" sends packets as recorded, but a router accepts only frames for \
             its own Ethernet address; expected another pattern, or another dut.kind"
        );
    }
    // A recording contains its own packets.
    let count = if recording.is_some() { 0 } else { traffic.streams * ways };
    let mut streams = Vec::new();
    for id in 0..count {
        let port = usize::from(ways == 2 && id % 2 == 1);
        let addresses = if port == 1 { back } else { there };
        streams.push(Stream { id, port, addresses, flows, sizes: sizes.clone() });
    }
    Ok(GeneratorPlan {
        streams,
        recording,
        marks: marks(trial, seed)?,
        pattern,
        end: End::DurationNs(trial.trial.duration.ns_unsigned()),
        seed,
        start_ns: None,
        pacing: match traffic.pacing {
            GeneratorPacing::Spin => Pacing::Spin,
            GeneratorPacing::Sleep => Pacing::Sleep,
        },
        pauses: Pauses::default(),
        late_policy: match traffic.late_policy {
            experiment::LatePolicy::CatchUp => LatePolicy::CatchUp,
            experiment::LatePolicy::Skip => LatePolicy::Skip,
            experiment::LatePolicy::Shift => LatePolicy::Shift,
        },
        late_limit_ns: traffic.late_limit.ns_unsigned(),
        id_first: 0,
    })
}

/// Returns a probe for each direction. Devices forward probes like the load generator's packets, but probes
/// carry no signature.
pub fn probes(topology: &Topology) -> [[u8; 60]; 2] {
    let [first_there, first_back] = topology.first_hops();
    let probe = |from: [u8; 6], to: [u8; 6], ips: [Ipv4Addr; 2]| {
        let mut probe = [0; 60];
        probe[..6].copy_from_slice(&to);
        probe[6..12].copy_from_slice(&from);
        probe[12..14].copy_from_slice(&ETHERTYPE_PROBE);
        if topology.middle == Middle::Router {
            probe[12..14].copy_from_slice(&ETHERTYPE_IPV4);
            probe[14..34].copy_from_slice(&header(ips));
        }
        probe
    };
    [
        probe(MAC_GENERATOR.0, first_there.0, [IP_GENERATOR, IP_SINK]),
        probe(MAC_SINK.0, first_back.0, [IP_SINK, IP_GENERATOR]),
    ]
}

/// Returns the headers of an IPv4 probe (RFC 791): a total length of 46 bytes and a time to live of 64.
fn header([from, to]: [Ipv4Addr; 2]) -> [u8; 20] {
    let mut header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, PROTOCOL_PROBE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    // RFC 1071. The sum of twenty bytes needs only one carry.
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Returns whether a frame is one of the [`probes`], even after devices have rewritten its headers.
pub fn is_probe(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some(ethertype) if ethertype == ETHERTYPE_PROBE => true,
        Some(ethertype) if ethertype == ETHERTYPE_IPV4 => frame.get(23) == Some(&PROTOCOL_PROBE),
        _ => false,
    }
}

/// Returns which packets are marked; `None` if no packet is marked.
///
/// # Errors
/// Returns an error if the packets come from a recording, whose contents cannot be changed.
pub fn marks(trial: &Trial, seed: u64) -> Result<Option<Marks>> {
    let every = trial.traffic.mark_every;
    let text = trial.traffic.mark.as_bytes().to_vec();
    if every > 0 && trial.traffic.pattern == TrafficPattern::Replay {
        bail!(
            "traffic.mark-every = {every}: packets of a recording can't be marked; expected another \
             traffic.pattern"
        );
    }
    Ok((every > 0).then_some(Marks { every, text, seed }))
}

/// Reads the recording to replay, if there is one.
fn recording(trial: &Trial) -> Result<Option<Arc<Recording>>> {
    if trial.traffic.pattern != TrafficPattern::Replay {
        return Ok(None);
    }
    let path = Path::new(&trial.traffic.replay.0);
    crate::traffic::recording::read(path, Some(trial.traffic.rate.pps)).map(|found| Some(Arc::new(found)))
}

/// Maximum number of packets that a trial sends in each direction.
pub fn packets(trial: &Trial) -> u64 {
    let rate = trial.traffic.rate.pps;
    let seconds = trial.trial.duration.ns as f64 / 1e9;
    // The number of packets in Poisson traffic may exceed its mean, so six standard deviations are added.
    let mean = rate as f64 * seconds;
    (mean + 6.0 * mean.sqrt()).ceil() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testbed::topology::{Guests, Switch};

    #[test]
    fn routers_forward_ip_probes() {
        let topology = |middle| Topology {
            middle,
            devices: 1,
            switch: Switch::None,
            guests: Guests::None,
            both_directions: true,
            tap_senders: false,
        };
        let routed = probes(&topology(Middle::Router));
        assert_eq!(routed[0][..6], topology(Middle::Router).first_hops()[0].0);
        assert_eq!((&routed[0][26..30], &routed[0][30..34]), (&routed[1][30..34], &routed[1][26..30]));
        let words = routed[0][14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        assert_eq!(words.sum::<u32>() % 0xffff, 0, "the checksum");
        let bridged = probes(&topology(Middle::Bridge));
        assert_eq!(bridged[1][..6], MAC_GENERATOR.0);
        assert!(routed.iter().chain(&bridged).all(|probe| is_probe(probe)));
        let mut packet = routed[0];
        packet[23] = 17;
        assert!(!is_probe(&packet) && !is_probe(&packet[..13]));
    }
}
