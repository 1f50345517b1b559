//! The page of a traced trial and its sentences: sums, external names, and missing data.

use wiretail_report::{ExplanationPage, cause_name, explanation, format, headline, sentence};
use wiretail_schema::causes::{CauseKind, Certainty, PacketExplanation, Part, TrialExplanation};

use super::{causes, elements, numbers, run};

const PLAN: run::Plan<'_> = run::Plan {
    devices: &[("skeleton", Some(1))],
    rates_kpps: &[10],
    bursts: &[1],
    back: false,
    ..super::PLAN
};

fn page(explained: &TrialExplanation, hostile: bool) -> String {
    let sample = run::run(&PLAN, &numbers::summary(1, false).0, hostile);
    explanation(&ExplanationPage {
        run: &sample.run,
        trial: &sample.run.trials[0],
        explanation: explained,
        mitigations: causes::mitigation,
    })
}

/// The page without its script, which contains the word NaN.
fn markup_of(page: &str) -> &str {
    &page[..page.rfind("<script>").expect("a page ends with its script")]
}

/// Replaces the spaces that are only used in pages.
fn seen(text: &str) -> String {
    text.replace([format::SPACE, wiretail_schema::units::THIN], " ")
}

#[test]
fn sums_parts_of_a_packet_in_a_sentence() {
    let mut all = causes::explanation("t", false);
    let (tlb, timer, burst) = (0, 1, 10);
    let part = |cause, ns, certainty, sender, queued| Part { cause, ns, certainty, sender, queued };
    let mut packet = PacketExplanation {
        delay_ns: 635_200,
        lost_ns: 634_900,
        parts: vec![
            part(tlb, 400_000, Certainty::Modelled, Some(0), false),
            part(timer, 13_000, Certainty::Observed, None, false),
            part(tlb, 211_900, Certainty::Observed, Some(0), false),
        ],
        unknown_ns: 10_000,
        ..PacketExplanation::default()
    };
    let said = "635 µs: 612 µs TLB shootdown by suricata-main (munmap), 13 µs local timer, 10 µs unexplained";
    assert_eq!(seen(&sentence(&all, &packet)), said);

    // The parts add up to the excess delay, which the sentence states if it differs visibly from the delay.
    packet.delay_ns = 700_000;
    assert!(seen(&sentence(&all, &packet)).starts_with("700 µs, 635 µs above the median: 612 µs TLB"));
    packet.delay_ns = 635_200;

    // One part is the wait behind another packet. The idle task has no name of its own.
    packet.parts[1].queued = true;
    packet.parts.push(part(burst, 5_000, Certainty::Observed, None, true));
    packet.parts[0].sender = Some(2);
    let said = seen(&sentence(&all, &packet));
    assert!(said.contains("400 µs TLB shootdown by the idle task of core 0, 212 µs TLB"), "{said}");
    assert!(said.contains("13 µs queued behind a packet delayed by: local timer"), "{said}");
    assert!(said.contains("5 µs queued behind a packet delayed by: queueing behind a burst"), "{said}");

    packet.parts = vec![
        part(8, 600_000, Certainty::Inferred, None, false),
        part(8, 24_900, Certainty::Inferred, None, true),
    ];
    let said = seen(&sentence(&all, &packet));
    assert!(said.contains(
        ": 600 µs core paused (hypervisor), 24.9 µs queued behind a packet delayed by: core paused"
    ));

    // If there are many causes, the small ones are only counted.
    packet.parts =
        (0..9).map(|cause| part(cause, 1_000 + cause as u64, Certainty::Observed, None, false)).collect();
    let said = seen(&sentence(&all, &packet));
    assert!(said.contains("4.01 µs in 4 smaller parts, 10 µs unexplained"), "{said}");

    packet.events_missing = true;
    assert!(sentence(&all, &packet).contains("events are missing"));
    let baseline = PacketExplanation { delay_ns: 9_000, ..PacketExplanation::default() };
    assert_eq!(seen(&sentence(&all, &baseline)), "9 µs: not above the median");
    // An invalid index must not panic.
    packet.events_missing = false;
    packet.parts = vec![part(99, 1_000, Certainty::Observed, Some(99), false)];
    assert!(sentence(&all, &packet).contains("1\u{a0}µs an unnamed cause"));
    all.causes.clear();
    assert!(page(&all, false).ends_with("</html>\n"));
}

