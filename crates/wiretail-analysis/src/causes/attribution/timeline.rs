//! Converts events to a core's activity: spans of time, each with its innermost cause. Between spans, the
//! device's own thread works or polls.

use std::collections::{HashMap, VecDeque};

use wiretail_schema::causes::trace::{Event, Kind, TraceNames, TraceRoles};
use wiretail_schema::causes::{CPU_LOAD_LATE, CPU_LOAD_NEIGHBOUR, Certainty};

/// Number for "no sender".
pub const NO_SENDER: u32 = u32::MAX;

/// Lowest priority value of ordinary tasks. Real-time tasks have lower values (the kernel's `prio`).
const ORDINARY_PRIO: u64 = 100;
/// Minimum time that a program runs between two absences, in ns. Spans that are closer together belong to one
/// absence, because after an interrupt, the kernel may continue with softirqs, the scheduler or the next
/// interrupt.
pub const JOIN_NS: u64 = 1_500;
/// Latest plausible time, in ns: 36 years. Later times come from damaged traces. Sums of two such times do
/// not overflow.
pub const LATEST_NS: u64 = 1 << 60;
/// Maximum number of requests to run a function that are remembered for each function. A core's queue cannot
/// hold more of them.
const SENDS_MAX: usize = 4096;

/// A cause, identified by the numbers in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Raw {
    /// A processor interrupt, identified by the number of its name.
    Vector(u32),
    /// A device interrupt, identified by the number of its handler's name.
    Irq(u32),
    /// A function queued by another core, identified by its address.
    Call(u64),
    /// A softirq, identified by the number of its name.
    Softirq(u32),
    /// The non-maskable interrupt.
    Nmi,
    /// Another task, identified by its thread ID.
    Task(i32),
    /// A task run by the fair server.
    FairServer(i32),
    /// The idle task, while the device's thread sleeps.
    Asleep,
    /// The idle task after a wake-up was requested, until the interrupt arrives.
    Waking,
    /// A page fault of the device's thread.
    PageFault,
    /// A pause of the core without an event.
    Paused,
    /// A pause of the core caused by the host's tick, with the tick's frequency in Hz.
    HostTick(u32),
    /// The device's own thread took longer than usual.
    Device,
    /// Packets that arrived earlier and have not been served yet, with the reason.
    Burst(CpuLoad),
    /// The other packets of the batch.
    Batch,
    /// Activity on the sending core, identified by the number of its cause.
    Feeding(u16),
    /// An unknown cause.
    Unknown,
}

/// Why packets wait for each other although nothing interrupts the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CpuLoad {
    /// The load generator sends them together.
    Planned,
    /// They should have arrived evenly, but arrived late and together.
    Late,
    /// They arrive as planned, but faster than the device serves them.
    Load,
}

impl CpuLoad {
    /// Name of the cause.
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "",
            Self::Late => CPU_LOAD_LATE,
            Self::Load => CPU_LOAD_NEIGHBOUR,
        }
    }
}

/// The event at the start or the end of an absence, which determines the overhead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edge {
    /// A processor interrupt, identified by the number of its name.
    Vector(u32),
    /// A device interrupt, which has no tracepoint around its handler.
    Irq,
    /// A task switch.
    Switch,
    /// A softirq outside an interrupt, for example when the device itself sends.
    Softirq,
    Other,
}

/// Time in which the device's thread did not run, with its innermost cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start, in ns of the trace's clock.
    pub from_ns: u64,
    /// End, in ns of the trace's clock.
    pub to_ns: u64,
    /// Number of the sender in [`Numbers`], or [`NO_SENDER`].
    pub sender: u32,
    /// Number of the cause in [`Numbers`].
    pub cause: u16,
    /// Number of the edge in [`Numbers`].
    pub edge: u16,
    /// How the span was determined.
    pub certainty: Certainty,
}

