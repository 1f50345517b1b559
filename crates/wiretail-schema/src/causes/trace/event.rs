//! Typed events of a trace: the output of the trace reader and the input of the attribution.

/// Kind of an event. Each variant documents its [`args`](Event::args) and its [`name`](Event::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An interrupt raised by the processor begins (`irq_vectors`). `[vector]`; name: `local_timer`.
    VectorEntry,
    /// The interrupt ends. Arguments as for [`Kind::VectorEntry`].
    VectorExit,
    /// The interrupt handler of a device begins. `[number]`; name: the handler.
    IrqEntry,
    /// The interrupt handler ends. `[number, handled]`.
    IrqExit,
    /// A softirq begins. `[vector]`; name: `NET_RX`.
    SoftirqEntry,
    /// The softirq ends. Arguments as for [`Kind::SoftirqEntry`].
    SoftirqExit,
    /// The processor switches to another task. `[next pid, previous state, next priority]`; name: the next
    /// task. The pid of the event is that of the task that ran before.
    Switch,
    /// A function call is queued for another processor. `[target, function, call site]`.
    CsdQueue,
    /// A queued function call begins. `[function]`.
    CsdEntry,
    /// The function call ends. `[function]`.
    CsdExit,
    /// An inter-processor interrupt is sent to one processor. `[target, callback, call site]`.
    IpiSend,
    /// An inter-processor interrupt is sent to several processors. `[mask of the first 64 processors, callback,
    /// call site]`; name: the full mask in hexadecimal, if there are more than 64 processors.
    IpiSendMask,
    /// Address translations are flushed. `[reason, pages]`; name: the reason.
    TlbFlush,
    /// A handler of the non-maskable interrupt has run. `[function, duration in ns, handled]`.
    Nmi,
    /// A page fault in user mode. `[address, instruction, error code]`.
    PageFaultUser,
    /// A page fault in the kernel. Arguments as for [`Kind::PageFaultUser`].
    PageFaultKernel,
}

/// A trace event. Takes 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Timestamp on the trace clock, in ns.
    pub ts_ns: u64,
    /// Arguments of the event; see [`Kind`].
    pub args: [u64; 3],
    /// Thread that the processor ran; 0 is the idle thread.
    pub pid: i32,
    /// Number of the event's name, for [`TraceNames::name`]; 0 if it has none.
    pub name: u32,
    /// Number of the event's stack, for [`TraceNames::stack`]; 0 if it has none.
    pub stack: u32,
    /// Processor that the event happened on.
    pub cpu: u16,
    /// Kind of the event.
    pub kind: Kind,
}

/// Resolves the numbers in events to names and stacks.
pub trait TraceNames {
    /// Returns the text of an event's name; `None` for 0.
    fn name(&self, number: u32) -> Option<&str>;
    /// Returns the addresses of an event's stack, innermost first; `None` for 0.
    fn stack(&self, number: u32) -> Option<&[u64]>;
    /// Returns the name of a thread, if known.
    fn task(&self, pid: i32) -> Option<&str>;
    /// Returns the name of the function that contains an address, if known.
    fn function(&self, address: u64) -> Option<&str>;

    /// Returns the system call that a stack comes from: `munmap` for `__x64_sys_munmap`.
    fn system_call(&self, stack: u32) -> Option<&str> {
        let mut names = self.stack(stack)?.iter().filter_map(|address| self.function(*address));
        names
            .find_map(|name| name.split_once("_sys_").filter(|(arch, _)| arch.starts_with("__")))
            .map(|(_, call)| call)
    }
}
