//! `wiretail trace` with the kernel of this machine. Needs root and two cores, and prints `SKIPPED`
//! otherwise.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use wiretail_capture::trace::{Event, Kind, Trace};
use wiretail_host::trace::{Recorder, TraceSpec};
use wiretail_host::{CoreSet, JOURNAL_FOLDER, Journal, Step, clean, name_prefix};
use wiretail_schema::causes::trace::TraceNames;

use crate::run::{Turn, live};
use crate::support::{fail, folder, wiretail};
use crate::traffic::Running;

/// The traced core; the senders are on core 0.
const WATCHED: usize = 1;

/// Permission to trace, if this machine supports it.
pub fn can_trace() -> Option<Turn> {
    let turn = live()?;
    if thread::spawn(|| pin(WATCHED)).join().expect("no panic").is_err() {
        println!("SKIPPED: no core {WATCHED} to trace");
        return None;
    }
    let mut journal = Journal::create_unique(folder().path()).expect("a journal");
    let probe = Step::AddTraceInstance { name: format!("wtt-{}", std::process::id()) };
    if let Err(error) = journal.apply(&probe) {
        println!("SKIPPED: {error}");
        return None;
    }
    Some(turn)
}

fn pin(core: usize) -> rustix::io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Runs `work` while one thread of this process spins on the traced core and another one, on core 0, unmaps
/// memory, which causes TLB flushes on the traced core. Also returns the sender's thread id.
fn interfered<T>(work: impl FnOnce() -> T) -> (T, i32) {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(WATCHED).expect("pinned");
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let sender = scope.spawn(move || {
            pin(0).expect("pinned");
            while !stop.load(Ordering::Relaxed) {
                // The size exceeds any amount of memory that an allocator keeps for reuse.
                let mut mapped = vec![0_u8; 64 << 20];
                mapped[4096] = 1;
                drop(std::hint::black_box(mapped));
                thread::sleep(Duration::from_millis(2));
            }
            gettid().as_raw_nonzero().get()
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        (done, sender.join().expect("no panic"))
    })
}

/// Returns the kernel's name of an event, and its first argument as printed.
fn printed(trace: &Trace, event: &Event) -> (String, String) {
    let first = event.args[0];
    let name = || trace.name(event.name).unwrap_or_default();
    match event.kind {
        Kind::VectorEntry => (format!("{}_entry", name()), format!("vector={first}")),
        Kind::VectorExit => (format!("{}_exit", name()), format!("vector={first}")),
        Kind::IrqEntry => ("irq_handler_entry".into(), format!("irq={first} name={}", name())),
        Kind::IrqExit => ("irq_handler_exit".into(), format!("irq={first}")),
        Kind::SoftirqEntry => ("softirq_entry".into(), format!("vec={first} [action={}]", name())),
        Kind::SoftirqExit => ("softirq_exit".into(), format!("vec={first} [action={}]", name())),
        Kind::Switch => ("sched_switch".into(), format!("next_comm={} next_pid={first}", name())),
        Kind::CsdQueue => ("csd_queue_cpu".into(), format!("cpu={first}")),
        Kind::IpiSend => ("ipi_send_cpu".into(), format!("cpu={first}")),
        Kind::IpiSendMask => ("ipi_send_cpumask".into(), "cpumask=".into()),
        Kind::CsdEntry => ("csd_function_entry".into(), "func=".into()),
        Kind::CsdExit => ("csd_function_exit".into(), "func=".into()),
        Kind::TlbFlush => ("tlb_flush".into(), format!("pages:{} reason:{}", event.args[1] as i64, name())),
        Kind::Nmi => ("nmi_handler".into(), String::new()),
        Kind::PageFaultUser => ("page_fault_user".into(), format!("address={first:#x}")),
        Kind::PageFaultKernel => ("page_fault_kernel".into(), String::new()),
    }
}

/// `   python3-29593   [001] d.h1.  30394.909678: local_timer_entry: vector=236`
struct Line {
    cpu: u16,
    pid: i32,
    us: u64,
    name: String,
    rest: String,
}

