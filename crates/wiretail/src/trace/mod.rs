//! `wiretail trace`: what the kernel does on some cores, recorded and summed up.

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

/// Between two looks at whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// No root, a kernel without tracing, a folder that can't be written or is no trace.
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
        eprintln!("tracing cores {cores} into {}; Ctrl-C ends it", folder.display());
    }
    wait(duration.map(Duration::from_nanos), &stop);
    let info = recorder.finish()?;
    journal.undo_all()?;
    complete(folder, info)
}

/// Makes the folder of a trace. One that holds a trace already is left alone: its files would be mixed.
///
/// # Errors
/// There is one, or the system refuses.
pub fn prepare(folder: &Path) -> Result<()> {
    if folder.join(TRACE_FILE).exists() {
        bail!("{}: holds a trace already; expected another folder, or remove this one", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", folder.display()))
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

/// Looks up the names of the functions in a trace that was recorded here just now, and writes its document, with
/// what the trace needs and no more.
///
/// # Errors
/// Pages that can't be read again, a document that can't be written.
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
        Err(error) => info.remarks.push(format!("functions have no names: {error}")),
    }
    if info.symbols.is_empty() && !addresses.is_empty() {
        info.remarks.push(
            "functions have no names: the kernel hides its addresses (kernel.kptr_restrict)".to_owned(),
        );
    }
    let mut file = AtomicFile::create(&folder.join(TRACE_FILE))?;
    serde_json::to_writer_pretty(&mut file, &info)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .with_context(|| format!("{}: can't be written", file.path().display()))?;
    file.commit()?;
    Ok(())
}
