//! Reads the events of one file in order, and the windows in which events were lost.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::format::PageFormat;
use super::page::{Page, PageFault};
use super::plan::{Decoded, Names, Plans};
use super::{Event, TraceError};

/// Approximate size of one read, in bytes.
const CHUNK: usize = 256 << 10;

/// A window in which events of a processor are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Index in the list of the trace's streams.
    pub stream: usize,
    pub cpu: u32,
    /// Time of the last event before the window, in ns; if there is none, the start of the recording.
    pub from_ns: u64,
    /// Time of the first event after the window, in ns.
    pub to_ns: u64,
    /// Number of lost events, if the kernel recorded it.
    pub events: Option<u64>,
}

pub(super) struct Stream<R> {
    file: String,
    number: usize,
    cpu: u16,
    source: R,
    format: PageFormat,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer.
    filled: usize,
    page_at: usize,
    page: Option<Page>,
    /// Number of bytes of the file before the buffer.
    before: u64,
    last_ns: u64,
    /// The next event. It is held back because its stack may still follow.
    ahead: Option<Event>,
    /// Windows in which events were lost.
    pub lost: Vec<Lost>,
    pub unknown: u64,
    pub pages: u64,
}

impl<R: Read> Stream<R> {
    pub fn new(file: String, number: usize, cpu: u16, source: R, format: PageFormat, start_ns: u64) -> Self {
        let pages = (CHUNK / format.bytes()).max(1);
        Self {
            file,
            number,
            cpu,
            source,
            format,
            buffer: vec![0; pages * format.bytes()],
            filled: 0,
            page_at: 0,
            page: None,
            before: 0,
            last_ns: start_ns,
            ahead: None,
            lost: Vec::new(),
            unknown: 0,
            pages: 0,
        }
    }

    /// Returns the next event; `None` at the end.
    #[inline]
    pub fn next(&mut self, plans: &Plans, names: &mut Names) -> Result<Option<Event>, TraceError> {
        loop {
            let Some((at, ts_ns, record)) = self.record()? else {
                return Ok(self.ahead.take());
            };
            match plans.decode(ts_ns, self.cpu, &self.buffer[record.clone()], names) {
                Decoded::Event(event) => {
                    if let Some(complete) = self.ahead.replace(event) {
                        return Ok(Some(complete));
                    }
                }
                Decoded::Stack(stack) => {
                    if let Some(event) = self.ahead.as_mut() {
                        event.stack = stack;
                    }
                }
                Decoded::Unknown => self.unknown += 1,
                Decoded::Short(expected) => {
                    let len = record.len();
                    let detail =
                        format!("a record of {len} bytes; expected at least {expected} for its event");
                    return Err(self.fault(PageFault { offset: at, detail }));
                }
            }
        }
    }

    /// Returns the offset of the next record in its page, its time, and the position of its content in the
    /// buffer.
    #[inline]
    fn record(&mut self) -> Result<Option<(usize, u64, Range<usize>)>, TraceError> {
        loop {
            let Some(page) = &mut self.page else {
                if !self.next_page()? {
                    return Ok(None);
                }
                continue;
            };
            let at = page.offset();
            let bytes = &self.buffer[self.page_at..self.page_at + self.format.bytes()];
            match page.next(bytes) {
                Ok(Some(record)) => {
                    self.last_ns = page.ts_ns;
                    let from = self.page_at + record.start;
                    return Ok(Some((at, page.ts_ns, from..self.page_at + record.end)));
                }
                Ok(None) => {
                    self.page = None;
                    self.page_at += self.format.bytes();
                }
                Err(fault) => return Err(self.fault(fault)),
            }
        }
    }

    fn next_page(&mut self) -> Result<bool, TraceError> {
        let bytes = self.format.bytes();
        if self.page_at >= self.filled && !self.fill()? {
            return Ok(false);
        }
        if self.filled - self.page_at < bytes {
            let left = self.filled - self.page_at;
            let detail = format!("the file ends after {left} bytes of a page of {bytes}");
            return Err(self.fault(PageFault { offset: 0, detail }));
        }
        let page = Page::begin(&self.buffer[self.page_at..self.page_at + bytes], &self.format);
        let page = page.map_err(|fault| self.fault(fault))?;
        if let Some(events) = page.missed {
            let (from_ns, to_ns) = (self.last_ns, page.ts_ns.max(self.last_ns));
            let cpu = self.cpu.into();
            self.lost.push(Lost { stream: self.number, cpu, from_ns, to_ns, events });
        }
        self.pages += 1;
        self.page = Some(page);
        Ok(true)
    }

    /// Reads the next pages; returns false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.before += self.filled as u64;
        (self.filled, self.page_at) = (0, 0);
        while self.filled < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.before + self.filled as u64;
                    return Err(TraceError::Io { file: self.file.clone(), offset, source });
                }
            }
        }
        Ok(self.filled > 0)
    }

    fn fault(&self, fault: PageFault) -> TraceError {
        let offset = self.before + (self.page_at + fault.offset) as u64;
        TraceError::Damaged { file: self.file.clone(), offset, detail: fault.detail }
    }
}
