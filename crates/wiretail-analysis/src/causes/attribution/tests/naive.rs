//! Compares the timeline, windows, lists and percentiles with straightforward implementations.

use proptest::prelude::*;
use wiretail_schema::causes::Certainty;
use wiretail_schema::causes::trace::{Event, Kind};

use super::super::timeline::{Builder, NO_SENDER, Raw, Span};
use super::{BARRIER, CORE, DEVICE, FLUSH, Names, event, roles, switch};
use crate::causes::attribution::overhead::{Sweep, merge, within};

/// A cause and the thread that sent it.
type At = Option<(Raw, Option<i32>)>;

/// State of a core while walking its events: a stack, and the top of the stack for each ns.
struct Walk {
    events: Vec<Event>,
    stack: Vec<(Kind, u32, u64, At)>,
    task: (i32, At),
    wants_core: bool,
    each_ns: Vec<At>,
    /// The outermost processor interrupt: its start, its own cause, and the cause it turned out to serve.
    outermost: Option<(usize, At, At)>,
    calls: i32,
}

impl Walk {
    fn now(&self) -> u64 {
        self.each_ns.len() as u64
    }

    fn pass(&mut self, ns: u64) {
        let top = self.stack.last().map_or(self.task.1, |frame| frame.3);
        self.each_ns.extend((0..ns).map(|_| top));
    }

    fn say(&mut self, kind: Kind, name: u32, args: [u64; 3]) {
        self.events.push(Event { pid: self.task.0, ..event(self.now(), kind, name, args) });
    }

    fn enter(&mut self, kind: Kind, name: u32, function: u64) {
        let mut sender = None;
        let raw = match kind {
            Kind::VectorEntry => Raw::Vector(name),
            Kind::IrqEntry => Raw::Irq(name),
            Kind::SoftirqEntry => Raw::Softirq(name),
            _ => {
                self.calls += 1;
                sender = Some(1000 + self.calls);
                let queued = event(self.now(), Kind::CsdQueue, 0, [CORE.into(), function, 0]);
                self.events.push(Event { pid: 1000 + self.calls, cpu: 0, ..queued });
                Raw::Call(function)
            }
        };
        self.say(kind, name, [function, 0, 0]);
        let cause = Some((raw, sender));
        match (kind, &mut self.outermost) {
            (Kind::VectorEntry, None) => self.outermost = Some((self.each_ns.len(), cause, None)),
            (Kind::IrqEntry | Kind::CsdEntry, Some((_, _, found @ None))) => *found = cause,
            _ => {}
        }
        self.stack.push((kind, name, function, cause));
    }

    fn leave(&mut self) {
        let Some((kind, name, function, _)) = self.stack.pop() else { return };
        let exit = match kind {
            Kind::VectorEntry => Kind::VectorExit,
            Kind::IrqEntry => Kind::IrqExit,
            Kind::SoftirqEntry => Kind::SoftirqExit,
            _ => Kind::CsdExit,
        };
        self.say(exit, name, [function, 0, 0]);
        if kind != Kind::VectorEntry || self.stack.iter().any(|frame| frame.0 == Kind::VectorEntry) {
            return;
        }
        if let Some((from, own, found @ Some(_))) = self.outermost.take() {
            self.each_ns[from..].iter_mut().filter(|at| **at == own).for_each(|at| *at = found);
        }
    }

    fn switch(&mut self, to: i32, preempted: bool, prio: u64) {
        let state = u64::from(!preempted);
        self.events.push(switch(self.now(), self.task.0, to, state, prio));
        if self.task.0 == DEVICE {
            self.wants_core = preempted;
        }
        let raw = match to {
            DEVICE => {
                self.wants_core = false;
                None
            }
            0 => Some(Raw::Asleep),
            _ if self.wants_core && prio >= 100 => Some(Raw::FairServer(to)),
            _ => Some(Raw::Task(to)),
        };
        self.task = (to, raw.map(|raw| (raw, None)));
    }

    fn nmi(&mut self, ns: u64) {
        self.each_ns.extend((0..ns).map(|_| Some((Raw::Nmi, None))));
        self.say(Kind::Nmi, 0, [0, ns, 1]);
    }
}

