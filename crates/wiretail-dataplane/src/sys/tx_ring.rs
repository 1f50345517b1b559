//! A TPACKET_V2 send ring: frames are copied into slots, and one system call sends all of them.

use std::io;
use std::sync::atomic::Ordering;

use super::mapping::Mapping;
use super::socket::PacketSocket;

/// Offset of a frame in its slot, after the aligned tpacket2_hdr.
const FRAME_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();

/// Length of a slot in bytes.
pub(crate) const SLOT_LEN: usize = 2048;

/// Maximum length of a frame in a slot, in bytes.
pub(crate) const FRAME_MAX: usize = SLOT_LEN - FRAME_AT;

/// Number of slots per physically contiguous block.
const SLOTS_A_BLOCK: usize = 32;

const LENGTH_AT: usize = 4;

/// The ring and its socket.
#[derive(Debug)]
pub(crate) struct TxRing {
    // Must be dropped before the socket.
    memory: Mapping,
    socket: PacketSocket,
    slots: usize,
    next: usize,
}

/// The request for a ring of `slots` slots, rounded up to whole blocks.
pub(super) fn ring_request(slots: usize) -> libc::tpacket_req {
    let blocks = slots.div_ceil(SLOTS_A_BLOCK).max(1);
    libc::tpacket_req {
        tp_block_size: (SLOTS_A_BLOCK * SLOT_LEN) as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: SLOT_LEN as u32,
        tp_frame_nr: (blocks * SLOTS_A_BLOCK) as u32,
    }
}

impl TxRing {
    /// Adds a ring of at least `slots` slots to the socket.
    pub(crate) fn new(socket: PacketSocket, slots: usize) -> io::Result<Self> {
        let request = ring_request(slots);
        socket.set_packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as _)?;
        socket.set_ring(libc::PACKET_TX_RING, &request)?;
        let slots = request.tp_frame_nr as usize;
        let memory = Mapping::of_socket(&socket, slots * SLOT_LEN)?;
        Ok(Self { memory, socket, slots, next: 0 })
    }

    /// Copies a frame into the next slot. Returns false if the kernel is still sending from that slot, or if
    /// the frame is too long.
    #[inline]
    pub(crate) fn stage(&mut self, frame: &[u8]) -> bool {
        let at = self.next * SLOT_LEN;
        if self.memory.word(at).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE
            || frame.len() > FRAME_MAX
        {
            return false;
        }
        // SAFETY: an available slot belongs to this process until its status changes, which only this method
        // does, through `&mut self`. The status word is not part of the slice.
        let slot = unsafe { self.memory.bytes_mut(at + LENGTH_AT, SLOT_LEN - LENGTH_AT) };
        slot[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        slot[FRAME_AT - LENGTH_AT..][..frame.len()].copy_from_slice(frame);
        self.memory.word(at).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        true
    }

    /// Whether the kernel has sent all staged frames; it sends them in order.
    #[inline]
    pub(crate) fn all_taken(&self) -> bool {
        let last = if self.next == 0 { self.slots - 1 } else { self.next - 1 };
        self.memory.word(last * SLOT_LEN).load(Ordering::Acquire) != libc::TP_STATUS_SEND_REQUEST
    }

    /// Makes the kernel send the staged frames.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        self.socket.kick()
    }
}
