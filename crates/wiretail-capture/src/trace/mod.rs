//! Traces of the kernel: from the pages of its ring buffers to typed events.
//!
//! A trace is a folder: `trace.json` ([`TraceInfo`](wiretail_schema::trace::TraceInfo)) and a file of raw pages for each
//! processor and instance, as the kernel's `trace_pipe_raw` gave them out. Where a field stands in an event is read
//! from the formats in the document, never assumed: a trace of another kernel reads the same.
//!
//! - `format`: the kernel's `format` files to places of fields;
//! - `page`: a page to stamped records;
//! - `plan`: which events are known, and a record to an [`Event`];
//! - `stream`: the pages of a file to events, and the windows in which events were lost;
//! - `reader`: all streams of a trace, merged by time ([`Trace`]).

mod format;
mod page;
mod plan;
mod reader;
mod stream;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;

use std::io;

pub use reader::{Trace, TraceEnd};
pub use stream::Lost;

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
    /// A text of [`Trace::name`]; 0 is none.
    pub name: u32,
    /// A stack of [`Trace::stack`]; 0 is none.
    pub stack: u32,
    /// The processor that it happened on.
    pub cpu: u16,
    /// What it is.
    pub kind: Kind,
}

/// A trace that can't be read. Every message names the file, where in it, what was expected, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error(
        "{file}: cannot be read, at byte {offset}: {source}; check the path, the permissions and the disk"
    )]
    Io {
        /// The file.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The document is not one.
    #[error(
        "{file}: {detail}; expected the document of a trace, {expected}; is this the folder that `wiretail trace --out` wrote?"
    )]
    NotATrace {
        /// The file.
        file: String,
        /// What is wrong with it.
        detail: String,
        /// What the document says of itself.
        expected: &'static str,
    },
    /// Pages that make no sense.
    #[error("{file}: damaged at byte {offset}: {detail}; copy or record the trace again")]
    Damaged {
        /// The file.
        file: String,
        /// Where: the page, or the record in it.
        offset: u64,
        /// What was expected and found.
        detail: String,
    },
}