/// Values numbered in the order of first appearance.
#[derive(Debug, Clone)]
pub struct Numbers<T> {
    known: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Numbers<T> {
    /// Number of a value. Adds the value if it is new.
    pub fn of(&mut self, value: T) -> u32 {
        let next = self.values.len() as u32;
        *self.known.entry(value).or_insert_with(|| {
            self.values.push(value);
            next
        })
    }

    /// All values, indexed by number.
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

/// The origin of a request to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawSender {
    /// Thread ID of the sender.
    pub pid: i32,
    /// Core of the sender.
    pub cpu: u16,
    /// Address of the function to run, or 0 if there is none.
    pub function: u64,
    /// Number of the sender's stack.
    pub stack: u32,
}

/// Activity of two cores: the device's core and the core that feeds it.
#[derive(Debug, Default)]
pub struct Timelines {
    /// Spans of the device's core, in order and disjoint.
    pub device: Vec<Span>,
    /// Spans of the feeding core.
    pub feeding: Vec<Span>,
    pub causes: Numbers<Raw>,
    pub edges: Numbers<Edge>,
    pub senders: Numbers<RawSender>,
    /// Number of sends per sender.
    pub sends: Vec<u64>,
    /// Number of events taken.
    pub events: u64,
}

/// Takes events in order of time. [`Builder::finish`] returns the timelines.
#[derive(Debug)]
pub struct Builder<'a> {
    roles: &'a TraceRoles,
    lines: Timelines,
    device: Core,
    feeding: Option<Core>,
    page_fault_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Vector,
    Irq,
    Call,
    Softirq,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    inside: Inside,
    cause: u16,
    sender: u32,
}

/// An interrupt in progress.
#[derive(Debug, Clone, Copy)]
struct Visit {
    /// Number of spans before the interrupt.
    first: usize,
    /// The interrupt's own cause. The cause of the first call or handler in the interrupt replaces it.
    cause: u16,
    edge: u16,
    principal: Option<(u16, u32)>,
}

/// State of a core while events are processed.
#[derive(Debug)]
struct Core {
    cpu: u16,
    spans: Vec<Span>,
    since_ns: u64,
    frames: Vec<Frame>,
    visit: Option<Visit>,
    task: Option<i32>,
    /// Cause to which the running task's time is assigned; `None` for the device's own thread.
    task_cause: Option<u16>,
    /// Whether the device was preempted while it had work to do.
    wants_core: bool,
    calls: HashMap<u64, VecDeque<u32>>,
    reschedule: u32,
    /// Time and sender of the first request to the idle core.
    asked: Option<(u64, u32)>,
}

impl<'a> Builder<'a> {
    /// Creates a builder for the cores and threads in `roles`.
    pub fn new(roles: &'a TraceRoles) -> Self {
        let page_fault_ns =
            roles.spin.as_ref().and_then(|spin| spin.page_fault_ns).unwrap_or(0).min(LATEST_NS);
        Self {
            roles,
            lines: Timelines::default(),
            device: Core::new(roles.core),
            feeding: roles.feeding.filter(|cpu| *cpu != roles.core).map(Core::new),
            page_fault_ns,
        }
    }

    /// Takes the next event of any core.
    pub fn take(&mut self, event: &Event) {
        self.lines.events += 1;
        match event.kind {
            Kind::CsdQueue | Kind::IpiSend | Kind::IpiSendMask => self.take_send(event),
            _ if event.cpu == self.device.cpu => {
                self.device.take(event, self.roles, self.page_fault_ns, &mut self.lines);
            }
            _ => {
                if let Some(feeding) = self.feeding.as_mut().filter(|core| core.cpu == event.cpu) {
                    feeding.take(event, self.roles, 0, &mut self.lines);
                }
            }
        }
    }

