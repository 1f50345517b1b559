//! `stalls.csv`: when the core of a loop that never sleeps was taken from it, stall by stall.

use std::fmt::Write as _;

/// The list's name in a trial's directory.
pub const STALLS_FILE: &str = "stalls.csv";

const HEADER: &str = "role,start_ns,end_ns,preempted";

/// Whose loop it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalledRole {
    /// The load generator's.
    Generator,
    /// The device's.
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
    /// Whose core it was.
    pub role: StalledRole,
    /// The loop's last reading of the clock before it, in ns since 1970: the clock of the packets' stamps.
    pub start_ns: i64,
    /// The first one behind it.
    pub end_ns: i64,
    /// Whether the scheduler gave the core to another thread.
    pub preempted: bool,
}

impl StallSpan {
    /// The list as CSV.
    pub fn list(stalls: &[Self]) -> String {
        let mut text = format!("{HEADER}\n");
        for stall in stalls {
            let preempted = if stall.preempted { "yes" } else { "no" };
            let _ = writeln!(text, "{},{},{},{preempted}", stall.role.name(), stall.start_ns, stall.end_ns);
        }
        text
    }

    /// Reads a list.
    ///
    /// # Errors
    /// The first line that is none of it, counted from 1, and what was expected there.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("line 1: expected the header of a list of stalls, {HEADER}"));
        }
        let row = |(at, line)| {
            Self::row(line)
                .ok_or_else(|| format!("line {}: \"{line}\" is no stall; expected {HEADER}", at + 2))
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
    fn what_is_written_is_read() {
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
