//! Recording of kernel events on selected cores: interrupts, context switches, function calls from other
//! cores, and their senders. The binary pages of tracefs are written to files unchanged; `wiretail-capture`
//! parses them.
//!
//! A recording uses two instances of the kernel's trace buffers, which are created and removed as journaled
//! steps:
//!
//! | instance | CPUs | events |
//! |---|---|---|
//! | `RUN-events` | the watched cores | all of [`events`]; not filtered, to minimize the overhead |
//! | `RUN-sends` | all | events sent to the watched cores, optionally with the sender's stack |
//!
//! Three rules keep the recording from disturbing the measurement. Events are enabled before the warm-up,
//! because enabling an event interrupts all cores. A timer triggers the reading of pages, so that no event
//! has to wake a reader. If a buffer is full, old events are overwritten instead of new ones being dropped,
//! because only in this mode do the pages record where events are missing.

mod clock;
mod drain;
pub mod events;
mod symbols;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wiretail_schema::causes::trace::{ClockOffset, EventFormat, TRACE_SCHEMA, TraceInfo, TraceStream};

use crate::changes::journal::Journal;
use crate::error::HostError;
use crate::files::write_value;
use crate::step::Step;
use wiretail_schema::units::cores::CoreSet;

use crate::files::tracefs::{self, Tracefs};
pub use clock::clock_offset;
pub(crate) use clock::now_ns;
use drain::{Drain, Source};
use events::Wanted;
pub use symbols::symbols;

/// Interval between drains. 16 MiB hold about 700,000 events, which is more than a core produces in 20 ms.
pub const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// Default buffer size of a watched core, in KiB.
pub const BUFFER_KIB: u32 = 16 << 10;
/// Buffer size of a core without events, in KiB.
const BUFFER_KIB_MIN: u32 = 8;

/// The events to record, and their destination.
#[derive(Debug, Clone)]
pub struct TraceSpec {
    /// Existing folder for the files.
    pub folder: PathBuf,
    /// Cores whose events are recorded.
    pub watched: CoreSet,
    /// Whether to record the stacks of senders. This costs the sender a few µs per event.
    pub stacks: bool,
    /// Whether to record page faults.
    pub page_faults: bool,
    /// Buffer size of each watched core, in KiB. Send buffers are a quarter of this size.
    pub buffer_kib: u32,
    /// Interval between drains.
    pub drain_every: Duration,
    /// Core of the draining thread; `None` for any.
    pub drain_core: Option<u32>,
}

impl TraceSpec {
    /// The default settings: no stacks, no page faults, [`BUFFER_KIB`], [`DRAIN_EVERY`].
    pub fn new(folder: &Path, watched: CoreSet) -> Self {
        Self {
            folder: folder.to_owned(),
            watched,
            stacks: false,
            page_faults: false,
            buffer_kib: BUFFER_KIB,
            drain_every: DRAIN_EVERY,
            drain_core: None,
        }
    }
}

/// An active recording. If it is dropped before its journal undoes the steps, it ends without a document.
#[derive(Debug)]
pub struct Recorder {
    /// Keeps the paths of the instances valid.
    _tracefs: Tracefs,
    /// Folders of the instances.
    instances: Vec<PathBuf>,
    info: TraceInfo,
    drain: Drain,
}

/// The steps of a recording for a run with this name.
pub fn steps(run: &str) -> Vec<Step> {
    ["events", "sends"].map(|what| Step::AddTraceInstance { name: format!("{run}-{what}") }).into()
}

