//! A thread that periodically copies pages from the kernel's trace buffers to files.

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

/// Interval between readings of the kernel's task name cache.
const NAMES_EVERY: Duration = Duration::from_secs(1);
/// Number of pages per write.
const PAGES: usize = 64;

/// The trace buffer of one CPU and its file, which is created with the first write.
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
    /// Opens the buffer in non-blocking mode.
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

    /// Name of the file within its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Creates the file if it does not exist yet.
    pub fn create(&mut self) -> Result<&mut File, HostError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::create(&self.path).map_err(HostError::file("make", &self.path))?,
        };
        Ok(self.file.insert(file))
    }

    /// Copies all available pages to the file. The kernel returns one page per call, including the page that
    /// it is still writing.
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

/// Result of draining.
#[derive(Debug, Default)]
pub struct Drained {
    pub sources: Vec<Source>,
    /// Names of threads that existed at the start.
    pub tasks: BTreeMap<i32, String>,
    /// Names recorded by the kernel. A name may be outdated if its thread ID was reused.
    pub saved: BTreeMap<i32, String>,
}

/// The thread that drains the buffers.
#[derive(Debug)]
pub struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Drained, HostError>>>,
}

impl Drain {
    pub fn start(mut sources: Vec<Source>, names: SavedNames, spec: &TraceSpec) -> Result<Self, HostError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (every, core, stopped) = (spec.drain_every, spec.drain_core, Arc::clone(&stop));
        let work = move || {
            if let Some(core) = core {
                let mut cores = CpuSet::new();
                cores.set(core as usize);
                // If the core is not allowed, drain from any core.
                let _ = sched_setaffinity(None, &cores);
            }
            let (mut tasks, mut saved) = (BTreeMap::new(), BTreeMap::new());
            tracefs::tasks_of_proc(Path::new("/"), &mut tasks);
            let page_bytes = sources.first().map_or(0, |source| source.page_bytes);
            let mut buffer = vec![0; PAGES * page_bytes];
            let mut look = Instant::now();
            loop {
                // The flag is read before draining, so that the buffers are drained once more after the stop
                // request.
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

    /// Drains the remaining pages and ends the thread.
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
        // The journal can remove the instances only after all readers have closed them.
        let _ = self.finish();
    }
}
