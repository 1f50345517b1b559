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

/// Runs any command through the shell, so that arguments follow the usual syntax.
pub fn command(trial: &Trial, site: &Site) -> Program {
    let line = format!("exec {}", trial.dut.command);
    let mut program = Program::new(site, ["sh", "-c", &line].map(str::to_owned).to_vec());
    let (input, output) = site.links();
    program.env =
        vec![("WIRETAIL_IN".to_owned(), input.to_owned()), ("WIRETAIL_OUT".to_owned(), output.to_owned())];
    program.env.extend(site.core.map(|core| ("WIRETAIL_CORE".to_owned(), core.to_string())));
    program.ready = trial.dut.ready.clone();
    program
}
