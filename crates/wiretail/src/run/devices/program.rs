//! Description of a device under test that is a program: how it starts and reports that it is ready, which
//! threads forward packets, how its counters are read, and how it is stopped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use wiretail_schema::experiment::Trial;

use super::counts::Counts;

/// Where a program forwards, and which resources it may use.
#[derive(Debug, Clone)]
pub struct Site {
    /// Position in the chain of devices, from 1.
    pub node: usize,
    /// Pairs of links to forward between: `in` and `out`, or the links that a switch connects.
    pub pairs: Vec<(String, String)>,
    /// Whether the reverse direction is forwarded as well.
    pub both_directions: bool,
    /// Core of the packet threads; `None` if the machine reports no usable core.
    pub core: Option<u32>,
    /// Core of all other threads.
    pub housekeeping: Option<u32>,
    /// Folder of the program's files and log, as an absolute path.
    pub directory: PathBuf,
}

impl Site {
    /// The two links of a device that has exactly two links. The link towards the load generator comes first.
    pub fn links(&self) -> (&str, &str) {
        self.pairs.first().map_or(("in", "out"), |(left, right)| (left, right))
    }

    /// The cores that the program may use: the core for packets, and the core for everything else.
    pub fn cores(&self) -> Vec<u32> {
        self.housekeeping.into_iter().chain(self.core).collect()
    }

    /// Path of a file of the program.
    pub fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// What a program needs to run, and how to communicate with it.
pub struct Program {
    /// Name of the program's log: "dut" or "dut2".
    pub name: String,
    pub argv: Vec<String>,
    /// Whether the program block-buffers its output if the output is not a terminal. This would delay its
    /// answers.
    pub by_the_block: bool,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Files and folders of the host that the program reads, in addition to those of the system and its own.
    pub reads: Vec<PathBuf>,
    /// Input files that are written before the program starts: the name in the site's directory, and the
    /// text.
    pub files: Vec<(String, String)>,
    /// Output that reports that the program is ready. If empty, the program is ready once a packet crosses
    /// it.
    pub ready: String,
    /// Time that the program needs to start forwarding after it is ready.
    pub settle: Duration,
    /// Commands to run in the program's namespace when it is ready, one after the other.
    pub then: Vec<Vec<String>>,
    /// Which threads forward packets.
    pub movers: Movers,
    pub stop: Ask,
    /// How to read the counters; `None` if the program has none.
    pub counting: Option<Counting>,
    /// Extracts a note from the log when the program is ready. If it returns an error, the trial fails.
    pub remark: Option<Remark>,
}

/// The threads of a program that forward packets. They get the device's core and real-time priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Movers {
    /// All threads forward packets and are placed when the program starts.
    Everything,
    /// Threads with one of these name prefixes forward packets and are placed once the program is ready. They
    /// lose their priority before the program is stopped.
    Threads(Vec<String>),
    /// The program places its threads itself.
    Itself,
}

/// How to send a request to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Signal(Signal),
    /// A signal to the program and its children: a shell does not pass on a signal. The program then leads a
    /// process group of its own.
    SignalAll(Signal),
    /// A line is written to the program's standard input.
    Line(String),
    /// Another program is run in the same namespace. Its output is the answer.
    Run(Vec<String>),
    /// No request is sent, because the program writes its counters into this file when it ends.
    End(PathBuf),
}

/// How to read a program's counters.
pub struct Counting {
    /// The request that makes the program report its counters.
    pub ask: Ask,
    /// Parses the output since the request; returns `None` while the output is incomplete.
    pub parse: Parse,
    /// Maximum age of the reported counters. The request is sent this long after the last packet.
    pub age: Duration,
}

/// Parses a program's counters from its answer; returns `None` while the answer is incomplete.
pub type Parse = Box<dyn Fn(&str) -> Option<Counts> + Send>;

/// Extracts a note on the results from the log of a program that is ready.
pub type Remark = Box<dyn Fn(&str) -> Result<String> + Send>;

impl Counting {
    /// Counters that are up to date when they are requested.
    pub fn now(ask: Ask, parse: impl Fn(&str) -> Option<Counts> + Send + 'static) -> Self {
        Self { ask, parse: Box::new(parse), age: Duration::ZERO }
    }
}

