//! Energy meter commands. Starts a command that prints watts, reads its output, restarts the command when it
//! exits, and stops it together with its child processes.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::EnergyError;
use crate::network::namespace::run_in;
use crate::trace::now_ns;

/// Limit on the number of lines per second. No meter updates this often.
const LINES_MAX: u32 = 1000;
/// Maximum length of a line, in bytes.
const LINE_MAX: usize = 256;
/// Number of bytes of standard error that an error message includes.
const WORDS_MAX: usize = 200;
/// Time allowed for a command to exit after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// Polling interval while waiting for the exit.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A command line and its timing.
pub struct Watched {
    /// Passed to `sh -c`.
    pub line: String,
    /// Time from one start to the next.
    pub interval: Duration,
    /// Maximum time without output; the command counts as failed after this time.
    pub patience: Duration,
    /// A pipe that carries no data. Closing its write end requests that the command be stopped.
    pub stop: PipeReader,
}

/// Reason why reading the output ended.
enum Heard {
    /// The command closed its output.
    End,
    /// The meter requested a stop.
    Stop,
}

impl Watched {
    /// Runs the command until a stop is requested. Passes the time and value of each reading to `tell`.
    pub fn run(&self, mut tell: impl FnMut(u64, f64)) -> Result<(), EnergyError> {
        loop {
            let begun = Instant::now();
            let mut group = Group::start(&self.line)?;
            let mut listener =
                Listener { begun, heard: begun, lines: 0, line: Vec::new(), words: Vec::new() };
            match self.listen(&mut group, &mut listener, &mut tell)? {
                Heard::Stop => return Ok(()),
                Heard::End => {
                    // The output is closed: the command either exits now or keeps running without output.
                    let status = group.end(self.patience.saturating_sub(listener.heard.elapsed()))?;
                    if status != "exit status: 0" {
                        return Err(EnergyError::Failed { status, words: listener.words() });
                    }
                }
            }
            if listener.lines == 0 {
                return Err(EnergyError::NoWatts { line: String::new() });
            }
            let left = self.interval.saturating_sub(begun.elapsed());
            if wait(&[self.stop.as_fd()], left)?[0] {
                return Ok(());
            }
        }
    }

    fn listen(
        &self,
        group: &mut Group,
        listener: &mut Listener,
        tell: &mut impl FnMut(u64, f64),
    ) -> Result<Heard, EnergyError> {
        let Group { out, err, .. } = group;
        let mut err_open = true;
        loop {
            let left = self.patience.saturating_sub(listener.heard.elapsed());
            if left.is_zero() {
                return Err(EnergyError::Silent { waited: self.patience, words: listener.words() });
            }
            let mut descriptors = vec![self.stop.as_fd(), out.as_fd()];
            descriptors.extend(err_open.then(|| err.as_fd()));
            let ready = wait(&descriptors, left)?;
            if ready[0] {
                return Ok(Heard::Stop);
            }
            let mut bytes = [0; 4096];
            if ready.get(2) == Some(&true) {
                let count = err.read(&mut bytes).map_err(lost)?;
                err_open = count > 0;
                listener.overhear(&bytes[..count]);
            }
            if ready[1] {
                let at_ns = now_ns();
                let count = out.read(&mut bytes).map_err(lost)?;
                listener.hear(&bytes[..count], &mut |watts| tell(at_ns, watts))?;
                if count == 0 {
                    return Ok(Heard::End);
                }
            }
        }
    }
}

/// Output that a command has produced since its start.
struct Listener {
    begun: Instant,
    /// Time of the last line.
    heard: Instant,
    lines: u32,
    line: Vec<u8>,
    words: Vec<u8>,
}

