//! A TPACKET_V3 receive ring. The kernel fills blocks with consecutive packets. A packet takes 152 bytes if
//! the first 70 bytes of its frame are captured. A large ring can hold all packets of a trial, so that it
//! need not be read during the trial.

use std::io;
use std::sync::atomic::Ordering;

use super::mapping::Mapping;
use super::socket::{PacketSocket, SocketCounts};

/// Length of a block in bytes.
pub(crate) const BLOCK_LEN: usize = 128 * 1024;

/// Offset of a block's status (tpacket_block_desc.hdr.bh1.block_status).
const STATUS_AT: usize = 8;

/// Length of the block header up to the end of the status word, which is never part of a slice.
const HEADER_LEN: usize = STATUS_AT + 4;

/// Length of the kernel's aligned tpacket3_hdr and of the gap before the frame.
const PACKET_OVERHEAD: usize = 82;

/// A packet of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamped<'a> {
    /// Timestamp in ns; the status determines the clock.
    pub(crate) ts_ns: i64,
    /// Length on the wire without frame check sequence, in bytes.
    pub(crate) wire_len: u32,
    /// TP_STATUS_ flags, including the source of the timestamp.
    pub(crate) status: u32,
    /// The captured part of the frame.
    pub(crate) frame: &'a [u8],
}

/// The ring and its socket.
#[derive(Debug)]
pub(crate) struct BlockRing {
    // Must be dropped before the socket.
    memory: Mapping,
    socket: PacketSocket,
    blocks: usize,
    next: usize,
}

/// Number of packets per block with `snaplen` captured bytes each.
pub(crate) fn packets_a_block(snaplen: usize) -> usize {
    (BLOCK_LEN - 48) / (PACKET_OVERHEAD + snaplen).next_multiple_of(8)
}

impl BlockRing {
    /// Adds a ring of `blocks` blocks to the socket. Blocks that are not full are passed on after
    /// `timeout_ms`. Reception starts with [`BlockRing::start`].
    pub(crate) fn new(socket: PacketSocket, blocks: usize, timeout_ms: u32) -> io::Result<Self> {
        // The frame size has no effect, but the kernel checks that the frames fit into the blocks.
        let frame_len = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_len as u32,
            tp_frame_nr: (blocks * (BLOCK_LEN / frame_len)) as u32,
            tp_retire_blk_tov: timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set_packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as _)?;
        socket.set_block_ring(&request)?;
        let memory = Mapping::of_socket(&socket, blocks * BLOCK_LEN)?;
        Ok(Self { memory, socket, blocks, next: 0 })
    }

    /// Starts recording.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.socket.bind(true)
    }

    /// Passes the packets of the next block to `sink`, releases the block, and returns the number of packets.
    /// `None` if the kernel is still filling the block.
    pub(crate) fn read_block(&mut self, sink: &mut impl FnMut(Timestamped<'_>)) -> Option<u64> {
        let at = self.next * BLOCK_LEN;
        if self.memory.word(at + STATUS_AT).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: a block with this status belongs to this process until the store below. The status word is
        // not part of the slice.
        let block = unsafe { self.memory.bytes(at + HEADER_LEN, BLOCK_LEN - HEADER_LEN) };
        let packets = read_packets(block, sink);
        self.memory.word(at + STATUS_AT).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Some(packets)
    }

    /// Replaces the filter of the socket.
    pub(crate) fn attach_filter(&self, program: &mut [libc::sock_filter]) -> io::Result<()> {
        self.socket.attach_filter(program)
    }

    /// Kernel counters since the last call.
    pub(crate) fn statistics(&self) -> io::Result<SocketCounts> {
        self.socket.statistics()
    }
}

/// Parses a block, given without the status word at its start.
fn read_packets(block: &[u8], sink: &mut impl FnMut(Timestamped<'_>)) -> u64 {
    let word = |at: usize| u32::from_ne_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let packets = word(0);
    let mut at = word(4) as usize - HEADER_LEN;
    for _ in 0..packets {
        // tpacket3_hdr: offset of the next packet, seconds, nanoseconds, captured length, wire length,
        // status, offset of the frame.
        let frame_at = at + usize::from(u16::from_ne_bytes([block[at + 24], block[at + 25]]));
        sink(Timestamped {
            ts_ns: i64::from(word(at + 4)) * 1_000_000_000 + i64::from(word(at + 8)),
            wire_len: word(at + 16),
            status: word(at + 20),
            frame: &block[frame_at..frame_at + word(at + 12) as usize],
        });
        at += word(at) as usize;
    }
    packets.into()
}