#[test]
fn names_largest_causes_and_unexplained_share_in_headline() {
    let mut all = causes::explanation("t", false);
    all.tail_lost_ns = 1_000_000;
    all.tail_unknown_ns = 40_000;
    all.causes.iter_mut().for_each(|row| row.tail_ns = [0; 3]);
    all.causes[0].tail_ns = [120_000, 500_000, 0];
    all.causes[1].tail_ns = [210_000, 0, 0];
    all.causes[5].tail_ns = [0, 0, 20_000];
    (all.senders[0].tail_ns, all.senders[2].tail_ns) = (610_000, 10_000);
    let said = "62 % of the tail's excess delay came from TLB shootdowns by suricata-main (munmap), 21 % from the local \
                timer; 4 % is unexplained.";
    assert_eq!(seen(&headline(&all)), said);
    (all.senders[0].tail_ns, all.senders[2].tail_ns) = (400_000, 220_000);
    assert!(headline(&all).contains("TLB shootdowns mostly by suricata-main (munmap)"));
    (all.senders[0].tail_ns, all.senders[2].tail_ns) = (200_000, 220_000);
    assert!(!headline(&all).contains("by suricata"));
    all.tail_unknown_ns = 0;
    assert!(headline(&all).ends_with("; all of it is explained."));
    all.causes.clear();
    all.tail_unknown_ns = 1_000_000;
    assert!(seen(&headline(&all)).starts_with("100 % of the tail's excess delay is unexplained."));
    all.tail_lost_ns = 0;
    assert!(headline(&all).contains("nothing to explain"));
}

#[test]
fn every_cause_has_a_name() {
    let mut row = causes::explanation("t", false).causes[0].clone();
    let mut name = |kind, name: &str| {
        (row.kind, row.name) = (kind, name.to_owned());
        cause_name(&row)
    };
    assert_eq!(name(CauseKind::Softirq, "NET_RX"), "softirq NET_RX");
    assert_eq!(name(CauseKind::Task, "wt-hog"), "task wt-hog");
    assert_eq!(name(CauseKind::FairServer, "bash"), "fair server: bash");
    assert_eq!(name(CauseKind::FunctionCall, ""), "function call from another core");
    assert_eq!(name(CauseKind::Paused, ""), "core paused (hypervisor)");
}

