//! Measurements by other programs on the same core, for comparison. The programs are cyclictest from
//! rt-tests, and timerlat from rtla if the kernel has this tracer. In both programs, a thread sleeps until a
//! timer expires, and the program measures how late the thread wakes up. Neither program traces the causes.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use wiretail_schema::host::noise::PeerNoise;
use wiretail_schema::units::Share;

/// Measurement time of each program, in ns.
pub const DURATION_NS: u64 = 5_000_000_000;
/// Wakeup interval of a program's threads, in us.
const INTERVAL_US: u64 = 200;
/// Longest lateness that the histogram covers, in us.
const HISTOGRAM_US: u64 = 20_000;
/// Real-time priority of the program if the loop has none.
const PRIORITY: u8 = 80;
/// Files that list the kernel's tracers, below the current and the former mount point of tracefs.
const TRACERS: [&str; 2] =
    ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"];

/// A measuring program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `cyclictest` of rt-tests.
    Cyclictest,
    /// `rtla timerlat hist`.
    Timerlat,
}

/// Returns the available programs. For each missing program, also returns the reason and the remedy.
pub fn available() -> (Vec<Peer>, Vec<String>) {
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if is_there("cyclictest") {
        peers.push(Peer::Cyclictest);
    } else {
        missing.push(
            "skipping the comparison with cyclictest: not installed (Debian: package rt-tests)".to_owned(),
        );
    }
    if !is_there("rtla") {
        missing.push("skipping the comparison with rtla: not installed (Debian: package rtla)".to_owned());
    } else if TRACERS.iter().any(|path| fs::read_to_string(path).is_ok_and(|all| all.contains("timerlat"))) {
        peers.push(Peer::Timerlat);
    } else {
        missing.push(
            "skipping the comparison with rtla: this kernel lacks CONFIG_TIMERLAT_TRACER, or tracefs is not \
             mounted"
                .to_owned(),
        );
    }
    (peers, missing)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Peer {
    /// Returns the program's command line for a core and for the loop's real-time priority.
    fn command(self, core: u32, fifo: Option<u8>) -> Vec<String> {
        let (priority, seconds) = (fifo.unwrap_or(PRIORITY), DURATION_NS / 1_000_000_000);
        let words = match self {
            Self::Cyclictest => format!(
                "cyclictest --mlockall --quiet --priority={priority} --threads=1 --affinity={core} --interval={INTERVAL_US} \
                 --duration={seconds} --histogram={HISTOGRAM_US}"
            ),
            Self::Timerlat => format!(
                "rtla timerlat hist -c {core} -P f:{priority} -p {INTERVAL_US} -d {seconds}s -E {HISTOGRAM_US}"
            ),
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// Runs the program on a core; `fifo` is the loop's real-time priority.
    ///
    /// # Errors
    /// Returns an error if the program fails, or prints an unknown format.
    pub fn measure(self, core: u32, fifo: Option<u8>) -> Result<PeerNoise> {
        let words = self.command(core, fifo);
        let command = words.join(" ");
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("`{command}` can't be started"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let mut lines = said.lines().chain(text.lines());
            let said = lines.find(|line| !line.trim().is_empty()).unwrap_or("no message");
            bail!("`{command}` ended with {}: {}", output.status, said.trim());
        }
        let told = match self {
            Self::Cyclictest => cyclictest(&text),
            Self::Timerlat => timerlat(&text),
        };
        let Some(told) = told else { bail!("`{command}` printed no histogram in a known format") };
        Ok(PeerNoise {
            program: words[0].clone(),
            command,
            core,
            measures: "lateness of a real-time thread that sleeps until a timer expires".to_owned(),
            samples: told.samples,
            p999_ns: told.p999_us.map(|us| us * 1000),
            longest_ns: told.max_us * 1000,
        })
    }
}

/// Summary of a histogram of lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    samples: u64,
    p999_us: Option<u64>,
    max_us: u64,
}

/// Summarizes a histogram. Each of `rows` has a lateness in us and its number of wakeups, in ascending order;
/// `over` is the number of wakeups later than that.
fn told(rows: &[(u64, u64)], over: u64, max_us: u64) -> Option<Told> {
    let samples = rows.iter().map(|(_, count)| count).sum::<u64>() + over;
    let all = rows.iter().map(|(us, count)| (Some(*us), *count)).chain([(None, over)]);
    let p999_us = Share::P99_9.of_counted(all)?;
    Some(Told { samples, p999_us, max_us })
}

/// Parses the histogram of one thread of cyclictest: lines of two numbers, and comments with the extremes and
/// the overflows.
fn cyclictest(text: &str) -> Option<Told> {
    let comment = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let row = |line: &str| -> Option<(u64, u64)> {
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    let rows: Vec<(u64, u64)> = text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect();
    told(&rows, comment("# Histogram Overflows:").unwrap_or(0), comment("# Max Latencies:")?)
}

/// Parses the histogram of one core of `rtla timerlat hist`: a header with the names of the columns, lines
/// that start with a lateness, and lines that start with a word. Only the column of the thread is used.
fn timerlat(text: &str) -> Option<Told> {
    let fields = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let header = text.lines().map(fields).find(|line| line.first().is_some_and(|word| word == "Index"))?;
    let column = header.iter().position(|name| name.starts_with("Thr-"))?;
    let value = |line: &[String]| line.get(column)?.parse::<u64>().ok();
    let named =
        |name: &str| text.lines().map(fields).find(|line| line.first().is_some_and(|word| word == name));
    let row = |line: Vec<String>| Some((line.first()?.parse().ok()?, value(&line)?));
    let rows: Vec<(u64, u64)> = text.lines().map(fields).filter_map(row).collect();
    told(&rows, named("over:").and_then(|line| value(&line)).unwrap_or(0), value(&named("max:")?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cyclictest_histogram() {
        let rows: String = (0..50)
            .map(|us| format!("{us:06} {:06}\n", if us == 7 { 9_980 } else { u64::from(us == 40) * 15 }))
            .collect();
        let text = |overflows: u64| {
            format!(
                "# /dev/cpu_dma_latency set to 0us\n# Histogram\n{rows}# Total: 000009995\n# Min Latencies: 00007\n# Avg \
                 Latencies: 00007\n# Max Latencies: 00123\n# Histogram Overflows: {overflows:05}\n# Thread 0:\n"
            )
        };
        assert_eq!(cyclictest(&text(5)), Some(Told { samples: 10_000, p999_us: Some(40), max_us: 123 }));
        assert_eq!(cyclictest(&text(50)), Some(Told { samples: 10_045, p999_us: None, max_us: 123 }));
        assert_eq!(cyclictest(""), None);
        assert_eq!(cyclictest("nothing of the kind\n# Max Latencies: 1\n"), None);
    }

    #[test]
    fn parses_timerlat_histogram() {
        let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\n\
            Index   IRQ-001   Thr-001\n0          700         0\n3          280       990\n9           20         9\n\
            over:         0         1\ncount:     1000      1000\nmin:          0         3\navg:          1         \
            3\nmax:          9       311\n";
        assert_eq!(timerlat(text), Some(Told { samples: 1000, p999_us: Some(9), max_us: 311 }));
        assert_eq!(timerlat(&text.replace("Thr-", "Foo-")), None);
        assert_eq!(timerlat(""), None);
    }
}
