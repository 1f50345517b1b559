//! The receiving half of an AF_XDP socket. The kernel or the NIC writes each packet into a chunk from the
//! fill ring and adds the chunk to the receive ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::mapping::Mapping;
use super::rx_ring::Received;
use super::xsk_ring::{ADDRESS_LEN, DESCRIPTOR_LEN, Ring};
use super::xsk_socket::{CHUNK_LEN, XskSocket};

/// Chunks and rings for reception. Packets have positions that start at 0 and never repeat.
#[derive(Debug)]
pub(crate) struct XskRx {
    chunks: Mapping,
    rx: Ring,
    fill: Ring,
    /// Number of addresses added to the fill ring.
    filled: u32,
    /// The oldest position that has not been released.
    tail: u64,
    /// For each place in the ring, whether its position after `tail` has been released.
    released: Vec<bool>,
    socket: Arc<XskSocket>,
    zero_copy: bool,
    dropped: u64,
}

impl XskRx {
    /// Creates the receiving half of a bound socket. Its receive and fill rings have as many entries as there
    /// are chunks, a power of two. The chunks are the first ones of the socket's memory.
    pub(crate) fn new(socket: Arc<XskSocket>, chunks: Mapping, zero_copy: bool) -> io::Result<Self> {
        let offsets = socket.offsets()?;
        let slots = chunks.extent().1 as usize / CHUNK_LEN;
        let rx = Ring::map(&*socket, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, slots, DESCRIPTOR_LEN)?;
        let fill = Ring::map(&*socket, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, slots, ADDRESS_LEN)?;
        for chunk in 0..slots {
            fill.set_address(chunk as u32, (chunk * CHUNK_LEN) as u64);
        }
        fill.set_producer(slots as u32);
        Ok(Self {
            chunks,
            rx,
            fill,
            filled: slots as u32,
            tail: 0,
            released: vec![false; slots],
            socket,
            zero_copy,
            dropped: 0,
        })
    }

    /// Readable while there are packets.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Number of packets that fit, a power of two.
    pub(crate) fn slots(&self) -> usize {
        self.released.len()
    }

    /// The packet at this position, which must not be released; `None` if it has not arrived.
    #[inline]
    pub(crate) fn packet(&self, position: u64) -> Option<Received<'_>> {
        let arrived = self.rx.producer().wrapping_sub(position as u32) as i32;
        if arrived <= 0 {
            self.wake();
            return None;
        }
        let (address, len) = self.rx.descriptor(position as u32);
        // SAFETY: a chunk belongs to this process from its entry in the receive ring until `release` adds it
        // to the fill ring, which takes `&mut self`; the kernel does not write to it in between.
        let frame = unsafe { self.chunks.bytes(address as usize, len as usize) };
        // The kernel drops and counts packets that do not fit into a chunk.
        Some(Received { frame, whole: true })
    }

    /// Releases the chunk at this position to the kernel. Each position must be released once.
    #[inline]
    pub(crate) fn release(&mut self, position: u64) {
        let (address, _) = self.rx.descriptor(position as u32);
        // The kernel derives the start of the chunk from the address. The ring has room for all chunks.
        self.fill.set_address(self.filled, address);
        self.filled = self.filled.wrapping_add(1);
        self.fill.set_producer(self.filled);
        // An entry of the receive ring can be released only after all entries before it.
        let mask = self.released.len() - 1;
        if position != self.tail {
            self.released[position as usize & mask] = true;
            return;
        }
        self.tail += 1;
        while std::mem::take(&mut self.released[self.tail as usize & mask]) {
            self.tail += 1;
        }
        self.rx.set_consumer(self.tail as u32);
    }

    /// Wakes the driver of a NIC that writes directly into chunks, because it may be waiting for free chunks.
    #[inline]
    fn wake(&self) {
        if self.zero_copy && self.fill.needs_wakeup() {
            self.socket.wake_rx();
        }
    }

    /// Number of packets dropped for lack of room since the last call.
    pub(crate) fn dropped(&mut self) -> io::Result<u64> {
        let all = self.socket.dropped()?;
        let since = all - self.dropped;
        self.dropped = all;
        Ok(since)
    }
}
