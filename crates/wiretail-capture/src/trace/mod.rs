//! Reads kernel traces: decodes the pages of the ring buffers to typed events.
//!
//! A trace is a directory with `trace.json` ([`TraceInfo`](wiretail_schema::causes::trace::TraceInfo)) and a
//! file of raw pages for each processor and instance, as read from the kernel's `trace_pipe_raw`. The
//! positions of event fields are read from the formats in the document and never assumed, so traces of other
//! kernels can be read, too.
//!
//! - `format`: parses the kernel's `format` files;
//! - `page`: splits a page into records with timestamps;
//! - `plan`: the known events, and the conversion of records to [`Event`]s;
//! - `stream`: reads the events of one file and the windows in which events were lost;
//! - `reader`: merges all streams of a trace by time ([`Trace`]).

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

pub use wiretail_schema::causes::trace::{Event, Kind};

pub use reader::{Trace, TraceEnd};
pub use stream::Lost;

/// Error when a trace cannot be read. Every message names the file and the offset, what was expected, and the
/// next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system returned an error.
    #[error(
        "{file}: cannot be read, at byte {offset}: {source}; check the path, the permissions and the disk"
    )]
    Io {
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        source: io::Error,
    },
    /// The document is not a trace document.
    #[error(
        "{file}: {detail}; expected the document of a trace, {expected}; is this the folder that `wiretail trace --out` wrote?"
    )]
    NotATrace {
        /// The file.
        file: String,
        detail: String,
        /// The expected schema.
        expected: &'static str,
    },
    /// The pages are invalid.
    #[error("{file}: damaged at byte {offset}: {detail}; copy or record the trace again")]
    Damaged {
        file: String,
        /// Offset of the page, or of the record in it.
        offset: u64,
        /// Expected and found content.
        detail: String,
    },
}
