//! What a host says of itself, as one text: the files that an audit reads, read twice where they count.
//!
//! ```text
//! wiretail.host/1
//! interval_ns 1000000000
//! === /proc/cmdline
//! quiet isolcpus=1
//! =!= /dev/cpu/1/msr
//! Permission denied (os error 13)
//! ```
//!
//! A name that begins with `/` is a file's; others are put together by who records (`tasks`). `@later` behind a name is the second
//! reading. A line of a file that begins with `=` or `\` has a `\` before it.

use std::collections::BTreeMap;
use std::fmt;

/// First line of the text.
pub const HOST_SCHEMA: &str = "wiretail.host/1";
/// Behind a name: the second reading.
pub const LATER: &str = "@later";
/// The name of the table of tasks.
pub const TASKS: &str = "tasks";
/// The process that recorded, which is no disturbance.
pub const SELF: &str = "self";
/// Before a core and a register: `msr/1/0x34`, a decimal number.
pub const MSR: &str = "msr/";
/// Before a link: `ethtool/eth0`, lines of a setting and its value.
pub const ETHTOOL: &str = "ethtool/";
/// The name of the kernel's configuration: lines `CONFIG_A=y`.
pub const KERNEL_CONFIG: &str = "kernel-config";

/// One file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Its text, without the line end at its end.
    Text(String),
    /// It is there and can't be read: why.
    Unreadable(String),
}

/// All readings of a host, by name. What is not in it is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// From the first to the second reading, in ns; 0 without a second one.
    pub interval_ns: u64,
    /// By name.
    pub readings: BTreeMap<String, Reading>,
}

impl HostRecord {
    /// Reads the text.
    ///
    /// # Errors
    /// The first line that is none of it, counted from 1, and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().zip(1..);
        if lines.next().map(|(line, _)| line) != Some(HOST_SCHEMA) {
            return Err(format!("line 1: is no record of a host; expected {HOST_SCHEMA}"));
        }
        let interval = lines.next().and_then(|(line, _)| line.strip_prefix("interval_ns ")?.parse().ok());
        let interval_ns = interval.ok_or("line 2: expected interval_ns and a number of ns")?;
        let mut record = Self { interval_ns, readings: BTreeMap::new() };
        let mut open: Option<(String, bool, Vec<&str>)> = None;
        for (line, place) in lines {
            let heading = [("=== ", true), ("=!= ", false)];
            let heading = heading.iter().find_map(|(mark, text)| Some((line.strip_prefix(mark)?, *text)));
            match (heading, &mut open) {
                (Some((name, text)), _) => {
                    record.close(open.take());
                    if record.readings.contains_key(name) {
                        return Err(format!("line {place}: {name} stands there for the second time"));
                    }
                    open = Some((name.to_owned(), text, Vec::new()));
                }
                (None, _) if line.starts_with('=') => {
                    return Err(format!("line {place}: \"{line}\"; expected \"=== NAME\" or \"=!= NAME\""));
                }
                (None, Some((_, _, body))) => body.push(line.strip_prefix('\\').unwrap_or(line)),
                (None, None) => return Err(format!("line {place}: \"{line}\"; expected \"=== NAME\"")),
            }
        }
        record.close(open);
        Ok(record)
    }

    fn close(&mut self, open: Option<(String, bool, Vec<&str>)>) {
        let Some((name, text, lines)) = open else { return };
        let body = lines.join("\n");
        let reading = if text { Reading::Text(body) } else { Reading::Unreadable(body) };
        self.readings.insert(name, reading);
    }

    /// Adds a file's text.
    pub fn add(&mut self, name: &str, text: &str) {
        self.readings.insert(name.to_owned(), Reading::Text(text.trim_end_matches(['\n', '\0']).to_owned()));
    }
}

impl fmt::Display for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HOST_SCHEMA}\ninterval_ns {}", self.interval_ns)?;
        for (name, reading) in &self.readings {
            let (mark, text) = match reading {
                Reading::Text(text) => ("===", text),
                Reading::Unreadable(why) => ("=!=", why),
            };
            writeln!(f, "{mark} {name}")?;
            if text.is_empty() {
                continue;
            }
            for line in text.split('\n') {
                let escape = if line.starts_with(['=', '\\']) { "\\" } else { "" };
                writeln!(f, "{escape}{}", line.trim_end_matches('\r'))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut record = HostRecord { interval_ns: 1_000_000_000, ..HostRecord::default() };
        record.add("/proc/cmdline", "quiet isolcpus=1\n");
        record.add("/a", "=== no heading\n\\slash\n\nlast");
        record.add("/empty", "");
        record.readings.insert("/dev/cpu/1/msr".into(), Reading::Unreadable("Permission denied".into()));
        assert_eq!(HostRecord::parse(&record.to_string()), Ok(record));
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let begin = format!("{HOST_SCHEMA}\ninterval_ns 0\n");
        for (text, expected) in [
            (String::new(), "line 1"),
            ("other\n".to_owned(), "line 1"),
            (format!("{HOST_SCHEMA}\ninterval_ns x\n"), "line 2"),
            (format!("{begin}text\n"), "line 3"),
            (format!("{begin}=== /a\n==\n"), "line 4"),
            (format!("{begin}=== /a\n=== /a\n"), "line 4"),
        ] {
            let error = HostRecord::parse(&text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }
}
