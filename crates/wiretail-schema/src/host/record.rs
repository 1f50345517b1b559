//! Record of a host as a single text file: the files that an audit reads. Files with counters are read twice.
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
//! A name that begins with `/` is the path of a file. Other names, such as `tasks`, are composed by the
//! recording program. A name with the suffix `@later` is the second reading. If a content line begins with
//! `=` or `\`, a leading `\` escapes it.

use std::collections::BTreeMap;
use std::fmt;

/// First line of a host record: schema name and version.
pub const HOST_SCHEMA: &str = "wiretail.host/1";
/// Suffix of a name: the second reading.
pub const LATER: &str = "@later";
/// Name of the table of tasks.
pub const TASKS: &str = "tasks";
/// Name of the entry for the recording process, which is not regarded as interference.
pub const SELF: &str = "self";
/// Prefix of the names of model-specific registers: `msr/1/0x34` for core 1. The content is a decimal number.
pub const MSR: &str = "msr/";
/// Prefix of the names of network link settings: `ethtool/eth0`. Each line has a setting and its value.
pub const ETHTOOL: &str = "ethtool/";
/// Name of the kernel configuration: lines such as `CONFIG_A=y`.
pub const KERNEL_CONFIG: &str = "kernel-config";

/// Result of reading one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Content of the file, without the final line end.
    Text(String),
    /// The file exists but cannot be read; holds the reason.
    Unreadable(String),
}

/// All readings of a host, by name. Files that are not listed do not exist on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// Time between the first and the second reading, in ns; 0 without a second reading.
    pub interval_ns: u64,
    /// Readings by name.
    pub readings: BTreeMap<String, Reading>,
}

impl HostRecord {
    /// Parses a host record.
    ///
    /// # Errors
    /// Returns an error that names the first invalid line, counted from 1, and the expected content.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().zip(1..);
        if lines.next().map(|(line, _)| line) != Some(HOST_SCHEMA) {
            return Err(format!("line 1: not a host record; expected {HOST_SCHEMA}"));
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
                        return Err(format!("line {place}: {name} appears twice"));
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

    /// Adds the content of a file.
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
    fn record_round_trips() {
        let mut record = HostRecord { interval_ns: 1_000_000_000, ..HostRecord::default() };
        record.add("/proc/cmdline", "quiet isolcpus=1\n");
        record.add("/a", "=== no heading\n\\slash\n\nlast");
        record.add("/empty", "");
        record.readings.insert("/dev/cpu/1/msr".into(), Reading::Unreadable("Permission denied".into()));
        assert_eq!(HostRecord::parse(&record.to_string()), Ok(record));
    }

    #[test]
    fn rejects_invalid_record_with_line() {
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
