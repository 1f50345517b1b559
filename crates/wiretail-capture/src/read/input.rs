//! The buffer through which all data of a capture passes.
//!
//! It uses plain `read` calls into a buffer that stays in the L2 cache, so that decoding finds its bytes
//! there and memory is written only once. It does not use a memory map: if a mapped file is truncated, the
//! process is killed with SIGBUS, and a pipe cannot be mapped.

use std::io::{self, ErrorKind, Read};

/// Size of the buffer unless a record needs more.
pub(crate) const BUFFER_LEN: usize = 128 * 1024;

/// A source of bytes with its buffer; `buffer[start..end]` is read but not yet consumed.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    consumed: u64,
    ended: bool,
}

impl Input {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source, buffer: vec![0; BUFFER_LEN], start: 0, end: 0, consumed: 0, ended: false }
    }

    /// Bytes that are read but not yet consumed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks the first `count` bytes as consumed.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Number of bytes consumed since the beginning.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether the source has ended.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Size of the buffer, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reads once, up to the number of bytes that fit after the buffered ones. Makes room for `need` bytes in
    /// total; the caller bounds `need`.
    pub(crate) fn fill(&mut self, need: usize) -> io::Result<()> {
        if self.start > 0 {
            // Less than one record remains, so this moves little data.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if need > self.buffer.len() {
            self.buffer.resize(need, 0);
        }
        if self.ended || self.end == self.buffer.len() {
            return Ok(());
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }

    /// Reads until `need` bytes are buffered or the source ends.
    pub(crate) fn fill_to(&mut self, need: usize) -> io::Result<()> {
        while !self.ended && self.end - self.start < need {
            self.fill(need)?;
        }
        Ok(())
    }

    /// Returns a reader of the bytes that are not yet consumed, followed by the rest of the source.
    pub(crate) fn into_reader(self) -> impl Read + Send + use<> {
        let mut head = self.buffer;
        head.truncate(self.end);
        head.drain(..self.start);
        io::Cursor::new(head).chain(self.source)
    }
}
