//! Before the measurement: which key recognises the packets, and do the taps' clocks agree?

use anyhow::{Result, bail};
use wiretail_analysis::probe::{Sighting, Trial, clock_problem, try_rule};
use wiretail_capture::key::{AUTO_RULES, INVARIANT_PAYLOAD, Keyer, key_rule_text, parse_key_rule};
use wiretail_schema::packet::KeyRule;
use wiretail_schema::summary::{Key, KeyTrial};

use crate::source::Source;

/// Packets looked at on either side.
const PACKETS: usize = 4096;
/// Bytes that link layer, two VLAN tags and an IPv6 header take: what a snap length leaves is payload.
const HEADERS: usize = 14 + 8 + 40;

/// How packets will be recognised.
pub struct Recognition {
    /// The rule, with the payload that both taps captured.
    pub keyer: Keyer,
    /// For the summary.
    pub key: Key,
}

/// Which key was asked for.
pub enum KeyChoice {
    /// Try [`AUTO_RULES`] in order.
    Auto,
    /// This one.
    Rule(KeyRule),
}

/// Reads `--key`.
pub fn key_choice(text: &str, zero_checksums: bool) -> Result<KeyChoice> {
    if text == "auto" {
        if zero_checksums {
            bail!("--zero-checksums goes with --key bytes:A-B, such as --key bytes:12-64 --zero-checksums");
        }
        return Ok(KeyChoice::Auto);
    }
    Ok(KeyChoice::Rule(
        parse_key_rule(text, zero_checksums).map_err(|error| anyhow::anyhow!("--key: {error}"))?,
    ))
}

/// The first packets of one tap, seen by every rule at once.
struct Look {
    sightings: Vec<Vec<Sighting>>,
    /// Shortest captured length among packets that were cut by the snap length.
    cut_at: Option<usize>,
}

impl Look {
    /// Looks at the first packets of `source` from `from_ns` on.
    fn at(source: &Source, keyers: &[Keyer], from_ns: i64) -> Result<Self> {
        let mut look = Self { sightings: vec![Vec::new(); keyers.len()], cut_at: None };
        let mut reader = source.peek()?;
        let mut packets = 0;
        while packets < PACKETS {
            let more = reader.read(&mut |frame| {
                if frame.ts_ns < from_ns || packets >= PACKETS {
                    return;
                }
                packets += 1;
                if frame.data.len() < frame.wire_len as usize {
                    look.cut_at = Some(look.cut_at.map_or(frame.data.len(), |cut| cut.min(frame.data.len())));
                }
                for (keyer, sightings) in keyers.iter().zip(&mut look.sightings) {
                    sightings.push((frame.ts_ns, keyer.key(frame)));
                }
            })?;
            if !more {
                break;
            }
        }
        Ok(look)
    }

    fn first_ns(&self) -> Option<i64> {
        self.sightings.first()?.first().map(|sighting| sighting.0)
    }
}