impl Recorder {
    /// Creates the instances and enables the events.
    ///
    /// # Errors
    /// Returns [`HostError::System`] without root privileges, if the kernel has no tracing, if a core does
    /// not exist, or if the buffers cannot be allocated. Events that the kernel does not have are not an
    /// error; the document contains a remark about them.
    pub fn start(journal: &mut Journal, spec: &TraceSpec) -> Result<Self, HostError> {
        check_cores(&spec.watched)?;
        let tracefs = Tracefs::open()?;
        let mut instances = Vec::new();
        for step in steps(journal.run()) {
            journal.apply(&step)?;
            instances.push(tracefs.instance(&step.object()));
        }
        let [watching, sending] = [instances[0].as_path(), instances[1].as_path()];
        let page = tracefs.page()?;
        let mut info = info(&tracefs, spec, &page)?;
        for instance in [watching, sending] {
            write(instance, "tracing_on", "0")?;
            write(instance, "trace_clock", &info.clock)?;
            write(instance, "options/overwrite", "1")?;
        }
        write(watching, "buffer_size_kb", &BUFFER_KIB_MIN.to_string())?;
        for core in spec.watched.cores() {
            write(watching, &format!("per_cpu/cpu{core}/buffer_size_kb"), &spec.buffer_kib.to_string())?;
        }
        write(watching, "tracing_cpumask", &spec.watched.mask())?;
        let sends_kib = (spec.buffer_kib / 4).max(BUFFER_KIB_MIN);
        write(sending, "buffer_size_kb", &sends_kib.to_string())?;
        let wanted = events::of_watched(watching, spec.page_faults);
        enable(watching, &wanted, &mut info)?;
        enable(sending, &events::of_sends(&spec.watched), &mut info)?;
        if spec.stacks {
            record_stacks(sending, &spec.watched, &mut info)?;
            let path = sending.join("events/ftrace/kernel_stack/format");
            let format = fs::read_to_string(&path).map_err(HostError::file("read", &path))?;
            let (system, name) = ("ftrace".to_owned(), "kernel_stack".to_owned());
            info.events.push(EventFormat { system, name, filter: None, format });
        }
        let mut sources = Vec::new();
        for core in spec.watched.cores() {
            sources.push(Source::open(
                watching,
                *core,
                spec.folder.join(format!("cpu{core}.raw")),
                page.bytes,
            )?);
        }
        for core in tracefs::processors(sending)? {
            sources.push(Source::open(
                sending,
                core,
                spec.folder.join(format!("cpu{core}.sends.raw")),
                page.bytes,
            )?);
        }
        let drain = Drain::start(sources, tracefs.saved_names(), spec)?;
        info.clock_before = clock_offset();
        for instance in [watching, sending] {
            write(instance, "tracing_on", "1")?;
        }
        info.start_ns = clock::now_ns();
        Ok(Self { _tracefs: tracefs, instances, info, drain })
    }

    /// Folders of the instances. The instance of the watched cores is first.
    pub fn instances(&self) -> &[PathBuf] {
        &self.instances
    }

    /// Stops recording. Buffered events stay available for [`Recorder::finish`].
    ///
    /// # Errors
    /// Returns [`HostError::System`] if tracefs cannot be written.
    pub fn pause(&mut self) -> Result<(), HostError> {
        if self.info.end_ns > 0 {
            return Ok(());
        }
        self.info.end_ns = clock::now_ns();
        self.instances.iter().try_for_each(|instance| write(instance, "tracing_on", "0"))
    }

    /// Stops recording, drains the buffers, and returns the document. The document contains no symbol names
    /// yet: see [`mod@symbols`].
    ///
    /// # Errors
    /// Returns an error if a file cannot be written. The file then contains the pages that were written
    /// before the error.
    pub fn finish(mut self) -> Result<TraceInfo, HostError> {
        self.pause()?;
        let drained = self.drain.finish()?;
        let mut info = self.info.clone();
        info.clock_after = clock_offset();
        info.clock_stepped = info.clock_before.stepped_until(info.clock_after);
        for mut source in drained.sources {
            let stats = tracefs::stats(source.instance(), source.cpu())?;
            let is_watched = source.instance() == self.instances[0];
            if source.bytes() == 0 && stats == (0, 0) && !is_watched {
                continue;
            }
            let (cpu, file, bytes) = (source.cpu(), source.name().to_owned(), source.bytes());
            source.create()?;
            info.streams.push(TraceStream { cpu, file, bytes, overrun: stats.0, dropped: stats.1 });
        }
        let mut tasks: BTreeMap<i32, String> = drained.saved;
        tasks.extend(drained.tasks);
        tracefs::tasks_of_proc(Path::new("/"), &mut tasks);
        info.tasks = tasks.into_iter().collect();
        Ok(info)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The journal removes the instances and reports errors.
        let _ = self.pause();
    }
}

