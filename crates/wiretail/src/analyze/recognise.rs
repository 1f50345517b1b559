//! Checks before the measurement: finds the key that recognizes the packets, and checks that the taps' clocks
//! agree.

use anyhow::{Result, bail};
use wiretail_analysis::matching::recognition::{Sighting, Trial, clock_problem, try_rule};
use wiretail_capture::key::{AUTO_RULES, INVARIANT_PAYLOAD, Keyer, key_rule_text, parse_key_rule};
use wiretail_schema::packet::KeyRule;
use wiretail_schema::summary::{Key, KeyTrial};

use crate::analyze::source::Source;

/// Number of packets examined on each side.
const PACKETS: usize = 1024;
/// Total size of the link-layer header, two VLAN tags and an IPv6 header. The rest of a truncated frame is
/// payload.
const HEADERS: usize = 14 + 8 + 40;

/// Result of the recognition.
pub struct Recognition {
    /// The key rule, with the length of the payload that both taps captured.
    pub keyer: Keyer,
    /// Description for the summary.
    pub key: Key,
}

/// The requested key.
pub enum KeyChoice {
    /// Try [`AUTO_RULES`] in order.
    Auto,
    /// Use this rule.
    Rule(KeyRule),
}

/// Parses `--key`.
pub fn key_choice(text: &str, zero_checksums: bool) -> Result<KeyChoice> {
    if text == "auto" {
        if zero_checksums {
            bail!("--zero-checksums requires --key bytes:A-B, such as --key bytes:12-64 --zero-checksums");
        }
        return Ok(KeyChoice::Auto);
    }
    Ok(KeyChoice::Rule(
        parse_key_rule(text, zero_checksums).map_err(|error| anyhow::anyhow!("--key: {error}, or auto"))?,
    ))
}

/// The examined packets of one tap.
struct Look {
    sightings: Vec<Sighting>,
    /// Shortest captured length among truncated packets.
    cut_at: Option<usize>,
}

impl Look {
    /// Examines the first packets of `source` at or after `from_ns`.
    fn at(source: &Source, keyer: &Keyer, from_ns: i64) -> Result<Self> {
        let mut look = Self { sightings: Vec::with_capacity(PACKETS), cut_at: None };
        let mut reader = source.peek()?;
        while look.sightings.len() < PACKETS {
            let more = reader.read(&mut |frame| {
                if frame.ts_ns < from_ns || look.sightings.len() >= PACKETS {
                    return;
                }
                if frame.data.len() < frame.wire_len as usize {
                    look.cut_at = Some(look.cut_at.map_or(frame.data.len(), |cut| cut.min(frame.data.len())));
                }
                look.sightings.push((frame.ts_ns, keyer.key(frame)));
            })?;
            if !more {
                break;
            }
        }
        Ok(look)
    }
}

/// Start of the examined part in both captures, and the rules' options.
struct Scout<'a> {
    pre: &'a Source,
    post: &'a Source,
    post_offset_ns: i64,
    payload_limit: usize,
    from_pre_ns: i64,
    from_post_ns: i64,
}

impl Scout<'_> {
    fn try_rule(&mut self, rule: &KeyRule) -> Result<Trial> {
        let mut looks = self.look(rule)?;
        // Taps with different snap lengths capture different parts of the payload. Use the common part.
        if let Some(cut) = [looks.0.cut_at, looks.1.cut_at].into_iter().flatten().min() {
            let limit = cut.saturating_sub(HEADERS);
            if limit < self.payload_limit {
                self.payload_limit = limit;
                looks = self.look(rule)?;
            }
        }
        let (look_pre, mut look_post) = looks;
        for sighting in &mut look_post.sightings {
            sighting.0 = sighting.0.saturating_add(self.post_offset_ns);
        }
        Ok(try_rule(&key_rule_text(rule), &look_pre.sightings, &look_post.sightings))
    }

    fn look(&self, rule: &KeyRule) -> Result<(Look, Look)> {
        let keyer = Keyer::with_payload_limit(rule, self.payload_limit);
        Ok((Look::at(self.pre, &keyer, self.from_pre_ns)?, Look::at(self.post, &keyer, self.from_post_ns)?))
    }

    /// Returns the index of the first suitable rule, and the results of all rules up to it.
    fn try_rules(&mut self, rules: &[KeyRule]) -> Result<(Option<usize>, Vec<Trial>)> {
        let mut trials = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            let trial = self.try_rule(rule)?;
            let suitable = trial.suitable;
            trials.push(trial);
            if suitable {
                return Ok((Some(place), trials));
            }
        }
        Ok((None, trials))
    }

    /// Moves the examined part to a time at which both taps record, because one may have started long before
    /// the other.
    fn align(&mut self, rule: &KeyRule) -> Result<()> {
        let (pre, post) = self.look(rule)?;
        if let (Some(pre), Some(post)) = (pre.sightings.first(), post.sightings.first()) {
            self.from_pre_ns = post.0.saturating_add(self.post_offset_ns);
            self.from_post_ns = pre.0.saturating_sub(self.post_offset_ns);
        }
        Ok(())
    }
}

/// Examines the first packets of both captures and chooses a rule.
///
/// `post_offset_ns` is added to every egress timestamp, `window_ns` is the longest accepted latency.
///
/// # Errors
/// Returns an error if a capture can't be read, if the captures have no packet in common, or if the clocks
/// disagree or the files are swapped.
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
    let mut scout = Scout {
        pre,
        post,
        post_offset_ns,
        payload_limit: INVARIANT_PAYLOAD,
        from_pre_ns: i64::MIN,
        from_post_ns: i64::MIN,
    };
    let (mut chosen, mut trials) = scout.try_rules(&rules)?;
    if chosen.is_none() {
        scout.align(&rules[0])?;
        (chosen, trials) = scout.try_rules(&rules)?;
    }
    let chosen_automatically = matches!(choice, KeyChoice::Auto);
    let place = match chosen {
        Some(place) => place,
        None if chosen_automatically => bail!(no_common_packet(pre, post, &trials)),
        None => 0,
    };
    let trial = &trials[place];
    // Only the first megabytes of a pipe are examined, so later packets may still match.
    if trial.delays_ns.is_empty() && pre.peeks_all() && post.peeks_all() {
        bail!(no_common_packet(pre, post, &trials));
    }
    if let Some(problem) = clock_problem(&trial.delays_ns, window_ns) {
        bail!("{} and {}: {problem}", pre.name, post.name);
    }
    let keyer = Keyer::with_payload_limit(&rules[place], scout.payload_limit);
    let mut tried: Vec<KeyTrial> = trials.into_iter().map(|trial| trial.report).collect();
    if chosen_automatically && let Some(last) = tried.last_mut() {
        last.outcome = "taken".to_owned();
    }
    Ok(Recognition { key: Key { rule: key_rule_text(keyer.rule()), chosen_automatically, tried }, keyer })
}

fn no_common_packet(pre: &Source, post: &Source, trials: &[Trial]) -> String {
    let mut text = format!(
        "{} and {}: the captures have no packet in common. Tried on the first packets:",
        pre.name, post.name
    );
    for trial in trials {
        let report = &trial.report;
        text += &format!(
            "\n  --key {:<24} {:>5} of {} packets have a key, {} repeated, {} also at egress",
            report.rule, report.with_key, report.packets, report.repeated, report.matched
        );
    }
    text += "\nAre they captures of the same traffic, at the same time? If the device rewrites packets, match by \
             bytes that it does not change: --key bytes:A-B or --key offset:OFF+LEN";
    text
}