    fn take_send(&mut self, event: &Event) {
        let target = event.args[0];
        let to_device = match event.kind {
            Kind::IpiSendMask => target >> self.device.cpu.min(63) & 1 == 1,
            _ => target == u64::from(self.device.cpu),
        };
        // If an interrupt has a callback, it only makes the core process its queue of calls.
        let is_call = event.kind == Kind::CsdQueue;
        if !to_device || !(is_call || event.args[1] == 0) {
            return;
        }
        let function = event.args[1];
        let (pid, cpu, stack) = (event.pid, event.cpu, event.stack);
        let sender = self.lines.senders.of(RawSender { pid, cpu, function, stack });
        self.lines.sends.resize(self.lines.senders.values().len(), 0);
        self.lines.sends[sender as usize] += 1;
        if self.device.task == Some(0) && self.device.frames.is_empty() && self.device.asked.is_none() {
            self.device.asked = Some((event.ts_ns, sender));
        }
        if is_call {
            let queue = self.device.calls.entry(function).or_default();
            queue.push_back(sender);
            if queue.len() > SENDS_MAX {
                queue.pop_front();
            }
        } else {
            self.device.reschedule = sender;
        }
    }

    /// Returns the timelines. `names` identifies the vector that asks a core to reschedule.
    pub fn finish(mut self, names: &dyn TraceNames) -> Timelines {
        // No call identifies the sender of a rescheduling interrupt, so the last sender of such an interrupt
        // is used.
        let reschedule =
            |raw: &Raw| matches!(raw, Raw::Vector(name) if names.name(*name) == Some("reschedule"));
        let place = self.lines.causes.values().iter().position(reschedule);
        self.lines.device = self.device.spans;
        for span in &mut self.lines.device {
            if Some(usize::from(span.cause)) != place {
                let is_vector = matches!(self.lines.causes.values()[usize::from(span.cause)], Raw::Vector(_));
                span.sender = if is_vector { NO_SENDER } else { span.sender };
            }
        }
        name_raisers(&mut self.lines, names);
        self.lines.feeding = self.feeding.map(|core| core.spans).unwrap_or_default();
        self.lines
    }
}

/// If a call from another core raises a softirq, that core is the softirq's sender. The softirq's spans up to
/// the end of the absence get the call's sender. The kernel names such functions after their effect:
/// `rps_trigger_softirq`, `trigger_rx_softirq`.
fn name_raisers(lines: &mut Timelines, names: &dyn TraceNames) {
    let raises = |raw: &Raw| match raw {
        Raw::Call(function) => names.function(*function).is_some_and(|name| name.contains("softirq")),
        _ => false,
    };
    let raises: Vec<bool> = lines.causes.values().iter().map(raises).collect();
    let is_softirq: Vec<bool> =
        lines.causes.values().iter().map(|raw| matches!(raw, Raw::Softirq(_))).collect();
    let (mut raiser, mut end_ns) = (NO_SENDER, 0);
    for span in &mut lines.device {
        if span.from_ns > end_ns + JOIN_NS {
            raiser = NO_SENDER;
        }
        end_ns = span.to_ns;
        if raises[usize::from(span.cause)] {
            raiser = span.sender;
        } else if is_softirq[usize::from(span.cause)] {
            span.sender = raiser;
        }
    }
}

impl Core {
    fn new(cpu: u32) -> Self {
        Self {
            cpu: cpu as u16,
            spans: Vec::new(),
            since_ns: 0,
            frames: Vec::new(),
            visit: None,
            task: None,
            task_cause: None,
            wants_core: false,
            calls: HashMap::new(),
            reschedule: NO_SENDER,
            asked: None,
        }
    }

