//! List of stalls, `stalls.csv`: times at which a polling loop lost its core.

use std::fmt::Write as _;

/// File name of the list in a trial's directory.
pub const STALLS_FILE: &str = "stalls.csv";

const HEADER: &str = "role,start_ns,end_ns,preempted";

/// Role with a stalled loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalledRole {
    /// The load generator.
    Generator,
    /// The device under test.
    Device,
}

impl StalledRole {
    fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Device => "device",
        }
    }
}

/// A stall: a line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallSpan {
    /// Role that lost its core.
    pub role: StalledRole,
    /// Last clock reading of the loop before the stall, in ns since 1970: the clock of the packet timestamps.
    pub start_ns: i64,
    /// First clock reading of the loop after the stall, in ns since 1970.
    pub end_ns: i64,
    /// Whether the scheduler gave the core to another thread.
    pub preempted: bool,
}

impl StallSpan {
    /// Formats the list as CSV.
    pub fn list(stalls: &[Self]) -> String {
        let mut text = format!("{HEADER}\n");
        for stall in stalls {
            let preempted = if stall.preempted { "yes" } else { "no" };
            let _ = writeln!(text, "{},{},{},{preempted}", stall.role.name(), stall.start_ns, stall.end_ns);
        }
        text
    }

    /// Parses a list.
    ///
    /// # Errors
    /// Returns an error that names the first invalid line, counted from 1, and the expected format.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("line 1: expected the header of a list of stalls, {HEADER}"));
        }
        let row = |(at, line)| {
            Self::row(line)
                .ok_or_else(|| format!("line {}: \"{line}\" is not a valid entry; expected {HEADER}", at + 2))
        };
        lines.enumerate().map(row).collect()
    }

    fn row(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [role, start, end, preempted] = fields[..] else { return None };
        let role =
            [StalledRole::Generator, StalledRole::Device].into_iter().find(|one| one.name() == role)?;
        let stall = Self {
            role,
            start_ns: start.parse().ok()?,
            end_ns: end.parse().ok()?,
            preempted: match preempted {
                "yes" => true,
                "no" => false,
                _ => return None,
            },
        };
        (stall.end_ns >= stall.start_ns).then_some(stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_round_trips() {
        let stall =
            |role, start_ns, preempted| StallSpan { role, start_ns, end_ns: start_ns + 5000, preempted };
        let stalls = [stall(StalledRole::Device, 7, true), stall(StalledRole::Generator, 9, false)];
        assert_eq!(StallSpan::parse(&StallSpan::list(&stalls)), Ok(stalls.to_vec()));
        let wrong = ["device,1,2", "nobody,1,2,no", "device,2,1,no", "device,1,2,maybe", "device,x,2,no"];
        for line in wrong {
            let error = StallSpan::parse(&format!("{HEADER}\ndevice,1,2,no\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 3") && error.contains(line), "{error}");
        }
        assert!(StallSpan::parse("").unwrap_err().starts_with("line 1"));
    }
}
