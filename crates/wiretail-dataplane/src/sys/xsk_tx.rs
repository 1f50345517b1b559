//! The sending half of an AF_XDP socket: frames are copied into chunks that the sending ring names, one
//! system call sends them all, and the completion ring gives the chunks back.

use std::io;
use std::sync::Arc;

use super::mapping::Mapping;
use super::xsk_ring::{ADDRESS_LEN, DESCRIPTOR_LEN, Ring};
use super::xsk_socket::{CHUNK_LEN, XskSocket};

/// Chunks and rings of sending.
#[derive(Debug)]
pub(crate) struct XskTx {
    chunks: Mapping,
    /// Where the chunks start in the socket's memory.
    first: u64,
    tx: Ring,
    completion: Ring,
    /// Chunks that the kernel does not hold, by their offset in `chunks`; room for all.
    free: Vec<usize>,
    /// Descriptors that were written so far.
    staged: u32,
    /// Addresses that were taken out of the completion ring so far.
    completed: u32,
    socket: Arc<XskSocket>,
}

impl XskTx {
    /// The half of a bound socket whose sending and completion ring have as many entries as there are
    /// chunks, a power of two; they start at this offset of the socket's memory.
    pub(crate) fn new(socket: Arc<XskSocket>, chunks: Mapping, first: u64) -> io::Result<Self> {
        let offsets = socket.offsets()?;
        let slots = chunks.extent().1 as usize / CHUNK_LEN;
        let tx = Ring::map(&*socket, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, slots, DESCRIPTOR_LEN)?;
        let page_offset = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Ring::map(&*socket, page_offset, &offsets.cr, slots, ADDRESS_LEN)?;
        let free = (0..slots).rev().map(|chunk| chunk * CHUNK_LEN).collect();
        Ok(Self { chunks, first, tx, completion, free, staged: 0, completed: 0, socket })
    }

    /// Copies a frame of at most [`CHUNK_LEN`] bytes into a free chunk; false where there is none.
    /// [`XskTx::publish`] shows it to the kernel.
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

    /// Shows the staged frames to the kernel.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.tx.set_producer(self.staged);
    }

    /// Whether the kernel has taken every staged frame.
    #[inline]
    pub(crate) fn all_taken(&self) -> bool {
        self.tx.consumer() == self.staged
    }

    /// Has the kernel send what is published, if it waits for being asked; otherwise it does so anyway.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        if self.tx.needs_wakeup() { self.socket.kick() } else { Ok(()) }
    }

    /// Takes back the chunks of frames that are sent.
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