#[test]
fn a_page_shows_all_sections() {
    let all = causes::explanation("skeleton-10kpps", false);
    let page = page(&all, false);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">") && page.ends_with("</html>\n"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for section in ["key-figures", "shares", "causes", "remedies", "packets", "senders", "evidence"] {
        assert!(page.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    for row in &all.causes {
        assert!(page.contains(&cause_name(row).replace('\'', "&#39;")), "{row:?}");
    }
    // The page has fifty incidents, of which ten are unfolded. Packets without events have a sentence but no
    // drawing.
    assert_eq!(page.matches("<p class=\"said\">").count(), 50);
    let folded = page.find("40 more incidents</summary>").expect("the others are folded");
    assert_eq!(page[..folded].matches("<p class=\"said\">").count(), 10);
    let shown = &all.worst[..50];
    let pictures = shown.iter().filter(|packet| !packet.timeline.is_empty()).count();
    assert_eq!(page.matches("class=\"plot timeline tips\"").count(), pictures);
    // Nothing is loaded: external addresses only occur as links to sources.
    assert!(!page.contains("src=") && !page.contains("@import"));
    assert_eq!(page.matches("https://").count(), page.matches("href=\"https://").count());
    assert!(page.contains("class=\"number weak\""), "unsupported percentiles are marked");
}

#[test]
fn packets_of_an_incident_are_shown_together() {
    let mut all = causes::explanation("t", false);
    assert!(page(&all, false).contains("each delayed independently"));
    let first = all.worst[0].incident;
    all.worst[1..10].iter_mut().for_each(|packet| packet.incident = first);
    let page = page(&all, false);
    assert!(page.contains("9 more delayed packets in the same incident</summary>"));
    assert!(page.contains("in 91 incidents: packets that queued"));
    assert!(page.contains("40 more incidents</summary>"));
    assert_eq!(page.matches("<p class=\"said\">").count(), 50 + 9);
    // Packets after the fifty worst are counted but not shown.
    all.worst[60..70].iter_mut().for_each(|packet| packet.incident = first);
    let page = self::page(&all, false);
    assert!(page.contains(
        "19 more delayed packets in the same incident; shown are those among the 50 worst</summary>"
    ));
}

#[test]
fn bars_add_up() {
    let all = causes::explanation("t", false);
    let page = page(&all, false);
    let bars: Vec<&str> = page.split("class=\"stack tips\"").skip(1).collect();
    assert_eq!(bars.len(), 2);
    for bar in bars {
        // Only the pieces of a bar are `span` elements; their textures are not.
        let bar = &bar[..bar.find("</div>").expect("it ends")];
        let pieces = bar.split("<span").skip(1);
        let widths = pieces.map(|piece| piece.split("width:").nth(1).expect("a width"));
        let sum: f64 =
            widths.map(|w| w[..w.find('%').expect("percent")].parse::<f64>().expect("a number")).sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}");
    }
    let exact = |ns: u64| format::exact_ns(ns as i64);
    assert!(page.contains(&format!("title=\"{}\"", exact(all.tail_lost_ns))));
    let worst = &all.worst[..50];
    let unknown: u64 = worst.iter().map(|packet| packet.unknown_ns).sum();
    assert!(
        page.contains(&format!("title=\"{}\"", exact(unknown))),
        "unexplained excess delay of the worst packets"
    );
}

#[test]
fn the_ranking_starts_with_the_largest_effect() {
    let mut all = causes::explanation("t", false);
    let place = all.percentiles.iter().position(|p| p.percentile == 99.999).expect("it is there");
    let last = all.causes.len() - 1;
    all.causes[last].without_ns[place] = 1;
    let page = page(&all, false);
    let table = &page[page.find("<section id=\"causes\"").expect("there")..];
    let at = |row: usize| table.find(&cause_name(&all.causes[row])).expect("named");
    assert!(at(last) < at(0));
}

#[test]
fn hostile_names_add_no_element() {
    let (tame, hostile) = (causes::explanation("t", false), causes::explanation("t", true));
    let (tame, hostile) = (page(&tame, false), page(&hostile, true));
    assert_eq!(elements(&tame), elements(&hostile));
    for markup in ["<script>alert", "<img", "<i>munmap", "<u>remark", "<b>trial"] {
        assert!(!hostile.contains(markup), "{markup}");
    }
    assert!(hostile.contains("task &lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn shows_an_empty_explanation() {
    let page = page(&TrialExplanation::default(), false);
    assert!(page.contains("nothing to explain") && page.contains("no excess delay"));
    for section in ["causes", "remedies", "packets", "senders"] {
        assert!(!page.contains(&format!("<section id=\"{section}\"")), "{section}");
    }
    assert!(!markup_of(&page).contains("NaN") && !markup_of(&page).contains("inf%"));
}

#[test]
fn draws_unusual_timelines() {
    let mut all = causes::explanation("t", false);
    let packet = &mut all.worst[0];
    let span = packet.timeline[1];
    packet.delay_ns = 0;
    packet.timeline[0].from_ns = i64::MIN;
    packet.timeline[0].to_ns = i64::MAX;
    packet.timeline.extend((0..5_000).map(|_| span));
    let page = page(&all, false);
    assert!(!markup_of(&page).contains("NaN") && page.ends_with("</html>\n") && page.len() < 1_500_000);
}

fn traced(hostile: bool) -> String {
    let plan = run::Plan { rates_kpps: &[10, 20], repeats: 4, ..PLAN };
    let mut sample = run::run(&plan, &numbers::summary(1, false).0, hostile);
    causes::trace(&mut sample, 8, hostile);
    sample.page()
}

#[test]
fn a_run_shows_its_traced_trials() {
    let page = traced(false);
    let start = page.find("<section id=\"explanations\"").expect("it is there");
    let section = &page[start..start + page[start..].find("</section>").expect("it ends")];
    assert_eq!(section.matches("class=\"stack tips\"").count(), 8, "a bar each");
    assert_eq!(section.matches("/explanation.html\">Full explanation").count(), 8);
    assert!(section.contains("2 more traced trials"), "the others are folded");
    assert_eq!(section.matches("excess delay came from").count(), 8);
    // A cause has the same color in every bar, even if another trial lacks an earlier cause.
    let classes: Vec<&str> = section
        .split("<span class=\"")
        .filter(|piece| piece.contains("data-tip=\"function call rps_trigger_softirq"))
        .map(|piece| &piece[..piece.find('"').expect("a class")])
        .collect();
    assert!(classes.iter().all(|class| *class == "k-call v1"), "{classes:?}");
    assert!(!run::run(&PLAN, &numbers::summary(1, false).0, false).page().contains("id=\"explanations\""));
}

#[test]
fn a_run_shows_the_overhead_of_tracing() {
    let page = traced(false);
    let start = page.find("<section id=\"tracing-cost\"").expect("it is there");
    let section = seen(&page[start..start + page[start..].find("</section>").expect("it ends")]);
    let p50 = "p50 is 31 ns more with tracing (1.933 µs instead of 1.902 µs)";
    assert_eq!(section.matches(p50).count(), 3);
    assert!(section.contains(&format!("{p50}, within the range of 600 ns between the 3 untraced trials.")));
    assert!(section.contains("p99.9 is 420 ns less with tracing"));
    assert!(section.contains(&format!("{p50}, beyond the range of 20 ns")));
    assert!(section.contains("only one pair") && section.contains("increase trial.repeats"));
    assert!(section.contains("class=\"number weak\""), "unsupported percentiles are marked");
}

#[test]
fn hostile_names_add_no_element_to_a_traced_run() {
    let (tame, hostile) = (traced(false), traced(true));
    assert_eq!(elements(&tame), elements(&hostile));
    assert!(!hostile.contains("<script>alert") && hostile.contains("task &lt;script&gt;alert(1)"));
}
