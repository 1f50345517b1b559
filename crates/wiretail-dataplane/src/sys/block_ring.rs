//! A receiving ring of TPACKET_V3: the kernel fills blocks with packets one behind the other, 152 bytes
//! for the first 70 of a frame. Large enough, it holds a trial without anyone reading.

use std::io;
use std::sync::atomic::Ordering;

use super::mapping::Mapping;
use super::socket::{PacketSocket, SocketCounts};

/// Length of a block in bytes.
pub(crate) const BLOCK_LEN: usize = 128 * 1024;

/// Where a block's status stands (tpacket_block_desc.hdr.bh1.block_status).
const STATUS_AT: usize = 8;

/// What of a block is the kernel's header before the part that may be looked at.
const HEADER_LEN: usize = STATUS_AT + 4;

/// The kernel's tpacket3_hdr, aligned, and what it leaves free before a frame.
const PACKET_OVERHEAD: usize = 82;

/// A packet of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamped<'a> {
    /// By the clock that the status tells, in ns.
    pub(crate) ts_ns: i64,
    /// Length on the wire without frame check sequence, in bytes.
    pub(crate) wire_len: u32,
    /// TP_STATUS_ flags: among them, who made the stamp.
    pub(crate) status: u32,
    /// As much as was captured.
    pub(crate) frame: &'a [u8],
}

/// The ring and the socket that it belongs to.
#[derive(Debug)]
pub(crate) struct BlockRing {
    // Dropped before the socket.
    memory: Mapping,
    socket: PacketSocket,
    blocks: usize,
    next: usize,
}

/// Packets that fit in a block when `snaplen` bytes of each are kept.
pub(crate) fn packets_a_block(snaplen: usize) -> usize {
    (BLOCK_LEN - 48) / (PACKET_OVERHEAD + snaplen).next_multiple_of(8)
}

impl BlockRing {
    /// Gives the socket a ring of `blocks` blocks; those that are not full are handed over after
    /// `timeout_ms`. Reception starts with [`BlockRing::start`].
    pub(crate) fn new(socket: PacketSocket, blocks: usize, timeout_ms: u32) -> io::Result<Self> {
        // The frame size has no meaning here but the kernel's: blocks * frames must fit.
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

    /// From now on packets are recorded.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.socket.bind(true)
    }

    /// Hands the packets of the next block to `sink`, gives the block back, and returns how many there
    /// were; None where the kernel still fills it.
    pub(crate) fn read_block(&mut self, sink: &mut impl FnMut(Timestamped<'_>)) -> Option<u64> {
        let at = self.next * BLOCK_LEN;
        if self.memory.word(at + STATUS_AT).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: a block with this status belongs to this process until the store below; the status word
        // is not part of the slice.
        let block = unsafe { self.memory.bytes(at + HEADER_LEN, BLOCK_LEN - HEADER_LEN) };
        let packets = read_packets(block, sink);
        self.memory.word(at + STATUS_AT).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Some(packets)
    }

    /// Replaces the socket's filter.
    pub(crate) fn attach_filter(&self, program: &mut [libc::sock_filter]) -> io::Result<()> {
        self.socket.attach_filter(program)
    }

    /// What the kernel counted since the last call.
    pub(crate) fn statistics(&self) -> io::Result<SocketCounts> {
        self.socket.statistics()
    }
}

/// Reads a block from behind its status word on.
fn read_packets(block: &[u8], sink: &mut impl FnMut(Timestamped<'_>)) -> u64 {
    let word = |at: usize| u32::from_ne_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let packets = word(0);
    let mut at = word(4) as usize - HEADER_LEN;
    for _ in 0..packets {
        // tpacket3_hdr: offset of the next, seconds, nanoseconds, captured, wire length, status, start.
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
