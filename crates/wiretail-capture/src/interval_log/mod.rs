//! The log of a soak. One line of JSON per second is appended and synced, so that a kill or a power failure
//! loses at most the current second.
//!
//! Every line starts with a checksum of the rest of the line. Torn or damaged lines are skipped and counted;
//! the other lines are not affected. The fields are described in docs/formats/interval-log.md.

mod packed;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wiretail_schema::run::interval::{INTERVAL_SCHEMA, IntervalRecord, LogLine};
use xxhash_rust::xxh3::xxh3_64;

/// Longest accepted line, in bytes. Lines are 1 to 3 kB long, far below this limit.
const LINE_MAX: u64 = 1 << 22;
/// Start of a line; eight hexadecimal digits and `",` follow.
const CHECK: &str = "{\"check\":\"";
/// Length of the checksum and of the text around it.
const CHECK_LEN: usize = CHECK.len() + 10;

/// Error when a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system returned an error.
    #[error(
        "{}: {action}: {source}; check the path, the permissions and the free disk space",
        path.display()
    )]
    Io {
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        source: io::Error,
    },
    /// The file has no valid line.
    #[error(
        "{}: not the log of a soak: none of its {lines} lines starts a measurement ({expected}); \
         is it the file intervals.log of a trial's directory, and is the disk intact?", path.display()
    )]
    NotALog {
        path: PathBuf,
        /// Number of lines examined.
        lines: u64,
        /// The expected schema.
        expected: &'static str,
    },
    /// The log was written by another version of the program.
    #[error("{}:{line}: written as '{found}', but this program reads '{INTERVAL_SCHEMA}'; use the version that wrote it", path.display())]
    Version {
        path: PathBuf,
        /// Line, starting at 1.
        line: u64,
        /// The schema in the log.
        found: String,
    },
}

#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    /// Length of the complete lines, in bytes.
    len: u64,
}

impl LogWriter {
    /// Opens a log for appending, or creates it. An incomplete last line is removed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, read or truncated; the message names the file.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let fail = |action| move |source| LogError::Io { path: path.to_owned(), action, source };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(fail("cannot be opened for appending"))?;
        let len = whole_len(&mut file).map_err(fail("cannot be read"))?;
        file.set_len(len).map_err(fail("its incomplete last line cannot be removed"))?;
        file.seek(SeekFrom::End(0)).map_err(fail("cannot be appended to"))?;
        Ok(Self { path: path.to_owned(), file, len })
    }

    /// Appends a line with one write, and waits until it is on disk.
    ///
    /// # Errors
    /// Returns an error if the line cannot be written, for example because the disk is full. The log is then
    /// unchanged.
    pub fn append(&mut self, line: &LogLine) -> Result<(), LogError> {
        let text = encode(line);
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // An incomplete line would damage the next one. If the truncation fails, too, readers detect the
            // line by its checksum.
            let _ = self.file.set_len(self.len).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(LogError::Io { path: self.path.clone(), action: "cannot be written", source });
        }
        self.len += text.len() as u64;
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.len
    }
}

/// Returns the length up to and including the last line feed.
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

/// Statistics of a log that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Whether the last line was incomplete or damaged because the log ended during a write.
    pub torn: bool,
    /// Number of damaged lines before the last line.
    pub damaged: u64,
    /// Total number of lines.
    pub lines: u64,
}

/// Reads a log line by line and passes every intact line to `visit`. The first line starts a segment.
///
/// # Errors
/// Returns an error for a file that cannot be read, is not a log, or was written by another version.
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
        // A damaged line is reported as torn only if it is the last line.
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

/// The part of a line that is stored as text.
#[derive(Deserialize)]
struct Packed {
    #[serde(default)]
    delays: String,
}

fn check(text: &[u8]) -> String {
    format!("{:08x}", xxh3_64(text) as u32)
}

fn encode(line: &LogLine) -> String {
    // Numbers, strings and lists of them can always be serialized to JSON.
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

/// Decodes a line if it is intact and consistent.
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

/// Whether the numbers are possible for one second. Later computations rely on this.
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