fn line(text: &str) -> Option<Line> {
    // Task names may contain any character.
    let at = (0..text.len()).find(|at| {
        let cpu = text.as_bytes().get(*at..at + 6);
        cpu.is_some_and(|cpu| {
            cpu[..2] == *b" [" && cpu[2..5].iter().all(u8::is_ascii_digit) && cpu[5] == b']'
        })
    })?;
    let (task, rest) = text.split_at(at);
    let mut parts = rest[6..].trim_start().splitn(2, ' ');
    let (_flags, rest) = (parts.next()?, parts.next()?);
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (s, us) = time.split_once('.')?;
    Some(Line {
        cpu: text.get(at + 2..at + 5)?.parse().ok()?,
        pid: task.trim_end().rsplit_once('-')?.1.parse().ok()?,
        us: s.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?,
        name: name.to_owned(),
        rest: rest.to_owned(),
    })
}

#[test]
fn parser_matches_kernel_output() {
    let Some(_turn) = can_trace() else { return };
    let folder = folder();
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    // The trace is drained only after the kernel has printed it, because reading consumes events.
    let spec = TraceSpec {
        drain_every: Duration::from_secs(3600),
        ..TraceSpec::new(folder.path(), CoreSet::new([WATCHED as u32]))
    };
    let before_ns = now_ns();
    let mut recorder = Recorder::start(&mut journal, &spec).expect("a recording");
    // The first round of draining consumes events, which are no longer printed.
    thread::sleep(Duration::from_millis(100));
    let from_ns = now_ns();
    let ((), sender) = interfered(|| thread::sleep(Duration::from_millis(300)));
    recorder.pause().expect("paused");
    let after_ns = now_ns();
    let read = |instance: &Path| fs::read_to_string(instance.join("trace")).expect("the kernel's text");
    let text: Vec<String> = recorder.instances().iter().map(|instance| read(instance)).collect();
    let info = recorder.finish().expect("finished");
    journal.undo_all().expect("undone");
    assert_eq!(info.remarks, [""; 0], "unknown to this kernel");
    assert!(!info.clock_stepped && info.clock_before.uncertainty_ns < 1_000_000);

    let mut trace = Trace::new(folder.path(), info).expect("a trace");
    let mut events = Vec::new();
    let end = trace.read(|event| events.push(*event)).expect("whole");
    assert_eq!((end.unknown, end.lost.len()), (0, 0));
    assert!(events.iter().all(|event| (before_ns..after_ns).contains(&event.ts_ns)));
    let calls = |kind| {
        let found = events.iter().filter(|event| event.kind == kind);
        found.filter(|event| event.cpu == WATCHED as u16).count()
    };
    assert!(calls(Kind::CsdEntry) > 10 && calls(Kind::CsdExit) > 10, "functions ran on the watched core");
    let queued = events.iter().filter(|event| event.kind == Kind::CsdQueue && event.pid == sender);
    assert!(queued.filter(|event| (event.cpu, event.args[0]) == (0, WATCHED as u64)).count() > 10);

    let lines: Vec<Line> = text
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with('#'))
        .map_while(line)
        .collect();
    // The kernel rounds to the nearest µs.
    let from_us = from_ns / 1000 + 1;
    for (is_send, cpu) in [(false, WATCHED as u16), (true, 0), (true, WATCHED as u16)] {
        let sends = [Kind::CsdQueue, Kind::IpiSend, Kind::IpiSendMask];
        let parsed: Vec<&Event> = events
            .iter()
            .filter(|event| event.cpu == cpu && sends.contains(&event.kind) == is_send)
            .filter(|event| (event.ts_ns + 500) / 1000 >= from_us)
            .collect();
        let is_sent =
            |line: &Line| ["csd_queue_cpu", "ipi_send_cpu", "ipi_send_cpumask"].contains(&&*line.name);
        let printed_lines: Vec<&Line> = lines
            .iter()
            .filter(|line| line.cpu == cpu && is_sent(line) == is_send && line.us >= from_us)
            .collect();
        assert_eq!(parsed.len(), printed_lines.len(), "events of processor {cpu}");
        assert!(cpu != WATCHED as u16 || is_send || parsed.len() > 100, "{} events", parsed.len());
        for (event, line) in parsed.iter().zip(&printed_lines) {
            let (name, first) = printed(&trace, event);
            let us = (event.ts_ns + 500) / 1000;
            let what = (event.cpu, event.pid, us, name.as_str());
            assert_eq!(what, (line.cpu, line.pid, line.us, line.name.as_str()), "{}", line.rest);
            assert!(line.rest.contains(&first), "{first:?} in {:?}", line.rest);
        }
    }
}

