//! What others measure on the same core, for comparison: cyclictest of rt-tests, and rtla's timerlat where the kernel has
//! that tracer. Both tell how late a thread runs that sleeps until a timer; they have no trace of who made it late beside it.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use wiretail_schema::host::noise::PeerNoise;
use wiretail_schema::units::Share;

/// How long each of them measures, in ns.
pub const DURATION_NS: u64 = 5_000_000_000;
/// Its threads wake up so often, in us.
const INTERVAL_US: u64 = 200;
/// Wakeups up to so many us late are counted by their lateness.
const HISTOGRAM_US: u64 = 20_000;
/// Its real-time priority where the loop has none.
const PRIORITY: u8 = 80;
/// Where the kernel says which tracers it has, as the tracing file system is mounted or was so for long.
const TRACERS: [&str; 2] =
    ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"];

/// A program that is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `cyclictest` of rt-tests.
    Cyclictest,
    /// `rtla timerlat hist`.
    Timerlat,
}

/// Those that can be had here, and why the others can't, with what to do.
pub fn available() -> (Vec<Peer>, Vec<String>) {
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if is_there("cyclictest") {
        peers.push(Peer::Cyclictest);
    } else {
        missing.push("no cyclictest to compare with: apt-get install rt-tests (Debian)".to_owned());
    }
    if !is_there("rtla") {
        missing.push("no rtla to compare with: it comes with the kernel's tools (Debian: rtla)".to_owned());
    } else if TRACERS.iter().any(|path| fs::read_to_string(path).is_ok_and(|all| all.contains("timerlat"))) {
        peers.push(Peer::Timerlat);
    } else {
        missing.push("rtla has nothing to measure with: this kernel lacks CONFIG_TIMERLAT_TRACER, or tracefs is not mounted".to_owned());
    }
    (peers, missing)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Peer {
    /// Its command on a core, for a loop of this real-time priority.
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

    /// Measures on a core; `fifo` is the loop's real-time priority.
    ///
    /// # Errors
    /// It can't, or says something that is not known.
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
            let said = lines.find(|line| !line.trim().is_empty()).unwrap_or("nothing was said");
            bail!("`{command}` ended with {}: {}", output.status, said.trim());
        }
        let told = match self {
            Self::Cyclictest => cyclictest(&text),
            Self::Timerlat => timerlat(&text),
        };
        let Some(told) = told else { bail!("`{command}` printed no histogram that is known here") };
        Ok(PeerNoise {
            program: words[0].clone(),
            command,
            core,
            measures: "how late a real-time thread runs that sleeps until a timer".to_owned(),
            samples: told.samples,
            p999_ns: told.p999_us.map(|us| us * 1000),
            longest_ns: told.max_us * 1000,
        })
    }
}

/// What a histogram of lateness says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    samples: u64,
    p999_us: Option<u64>,
    max_us: u64,
}

/// `rows` are latenesses in us and how many wakeups had them, ascending; `over` were later than all of these.
fn told(rows: &[(u64, u64)], over: u64, max_us: u64) -> Option<Told> {
    let samples = rows.iter().map(|(_, count)| count).sum::<u64>() + over;
    let all = rows.iter().map(|(us, count)| (Some(*us), *count)).chain([(None, over)]);
    let p999_us = Share::P99_9.of_counted(all)?;
    Some(Told { samples, p999_us, max_us })
}

/// Reads the histogram of one thread of cyclictest's: lines of two numbers, and comments with the extremes and with those
/// beyond it.
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

/// Reads the histogram of one core of `rtla timerlat hist`: a header that names the columns, of which that of the thread
/// counts, lines that begin with a lateness, and lines that begin with a word.
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
    fn a_histogram_of_cyclictest_is_read() {
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
    fn a_histogram_of_timerlat_is_read() {
        let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\n\
            Index   IRQ-001   Thr-001\n0          700         0\n3          280       990\n9           20         9\n\
            over:         0         1\ncount:     1000      1000\nmin:          0         3\navg:          1         \
            3\nmax:          9       311\n";
        assert_eq!(timerlat(text), Some(Told { samples: 1000, p999_us: Some(9), max_us: 311 }));
        assert_eq!(timerlat(&text.replace("Thr-", "Foo-")), None);
        assert_eq!(timerlat(""), None);
    }
}