impl Program {
    /// A program that is ready when a packet crosses it, forwards packets with all its threads, and stops on
    /// SIGTERM.
    pub fn new(site: &Site, argv: Vec<String>) -> Self {
        Self {
            name: if site.node == 1 { "dut".to_owned() } else { format!("dut{}", site.node) },
            argv,
            by_the_block: false,
            env: Vec::new(),
            reads: Vec::new(),
            files: Vec::new(),
            ready: String::new(),
            settle: Duration::ZERO,
            then: Vec::new(),
            movers: Movers::Everything,
            stop: Ask::Signal(Signal::TERM),
            counting: None,
            remark: None,
        }
    }

    /// Path of the file that receives the program's output.
    pub fn log(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.log", self.name))
    }
}

/// Runs any command line through the shell.
pub fn command(trial: &Trial, site: &Site) -> Program {
    let line = shell_line(&trial.dut.command);
    let mut program = Program::new(site, ["sh", "-c", &line].map(str::to_owned).to_vec());
    program.stop = Ask::SignalAll(Signal::TERM);
    let (input, output) = site.links();
    program.env =
        vec![("WIRETAIL_IN".to_owned(), input.to_owned()), ("WIRETAIL_OUT".to_owned(), output.to_owned())];
    program.env.extend(site.core.map(|core| ("WIRETAIL_CORE".to_owned(), core.to_string())));
    program.ready = trial.dut.ready.clone();
    program
}

/// Returns the command line for `sh -c`. A line that only starts a program replaces the shell, as `bash` does
/// on its own: the kernel then kills the program with `wiretail run`, and the program itself gets signals. Any
/// other line is passed on unchanged, because `exec` would apply to its first command only.
fn shell_line(line: &str) -> String {
    let first = line.split_whitespace().next().unwrap_or_default();
    // In quotes, these characters may be harmless, but then `exec` is only an optimization that is left out.
    let is_plain = !line.contains([';', '&', '|', '<', '>', '(', ')', '`', '\n']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if is_plain && first.chars().all(is_name) && is_program(first) {
        format!("exec {line}")
    } else {
        line.to_owned()
    }
}

/// Returns whether a word is the name of a program. Keywords and commands that exist only in the shell are
/// not; `exec` would fail.
fn is_program(word: &str) -> bool {
    let is_file = |path: &Path| path.is_file();
    if word.contains('/') {
        return is_file(Path::new(word));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    !word.is_empty() && std::env::split_paths(&paths).any(|folder| is_file(&folder.join(word)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_a_single_program_replaces_the_shell() {
        for line in ["sleep 1", "env A=1 sleep 1", "/bin/sh script \"$A\" 'b c'", " sleep  1 "] {
            assert_eq!(shell_line(line), format!("exec {line}"));
        }
        for line in [
            "true; exec sleep 1",
            "exec sleep 1",
            "A=1 sleep 1",
            "cd / && sleep 1",
            "sleep 1 | cat",
            "sleep 1\nsleep 2",
            "sleep 1 &",
            "(sleep 1)",
            "sleep `echo 1`",
            "\"sleep\" 1",
            "$SLEEP 1",
            ". script",
            "! sleep 1",
            "if true",
            "/no/such/program",
            "no-such-program",
            "",
        ] {
            assert_eq!(shell_line(line), line);
        }
    }

    #[test]
    fn command_line_has_the_meaning_that_the_shell_gives_it() {
        let said = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &shell_line(line)]).env("WIRETAIL_IN", "in 1");
            let output = command.output().expect("sh");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        for (line, code, text) in [
            ("echo a; exec echo b", 0, "a\nb\n"),
            ("echo 'a; b' \"$WIRETAIL_IN\"", 0, "a; b in 1\n"),
            ("printf '%s,' 'a  b' c", 0, "a  b,c,"),
            ("X=1 sh -c 'echo $X'", 0, "1\n"),
            ("cd /; pwd", 0, "/\n"),
            ("cd / && exec pwd", 0, "/\n"),
            ("for i in 1 2; do echo $i; done", 0, "1\n2\n"),
            ("sh -c 'exit 3'", 3, ""),
            ("true; exit 4", 4, ""),
            ("exec sh -c 'exit 5'", 5, ""),
        ] {
            assert_eq!(said(line), (Some(code), text.to_owned()), "{line}");
        }
    }
}
