//! Reads captures of other tools and of Wiretail's testbed, and turns them into packet records.
//!
//! Four layers, each built on the previous one:
//!
//! - [`read`]: from a file, pipe or standard input to frames ([`CaptureReader`], [`Frame`]), with one file
//!   per format and the table of formats;
//! - `layers`: from a frame to its IP header and payload, skipping tags and options;
//! - [`key`] and [`flow`]: the identity of a packet ([`Keyer`]) and its flow ([`FlowTable`]); `published` is
//!   the only key rule with its own hash;
//! - [`record`]: all of these in one loop ([`RecordReader`]), one buffer at a time.
//!
//! Further modules are [`interval_log`], which writes and reads the log of a soak with one line per second;
//! [`trace`], which reads kernel traces; and [`interrupts`], which reads interrupt counters.
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
//! Invariants: no input causes a panic or a hang, and a length field in the input never determines the size
//! of an allocation by itself. If a capture is damaged after intact packets, the reader returns these packets
//! and reports the offset of the damage ([`CaptureReader::truncation`]). This crate uses no threads, no clock
//! and no logging.

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
