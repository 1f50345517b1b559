//! Findings that qualify the numbers of a summary.

use wiretail_schema::summary::{Capture, Finding, Severity, Summary};
use wiretail_schema::units::thousands;

use crate::summary::verdict::{packets, percent};

/// A timestamp granularity above this share of the median delay blurs the percentiles.
const GRANULARITY_SHARE_MAX: f64 = 0.02;
/// Maximum share of negative latencies among the arrivals. Above it, the clocks cannot be compared.
const NEGATIVE_SHARE_MAX: f64 = 0.001;

/// Returns all findings on a complete summary, worst first.
pub fn findings(summary: &Summary) -> Vec<Finding> {
    let mut list = Vec::new();
    for (tap, capture) in [("ingress", &summary.pre), ("egress", &summary.post)] {
        on_capture(tap, capture, &mut list);
    }
    on_clocks(summary, &mut list);
    on_steadiness(summary, &mut list);
    on_matching(summary, &mut list);
    list.sort_by_key(|finding| finding.severity);
    list
}

fn add(list: &mut Vec<Finding>, severity: Severity, code: &str, message: String) {
    list.push(Finding { severity, code: code.to_owned(), message });
}

fn on_capture(tap: &str, capture: &Capture, list: &mut Vec<Finding>) {
    if let Some(truncated) = &capture.truncated {
        let message = format!(
            "the {tap} capture {} is incomplete from offset {} on ({}): only the part before it was analyzed; packets \
             sent after the last packet at egress count as lost, but not against the budgets",
            capture.path, truncated.offset, truncated.detail,
        );
        add(list, Severity::Warning, "truncated", message);
    }
    if capture.clock.backward > 0 {
        let message = format!(
            "{} timestamps of the {tap} capture are earlier than the previous one, by up to {} ns: several queues, or \
             a clock that was set; delays across such a step are wrong by its size",
            thousands(capture.clock.backward),
            thousands(capture.clock.max_backward_ns as u64),
        );
        add(list, Severity::Warning, "backward-timestamps", message);
    }
    if capture.packets_dropped > 0 {
        let message = format!(
            "the {tap} capture reports that its tap lost {}: at egress they look like loss in the device, at ingress \
             like extra packets; capture again with more memory, fewer bytes of each packet or a lower rate",
            packets(capture.packets_dropped),
        );
        add(list, Severity::Warning, "capture-dropped", message);
    }
    if capture.packets_without_key > 0 {
        let message = format!(
            "{} of {} of the {tap} capture have no key under this rule and are not analyzed",
            thousands(capture.packets_without_key),
            packets(capture.packets),
        );
        add(list, Severity::Note, "without-key", message);
    }
    if capture.packets_without_time > 0 {
        let message = format!(
            "{} of {} of the {tap} capture have no time in their trailer and are not analyzed; they look like loss",
            thousands(capture.packets_without_time),
            packets(capture.packets),
        );
        add(list, Severity::Warning, "without-time", message);
    }
}

fn on_clocks(summary: &Summary, list: &mut Vec<Finding>) {
    let granularity = summary.pre.clock.granularity_ns.max(summary.post.clock.granularity_ns);
    let median = summary.delay.percentiles.first().map_or(0, |p| p.value_ns);
    if granularity > 1.0 && granularity > GRANULARITY_SHARE_MAX * median as f64 {
        let message = format!(
            "the timestamp granularity of {granularity} ns is coarse for a median delay of {} ns: every delay is \
             uncertain by up to one step at either tap",
            thousands(median.max(0) as u64),
        );
        add(list, Severity::Warning, "coarse-granularity", message);
    }
    let delay = &summary.delay;
    let seconds = summary.post.last_ns.saturating_sub(summary.post.first_ns) as f64 / 1e9;
    if let (Some(drift), Some(error)) = (delay.drift_ns_per_s, delay.drift_error_ns_per_s)
        && drift.abs() > 2.0 * error
        && drift.abs() * seconds > granularity.max(0.01 * median as f64)
    {
        let message = format!(
            "the smallest delay drifts by {drift:.1} +- {error:.1} ns per second, {:.0} ns over the measurement: the \
             taps' clocks drift apart, or the path changes",
            drift * seconds,
        );
        add(list, Severity::Warning, "drift", message);
    }
    let negative = summary.matching.negative;
    if negative > 0 {
        let share = negative as f64 / summary.reordering.arrived.max(1) as f64;
        let (severity, advice) = if share > NEGATIVE_SHARE_MAX {
            (Severity::Error, "the taps' clocks disagree too much for a comparison; see --post-offset")
        } else {
            (Severity::Warning, "they are left out of the delay")
        };
        let message =
            format!("{} ({}) seen at egress before ingress: {advice}", packets(negative), percent(share),);
        add(list, severity, "negative-latency", message);
    }
}

