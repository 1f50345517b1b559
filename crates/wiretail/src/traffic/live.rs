//! Functions shared by the commands on live traffic. They open interfaces, handle signals and display
//! progress lines.

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

/// Interval between updates of a progress line.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Name of the hot loop's thread, for `ps -L` and for tools that place threads.
pub const LOOP_THREAD: &str = "wiretail-loop";

/// Returns a flag that SIGINT and SIGTERM set.
///
/// # Errors
/// Returns an error if the signal handlers cannot be installed.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot install signal handlers")?;
    }
    Ok(stop)
}

/// Requests for counters. Each SIGUSR1 after the registration is a request. Requests are queued until they
/// are answered.
pub struct Questions {
    asked: UnixStream,
    signal: SigId,
}

impl Questions {
    /// Registers SIGUSR1 as a request, so that it no longer ends the process.
    ///
    /// # Errors
    /// Returns an error if the signal handler cannot be installed.
    pub fn register() -> Result<Self> {
        let (asked, handler) = UnixStream::pair().context("cannot create a socket pair for SIGUSR1")?;
        let signal = signal_hook::low_level::pipe::register(SIGUSR1, handler);
        Ok(Self { asked, signal: signal.context("cannot install a handler for SIGUSR1")? })
    }

    /// Runs `work`. While it runs, calls `answer` on a separate thread for each request.
    pub fn answered<T>(mut self, answer: impl Fn() + Send, work: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            scope.spawn(move || {
                while is_asked(&mut self.asked) {
                    answer();
                }
            });
            let result = work();
            // This closes the signal handler's end of the stream, so that the thread reaches the end of the
            // stream.
            signal_hook::low_level::unregister(self.signal);
            result
        })
    }
}

/// Waits for a request; returns false when no further request is possible.
fn is_asked(stream: &mut UnixStream) -> bool {
    loop {
        match stream.read(&mut [0]) {
            Ok(bytes) => return bytes > 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// An interface with its opened namespace.
pub struct OpenPlace<'a> {
    place: &'a Place,
    namespace: Option<OwnedFd>,
}

impl<'a> OpenPlace<'a> {
    /// Opens the namespace.
    ///
    /// # Errors
    /// Returns an error if no namespace has this name.
    pub fn open(place: &'a Place) -> Result<Self> {
        let open = |name: &String| {
            Namespace::new(name)?.open().with_context(|| {
                format!("{place}: no network namespace {name}; `ip netns` lists the existing namespaces")
            })
        };
        Ok(Self { place, namespace: place.namespace.as_ref().map(open).transpose()? })
    }

    /// Opens the namespace of a place that must be an interface.
    ///
    /// # Errors
    /// Returns an error if the place is a DPDK device or the namespace does not exist.
    pub fn interface(place: &'a Place) -> Result<Self> {
        if place.is_device {
            bail!("{place}: a DPDK device requires --socket dpdk; expected an interface, such as eth0");
        }
        Self::open(place)
    }

    /// Adds the place to an error, and also the namespace if the error does not name the namespace.
    pub fn named<T, E>(&self, result: Result<T, E>) -> Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        match &self.place.namespace {
            Some(_) => result.with_context(|| self.place.to_string()),
            None => result.map_err(Into::into),
        }
    }

    /// Returns the place in the form that the hot loops expect.
    pub fn port(&self) -> PortSpec<'_> {
        PortSpec { netns: self.netns(), interface: &self.place.interface }
    }

    /// Returns the place as the user wrote it.
    pub fn name(&self) -> String {
        self.place.to_string()
    }

    /// Returns the namespace; `None` means the namespace of this process.
    pub fn netns(&self) -> Option<BorrowedFd<'_>> {
        self.namespace.as_ref().map(AsFd::as_fd)
    }
}

/// Returns the requested placement of a loop.
pub fn placement(arguments: &ThreadArgs) -> Placement {
    Placement { cpu: arguments.cpu, fifo: arguments.fifo, lock_memory: false }
}

/// Keeps the calling thread, and threads that it starts later, off the loop's core if there is another core.
/// On the core of a real-time loop, these threads would starve until the scheduler's fair server interrupts
/// the loop to run them.
pub fn stay_off(arguments: &ThreadArgs) {
    keep_off(arguments.cpu);
}

/// Keeps the calling thread, and threads that it starts later, off these cores if there is another core.
pub fn keep_off(loops: impl IntoIterator<Item = usize>) {
    let loops: Vec<usize> = loops.into_iter().filter(|&cpu| cpu < CpuSet::MAX_CPU).collect();
    // If the affinity cannot be read, nothing is changed.
    let Ok(mut cores) = sched_getaffinity(None) else { return };
    if loops.is_empty() {
        return;
    }
    loops.iter().for_each(|&cpu| cores.unset(cpu));
    if cores.count() == 0 {
        // The inherited affinity allows only the loop's core. All other cores are allowed instead, because
        // the kernel ignores cores that do not exist.
        (0..CpuSet::MAX_CPU).filter(|other| !loops.contains(other)).for_each(|other| cores.set(other));
    }
    let _ = sched_setaffinity(None, &cores);
}

/// Runs a loop on a separate thread with this placement, and shows its progress. The calling thread sleeps
/// between updates, so that it does not disturb the loop.
///
/// # Errors
/// Returns an error if the core or the priority is not available.
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
        let worker = worker.context("cannot start a thread for the loop")?;
        while !worker.is_finished() {
            thread::park_timeout(LINE_EVERY);
            progress.show(&line);
        }
        progress.clear();
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(Into::into)
    })
}

/// A line on a terminal that is updated once a second.
pub struct ProgressLine {
    wanted: bool,
    started: Instant,
    next: Instant,
    shown: bool,
}

impl ProgressLine {
    /// Creates a line that is shown only if standard error is a terminal.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { wanted: std::io::stderr().is_terminal(), started: now, next: now + LINE_EVERY, shown: false }
    }

    /// Updates the line if an update is due.
    pub fn show(&mut self, line: &impl Fn() -> String) {
        if self.wanted && Instant::now() >= self.next {
            self.next += LINE_EVERY;
            self.shown = true;
            // Returns to the start of the line and clears it.
            eprint!("\r\x1b[K  {} s  {}", self.started.elapsed().as_secs(), line());
            let _ = std::io::stderr().flush();
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }
}

/// Converts a duration from the command line to nanoseconds. `name` is the option's name, for errors.
///
/// # Errors
/// Returns an error if the duration is negative.
pub fn nanoseconds(name: &str, duration: wiretail_schema::units::Duration) -> Result<u64> {
    u64::try_from(duration.ns).with_context(|| format!("--{name} is {duration}; expected 0 or more"))
}

/// Prints a value as one line of JSON and flushes it. A closed standard output is ignored.
pub fn print_json_line(value: &serde_json::Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Prints a result as JSON, followed by a line break.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
