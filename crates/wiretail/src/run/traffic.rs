//! What the load generator is to send in a trial.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use wiretail_dataplane::frame::Addresses;
use wiretail_dataplane::plan::{End, GeneratorPlan, Pattern, Sizes, Stream};
use wiretail_dataplane::recording::Recording;
use wiretail_schema::experiment::Trial;
use wiretail_schema::sizes::FrameSizes;

use super::topology::{MAC_GENERATOR, MAC_SINK};

/// For tests, by RFC 2544 as of RFC 6890: no address of anybody's network.
const IP_GENERATOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const IP_SINK: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

/// The plan of a trial that starts as soon as everything is ready.
///
/// # Errors
/// A value that fits no packet; a recording that can't be read.
pub fn plan(trial: &Trial, seed: u64) -> Result<GeneratorPlan> {
    let number = |name| trial.get("traffic", name).number;
    let ways: u64 = if trial.get("traffic", "directions").text == "both" { 2 } else { 1 };
    // Streams of both directions take turns, so that each direction has the rate.
    let rate_pps = number("rate") * ways;
    let pattern = match (trial.get("traffic", "pattern").text.as_str(), number("burst")) {
        ("poisson", _) => Pattern::Poisson { rate_pps },
        ("on-off", _) => Pattern::OnOff { rate_pps, on_ns: number("on"), off_ns: number("off") },
        (_, 1) => Pattern::Constant { rate_pps },
        (_, burst) => Pattern::Bursts { rate_pps, burst: u32::try_from(burst * ways)? },
    };
    let port_to = u16::try_from(number("port"))?;
    let there = Addresses {
        mac_from: MAC_GENERATOR.0,
        mac_to: MAC_SINK.0,
        ip_from: IP_GENERATOR,
        ip_to: IP_SINK,
        port_to,
    };
    let back = Addresses {
        mac_from: MAC_SINK.0,
        mac_to: MAC_GENERATOR.0,
        ip_from: IP_SINK,
        ip_to: IP_GENERATOR,
        port_to,
    };
    let sizes = match trial.get("traffic", "size").text.parse::<FrameSizes>()? {
        FrameSizes::Fixed(len) => Sizes::Fixed(len),
        mix => Sizes::Imix(mix.parts()),
    };
    let flows = u16::try_from(number("flows")).context("traffic.flows")?;
    let recording = recording(trial)?;
    if recording.is_some() && ways == 2 {
        bail!("traffic.pattern = \"replay\" sends one way only; expected traffic.directions = \"one-way\"");
    }
    // A recording has its own packets.
    let count = if recording.is_some() { 0 } else { u16::try_from(number("streams") * ways)? };
    let mut streams = Vec::new();
    for id in 0..count {
        let port = usize::from(ways == 2 && id % 2 == 1);
        let addresses = if port == 1 { back } else { there };
        streams.push(Stream { id, port, addresses, flows, sizes: sizes.clone() });
    }
    Ok(GeneratorPlan {
        streams,
        recording,
        pattern,
        end: End::DurationNs(trial.get("trial", "duration").number),
        seed,
        start_ns: None,
        late_limit_ns: number("late-limit"),
        id_first: 0,
    })
}

/// The recording to send again, if there is one.
fn recording(trial: &Trial) -> Result<Option<Arc<Recording>>> {
    if trial.get("traffic", "pattern").text != "replay" {
        return Ok(None);
    }
    let path = Path::new(&trial.get("traffic", "replay").text);
    crate::recording::read(path, Some(trial.get("traffic", "rate").number)).map(|found| Some(Arc::new(found)))
}

/// Packets that a trial sends in each direction, at most.
pub fn packets(trial: &Trial) -> u64 {
    let rate = trial.get("traffic", "rate").number;
    let seconds = trial.get("trial", "duration").number as f64 / 1e9;
    // Poisson traffic may have more than its mean: six standard deviations.
    let mean = rate as f64 * seconds;
    (mean + 6.0 * mean.sqrt()).ceil() as u64 + 1
}