fn on_steadiness(summary: &Summary, list: &mut Vec<Finding>) {
    let Some(state) = summary.steady_state.filter(|state| !state.steady) else { return };
    let at = state.change_ns as f64 / 1e9;
    let change = match (state.tail_before, state.tail_after) {
        (Some(before), Some(after)) => format!(
            "before {at:.3} s, {} of the packets are above the 99th percentile, afterwards {}",
            percent(before),
            percent(after)
        ),
        _ => format!(
            "a packet after {at:.3} s is slower than one before it with a probability of {}",
            percent(state.slower_after)
        ),
    };
    let advice = match state.proposed_trim_ns {
        Some(trim) => format!("leave out the beginning: --trim {}ms", (trim as f64 / 1e6).ceil()),
        None => "no trim makes the rest steady; look for a cause that changes over time".to_owned(),
    };
    let message = format!(
        "the delay is not steady: {change}; percentiles describe a mixture, and their intervals are too narrow; {advice}"
    );
    add(list, Severity::Warning, "not-steady", message);
}

fn on_matching(summary: &Summary, list: &mut Vec<Finding>) {
    let matching = &summary.matching;
    let mut note = |severity, code: &str, count: u64, message: &str| {
        if count > 0 {
            add(list, severity, code, format!("{} {message}", packets(count)));
        }
    };
    note(
        Severity::Error,
        "evicted",
        matching.evicted,
        "given up because too many were in flight at once: the captures have few packets in common, or the window \
         is too long for the rate (--window)",
    );
    note(
        Severity::Warning,
        "key-reused",
        matching.reused,
        "still missing when their key was reused: the key repeats too soon for this rate; choose another with --key",
    );
    note(
        Severity::Warning,
        "duplicates-pre",
        matching.duplicates_pre,
        "with the same key as one still in flight: copies at ingress, or a key that does not distinguish packets; the \
         first of each was matched",
    );
    note(
        Severity::Note,
        "duplicates-post",
        matching.duplicates_post,
        "at egress that had already arrived: further copies; the first arrival counts",
    );
    note(
        Severity::Warning,
        "lost-at-end",
        matching.lost_at_end,
        "lost after the last one seen at egress: the device stopped forwarding, or the egress capture stopped too early",
    );
    note(
        Severity::Note,
        "extra-at-start",
        matching.extra_at_start,
        "at egress before the first at ingress: foreign traffic, or the ingress capture started late",
    );
    note(
        Severity::Note,
        "extra",
        matching.extra - matching.extra_at_start,
        "at egress only: foreign traffic, or packets that the device changed so that their key differs",
    );
    note(
        Severity::Note,
        "out-of-window",
        matching.out_of_window,
        "arrived after the window; they count as lost (RFC 7680) and are left out of the delay",
    );
    if matching.trim_ns > 0 {
        let message = format!(
            "packets seen in the first {} s were left out; rates, gaps and clocks refer to the whole captures",
            matching.trim_ns as f64 / 1e9
        );
        add(list, Severity::Note, "trimmed", message);
    }
}
