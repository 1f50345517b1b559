//! Implements `wiretail trace`: records and summarizes kernel activity on selected cores.

mod show;
mod summary;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wiretail_capture::trace::{Kind, Trace};
use wiretail_capture::write::AtomicFile;
use wiretail_host::trace::{Recorder, TraceSpec, symbols};
use wiretail_host::{CoreSet, Cores, JOURNAL_FOLDER, Journal};
use wiretail_schema::causes::trace::{TRACE_FILE, TraceInfo, TraceNames};

use crate::cli::trace::TraceArgs;
use crate::traffic::live;

/// How often the end of the recording is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `wiretail trace`.
///
/// # Errors
/// Returns an error if root privileges or kernel tracing are missing, if the folder of a recording cannot be
/// written, or if the folder to show does not contain a trace.
pub fn run(arguments: &TraceArgs) -> Result<ExitCode> {
    let folder = match (&arguments.show, &arguments.out, &arguments.cpus) {
        (Some(folder), ..) => folder,
        (None, Some(folder), Some(cores)) => {
            record(arguments, folder, cores)?;
            folder
        }
        _ => bail!("nothing to do; expected --cpus and --out to record, or --show"),
    };
    let summary = summary::summarize(folder)?;
    if arguments.json {
        live::print_json(&serde_json::to_value(&summary)?)?;
    } else {
        show::print(&summary)?;
    }
    let is_whole = summary.lost.is_empty() && summary.dropped == 0 && !summary.clock_stepped;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn record(arguments: &TraceArgs, folder: &Path, cores: &CoreSet) -> Result<()> {
    let stop = live::stop_on_signals()?;
    let duration = arguments.duration.map(|duration| live::nanoseconds("duration", duration)).transpose()?;
    let usable = Cores::read(Path::new("/"))?.usable;
    prepare(folder)?;
    let mut journal = Journal::create_unique(Path::new(JOURNAL_FOLDER))?;
    let spec = TraceSpec {
        stacks: arguments.stacks,
        page_faults: arguments.page_faults,
        buffer_kib: arguments.buffer << 10,
        drain_core: usable.without(cores).cores().first().copied(),
        ..TraceSpec::new(folder, cores.clone())
    };
    let recorder = Recorder::start(&mut journal, &spec)?;
    if !arguments.json {
        eprintln!("tracing cores {cores} into {}; press Ctrl-C to stop", folder.display());
    }
    wait(duration.map(Duration::from_nanos), &stop);
    let info = recorder.finish()?;
    journal.undo_all()?;
    complete(folder, info)
}

/// Creates the folder of a trace. A folder that already contains a trace is rejected, because the files of
/// the two traces would be mixed.
///
/// # Errors
/// Returns an error if the folder contains a trace or cannot be created.
pub fn prepare(folder: &Path) -> Result<()> {
    if folder.join(TRACE_FILE).exists() {
        bail!(
            "{}: this folder already holds a trace; choose another folder, or remove the trace",
            folder.display()
        );
    }
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))
}

fn wait(duration: Option<Duration>, stop: &AtomicBool) {
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = duration.map_or(LOOK_EVERY, |duration| duration.saturating_sub(start.elapsed()));
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// Looks up the function names of a trace that was just recorded on this machine. Writes the trace's
/// document, which contains only the names that the trace uses.
///
/// # Errors
/// Returns an error if the trace cannot be read again or the document cannot be written.
pub fn complete(folder: &Path, mut info: TraceInfo) -> Result<()> {
    let mut trace = Trace::new(folder, info.clone()).map_err(anyhow::Error::msg)?;
    let (mut addresses, mut stacks, mut pids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    trace.read(|event| {
        pids.insert(event.pid);
        match event.kind {
            Kind::CsdQueue | Kind::IpiSend | Kind::IpiSendMask => addresses.extend(&event.args[1..]),
            Kind::CsdEntry | Kind::CsdExit | Kind::Nmi => drop(addresses.insert(event.args[0])),
            Kind::PageFaultKernel => drop(addresses.insert(event.args[1])),
            _ => {}
        }
        stacks.insert(event.stack);
    })?;
    addresses.extend(stacks.iter().filter_map(|stack| trace.stack(*stack)).flatten());
    addresses.remove(&0);
    info.tasks.retain(|(pid, _)| pids.contains(pid));
    let addresses: Vec<u64> = addresses.into_iter().collect();
    match symbols(Path::new("/"), &addresses) {
        Ok(symbols) => info.symbols = symbols,
        Err(error) => info.remarks.push(format!("function names are not available: {error}")),
    }
    if info.symbols.is_empty() && !addresses.is_empty() {
        info.remarks.push(
            "function names are not available: the kernel hides its addresses (kernel.kptr_restrict)"
                .to_owned(),
        );
    }
    let mut file = AtomicFile::create(&folder.join(TRACE_FILE))?;
    serde_json::to_writer_pretty(&mut file, &info)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .with_context(|| format!("{}: cannot be written", file.path().display()))?;
    file.commit()?;
    Ok(())
}
