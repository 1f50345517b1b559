//! What the commands on live traffic share: places to open, an end on request, a line of progress.

use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;
use wiretail_dataplane::placement::Placement;
use wiretail_dataplane::port::PortSpec;
use wiretail_host::Namespace;

use crate::cli::traffic::{Place, ThreadArgs};

/// Between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What the thread of the hot loop is called, for `ps -L` and whoever gives it a core.
pub const LOOP_THREAD: &str = "wiretail-loop";

/// A flag that SIGINT and SIGTERM set.
///
/// # Errors
/// The system refuses.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signals can't be caught")?;
    }
    Ok(stop)
}

/// Questions for counters: each SIGUSR1 from the registration on is one. Those that come before anybody
/// answers wait.
pub struct Questions {
    asked: UnixStream,
    signal: SigId,
}

impl Questions {
    /// From now on the signal is a question, and does not end the process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn register() -> Result<Self> {
        let (asked, handler) = UnixStream::pair().context("a pair of sockets for SIGUSR1")?;
        let signal = signal_hook::low_level::pipe::register(SIGUSR1, handler);
        Ok(Self { asked, signal: signal.context("SIGUSR1 can't be caught")? })
    }

    /// Runs `work`, and meanwhile `answer` on a thread of its own for each question.
    pub fn answered<T>(mut self, answer: impl Fn() + Send, work: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            scope.spawn(move || {
                while is_asked(&mut self.asked) {
                    answer();
                }
            });
            let result = work();
            // The handler's end closes with it, so that the thread finds the end of the stream.
            signal_hook::low_level::unregister(self.signal);
            result
        })
    }
}

/// Waits for a question; false when there will be none any more.
fn is_asked(stream: &mut UnixStream) -> bool {
    loop {
        match stream.read(&mut [0]) {
            Ok(bytes) => return bytes > 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// An interface whose namespace is open.
pub struct OpenPlace<'a> {
    place: &'a Place,
    namespace: Option<OwnedFd>,
}

impl<'a> OpenPlace<'a> {
    /// Opens the namespace.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn open(place: &'a Place) -> Result<Self> {
        let open = |name: &String| {
            Namespace::new(name)?.open().with_context(|| {
                format!("{place}: no network namespace {name}; `ip netns` lists those that exist")
            })
        };
        Ok(Self { place, namespace: place.namespace.as_ref().map(open).transpose()? })
    }

    /// Opens the namespace of a place that is an interface.
    ///
    /// # Errors
    /// It is a device of DPDK's, or there is no such namespace.
    pub fn interface(place: &'a Place) -> Result<Self> {
        if place.is_device {
            bail!("{place}: a device of DPDK's goes with --socket dpdk; expected an interface, such as eth0");
        }
        Self::open(place)
    }

    /// What went wrong at this place, with its namespace where the error does not name it.
    pub fn named<T, E>(&self, result: Result<T, E>) -> Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        match &self.place.namespace {
            Some(_) => result.with_context(|| self.place.to_string()),
            None => result.map_err(Into::into),
        }
    }

    /// As the hot loops want it.
    pub fn port(&self) -> PortSpec<'_> {
        PortSpec { netns: self.netns(), interface: &self.place.interface }
    }

    /// As the user wrote it.
    pub fn name(&self) -> String {
        self.place.to_string()
    }

    /// The namespace; None: the one of this process.
    pub fn netns(&self) -> Option<BorrowedFd<'_>> {
        self.namespace.as_ref().map(AsFd::as_fd)
    }
}

/// Where a loop was asked to run.
pub fn placement(arguments: &ThreadArgs) -> Placement {
    Placement { cpu: arguments.cpu, fifo: arguments.fifo, lock_memory: false }
}

/// Keeps the calling thread, and those that it starts from now on, off the loop's core where there is another one:
/// beside a loop of real-time priority they would starve, and the scheduler's fair server would stop the loop for
/// them.
pub fn stay_off(arguments: &ThreadArgs) {
    keep_off(arguments.cpu);
}

/// The same for any cores.
pub fn keep_off(loops: impl IntoIterator<Item = usize>) {
    let loops: Vec<usize> = loops.into_iter().filter(|&cpu| cpu < CpuSet::MAX_CPU).collect();
    // A system that refuses leaves everything as it was.
    let Ok(mut cores) = sched_getaffinity(None) else { return };
    if loops.is_empty() {
        return;
    }
    loops.iter().for_each(|&cpu| cores.unset(cpu));
    if cores.count() == 0 {
        // Whoever started this had the loop in mind. All others, of which the kernel takes those that there are.
        (0..CpuSet::MAX_CPU).filter(|other| !loops.contains(other)).for_each(|other| cores.set(other));
    }
    let _ = sched_setaffinity(None, &cores);
}

/// Runs a loop on a thread of its own in its place, and tells its progress meanwhile. The calling thread
/// sleeps but for the lines, so that it takes nothing from the loop.
///
/// # Errors
/// A core or a priority that can't be had.
pub fn run_watched<T: Send>(
    placement: Placement,
    work: impl FnOnce() -> T + Send,
    line: impl Fn() -> String,
) -> Result<T> {
    let mut progress = ProgressLine::new();
    let watching = thread::current();
    thread::scope(|scope| {
        let loop_thread = thread::Builder::new().name(LOOP_THREAD.to_owned());
        let worker = loop_thread.spawn_scoped(scope, move || {
            let result = placement.apply().map(|_| work());
            watching.unpark();
            result
        });
        let worker = worker.context("a thread for the loop can't be had")?;
        while !worker.is_finished() {
            thread::park_timeout(LINE_EVERY);
            progress.show(&line);
        }
        progress.clear();
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(Into::into)
    })
}

/// A line on a terminal that is written over once a second.
pub struct ProgressLine {
    wanted: bool,
    started: Instant,
    next: Instant,
    shown: bool,
}

impl ProgressLine {
    /// Shown if standard error is a terminal.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { wanted: std::io::stderr().is_terminal(), started: now, next: now + LINE_EVERY, shown: false }
    }

    /// Shows the line where it is time to.
    pub fn show(&mut self, line: &impl Fn() -> String) {
        if self.wanted && Instant::now() >= self.next {
            self.next += LINE_EVERY;
            self.shown = true;
            // To the start of the line, and what was there is gone.
            eprint!("\r\x1b[K  {} s  {}", self.started.elapsed().as_secs(), line());
            let _ = std::io::stderr().flush();
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }
}

/// A span of time from the command line as nanoseconds; `name` is that of its argument.
///
/// # Errors
/// A negative one.
pub fn nanoseconds(name: &str, duration: wiretail_schema::units::Duration) -> Result<u64> {
    u64::try_from(duration.ns).with_context(|| format!("--{name} is {duration}; expected 0 or more"))
}

/// Prints a value as JSON on one line at once. A reader that has gone away is no reason to end.
pub fn print_json_line(value: &serde_json::Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Prints a result as JSON, with a line break at its end.
///
/// # Errors
/// Standard output is closed.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
