//! Causes of the excess delay as stacked bars. Each kind of cause has the same color on every page, and the
//! texture shows its certainty.

use wiretail_schema::causes::{CauseKind, CauseRow, Certainty, PacketExplanation, TrialExplanation};

use super::words::{cause_name, percent};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::swatch;
use crate::plot::legend;

/// Approximate width of a bar on the page, used to decide which labels fit into its pieces.
const WIDTH: f64 = 940.0;
/// Pieces of a bar that are narrower than this have no label.
const LABELLED: f64 = 0.06;
/// Pieces that are narrower than this are merged into a single piece.
const SMALLEST: f64 = 0.002;

/// Excess delay of a set of packets by cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakdown {
    /// One entry per row of [`TrialExplanation::causes`]: observed, modelled and inferred time in ns.
    pub causes: Vec<[u64; 3]>,
    /// Unexplained time in ns.
    pub unknown_ns: u64,
}

impl Breakdown {
    /// Breakdown of the tail.
    pub fn of_tail(explanation: &TrialExplanation) -> Self {
        Self {
            causes: explanation.causes.iter().map(|row| row.tail_ns).collect(),
            unknown_ns: explanation.tail_unknown_ns,
        }
    }

    /// Breakdown of these packets: the sums of their parts, and the unexplained rest of their excess delay.
    pub fn of_packets(explanation: &TrialExplanation, packets: &[PacketExplanation]) -> Self {
        let mut causes = vec![[0; 3]; explanation.causes.len()];
        let mut unknown_ns = 0;
        for packet in packets {
            let mut left = packet.lost_ns;
            for part in packet.parts.iter().filter(|_| !packet.events_missing) {
                if let Some(cause) = causes.get_mut(part.cause) {
                    cause[place(part.certainty)] += part.ns;
                    left = left.saturating_sub(part.ns);
                }
            }
            unknown_ns += left;
        }
        Self { causes, unknown_ns }
    }

    /// Total excess delay in ns.
    pub fn total_ns(&self) -> u64 {
        self.causes.iter().flatten().sum::<u64>() + self.unknown_ns
    }

    /// Ratio of `ns` to the total, between 0 and 1.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.total_ns().max(1) as f64
    }

    /// Excess delay due to a cause, in ns.
    pub fn of_cause(&self, cause: usize) -> u64 {
        self.causes.get(cause).map_or(0, |known| known.iter().sum())
    }

    /// Causes with any excess delay, in descending order.
    pub fn ranked(&self) -> Vec<usize> {
        let mut causes: Vec<usize> =
            (0..self.causes.len()).filter(|&cause| self.of_cause(cause) > 0).collect();
        causes.sort_by_key(|&cause| std::cmp::Reverse(self.of_cause(cause)));
        causes
    }
}

/// Index of a certainty in arrays with three entries.
pub fn place(certainty: Certainty) -> usize {
    match certainty {
        Certainty::Observed => 0,
        Certainty::Modelled => 1,
        Certainty::Inferred => 2,
    }
}

/// Names of the certainties, indexed by [`place`].
pub const CERTAINTIES: [&str; 3] = ["observed", "modelled", "inferred"];

/// The CSS class with a cause's color. The color depends on the kind of the cause. If several causes have the
/// same kind, each gets its own shade.
pub fn colour(causes: &[CauseRow], cause: usize) -> String {
    let Some(row) = causes.get(cause) else { return "k-unknown".to_owned() };
    let before = causes[..cause].iter().filter(|other| other.kind == row.kind).count();
    format!("{} v{}", kind_class(row.kind), before % 3)
}

fn kind_class(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Timer => "k-timer",
        CauseKind::TlbShootdown => "k-tlb",
        CauseKind::FunctionCall => "k-call",
        CauseKind::Reschedule => "k-resched",
        CauseKind::Vector | CauseKind::Nmi => "k-vector",
        CauseKind::Irq => "k-irq",
        CauseKind::Softirq => "k-softirq",
        CauseKind::Task => "k-task",
        CauseKind::FairServer => "k-fair",
        CauseKind::PageFault => "k-fault",
        CauseKind::Asleep => "k-asleep",
        CauseKind::Paused => "k-paused",
        CauseKind::Device => "k-device",
        CauseKind::Burst => "k-burst",
        CauseKind::Batch => "k-batch",
        CauseKind::Feeding => "k-feeding",
    }
}