impl Listener {
    /// Parses the received bytes line by line. An empty slice marks the end of the output and terminates the
    /// last line.
    fn hear(&mut self, bytes: &[u8], tell: &mut impl FnMut(f64)) -> Result<(), EnergyError> {
        let ends = bytes.is_empty() && !self.line.is_empty();
        for byte in bytes.iter().chain(ends.then_some(&b'\n')) {
            if *byte != b'\n' && self.line.len() < LINE_MAX {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if *byte != b'\n' {
                return Err(no_watts(&line));
            }
            tell(watts(&line)?);
            self.heard = Instant::now();
            self.lines += 1;
            if f64::from(self.lines) > f64::from(LINES_MAX) * (1.0 + self.begun.elapsed().as_secs_f64()) {
                return Err(EnergyError::TooMany(LINES_MAX));
            }
        }
        Ok(())
    }

    /// Stores bytes from standard error. Only the last [`WORDS_MAX`] bytes are kept.
    fn overhear(&mut self, bytes: &[u8]) {
        self.words.extend_from_slice(bytes);
        let over = self.words.len().saturating_sub(WORDS_MAX);
        self.words.drain(..over);
    }

    fn words(&self) -> String {
        let words = String::from_utf8_lossy(&self.words);
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.is_empty() { words } else { format!(": {words}") }
    }
}

/// Parses a line: a finite number, not negative.
fn watts(line: &[u8]) -> Result<f64, EnergyError> {
    let text = std::str::from_utf8(line).ok();
    let watts = text.and_then(|text| text.trim().parse::<f64>().ok());
    watts.filter(|watts| watts.is_finite() && *watts >= 0.0).ok_or_else(|| no_watts(line))
}

fn no_watts(line: &[u8]) -> EnergyError {
    EnergyError::NoWatts { line: String::from_utf8_lossy(line).trim().chars().take(60).collect() }
}

/// Waits until a descriptor is readable or closed. Returns one flag per descriptor; all are false after a
/// timeout.
fn wait(descriptors: &[BorrowedFd<'_>], time: Duration) -> Result<Vec<bool>, EnergyError> {
    let mut waiting: Vec<PollFd<'_>> =
        descriptors.iter().map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    match poll(&mut waiting, Some(&timeout)) {
        // Interrupted by a signal. The caller checks the time and waits again.
        Ok(_) | Err(rustix::io::Errno::INTR) => {
            Ok(waiting.iter().map(|descriptor| !descriptor.revents().is_empty()).collect())
        }
        Err(errno) => Err(lost(errno.into())),
    }
}

fn lost(error: io::Error) -> EnergyError {
    EnergyError::Failed { status: "its output cannot be read".to_owned(), words: format!(": {error}") }
}

/// A process group: the command and all processes that it starts. All are stopped together.
struct Group {
    child: Child,
    out: ChildStdout,
    err: ChildStderr,
    ended: bool,
}

impl Group {
    fn start(line: &str) -> Result<Self, EnergyError> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run_in(None, command).map_err(|error| EnergyError::NotStarted(error.to_string()))?;
        match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(err)) => Ok(Self { child, out, err, ended: false }),
            _ => Err(EnergyError::NotStarted("it has no output".to_owned())),
        }
    }

    /// Waits up to `patience` for the command to exit, then stops the command and the rest of the group.
    /// Returns the exit status.
    fn end(&mut self, patience: Duration) -> Result<String, EnergyError> {
        let Some(pid) = Pid::from_raw(self.child.id() as i32).filter(|_| !self.ended) else {
            return Ok(String::new());
        };
        self.ended = true;
        // The PID cannot be reused before the command has been reaped.
        if !await_end(pid, patience) {
            let _ = kill_process_group(pid, Signal::TERM);
            await_end(pid, GRACE);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        self.child.wait().map(|status| status.to_string()).map_err(lost)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.end(Duration::ZERO);
    }
}

/// Whether a child exits within this time. Does not reap it.
fn await_end(pid: Pid, patience: Duration) -> bool {
    let begun = Instant::now();
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), look) {
            Ok(None) if begun.elapsed() < patience => std::thread::sleep(LOOK_EVERY),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&str]) -> Result<Vec<f64>, EnergyError> {
        let begun = Instant::now();
        let mut listener = Listener { begun, heard: begun, lines: 0, line: Vec::new(), words: Vec::new() };
        let mut readings = Vec::new();
        for piece in pieces {
            listener.hear(piece.as_bytes(), &mut |watts| readings.push(watts))?;
        }
        listener.hear(b"", &mut |watts| readings.push(watts))?;
        Ok(readings)
    }

    #[test]
    fn parses_lines_split_across_reads() {
        assert_eq!(heard(&["5", "0.5\n 6e1 \n0", "\n7"]).unwrap(), [50.5, 60.0, 0.0, 7.0]);
        assert_eq!(heard(&[]).unwrap(), [0.0; 0]);
        for rubbish in ["watts\n", "50 W\n", "\n", "-1\n", "NaN\n", "inf\n", "1,5\n", "\u{1b}[0m50"] {
            let error = heard(&[rubbish]).unwrap_err().to_string();
            assert!(error.starts_with("energy.command printed \""), "{rubbish:?}: {error}");
        }
        // A line without a newline must not consume unbounded memory.
        assert!(matches!(heard(&["1".repeat(400).as_str()]), Err(EnergyError::NoWatts { .. })));
        assert!(matches!(heard(&["1\n".repeat(5000).as_str()]), Err(EnergyError::TooMany(_))));
    }

    #[test]
    fn error_output_is_truncated() {
        let begun = Instant::now();
        let mut listener = Listener { begun, heard: begun, lines: 0, line: Vec::new(), words: Vec::new() };
        assert_eq!(listener.words(), "");
        listener.overhear(&[b'x'; 1000]);
        listener.overhear(b"\nno such\tmeter\n");
        assert!(listener.words().ends_with("x no such meter") && listener.words().len() <= WORDS_MAX + 2);
    }
}