/// Checks that the cores are online. They may be outside this process's affinity, as the cores of a device
/// under test usually are.
fn check_cores(watched: &CoreSet) -> Result<(), HostError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let online = fs::read_to_string(path).map_err(HostError::file("read", path))?;
    let missing = CoreSet::parse(&online).map(|online| watched.without(&online)).unwrap_or_default();
    if watched.is_empty() || !missing.is_empty() {
        let source =
            io::Error::new(io::ErrorKind::InvalidInput, format!("these are online: {}", online.trim()));
        let (object, doing) = (format!("cores {watched}"), "trace them");
        return Err(HostError::System { object, doing, next: "choose cores that are online", source });
    }
    Ok(())
}

fn info(tracefs: &Tracefs, spec: &TraceSpec, page: &tracefs::Page) -> Result<TraceInfo, HostError> {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut info = TraceInfo {
        schema: TRACE_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: text(system.release()),
        machine: text(system.machine()),
        clock: "mono".to_owned(),
        start_ns: 0,
        end_ns: 0,
        clock_before: ClockOffset::default(),
        clock_after: ClockOffset::default(),
        clock_stepped: false,
        watched: spec.watched.cores().to_vec(),
        stacks: spec.stacks,
        page_bytes: page.bytes as u32,
        header_page: page.text.clone(),
        events: Vec::new(),
        remarks: Vec::new(),
        streams: Vec::new(),
        tasks: Vec::new(),
        symbols: Vec::new(),
    };
    if tracefs.is_traced()? {
        let remark =
            "another tracer is active on this machine (current_tracer is not nop), which adds overhead";
        info.remarks.push(remark.to_owned());
    }
    Ok(info)
}

/// Enables events and stores their formats. Events that the kernel does not have or rejects become remarks.
fn enable(instance: &Path, wanted: &[Wanted], info: &mut TraceInfo) -> Result<(), HostError> {
    for event in wanted {
        let what = format!("{}/{}", event.system, event.name);
        let folder = instance.join("events").join(&what);
        let format = match fs::read_to_string(folder.join("format")) {
            Ok(format) => format,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                info.remarks.push(format!("{what}: not available in this kernel"));
                continue;
            }
            Err(error) => return Err(HostError::file("read the format in", &folder)(error)),
        };
        let mut filter = event.filter.clone();
        if let Some(text) = &filter
            && let Err(error) = write_value(&folder.join("filter"), text)
        {
            info.remarks.push(format!(
                "{what}: recorded without the filter `{text}`, which the kernel rejected: {error}"
            ));
            filter = None;
        }
        if let Err(error) = write_value(&folder.join("enable"), "1") {
            info.remarks.push(format!("{what}: cannot be enabled: {error}"));
            continue;
        }
        let known =
            info.events.iter().find(|known| (&known.system, &known.name) == (&event.system, &event.name));
        if known.is_none() {
            let (system, name) = (event.system.clone(), event.name.clone());
            info.events.push(EventFormat { system, name, filter, format });
        }
    }
    Ok(())
}

/// Records the stacks of senders that make a watched core run a function. Task wake-ups are excluded: a
/// packet sent to a sleeping device wakes the device, and recording the sender's stack would prolong this
/// wake-up.
fn record_stacks(instance: &Path, watched: &CoreSet, info: &mut TraceInfo) -> Result<(), HostError> {
    let waking = symbols::address_of(Path::new("/"), events::WAKING);
    let trigger = events::stack_trigger(watched, waking);
    let path = instance.join("events/csd/csd_queue_cpu/trigger");
    if let Err(error) = write_value(&path, &trigger) {
        let remark = format!(
            "stacks of all senders are recorded, at 2 to 12 us each, \
             because the kernel rejected `{trigger}`: {error}"
        );
        info.remarks.push(remark);
        write(instance, "options/stacktrace", "1")?;
    }
    Ok(())
}

fn write(instance: &Path, file: &str, value: &str) -> Result<(), HostError> {
    let path = instance.join(file);
    write_value(&path, value).map_err(HostError::file("write", &path))
}
