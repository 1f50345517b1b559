//! The log of a soak: a line of JSON a second, appended and synced, so that a kill or a power failure
//! costs no more than the second under way.
//!
//! Every line starts with a check of what follows in it. A line that was torn or damaged is passed
//! over and counted; the others are as they were written. docs/formats/interval-log.md has the fields.

mod packed;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wiretail_schema::run::interval::{INTERVAL_SCHEMA, IntervalRecord, LogLine};
use xxhash_rust::xxh3::xxh3_64;

/// Longest line that is believed, in bytes; lines take 1 to 3 kB, and never a hundredth of this.
const LINE_MAX: u64 = 1 << 22;
/// What a line starts with; eight hexadecimal digits and `",` follow.
const CHECK: &str = "{\"check\":\"";
/// Length of the check with all around it.
const CHECK_LEN: usize = CHECK.len() + 10;

/// A log that can't be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused.
    #[error("{}: {action}: {source}; check the path, the permissions and the disk's space", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in the file makes sense.
    #[error(
        "{}: not the log of a soak: no line of {lines} starts a measurement ({expected}); \
         was it the file intervals.log of a trial's directory, and is its disk sound?", path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
        /// Lines looked at.
        lines: u64,
        /// What a log says of itself.
        expected: &'static str,
    },
    /// Written by another version of the program.
    #[error("{}:{line}: written as '{found}', this program reads '{INTERVAL_SCHEMA}'; use the program that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What the log says of itself.
        found: String,
    },
}

/// A log that is being written.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    /// Length of what is whole, in bytes.
    len: u64,
}

impl LogWriter {
    /// Opens a log to append to, or starts it. What a kill left of a last line is cut off.
    ///
    /// # Errors
    /// The system refuses; the message names the file.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let fail = |action| move |source| LogError::Io { path: path.to_owned(), action, source };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(fail("cannot be opened to append to"))?;
        let len = whole_len(&mut file).map_err(fail("cannot be read"))?;
        file.set_len(len).map_err(fail("its incomplete last line cannot be cut off"))?;
        file.seek(SeekFrom::End(0)).map_err(fail("cannot be appended to"))?;
        Ok(Self { path: path.to_owned(), file, len })
    }

    /// Appends a line with one write, and waits until the disk has it.
    ///
    /// # Errors
    /// As for a full disk. The log stays as it was before.
    pub fn append(&mut self, line: &LogLine) -> Result<(), LogError> {
        let text = encode(line);
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // Half a line would spoil the next one. Where even this fails, the check tells.
            let _ = self.file.set_len(self.len).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(LogError::Io { path: self.path.clone(), action: "cannot be written", source });
        }
        self.len += text.len() as u64;
        Ok(())
    }

    /// Length of the log, in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }
}

/// Length up to and including the last line feed.
fn whole_len(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = vec![0; 1 << 16];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// What was found beside the lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Whether the last line was incomplete or damaged: the log was cut off while it was written.
    pub torn: bool,
    /// Damaged lines before it.
    pub damaged: u64,
    /// Lines in all.
    pub lines: u64,
}

/// Reads a log, a line at a time; `visit` gets every line that is whole. The first one starts a segment.
///
/// # Errors
/// A file that can't be read, is no log, or was written by another version.
pub fn read_log(path: &Path, mut visit: impl FnMut(LogLine)) -> Result<LogEnd, LogError> {
    let fail = |source| LogError::Io { path: path.to_owned(), action: "cannot be read", source };
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(fail)?);
    let mut end = LogEnd::default();
    let mut started = false;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let len = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes).map_err(fail)?;
        if len == 0 {
            break;
        }
        end.lines += 1;
        // Whether this one was torn shows only when none follows.
        end.damaged += u64::from(std::mem::take(&mut end.torn));
        let line = decode(&bytes).filter(|line| started || matches!(line, LogLine::Segment(_)));
        match line {
            Some(LogLine::Segment(start)) if start.schema != INTERVAL_SCHEMA => {
                let (path, line) = (path.to_owned(), end.lines);
                return Err(LogError::Version { path, line, found: start.schema });
            }
            Some(line) => {
                started = true;
                visit(line);
            }
            None => end.torn = true,
        }
    }
    if !started {
        return Err(LogError::NotALog { path: path.to_owned(), lines: end.lines, expected: INTERVAL_SCHEMA });
    }
    Ok(end)
}

/// The part of a line that has a text of its own.
#[derive(Deserialize)]
struct Packed {
    #[serde(default)]
    delays: String,
}

fn check(text: &[u8]) -> String {
    format!("{:08x}", xxh3_64(text) as u32)
}

fn encode(line: &LogLine) -> String {
    // Numbers, texts and lists of them: there is nothing in it that JSON can't hold.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    if let LogLine::Interval(record) = line
        && !record.delays.is_empty()
    {
        text.pop();
        text.push_str(&format!(",\"delays\":\"{}\"}}", packed::pack(&record.delays)));
    }
    let rest = text.get(1..).unwrap_or_default();
    format!("{CHECK}{}\",{rest}\n", check(rest.as_bytes()))
}

/// The line, if it is whole and makes sense.
fn decode(bytes: &[u8]) -> Option<LogLine> {
    let text = bytes.strip_suffix(b"\n")?;
    let (head, rest) = text.split_at_checked(CHECK_LEN)?;
    if head != format!("{CHECK}{}\",", check(rest)).as_bytes() {
        return None;
    }
    let mut line = serde_json::from_slice(text).ok()?;
    if let LogLine::Interval(record) = &mut line {
        let packed: Packed = serde_json::from_slice(text).ok()?;
        record.delays = packed::unpack(&packed.delays)?;
        if !is_consistent(record) {
            return None;
        }
    }
    Some(line)
}

/// Whether the numbers can be those of a second: what is made of them relies on that.
fn is_consistent(record: &IntervalRecord) -> bool {
    let packets = record.delays.iter().try_fold(0u64, |sum, (_, packets)| sum.checked_add(*packets));
    packets == Some(record.matched)
        && (0..=1_000_000_000).contains(&record.length_ns)
        && record.min_ns >= 0
        && record.min_ns <= record.max_ns
        && record.extra_at_start <= record.extra
        && record.worst.iter().all(|(delay_ns, _, _)| (record.min_ns..=record.max_ns).contains(delay_ns))
}

#[cfg(test)]
mod tests;