fn span(from_ns: u64, to_ns: u64, cause: u16) -> Span {
    Span { from_ns, to_ns, sender: NO_SENDER, cause, edge: 0, certainty: Certainty::Observed }
}

/// Disjoint spans from gaps and lengths.
fn spans(lengths: &[(u64, u64)]) -> Vec<Span> {
    let mut at = 0;
    let one = |(gap, length): &(u64, u64)| {
        at += gap + length;
        span(at - length, at, (at % 3) as u16)
    };
    lengths.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// For any nesting, each ns has the innermost cause, and calls have their senders.
    #[test]
    fn assigns_innermost_cause_to_each_ns(steps in prop::collection::vec((0..20u8, 0..6u64, 0..4u32), 1..80)) {
        let mut walk = Walk {
            events: vec![switch(0, 8, DEVICE, 0, 40)],
            stack: Vec::new(),
            task: (DEVICE, None),
            wants_core: false,
            each_ns: Vec::new(),
            outermost: None,
            calls: 0,
        };
        for (what, ns, which) in steps {
            walk.pass(ns);
            let function = if which % 2 == 0 { FLUSH } else { BARRIER };
            match what {
                0..3 => walk.enter(Kind::VectorEntry, 1 + which % 2, 0),
                3 => walk.enter(Kind::IrqEntry, 5, 0),
                4..7 => walk.enter(Kind::CsdEntry, 0, function),
                7 | 8 => walk.enter(Kind::SoftirqEntry, 3, 0),
                9 => walk.nmi(ns),
                10 => walk.say(Kind::PageFaultKernel, 0, [0; 3]),
                11..15 if walk.stack.is_empty() => {
                    let to = [DEVICE, 0, 7, 8][which as usize];
                    walk.switch(to, ns % 2 == 0, if ns < 3 { 40 } else { 120 });
                }
                _ => walk.leave(),
            }
        }
        let end = walk.events.last().map_or(0, |event| event.ts_ns) as usize;
        let roles = roles();
        let mut builder = Builder::new(&roles);
        walk.events.iter().for_each(|event| builder.take(event));
        let lines = builder.finish(&Names);
        let mut found: Vec<At> = vec![None; end];
        let mut before_ns = 0;
        for span in &lines.device {
            prop_assert!(before_ns <= span.from_ns && span.from_ns < span.to_ns, "{:?}", lines.device);
            before_ns = span.to_ns;
            let sender = lines.senders.values().get(span.sender as usize).map(|sender| sender.pid);
            let cause = lines.causes.values()[usize::from(span.cause)];
            found[span.from_ns as usize..span.to_ns as usize].fill(Some((cause, sender)));
        }
        prop_assert_eq!(&found[..], &walk.each_ns[..end]);
    }

    #[test]
    fn window_returns_overlapping_spans(
        lengths in prop::collection::vec((0..5u64, 1..9u64), 0..40),
        windows in prop::collection::vec((0..300u64, 0..40u64), 1..20),
    ) {
        let spans = spans(&lengths);
        let mut sweep = Sweep::new(&spans);
        for (from_ns, length_ns) in windows {
            let to_ns = from_ns + length_ns;
            let meets = |span: &&Span| span.to_ns > from_ns && span.from_ns < to_ns;
            let expected: Vec<Span> = spans.iter().filter(meets).copied().collect();
            prop_assert_eq!(within(&spans, from_ns, to_ns), &expected[..]);
            let swept: Vec<Span> = sweep.within(from_ns, to_ns).copied().collect();
            prop_assert_eq!(swept, expected);
        }
    }

    #[test]
    fn merges_two_lists(lengths in prop::collection::vec((0..5u64, 1..9u64), 0..60), of in any::<u64>()) {
        let mut all = spans(&lengths);
        let is_first = |place: usize| of >> (place % 64) & 1 == 1;
        let half = |first: bool| -> Vec<Span> {
            (0..all.len()).filter(|place| is_first(*place) == first).map(|place| all[place]).collect()
        };
        let merged = merge(&half(true), &half(false));
        all.sort_by_key(|span| span.from_ns);
        prop_assert_eq!(merged, all);
    }
}
