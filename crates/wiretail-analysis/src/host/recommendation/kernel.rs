//! Recommendation for the kernel, depending on how the application waits for packets.

use wiretail_schema::causes::{CauseKind, TrialExplanation};
use wiretail_schema::host::recommendation::{Advice, Evidence, Recommendation, Stand};

use super::contrast::{Contrast, Question, contrasts};
use super::device::{Waits, realtime, waits};
use super::pooled::Told;
use super::{JNSM, Known, counted, of_trials, step};
use crate::host::recommendation::sample::{SameHost, Seen, grouped};
use crate::summary::verdict::percent;

const RULES: [&str; 2] = ["realtime-kernel", "tick"];

pub(super) fn recommendation(known: &Known<'_>) -> Recommendation {
    let kernels = kernels(known);
    let mut parts = Vec::new();
    for waiting in [Waits::Polls, Waits::Sleeps] {
        parts.extend(part(known, waiting, &kernels));
    }
    // Parts that require a change take precedence over parts that do not apply, which take precedence over
    // parts that are already fulfilled.
    let order = [Stand::Follow, Stand::DoesNotApply, Stand::AlreadySo];
    let stand = order.into_iter().find(|stand| parts.iter().any(|(one, _)| one == stand));
    let says = match parts.is_empty() {
        true if known.seen.is_empty() => {
            "No application was measured, so the suitable kernel is unknown.".to_owned()
        }
        true => "It is unknown whether the measured devices poll or sleep.".to_owned(),
        false => parts.into_iter().map(|(_, says)| says).collect::<Vec<_>>().join(" "),
    };
    let mut evidence: Vec<Evidence> = kernels.iter().map(Contrast::evidence).collect();
    evidence.extend(architectures(known));
    evidence.extend(known.seen.iter().filter_map(explained));
    evidence.extend(known.rules(&RULES));
    let next = match kernels.is_empty() {
        true => vec![
            step(
                "compare Debian's kernels in a virtual machine, for a polling device and a device in the kernel",
                "sudo wiretail run experiments/deployments/kernels.toml --allow-system-changes",
            ),
            step(
                "on a host: run the same experiment once under each kernel, and pass both runs",
                "wiretail host recommend RUN-STANDARD RUN-RT",
            ),
        ],
        false => Vec::new(),
    };
    Recommendation {
        kind: Advice::KernelByArchitecture,
        title: "kernel by application architecture".to_owned(),
        advice: "Use the standard kernel without a tick for an application that polls on an isolated core: a \
            real-time kernel brings no benefit there and costs throughput. An application that sleeps until a \
            packet arrives depends on the scheduler and benefits from a real-time kernel."
            .to_owned(),
        stand: stand.unwrap_or(Stand::NoEvidenceYet),
        says,
        evidence,
        next,
        source: format!("{JNSM}; the same authors, Ducked Tails, CNSM 2021, doi 10.23919/CNSM52442.2021.9615532"),
    }
}

/// Trials that differ only in their kernel: the guest's or the host's.
fn kernels<'s, 'a>(known: &'s Known<'a>) -> Vec<Contrast<'s, 'a>> {
    let guests = Question {
        without: &["dut.kernel"],
        host: SameHost::Whole,
        name: &|one| format!("{} kernel", one.text("dut.kernel")),
        rank: &|one| {
            ["standard", "cloud"].iter().position(|name| *name == one.text("dut.kernel")).map(|at| at as u8)
        },
    };
    let hosts = Question {
        without: &[],
        host: SameHost::Processor,
        name: &|one| if realtime(one) { "real-time kernel" } else { "standard kernel" }.to_owned(),
        rank: &|one| (!realtime(one)).then_some(0),
    };
    let is_guest = |one: &&Seen<'_>| one.text("dut.deployment") == "vm";
    let mut all = contrasts(known.seen.iter().filter(is_guest), &guests);
    all.retain(|one| one.other.1.first().is_some_and(|other| realtime(other)));
    all.extend(contrasts(known.seen.iter().filter(|one| !is_guest(one)), &hosts));
    all
}