#[test]
fn overwritten_events_give_lost_window() {
    let Some(_turn) = can_trace() else { return };
    let folder = folder();
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let spec = TraceSpec {
        drain_every: Duration::from_secs(3600),
        buffer_kib: 8,
        ..TraceSpec::new(folder.path(), CoreSet::new([WATCHED as u32]))
    };
    let mut recorder = Recorder::start(&mut journal, &spec).expect("a recording");
    thread::sleep(Duration::from_millis(50));
    let _ = interfered(|| thread::sleep(Duration::from_millis(400)));
    recorder.pause().expect("paused");
    let info = recorder.finish().expect("finished");
    journal.undo_all().expect("undone");
    let stream =
        info.streams.iter().position(|stream| stream.file == "cpu1.raw").expect("of the traced core");
    let (overrun, start_ns, end_ns) = (info.streams[stream].overrun, info.start_ns, info.end_ns);
    assert!(overrun > 0, "8 KiB hold some 300 events");
    let mut trace = Trace::new(folder.path(), info).expect("a trace");
    let mut kept = Vec::new();
    let end = trace.read(|event| kept.push(*event)).expect("whole");
    let lost: Vec<_> = end.lost.iter().filter(|lost| lost.stream == stream).collect();
    assert!(!lost.is_empty());
    // The kernel writes the number only if the page has space for it.
    let counted: u64 = lost.iter().filter_map(|lost| lost.events).sum();
    let all_counted = lost.iter().all(|lost| lost.events.is_some());
    assert!(
        if all_counted { counted == overrun } else { counted < overrun },
        "{counted} of {overrun}: {lost:?}"
    );
    for lost in lost {
        assert!(start_ns <= lost.from_ns && lost.from_ns < lost.to_ns && lost.to_ns <= end_ns, "{lost:?}");
        let within = |event: &&Event| event.ts_ns > lost.from_ns && event.ts_ns < lost.to_ns;
        let cpu = lost.cpu as u16;
        assert!(!kept.iter().filter(within).any(|event| event.cpu == cpu && event.kind == Kind::CsdEntry));
    }
}

#[test]
fn command_names_senders() {
    let Some(_turn) = can_trace() else { return };
    let folder = folder();
    let out = folder.path().join("trace");
    let path = out.to_str().expect("UTF-8");
    let record = ["trace", "--cpus", "1", "--duration", "500ms", "--out", path, "--stacks", "--json"];
    let (output, sender) = interfered(|| wiretail(record));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{message}");
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(summary["events"].as_u64() > Some(50), "{summary}");
    let rows = summary["senders"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["pid"] == sender && row["what"] == "call").expect("the sender");
    assert_eq!(row["system_call"], "munmap", "{row}");
    let kinds = summary["kinds"].as_array().expect("a list");
    assert!(kinds.iter().all(|row| row["cpu"] == 1));
    assert!(kinds.iter().any(|row| row["what"] == "local_timer"), "{summary}");

    let shown = wiretail(["trace", "--show", path]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.starts_with("core 1, ") && text.contains("in munmap()"), "{text}");
    assert!(fail(record).contains("already holds a trace"));
}

#[test]
fn clean_removes_killed_recording() {
    let Some(_turn) = can_trace() else { return };
    let folder = folder();
    let out = folder.path().join("trace");
    let mut running = Running::start(&["trace", "--cpus", "1", "--out", out.to_str().expect("UTF-8")]);
    let mut child = running.child.take().expect("running");
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::metadata(out.join("cpu1.raw")).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < deadline, "nothing was recorded");
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("killed");
    child.wait().expect("dead");
    let instance = Step::AddTraceInstance { name: format!("{}0-events", name_prefix(child.id())) };
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    assert!(journal.apply(&instance).is_err(), "it is there still");
    clean(Path::new(JOURNAL_FOLDER), false).expect("cleaned");
    journal.apply(&instance).expect("its name is free");
    journal.undo_all().expect("undone");
}

#[test]
fn rejects_invalid_recordings() {
    let folder = folder();
    let path = folder.path().to_str().expect("UTF-8").to_owned();
    let message = fail(["trace", "--cpus", "60000", "--out", &path]);
    assert!(
        message.contains("cores 60000: cannot trace them") && message.contains("are online"),
        "{message}"
    );
    let message = fail(["trace", "--show", &path]);
    assert!(message.contains("trace.json: cannot be read"), "{message}");
    assert!(fail(["trace", "--cpus", "1"]).contains("--out <DIR>"));
    assert!(fail(["trace", "--cpus", "x", "--out", &path]).contains("expected a list such as 0-3,8"));
}
