//! A device under test that is a program, as data: how it is started, how one knows that it is ready, which of
//! its threads move packets, how it is asked for its counters, how it is stopped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use wiretail_schema::experiment::Trial;

use super::counts::Counts;

/// Where a program is to forward, and what it may use.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its place in the row of devices, from 1.
    pub node: usize,
    /// The links that it forwards between, by pairs: `in` and `out`, or those that a switch joins.
    pub pairs: Vec<(String, String)>,
    /// Whether it forwards back as well.
    pub both_directions: bool,
    /// The core of its packet threads; None where the machine says of no core that it is usable.
    pub core: Option<u32>,
    /// The core of everything else.
    pub housekeeping: Option<u32>,
    /// Where its files and its log are; an absolute path.
    pub directory: PathBuf,
}

impl Site {
    /// The links of a device between two links: towards the load generator, and away from it.
    pub fn links(&self) -> (&str, &str) {
        self.pairs.first().map_or(("in", "out"), |(left, right)| (left, right))
    }

    /// The cores that it may use: for everything else, for its packets.
    pub fn cores(&self) -> Vec<u32> {
        self.housekeeping.into_iter().chain(self.core).collect()
    }

    /// The path of a file of the program.
    pub fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// What a program needs to run, and how to talk to it.
pub struct Program {
    /// What it is called: that of its log, "dut" or "dut2".
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Whether it prints by the block into anything but a terminal, so that its answers would come late.
    pub by_the_block: bool,
    /// What is added to its environment.
    pub env: Vec<(String, String)>,
    /// Files and folders of the host that it reads, besides those of the system and its own.
    pub reads: Vec<PathBuf>,
    /// Files that it reads, written before it is started: name in the site's directory, and text.
    pub files: Vec<(String, String)>,
    /// Text in its output that says that it is ready; empty where a packet that crosses it does.
    pub ready: String,
    /// How much longer it takes until it forwards.
    pub settle: Duration,
    /// Commands run in its namespace when it is ready, one after the other.
    pub then: Vec<Vec<String>>,
    /// Who moves packets in it.
    pub movers: Movers,
    /// How it is stopped.
    pub stop: Ask,
    /// How it is asked for its counters; None where it has none.
    pub counting: Option<Counting>,
    /// What is noted of it when it is ready; its error fails the trial.
    pub remark: Option<Remark>,
}

/// Who moves packets in a program: they get the device's core, and real-time priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Movers {
    /// All of it, from its start.
    Everything,
    /// The threads whose names start with one of these, once it is ready; they lose the priority before it is stopped.
    Threads(Vec<String>),
    /// It sees to that by itself.
    Itself,
}

/// How something is asked of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A signal.
    Signal(Signal),
    /// A line on its standard input.
    Line(String),
    /// Another program, run in its namespace, whose output is the answer.
    Run(Vec<String>),
    /// Nothing: it writes its counters when it ends, into this file.
    End(PathBuf),
}

/// How a program tells its counters.
pub struct Counting {
    /// What makes it tell.
    pub ask: Ask,
    /// Reads them from what it printed since; None while that is not whole.
    pub parse: Parse,
    /// How old they may be when it tells them: so long after the last packet they are asked for.
    pub age: Duration,
}

/// Reads a program's counters from its answer; None while that is not whole.
pub type Parse = Box<dyn Fn(&str) -> Option<Counts> + Send>;

/// Reads from a program's log, when it is ready, what the reader of its results should know.
pub type Remark = Box<dyn Fn(&str) -> Result<String> + Send>;

impl Counting {
    /// Counters that are up to date when they are asked for.
    pub fn now(ask: Ask, parse: impl Fn(&str) -> Option<Counts> + Send + 'static) -> Self {
        Self { ask, parse: Box::new(parse), age: Duration::ZERO }
    }
}

impl Program {
    /// A program that is ready when a packet crosses it, moves packets with all its threads, and stops at
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

    /// Where its output goes.
    pub fn log(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.log", self.name))
    }
}

/// Any program, by the shell, so that arguments can be written as usual.
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
