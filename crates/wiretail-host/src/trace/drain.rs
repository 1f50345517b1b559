//! Taking pages out of the kernel's buffers, by a timer.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::TraceSpec;
use crate::error::HostError;
use crate::files::tracefs::{self, SavedNames};

/// Between two looks at the kernel's list of names.
const NAMES_EVERY: Duration = Duration::from_secs(1);
/// Pages that are written at once.
const PAGES: usize = 64;

/// One processor's buffer and its file, which is made when there is something to write.
#[derive(Debug)]
pub struct Source {
    instance: PathBuf,
    cpu: u32,
    name: String,
    path: PathBuf,
    pipe: File,
    file: Option<File>,
    page_bytes: usize,
    bytes: u64,
}

impl Source {
    /// Opens the buffer; reading it never waits.
    pub fn open(instance: &Path, cpu: u32, path: PathBuf, page_bytes: usize) -> Result<Self, HostError> {
        let pipe_path = instance.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe_path);
        let pipe = pipe.map_err(HostError::file("open", &pipe_path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { instance: instance.to_owned(), cpu, name, path, pipe, file: None, page_bytes, bytes: 0 })
    }

    pub fn instance(&self) -> &Path {
        &self.instance
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Of the file, in its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the file, if nothing was written to it yet.
    pub fn create(&mut self) -> Result<&mut File, HostError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::create(&self.path).map_err(HostError::file("make", &self.path))?,
        };
        Ok(self.file.insert(file))
    }

    /// Moves what is there now into the file. The kernel hands out a page a call, that which is being written too.
    fn drain(&mut self, buffer: &mut [u8]) -> Result<(), HostError> {
        loop {
            let mut filled = 0;
            let mut is_empty = false;
            while !is_empty && buffer.len() - filled >= self.page_bytes {
                match self.pipe.read(&mut buffer[filled..filled + self.page_bytes]) {
                    Ok(count) => {
                        is_empty = count < self.page_bytes;
                        filled += if is_empty { 0 } else { count };
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_empty = true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        let object = format!("{} of processor {}", self.instance.display(), self.cpu);
                        return Err(HostError::system("read the trace", object)(error));
                    }
                }
            }
            if filled > 0 {
                let written = self.create()?.write_all(&buffer[..filled]);
                written.map_err(HostError::file("write", &self.path))?;
                self.bytes += filled as u64;
            }
            if is_empty {
                return Ok(());
            }
        }
    }
}

/// What was drained.
#[derive(Debug, Default)]
pub struct Drained {
    pub sources: Vec<Source>,
    /// Names of threads that were there at the start.
    pub tasks: BTreeMap<i32, String>,
    /// Names that the kernel recorded; those of numbers that were given again are old.
    pub saved: BTreeMap<i32, String>,
}

/// The thread that drains.
#[derive(Debug)]
pub struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Drained, HostError>>>,
}

impl Drain {
    /// Starts draining.
    pub fn start(mut sources: Vec<Source>, names: SavedNames, spec: &TraceSpec) -> Result<Self, HostError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (every, core, stopped) = (spec.drain_every, spec.drain_core, Arc::clone(&stop));
        let work = move || {
            if let Some(core) = core {
                let mut cores = CpuSet::new();
                cores.set(core as usize);
                // On a core that isn't allowed it drains from wherever it is.
                let _ = sched_setaffinity(None, &cores);
            }
            let (mut tasks, mut saved) = (BTreeMap::new(), BTreeMap::new());
            tracefs::tasks_of_proc(Path::new("/"), &mut tasks);
            let page_bytes = sources.first().map_or(0, |source| source.page_bytes);
            let mut buffer = vec![0; PAGES * page_bytes];
            let mut look = Instant::now();
            loop {
                // Asked before, so that a last round follows.
                let is_last = stopped.load(Ordering::Acquire);
                for source in &mut sources {
                    source.drain(&mut buffer)?;
                }
                if look.elapsed() >= NAMES_EVERY {
                    names.read(&mut saved);
                    look = Instant::now();
                }
                if is_last {
                    names.read(&mut saved);
                    return Ok(Drained { sources, tasks, saved });
                }
                thread::park_timeout(every);
            }
        };
        let thread = thread::Builder::new().name("wiretail-trace".to_owned()).spawn(work);
        let thread = thread.map_err(HostError::system("start", "the thread that drains the trace"))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Drains what is left, and ends the thread.
    pub fn finish(&mut self) -> Result<Drained, HostError> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Ok(Drained::default());
        };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // So that nobody reads the instances when the journal removes them.
        let _ = self.finish();
    }
}