    fn take(&mut self, event: &Event, roles: &TraceRoles, page_fault_ns: u64, lines: &mut Timelines) {
        // Timestamps in a damaged trace may go backwards. The core's state never does.
        let at = event.ts_ns.min(LATEST_NS).max(self.since_ns);
        if self.task.is_none() {
            self.since_ns = at;
        }
        // The task is correct even after a window of lost events, because each event names the task that it
        // interrupts.
        if self.task != Some(event.pid) {
            self.run(event.pid, ORDINARY_PRIO, roles, lines);
        }
        match event.kind {
            Kind::VectorEntry => {
                let cause = lines.causes.of(Raw::Vector(event.name)) as u16;
                let sender = self.reschedule;
                self.close(at, lines);
                let inside = self.frames.iter().any(|frame| frame.inside == Inside::Vector);
                if !inside {
                    let edge = lines.edges.of(Edge::Vector(event.name)) as u16;
                    self.visit = Some(Visit { first: self.spans.len(), cause, edge, principal: None });
                }
                self.frames.push(Frame { inside: Inside::Vector, cause, sender });
            }
            Kind::VectorExit => self.leave(Inside::Vector, at, lines),
            Kind::IrqEntry => {
                let cause = lines.causes.of(Raw::Irq(event.name)) as u16;
                self.enter(Inside::Irq, cause, NO_SENDER, at, lines);
            }
            Kind::IrqExit => self.leave(Inside::Irq, at, lines),
            Kind::CsdEntry => {
                let function = event.args[0];
                let cause = lines.causes.of(Raw::Call(function)) as u16;
                let sender = self.calls.get_mut(&function).and_then(VecDeque::pop_front).unwrap_or(NO_SENDER);
                self.enter(Inside::Call, cause, sender, at, lines);
            }
            Kind::CsdExit => self.leave(Inside::Call, at, lines),
            Kind::SoftirqEntry => {
                let cause = lines.causes.of(Raw::Softirq(event.name)) as u16;
                self.enter(Inside::Softirq, cause, NO_SENDER, at, lines);
            }
            Kind::SoftirqExit => self.leave(Inside::Softirq, at, lines),
            Kind::Switch => {
                self.close(at, lines);
                self.frames.clear();
                self.visit = None;
                // A runnable task that is switched out has state 0. If it was preempted, a separate bit is
                // set as well.
                let leaves_runnable = event.args[1] & 0xff == 0;
                if is_device(event.pid, roles) {
                    self.wants_core = leaves_runnable;
                }
                self.run(event.args[0] as i32, event.args[2], roles, lines);
            }
            Kind::Nmi => {
                let cause = lines.causes.of(Raw::Nmi) as u16;
                self.close(at.saturating_sub(event.args[1]), lines);
                self.frames.push(Frame { inside: Inside::Irq, cause, sender: NO_SENDER });
                self.close(at, lines);
                self.frames.pop();
            }
            Kind::PageFaultUser | Kind::PageFaultKernel => {
                self.close(at, lines);
                if page_fault_ns > 0 && self.frames.is_empty() && self.task_cause.is_none() {
                    let cause = lines.causes.of(Raw::PageFault) as u16;
                    // A program that touches one page after another does little else between the faults.
                    let goes_on = |last: &&mut Span| {
                        last.cause == cause && at.saturating_sub(last.to_ns) <= page_fault_ns.max(JOIN_NS)
                    };
                    if let Some(last) = self.spans.last_mut().filter(goes_on) {
                        last.to_ns = at.max(last.from_ns);
                    }
                    let edge = lines.edges.of(Edge::Other) as u16;
                    let certainty = Certainty::Modelled;
                    self.spans.push(Span {
                        from_ns: at,
                        to_ns: at + page_fault_ns,
                        sender: NO_SENDER,
                        cause,
                        edge,
                        certainty,
                    });
                }
            }
            Kind::TlbFlush | Kind::CsdQueue | Kind::IpiSend | Kind::IpiSendMask => {}
        }
    }

    /// Switches the core to another task.
    fn run(&mut self, pid: i32, prio: u64, roles: &TraceRoles, lines: &mut Timelines) {
        self.task = Some(pid);
        self.task_cause = if is_device(pid, roles) {
            self.wants_core = false;
            None
        } else if pid == 0 {
            Some(lines.causes.of(Raw::Asleep) as u16)
        } else if roles.fifo && self.wants_core && prio >= ORDINARY_PRIO {
            Some(lines.causes.of(Raw::FairServer(pid)) as u16)
        } else {
            Some(lines.causes.of(Raw::Task(pid)) as u16)
        };
    }

    fn enter(&mut self, inside: Inside, cause: u16, sender: u32, at: u64, lines: &mut Timelines) {
        self.close(at, lines);
        self.frames.push(Frame { inside, cause, sender });
        let is_handler = matches!(inside, Inside::Irq | Inside::Call);
        if let Some(visit) = self.visit.as_mut().filter(|visit| is_handler && visit.principal.is_none()) {
            visit.principal = Some((cause, sender));
        }
    }

