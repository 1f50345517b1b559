//! A complete trace: its document, and the events of all its files merged by time.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use wiretail_schema::causes::trace::{TRACE_FILE, TRACE_SCHEMA, TraceInfo, TraceNames};

use super::format::PageFormat;
use super::plan::{Names, Plans};
use super::stream::{Lost, Stream};
use super::{Event, TraceError};

/// A trace after reading its document.
#[derive(Debug)]
pub struct Trace {
    folder: PathBuf,
    info: TraceInfo,
    page: PageFormat,
    plans: Plans,
    names: Names,
    remarks: Vec<String>,
}

/// Statistics of a trace that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceEnd {
    /// Total number of events.
    pub events: u64,
    /// Number of skipped records of unknown events.
    pub unknown: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Windows in which events are missing, ordered by stream and time.
    pub lost: Vec<Lost>,
}

impl Trace {
    /// Reads the document of the trace in `folder`.
    ///
    /// # Errors
    /// Returns [`TraceError::Io`] if it cannot be read, and [`TraceError::NotATrace`] if it is not a trace
    /// document.
    pub fn open(folder: &Path) -> Result<Self, TraceError> {
        let path = folder.join(TRACE_FILE);
        let file = || path.display().to_string();
        let text = fs::read(&path).map_err(|source| TraceError::Io { file: file(), offset: 0, source })?;
        let wrong = |detail: String| TraceError::NotATrace { file: file(), detail, expected: TRACE_SCHEMA };
        let info = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        Self::new(folder, info).map_err(wrong)
    }

    /// Creates a trace from a document; its files are expected in `folder`.
    ///
    /// # Errors
    /// Returns a message about the first error in the document.
    pub fn new(folder: &Path, info: TraceInfo) -> Result<Self, String> {
        if info.schema != TRACE_SCHEMA {
            return Err(format!("written as '{}'", info.schema));
        }
        let page = PageFormat::parse(&info.header_page)?;
        if page.bytes() != info.page_bytes as usize {
            let (page, said) = (page.bytes(), info.page_bytes);
            return Err(format!("header_page describes a page of {page} bytes, but page_bytes is {said}"));
        }
        if let Some(stream) = info.streams.iter().find(|stream| stream.cpu > u16::MAX.into()) {
            return Err(format!("{}: there is no processor {}", stream.file, stream.cpu));
        }
        let plain = |file: &str| Path::new(file).file_name().is_some_and(|name| name == file);
        if let Some(stream) = info.streams.iter().find(|stream| !plain(&stream.file)) {
            return Err(format!("{:?} is not the name of a file in the folder", stream.file));
        }
        let mut names = Names::default();
        let (plans, remarks) = Plans::new(&info, &mut names)?;
        for (pid, name) in &info.tasks {
            let name = names.text(name.as_bytes());
            names.tasks.insert(*pid, name);
        }
        Ok(Self { folder: folder.to_owned(), info, page, plans, names, remarks })
    }

    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Events in the document whose format is not supported; one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Reads all events, ordered by time, and by stream for equal times.
    ///
    /// # Errors
    /// Returns an error if a file is missing, does not have the length stated in the document, or is invalid.
    /// All events before the error have been visited.
    pub fn read(&mut self, visit: impl FnMut(&Event)) -> Result<TraceEnd, TraceError> {
        let mut sources = Vec::new();
        for stream in &self.info.streams {
            let path = self.folder.join(&stream.file);
            let file = || path.display().to_string();
            let fail = |source| TraceError::Io { file: file(), offset: 0, source };
            let source = File::open(&path).map_err(fail)?;
            let len = source.metadata().map_err(fail)?.len();
            if len != stream.bytes {
                let detail = format!("the file has {len} bytes, but {TRACE_FILE} expects {}", stream.bytes);
                return Err(TraceError::Damaged { file: file(), offset: len.min(stream.bytes), detail });
            }
            sources.push(source);
        }
        self.read_from(sources, visit)
    }

    /// Like [`Trace::read`], but reads from sources other than files: one for each stream, in the order of
    /// the document.
    ///
    /// # Errors
    /// Same as [`Trace::read`].
    pub fn read_from<R: Read>(
        &mut self,
        sources: impl IntoIterator<Item = R>,
        mut visit: impl FnMut(&Event),
    ) -> Result<TraceEnd, TraceError> {
        let mut streams: Vec<Stream<R>> = Vec::new();
        for (number, (stream, source)) in self.info.streams.iter().zip(sources).enumerate() {
            let file = self.folder.join(&stream.file).display().to_string();
            streams.push(Stream::new(file, number, stream.cpu as u16, source, self.page, self.info.start_ns));
        }
        let (plans, names) = (&self.plans, &mut self.names);
        let mut end = TraceEnd::default();
        // The next event of each stream that has further events.
        let mut heads = Vec::new();
        for (at, stream) in streams.iter_mut().enumerate() {
            heads.extend(stream.next(plans, names)?.map(|event| (event, at)));
        }
        while let Some(first) = (0..heads.len()).min_by_key(|head| (heads[*head].0.ts_ns, heads[*head].1)) {
            // While this stream is ahead of all others, no comparison is needed.
            let others = heads.iter().enumerate().filter(|(head, _)| *head != first);
            let until = others.map(|(_, (event, _))| event.ts_ns).min().unwrap_or(u64::MAX);
            let (mut event, at) = heads[first];
            loop {
                end.events += 1;
                visit(&event);
                match streams[at].next(plans, names)? {
                    Some(next) if next.ts_ns < until => event = next,
                    Some(next) => {
                        heads[first].0 = next;
                        break;
                    }
                    None => {
                        heads.swap_remove(first);
                        break;
                    }
                }
            }
        }
        for stream in streams {
            end.unknown += stream.unknown;
            end.pages += stream.pages;
            end.lost.extend(stream.lost);
        }
        Ok(end)
    }

    /// Returns the function that contains an address, and the offset from the function's start.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let symbols = &self.info.symbols;
        let behind = symbols.partition_point(|(start, _)| *start <= address);
        let (start, name) = symbols.get(behind.checked_sub(1)?)?;
        Some((name, address - start))
    }
}

impl TraceNames for Trace {
    fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number)
    }

    fn stack(&self, number: u32) -> Option<&[u64]> {
        self.names.get_stack(number)
    }

    /// Returns the task's last name in the trace or its document. All idle threads have number 0 and are
    /// named after their processor.
    fn task(&self, pid: i32) -> Option<&str> {
        self.names.get(*self.names.tasks.get(&pid)?)
    }

    fn function(&self, address: u64) -> Option<&str> {
        self.symbol(address).map(|(name, _)| name)
    }
}