/// Result for the devices that wait in the given way. `None` if there are none.
fn part(known: &Known<'_>, waiting: Waits, kernels: &[Contrast<'_, '_>]) -> Option<(Stand, String)> {
    let of: Vec<&Seen<'_>> = known.seen.iter().filter(|one| waits(one) == Some(waiting)).collect();
    let name = names(&of);
    let verb = if waiting == Waits::Polls { "polls" } else { "sleeps until a packet arrives" };
    let wants_realtime = waiting == Waits::Sleeps;
    let wanted = if wants_realtime { "a real-time kernel" } else { "the standard kernel" };
    of.first()?;
    let about =
        |one: &&Contrast<'_, '_>| one.baseline.1.first().and_then(|seen| waits(seen)) == Some(waiting);
    // Effect of a real-time kernel on the tail.
    let told: Vec<Told> = kernels.iter().filter(about).filter_map(Contrast::told).collect();
    if !told.is_empty() {
        let count = |wanted| told.iter().filter(|found| **found == wanted).count();
        let (better, worse, alike) = (count(Told::Lower), count(Told::Higher), count(Told::Alike));
        let agrees = if wants_realtime { better > 0 && worse == 0 } else { worse > 0 && better == 0 };
        let says = format!(
            "{name} {verb}. In {} comparisons, a real-time kernel was better in {better}, worse in {worse}, and indistinguishable in {alike}: \
             {}.",
            told.len(),
            if agrees {
                format!("use {wanted}")
            } else {
                format!("in these trials, {wanted} shows no benefit")
            },
        );
        return Some((if agrees { Stand::Follow } else { Stand::DoesNotApply }, says));
    }
    let fitting = of.iter().filter(|one| realtime(one) == wants_realtime).count();
    let (stand, says) = match fitting == of.len() {
        true => (Stand::AlreadySo, format!("{name} {verb} and ran under {wanted}.")),
        false => (
            Stand::Follow,
            format!(
                "{name} {verb}, but {} of {} did not run under {wanted}; its effect on this host was not measured.",
                of.len() - fitting,
                counted(of.len())
            ),
        ),
    };
    Some((stand, says))
}

/// Distinct kinds of devices, comma-separated.
fn names(seen: &[&Seen<'_>]) -> String {
    let names = grouped(seen.iter().copied(), |one| one.text("dut.kind").to_owned());
    names.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Evidence: how each device waits, and under which kernel.
fn architectures(known: &Known<'_>) -> Vec<Evidence> {
    let with_device = known.seen.iter().filter(|one| waits(one).is_some());
    let groups = grouped(with_device, |one| {
        let kernel = if realtime(one) { "a real-time kernel" } else { "a kernel that is not real-time" };
        (one.text("dut.kind").to_owned(), waits(one), kernel, one.text("host.idle") == "poll")
    });
    let says = |((kind, waiting, kernel, idle_polls), seen): (
        (String, Option<Waits>, &str, bool),
        Vec<&Seen<'_>>,
    )| {
        let idle = if idle_polls { ", on cores that poll when idle" } else { "" };
        let waiting = waiting.map_or("", Waits::words);
        of_trials(format!("{kind} {waiting}, under {kernel}{idle}: {}", counted(seen.len())), &seen)
    };
    groups.into_iter().map(says).collect()
}

/// Causes of a traced trial's tail, grouped by their relation to the kernel.
fn explained(seen: &Seen<'_>) -> Option<Evidence> {
    let explanation = &seen.input.explanations.iter().find(|one| one.trial == seen.trial.number)?.explanation;
    let [asleep, kernel, paused] = [is_sleep, is_kernel, is_pause].map(|kinds| share(explanation, kinds));
    let says = format!(
        "{}: of the tail's excess delay, {} passed while the device slept, {} in interrupts and other tasks, {} \
        while the core stopped without the kernel's knowledge",
        seen.words(&[]),
        percent(asleep?),
        percent(kernel?),
        percent(paused?),
    );
    Some(of_trials(says, &[seen]))
}

/// Share of the tail's excess delay that causes of these kinds account for. `None` if there is no excess
/// delay.
pub(super) fn share(explanation: &TrialExplanation, kinds: fn(CauseKind) -> bool) -> Option<f64> {
    let rows = explanation.causes.iter().filter(|row| kinds(row.kind));
    let ns: u64 = rows.map(|row| row.tail_ns.iter().sum::<u64>()).sum();
    (explanation.tail_lost_ns > 0).then(|| ns as f64 / explanation.tail_lost_ns as f64)
}

fn is_sleep(kind: CauseKind) -> bool {
    kind == CauseKind::Asleep
}

pub(super) fn is_pause(kind: CauseKind) -> bool {
    kind == CauseKind::Paused
}

fn is_kernel(kind: CauseKind) -> bool {
    use CauseKind as K;
    matches!(
        kind,
        K::Timer
            | K::TlbShootdown
            | K::FunctionCall
            | K::Reschedule
            | K::Vector
            | K::Irq
            | K::Softirq
            | K::Nmi
            | K::Task
            | K::FairServer
    )
}
