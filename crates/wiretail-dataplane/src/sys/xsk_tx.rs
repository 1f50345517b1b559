//! The sending half of an AF_XDP socket. Frames are copied into chunks listed in the send ring, one system
//! call sends all of them, and the completion ring returns the chunks.

use std::io;
use std::sync::Arc;

use super::mapping::Mapping;
use super::xsk_ring::{ADDRESS_LEN, DESCRIPTOR_LEN, Ring};
use super::xsk_socket::{CHUNK_LEN, XskSocket};

/// Chunks and rings for sending.
#[derive(Debug)]
pub(crate) struct XskTx {
    chunks: Mapping,
    /// Offset of the chunks in the socket's memory.
    first: u64,
    tx: Ring,
    completion: Ring,
    /// Offsets in `chunks` of the chunks that the kernel does not hold. Has capacity for all chunks.
    free: Vec<usize>,
    /// Number of descriptors written.
    staged: u32,
    /// Number of addresses taken from the completion ring.
    completed: u32,
    socket: Arc<XskSocket>,
}

impl XskTx {
    /// Creates the sending half of a bound socket. Its send and completion rings have as many entries as
    /// there are chunks, a power of two. The chunks start at offset `first` of the socket's memory.
    pub(crate) fn new(socket: Arc<XskSocket>, chunks: Mapping, first: u64) -> io::Result<Self> {
        let offsets = socket.offsets()?;
        let slots = chunks.extent().1 as usize / CHUNK_LEN;
        let tx = Ring::map(&*socket, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, slots, DESCRIPTOR_LEN)?;
        let page_offset = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Ring::map(&*socket, page_offset, &offsets.cr, slots, ADDRESS_LEN)?;
        let free = (0..slots).rev().map(|chunk| chunk * CHUNK_LEN).collect();
        Ok(Self { chunks, first, tx, completion, free, staged: 0, completed: 0, socket })
    }

    /// Copies a frame of at most [`CHUNK_LEN`] bytes into a free chunk. Returns false if no chunk is free.
    /// [`XskTx::publish`] makes the frame visible to the kernel.
    #[inline]
    pub(crate) fn stage(&mut self, frame: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let Some(at) = self.free.pop() else { return false };
        assert!(frame.len() <= CHUNK_LEN);
        // SAFETY: a free chunk belongs to this process until it is published; the kernel does not know it.
        unsafe { self.chunks.bytes_mut(at, frame.len()) }.copy_from_slice(frame);
        self.tx.set_descriptor(self.staged, self.first + at as u64, frame.len() as u32);
        self.staged = self.staged.wrapping_add(1);
        true
    }

    /// Makes the staged frames visible to the kernel.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.tx.set_producer(self.staged);
    }

    /// Whether the kernel has taken all staged frames.
    #[inline]
    pub(crate) fn all_taken(&self) -> bool {
        self.tx.consumer() == self.staged
    }

    /// Makes the kernel send the published frames if it needs a system call for this.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        if self.tx.needs_wakeup() { self.socket.kick() } else { Ok(()) }
    }

    /// Reclaims the chunks of sent frames.
    #[inline]
    pub(crate) fn reclaim(&mut self) {
        let until = self.completion.producer();
        while self.completed != until {
            let address = self.completion.address(self.completed);
            self.free.push((address - self.first) as usize);
            self.completed = self.completed.wrapping_add(1);
        }
        self.completion.set_consumer(self.completed);
    }
}
