//! The one buffer that a capture passes through.
//!
//! Plain `read` into a buffer that stays in the L2 cache: decoding finds its bytes there, and memory
//! is written once. Not a memory map: a file that is cut while it is mapped kills the process with
//! SIGBUS, and a pipe cannot be mapped.

use std::io::{self, ErrorKind, Read};

/// Size of the buffer as long as no record needs more.
pub(crate) const BUFFER_LEN: usize = 128 * 1024;

/// A source of bytes with its buffer: `buffer[start..end]` is read and not yet consumed.
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

    /// What is read and not yet consumed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks the first `count` bytes as done with.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Bytes consumed since the beginning.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether the source has come to its end.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes of memory that the buffer holds.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reads once, as much as fits behind what is there; makes room for `need` bytes in all. The
    /// caller bounds `need`.
    pub(crate) fn fill(&mut self, need: usize) -> io::Result<()> {
        if self.start > 0 {
            // Less than one record is left over, so this moves little.
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

    /// Reads until `need` bytes are there or the source ends.
    pub(crate) fn fill_to(&mut self, need: usize) -> io::Result<()> {
        while !self.ended && self.end - self.start < need {
            self.fill(need)?;
        }
        Ok(())
    }

    /// Takes the input apart: what was read and not consumed, then the rest.
    pub(crate) fn into_reader(self) -> impl Read + Send + use<> {
        let mut head = self.buffer;
        head.truncate(self.end);
        head.drain(..self.start);
        io::Cursor::new(head).chain(self.source)
    }
}
