//! Errors of captures. Every message names the file, the offset, the expected or found content, and the next
//! step.

use std::io;

/// Error when a capture cannot be read at all. Damage after intact packets is not an error: the reader stops
/// there, and [`CaptureReader::truncation`](crate::CaptureReader::truncation) reports it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The operating system returned an error.
    #[error(
        "{file}: cannot be read, at byte {offset}: {source}; check the path, the permissions and the disk"
    )]
    Io {
        /// File name as given, or `-`.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        source: io::Error,
    },
    /// The file has no bytes.
    #[error(
        "{file}: empty (0 bytes); expected a capture: pcap, pcapng, mscap or ERF; \
         was the recording stopped before its header was written?"
    )]
    Empty {
        /// File name as given, or `-`.
        file: String,
    },
    /// The file has no known format.
    #[error(
        "{file}: not a capture: starts with {found} at byte 0; \
         expected pcap, pcapng, mscap or ERF, plain, gzip or zstd; {hint}"
    )]
    UnknownFormat {
        /// File name as given, or `-`.
        file: String,
        /// The first bytes in hexadecimal.
        found: String,
        /// The suspected kind of file, and the next step.
        hint: String,
    },
    /// The link type is not supported.
    #[error("{file}: link type {number} at byte {offset} is not supported; expected {expected}; {hint}")]
    UnknownLinkType {
        /// File name as given, or `-`.
        file: String,
        /// Offset of the link type.
        offset: u64,
        /// The link type's number in the file.
        number: u32,
        /// Link types that are supported.
        expected: &'static str,
        /// The next step.
        hint: &'static str,
    },
    /// No packet could be read.
    #[error("{file}: no packet could be read: at byte {offset}: {detail}; copy or record the file again")]
    Damaged {
        /// File name as given, or `-`.
        file: String,
        /// Offset in the (decompressed) file, in bytes.
        offset: u64,
        /// Expected and found content.
        detail: String,
    },
    /// The compressed stream is damaged or not supported.
    #[error("{file}: {kind}, after {offset} decompressed bytes: {detail}; {hint}")]
    Compression {
        /// File name as given, or `-`.
        file: String,
        kind: &'static str,
        /// Number of bytes decompressed before the failure.
        offset: u64,
        detail: String,
        /// The next step.
        hint: &'static str,
    },
    /// The requested interface does not exist.
    #[error("{file}: has no interface {wanted}; it has {available}; choose one of those")]
    NoInterface {
        /// File name as given, or `-`.
        file: String,
        /// Requested index or name.
        wanted: String,
        /// Interfaces in the file.
        available: String,
    },
    /// The capture has a Simple Packet Block (pcapng), which has no timestamp.
    #[error(
        "{file}: the packet at byte {offset} has no timestamp (pcapng Simple Packet Block); \
         latency needs one; record with Enhanced Packet Blocks, as tcpdump and dumpcap do"
    )]
    NoTimestamp {
        /// File name as given, or `-`.
        file: String,
        /// Offset of the block.
        offset: u64,
    },
    /// No frame has a timestamp in its last eight bytes.
    #[error(
        "{file}: none of the first {frames} frames has a timestamp trailer (the last 8 bytes of a frame that \
         was captured whole: nanoseconds below 1,000,000,000, then seconds, little endian); \
         unless libmoon captured it from a NIC that appends timestamps, pass --timestamps header"
    )]
    NoTrailer {
        /// File name as given, or `-`.
        file: String,
        /// Number of frames examined.
        frames: u64,
    },
}