    fn leave(&mut self, inside: Inside, at: u64, lines: &mut Timelines) {
        self.close(at, lines);
        let Some(place) = self.frames.iter().rposition(|frame| frame.inside == inside) else { return };
        self.frames.truncate(place);
        if inside != Inside::Vector || self.frames.iter().any(|frame| frame.inside == Inside::Vector) {
            return;
        }
        if let Some(visit) = self.visit.take()
            && let Some((cause, sender)) = visit.principal
        {
            // Spans of the interrupt itself, before and after the call, belong to the call.
            for span in self.spans[visit.first..].iter_mut().filter(|span| span.cause == visit.cause) {
                (span.cause, span.sender) = (cause, sender);
            }
        }
    }

    /// If a softirq directly follows an interrupt, it belongs to the same absence. Otherwise, the device
    /// raised it.
    fn softirq_edge(&self, from_ns: u64, lines: &mut Timelines) -> u16 {
        let before = self.spans.last().filter(|before| from_ns - before.to_ns.min(from_ns) <= JOIN_NS);
        before.map_or_else(|| lines.edges.of(Edge::Softirq) as u16, |before| before.edge)
    }

    /// Ends the current activity at `at`.
    fn close(&mut self, at: u64, lines: &mut Timelines) {
        let asked = self.asked.take().filter(|_| self.task == Some(0) && self.frames.is_empty());
        // The modelled end of a page fault may be later than the next event.
        if let Some(last) = self.spans.last_mut().filter(|last| last.to_ns > at) {
            last.to_ns = at.max(last.from_ns);
        }
        if at <= self.since_ns {
            return;
        }
        let since_ns = std::mem::replace(&mut self.since_ns, at);
        let mut from_ns = self.spans.last().map_or(0, |last| last.to_ns).max(since_ns);
        if from_ns >= at {
            return;
        }
        if let Some((asked_ns, sender)) = asked {
            // The rest of the idle time belongs to the pending interrupt.
            let asked_ns = asked_ns.clamp(from_ns, at);
            let edge = lines.edges.of(Edge::Switch) as u16;
            let certainty = Certainty::Observed;
            if let Some(cause) = self.task_cause.filter(|_| asked_ns > from_ns) {
                self.spans.push(Span { from_ns, to_ns: asked_ns, sender: NO_SENDER, cause, edge, certainty });
            }
            let cause = lines.causes.of(Raw::Waking) as u16;
            from_ns = asked_ns;
            if asked_ns < at {
                self.spans.push(Span { from_ns, to_ns: at, sender, cause, edge, certainty });
            }
            return;
        }
        let top = self.frames.last().map(|frame| (frame.cause, frame.sender, frame.inside));
        let (cause, sender, edge) = match (top, self.task_cause, self.visit) {
            (Some((cause, sender, _)), _, Some(visit)) => (cause, sender, visit.edge),
            (Some((cause, sender, Inside::Softirq)), None, None) => {
                (cause, sender, self.softirq_edge(from_ns, lines))
            }
            (Some((cause, sender, Inside::Irq)), _, None) => {
                (cause, sender, lines.edges.of(Edge::Irq) as u16)
            }
            (Some((cause, sender, _)), _, None) => (cause, sender, lines.edges.of(Edge::Other) as u16),
            (None, Some(cause), _) => (cause, NO_SENDER, lines.edges.of(Edge::Switch) as u16),
            (None, None, _) => return,
        };
        let first_of_visit = self.visit.is_some_and(|visit| visit.first == self.spans.len());
        match self.spans.last_mut() {
            Some(last)
                if !first_of_visit
                    && (last.to_ns, last.cause, last.sender, last.edge) == (from_ns, cause, sender, edge) =>
            {
                last.to_ns = at;
            }
            _ => {
                let certainty = Certainty::Observed;
                self.spans.push(Span { from_ns, to_ns: at, sender, cause, edge, certainty });
            }
        }
    }
}

fn is_device(pid: i32, roles: &TraceRoles) -> bool {
    roles.threads.contains(&pid) || roles.spin.as_ref().is_some_and(|spin| spin.thread == pid)
}