/// Looks at the first packets of both captures and settles on a rule.
///
/// `post_offset_ns` is added to every egress stamp, `window_ns` is the longest latency looked for.
///
/// # Errors
/// A capture that can't be read; captures without a packet in common; clocks or files that are mixed up.
pub fn recognise(
    pre: &Source,
    post: &Source,
    choice: &KeyChoice,
    post_offset_ns: i64,
    window_ns: i64,
) -> Result<Recognition> {
    let rules = match choice {
        KeyChoice::Auto => AUTO_RULES.to_vec(),
        KeyChoice::Rule(rule) => vec![rule.clone()],
    };
    let mut payload_limit = INVARIANT_PAYLOAD;
    let mut trials = try_rules(pre, post, &rules, &mut payload_limit, post_offset_ns, None)?;
    let suitable = |trials: &[Trial]| trials.iter().position(|trial| trial.suitable);
    if suitable(&trials).is_none() {
        // One tap may have started long before the other: look again where both record.
        trials = try_rules(pre, post, &rules, &mut payload_limit, post_offset_ns, Some(window_ns))?;
    }
    let chosen = suitable(&trials);
    let reports =
        trials.iter().map(|trial| trial.report.clone()).take(chosen.map_or(usize::MAX, |i| i + 1)).collect();
    let place = match choice {
        KeyChoice::Rule(_) => 0,
        KeyChoice::Auto => match chosen {
            Some(place) => place,
            None => bail!(no_common_packet(pre, post, &trials)),
        },
    };
    let overlapping = pre.peeks_all() && post.peeks_all();
    if trials[place].delays_ns.is_empty() && overlapping && trials[place].report.with_key > 0 {
        bail!(no_common_packet(pre, post, &trials));
    }
    if let Some(problem) = clock_problem(&trials[place].delays_ns, window_ns) {
        bail!("{} and {}: {problem}", pre.name, post.name);
    }
    let keyer = Keyer::with_payload_limit(&rules[place], payload_limit);
    let mut tried: Vec<KeyTrial> = reports;
    let chosen_automatically = matches!(choice, KeyChoice::Auto);
    if chosen_automatically {
        if let Some(last) = tried.last_mut() {
            last.outcome = "taken".to_owned();
        }
    } else {
        tried.truncate(1);
    }
    Ok(Recognition { key: Key { rule: key_rule_text(keyer.rule()), chosen_automatically, tried }, keyer })
}

fn try_rules(
    pre: &Source,
    post: &Source,
    rules: &[KeyRule],
    payload_limit: &mut usize,
    post_offset_ns: i64,
    align: Option<i64>,
) -> Result<Vec<Trial>> {
    let keyers = |limit: usize| -> Vec<Keyer> {
        rules.iter().map(|rule| Keyer::with_payload_limit(rule, limit)).collect()
    };
    let (mut from_pre, mut from_post) = (i64::MIN, i64::MIN);
    if align.is_some() {
        let one = keyers(*payload_limit);
        let start_pre = Look::at(pre, &one[..1], i64::MIN)?.first_ns();
        let start_post = Look::at(post, &one[..1], i64::MIN)?.first_ns();
        if let (Some(start_pre), Some(start_post)) = (start_pre, start_post) {
            from_pre = start_post.saturating_add(post_offset_ns);
            from_post = start_pre.saturating_sub(post_offset_ns);
        }
    }
    let mut looks = (
        Look::at(pre, &keyers(*payload_limit), from_pre)?,
        Look::at(post, &keyers(*payload_limit), from_post)?,
    );
    // Taps with different snap lengths see different parts of the payload: use what both have.
    if let Some(cut) = [looks.0.cut_at, looks.1.cut_at].into_iter().flatten().min() {
        let limit = cut.saturating_sub(HEADERS);
        if limit < *payload_limit {
            *payload_limit = limit;
            looks = (Look::at(pre, &keyers(limit), from_pre)?, Look::at(post, &keyers(limit), from_post)?);
        }
    }
    let (mut look_pre, mut look_post) = looks;
    for sightings in &mut look_post.sightings {
        sightings.iter_mut().for_each(|sighting| sighting.0 = sighting.0.saturating_add(post_offset_ns));
    }
    let sides = look_pre.sightings.iter_mut().zip(&look_post.sightings);
    Ok(rules.iter().zip(sides).map(|(rule, (pre, post))| try_rule(&key_rule_text(rule), pre, post)).collect())
}

fn no_common_packet(pre: &Source, post: &Source, trials: &[Trial]) -> String {
    let mut text = format!(
        "{} and {}: no packet of one is recognised in the other. Tried on the first packets:",
        pre.name, post.name
    );
    for trial in trials {
        let report = &trial.report;
        text += &format!(
            "\n  --key {:<24} {:>5} of {} packets have a key, {} repeated, {} also at egress",
            report.rule, report.with_key, report.packets, report.repeated, report.matched
        );
    }
    text += "\nAre they captures of the same traffic, at the same time? If the device rewrites packets, name what it \
             leaves alone: --key bytes:A-B or --key offset:OFF+LEN";
    text
}