/// Draws a bar with its caption above it.
pub fn bar(m: &mut Markup, caption: &str, causes: &[CauseRow], shares: &Breakdown) {
    let total = shares.total_ns();
    m.tag("div").class("stacked").body(|m| {
        m.tag("p").class("stack-name").body(|m| {
            m.text(caption);
            m.tag("span").text(format_args!("{} excess delay", format::duration(total as f64)));
        });
        let label = spoken(causes, shares);
        m.tag("div").class("stack tips").attr("role", "img").attr("aria-label", label).body(|m| {
            if total == 0 {
                m.tag("span").class("stack-none").text("no excess delay");
                return;
            }
            let (mut small, mut small_names) = (0, Vec::new());
            for cause in shares.ranked() {
                let ns = shares.of_cause(cause);
                if shares.share(ns) < SMALLEST {
                    small += ns;
                    small_names.push(cause_name(&causes[cause]));
                } else {
                    piece(m, causes, cause, shares);
                }
            }
            if small > 0 {
                let tip = format!("{}\n{}", small_names.join(", "), amount(shares, small));
                sized(m, "k-unknown others", shares.share(small)).attr("data-tip", tip).text("");
            }
            if shares.unknown_ns > 0 {
                let tip = format!("unexplained\n{}", amount(shares, shares.unknown_ns));
                let share = shares.share(shares.unknown_ns);
                sized(m, "k-unknown", share).attr("data-tip", tip).body(|m| {
                    pill(m, share, "unexplained");
                });
            }
        });
    });
    m.line();
}

/// Draws a cause's piece of a bar, with its three textures side by side.
fn piece(m: &mut Markup, causes: &[CauseRow], cause: usize, shares: &Breakdown) {
    let (ns, name) = (shares.of_cause(cause), cause_name(&causes[cause]));
    let share = shares.share(ns);
    let known = shares.causes[cause];
    let parts = known.iter().zip(CERTAINTIES).filter(|(ns, _)| **ns > 0);
    let how: Vec<String> =
        parts.clone().map(|(ns, how)| format!("{how} {}", format::about(*ns as f64))).collect();
    let tip = format!("{name}\n{}\n{}", amount(shares, ns), how.join(", "));
    sized(m, &colour(causes, cause), share).attr("data-tip", tip).body(|m| {
        for (part, how) in parts {
            let width = *part as f64 / ns as f64 * 100.0;
            let style = format!("width:{width:.3}%");
            m.tag("i").class(format_args!("fill {how}")).attr("style", style).text("");
        }
        pill(m, share, &name);
    });
}

fn sized<'a>(m: &'a mut Markup, class: &str, share: f64) -> crate::html::Tag<'a> {
    m.tag("span").class(class).attr("style", format_args!("width:{:.3}%", share * 100.0))
}

/// The label of a piece: its name and share, the share alone, or nothing, depending on the width.
fn pill(m: &mut Markup, share: f64, name: &str) {
    if share < LABELLED {
        return;
    }
    let full = format!("{name} {}", percent(share));
    let fits = legend::text_width(&full) * 1.05 + 24.0 < share * WIDTH;
    m.tag("b").text(if fits { full } else { percent(share) });
}

fn amount(shares: &Breakdown, ns: u64) -> String {
    format!("{}, {} of the excess delay", format::duration(ns as f64), percent(shares.share(ns)))
}

/// Describes the bar in words, for screen readers.
fn spoken(causes: &[CauseRow], shares: &Breakdown) -> String {
    let of = |cause: usize| {
        format!("{} {}", cause_name(&causes[cause]), percent(shares.share(shares.of_cause(cause))))
    };
    let mut text: Vec<String> = shares.ranked().into_iter().map(of).collect();
    if shares.unknown_ns > 0 {
        text.push(format!("unexplained {}", percent(shares.share(shares.unknown_ns))));
    }
    text.join(", ")
}

/// Legend of the colors and textures, with the causes in `shown`.
pub fn key(m: &mut Markup, causes: &[CauseRow], shown: &[usize], own_work: bool) {
    m.tag("ul").class("keys").body(|m| {
        for &cause in shown {
            if let Some(row) = causes.get(cause) {
                entry(m, &colour(causes, cause), &cause_name(row));
            }
        }
        if own_work {
            entry(m, "k-own", "nothing else ran: the device's own thread");
        }
        entry(m, "k-unknown", "unexplained");
    });
    textures(m);
}

/// Legend of the textures.
pub fn textures(m: &mut Markup) {
    m.tag("ul").class("keys textures").body(|m| {
        entry(m, "k-any observed", "observed: between two timestamps of the kernel trace");
        entry(m, "k-any modelled", "modelled: the event's median overhead before and after its timestamps");
        entry(m, "k-any inferred", "inferred: by exclusion, or from a regular pattern");
    });
}

fn entry(m: &mut Markup, class: &str, name: &str) {
    m.tag("li").body(|m| {
        swatch(m, class);
        m.text(name);
    });
}
