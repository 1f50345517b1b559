//! What can be wrong with a capture. Every message names the file, where in it, what was expected
//! or found, and what to do next.

use std::io;

/// A capture that can't be read at all. Damage after good packets is no error: the reader stops
/// there and [`CaptureReader::truncation`](crate::CaptureReader::truncation) tells.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The operating system refused.
    #[error(
        "{file}: cannot be read, at byte {offset}: {source}; check the path, the permissions and the disk"
    )]
    Io {
        /// File name as given, or `-`.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in it.
    #[error(
        "{file}: empty (0 bytes); expected a capture: pcap, pcapng, mscap or ERF; \
         was the recording stopped before its header was written?"
    )]
    Empty {
        /// File name as given, or `-`.
        file: String,
    },
    /// No format that is known here.
    #[error(
        "{file}: not a capture: starts with {found} at byte 0; \
         expected pcap, pcapng, mscap or ERF, plain, gzip or zstd; {hint}"
    )]
    UnknownFormat {
        /// File name as given, or `-`.
        file: String,
        /// The first bytes in hexadecimal.
        found: String,
        /// What it looks like, and what to do.
        hint: String,
    },
    /// A capture of something that has no packets known here.
    #[error("{file}: link type {number} at byte {offset} is not supported; expected {expected}; {hint}")]
    UnknownLinkType {
        /// File name as given, or `-`.
        file: String,
        /// Where the link type stands.
        offset: u64,
        /// The number as the file has it.
        number: u32,
        /// Link types that are supported.
        expected: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Not one packet could be read.
    #[error("{file}: no packet could be read: at byte {offset}: {detail}; copy or record the file again")]
    Damaged {
        /// File name as given, or `-`.
        file: String,
        /// Offset in the (decompressed) file, in bytes.
        offset: u64,
        /// What was expected and found.
        detail: String,
    },
    /// The compression, not the capture in it, is at fault.
    #[error("{file}: {kind}, after {offset} decompressed bytes: {detail}; {hint}")]
    Compression {
        /// File name as given, or `-`.
        file: String,
        /// gzip or zstd.
        kind: &'static str,
        /// Bytes that were decompressed before.
        offset: u64,
        /// What the decompressor said.
        detail: String,
        /// What to do.
        hint: &'static str,
    },
    /// The interface asked for does not exist.
    #[error("{file}: has no interface {wanted}; it has {available}; choose one of those")]
    NoInterface {
        /// File name as given, or `-`.
        file: String,
        /// Index or name asked for.
        wanted: String,
        /// What the file has.
        available: String,
    },
    /// pcapng's Simple Packet Block.
    #[error(
        "{file}: the packet at byte {offset} has no timestamp (pcapng Simple Packet Block); \
         latency needs one; record with Enhanced Packet Blocks, as tcpdump and dumpcap do"
    )]
    NoTimestamp {
        /// File name as given, or `-`.
        file: String,
        /// Where the block starts.
        offset: u64,
    },
    /// No frame carries a stamp in its last eight bytes.
    #[error(
        "{file}: no timestamp trailer in any of the first {frames} frames (the last 8 bytes: nanoseconds below \
         1,000,000,000 and seconds, little endian, of a frame that was captured whole); \
         is it a libmoon capture of a network card that appends stamps? If not: --timestamps header"
    )]
    NoTrailer {
        /// File name as given, or `-`.
        file: String,
        /// Frames looked at.
        frames: u64,
    },
}
