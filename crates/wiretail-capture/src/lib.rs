//! Bytes to packet records: what other tools and Wiretail's own testbed captured.
//!
//! Four layers, each standing on the one before it:
//!
//! - [`read`]: from a file, pipe or standard input to frames ([`CaptureReader`], [`Frame`]); one
//!   file a format, and the table of formats;
//! - `layers`: from a frame to its IP header and payload, whatever tags and options are around them;
//! - [`key`] and [`flow`]: which packet it is ([`Keyer`]) and which flow it belongs to ([`FlowTable`]);
//!   `published` is the one key rule that has a hash of its own;
//! - [`record`]: all of it in one loop ([`RecordReader`]), a buffer at a time.
//!
//! Beside them stand [`interval_log`], the log of a soak: written a line a second, and read again; [`trace`],
//! which reads what the kernel recorded of itself meanwhile; and [`interrupts`], which reads its interrupt counters.
//!
//! ```no_run
//! use wiretail_capture::{CaptureReader, FlowTable, Keyer, OpenOptions, RecordReader};
//! use wiretail_schema::packet::{FlowRule, KeyRule};
//!
//! let reader = CaptureReader::open("pre.pcap".as_ref(), &OpenOptions::default())?;
//! let mut records = RecordReader::new(
//!     reader,
//!     Keyer::new(&KeyRule::Moonsniff),
//!     FlowTable::new(FlowRule::FiveTuple),
//! );
//! let mut batch = Vec::new();
//! while records.read_batch(&mut batch)? {
//!     // The records of about 128 KiB of capture are in `batch`.
//!     batch.clear();
//! }
//! # Ok::<(), wiretail_capture::CaptureError>(())
//! ```
//!
//! Invariants: no input panics, hangs or takes memory by what it claims; a capture that is damaged
//! after good packets gives those packets and says where it broke
//! ([`CaptureReader::truncation`]); there are no threads, no clock and no logging in here.

pub mod error;
pub mod fields;
pub mod flow;
pub mod interrupts;
pub mod interval_log;
pub mod key;
mod layers;
pub mod read;
pub mod record;
#[cfg(test)]
mod test_support;
pub mod trace;
pub mod write;

pub use error::CaptureError;
pub use flow::{FLOWS_MAX, FlowTable};
pub use key::published_key;
pub use key::{AUTO_RULES, Keyer, key_rule_text, parse_key_rule};
pub use read::{CaptureReader, Frame, Interface, InterfaceChoice, LinkType, OpenOptions, Timestamps};
pub use record::{Counts, RecordReader, Tap};
