//! The events of a trace, typed: what reading one gives, and attribution takes.

/// What an event says. What its [`args`](Event::args) and its [`name`](Event::name) are stands at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An interrupt of the processor's own begins (`irq_vectors`). `[vector]`; name: `local_timer`.
    VectorEntry,
    /// It ends. As [`Kind::VectorEntry`].
    VectorExit,
    /// A device's interrupt handler begins. `[number]`; name: the handler's.
    IrqEntry,
    /// It ends. `[number, handled]`.
    IrqExit,
    /// A softirq begins. `[vector]`; name: `NET_RX`.
    SoftirqEntry,
    /// It ends. As [`Kind::SoftirqEntry`].
    SoftirqExit,
    /// Another task gets the processor. `[next pid, previous state, next priority]`; name: the next task's. The
    /// event's pid is that of the task that leaves.
    Switch,
    /// A function call is queued for another processor. `[target, function, call site]`.
    CsdQueue,
    /// A queued function begins. `[function]`.
    CsdEntry,
    /// It ends. `[function]`.
    CsdExit,
    /// An interrupt is sent to a processor. `[target, callback, call site]`.
    IpiSend,
    /// An interrupt is sent to several processors. `[mask of the first 64, callback, call site]`; name: the mask in
    /// hexadecimal, if there are more.
    IpiSendMask,
    /// Translations are flushed. `[reason, pages]`; name: the reason.
    TlbFlush,
    /// A handler of the non-maskable interrupt has run. `[function, its ns, handled]`.
    Nmi,
    /// A page fault in a program. `[address, instruction, error code]`.
    PageFaultUser,
    /// A page fault in the kernel. As [`Kind::PageFaultUser`].
    PageFaultKernel,
}

/// An event, 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// In ns of the trace's clock.
    pub ts_ns: u64,
    /// What its kind says.
    pub args: [u64; 3],
    /// The thread that the processor ran; 0 is the idle one.
    pub pid: i32,
    /// A text of [`TraceNames::name`]; 0 is none.
    pub name: u32,
    /// A stack of [`TraceNames::stack`]; 0 is none.
    pub stack: u32,
    /// The processor that it happened on.
    pub cpu: u16,
    /// What it is.
    pub kind: Kind,
}

/// What the numbers in events stand for.
pub trait TraceNames {
    /// The text of an event's name; none for 0.
    fn name(&self, number: u32) -> Option<&str>;
    /// The addresses of an event's stack, the innermost first; none for 0.
    fn stack(&self, number: u32) -> Option<&[u64]>;
    /// The name of a thread, if it is known.
    fn task(&self, pid: i32) -> Option<&str>;
    /// The function that an address is in.
    fn function(&self, address: u64) -> Option<&str>;

    /// The system call that a stack comes from: `munmap` of `__x64_sys_munmap`.
    fn system_call(&self, stack: u32) -> Option<&str> {
        let mut names = self.stack(stack)?.iter().filter_map(|address| self.function(*address));
        names
            .find_map(|name| name.split_once("_sys_").filter(|(arch, _)| arch.starts_with("__")))
            .map(|(_, call)| call)
    }
}
