//! A command that prints watts: started, listened to, started again, and ended with all that it started.

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

/// More lines a second than any meter tells.
const LINES_MAX: u32 = 1000;
/// Longest line, in bytes.
const LINE_MAX: usize = 256;
/// How much of what it says on standard error an error shows, in bytes.
const WORDS_MAX: usize = 200;
/// How long a command may take to end when it is asked to.
const GRACE: Duration = Duration::from_millis(500);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A command line and how to wait for it.
pub struct Watched {
    /// For sh.
    pub line: String,
    /// From one start to the next.
    pub interval: Duration,
    /// Within this time it prints something.
    pub patience: Duration,
    /// Nothing comes out of it; its end says that the command is to end.
    pub stop: PipeReader,
}

/// Why a command is not listened to any more.
enum Heard {
    /// It has closed its output.
    End,
    /// It is to end.
    Stop,
}

impl Watched {
    /// Runs it until it is told to stop; each reading, with its time, goes to `tell`.
    pub fn run(&self, mut tell: impl FnMut(u64, f64)) -> Result<(), EnergyError> {
        loop {
            let begun = Instant::now();
            let mut group = Group::start(&self.line)?;
            let mut listener =
                Listener { begun, heard: begun, lines: 0, line: Vec::new(), words: Vec::new() };
            match self.listen(&mut group, &mut listener, &mut tell)? {
                Heard::Stop => return Ok(()),
                Heard::End => {
                    // Its output is closed: it ends now, or hides that it runs.
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

/// What was heard of a command since it was started.
struct Listener {
    begun: Instant,
    /// When the last line came.
    heard: Instant,
    lines: u32,
    line: Vec<u8>,
    words: Vec<u8>,
}

impl Listener {
    /// Takes what came, whole lines of it; no bytes are the end, which ends the last line, too.
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

    /// Takes what came on standard error: the last of it is kept.
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

/// A line's number: finite, and not below zero.
fn watts(line: &[u8]) -> Result<f64, EnergyError> {
    let text = std::str::from_utf8(line).ok();
    let watts = text.and_then(|text| text.trim().parse::<f64>().ok());
    watts.filter(|watts| watts.is_finite() && *watts >= 0.0).ok_or_else(|| no_watts(line))
}

fn no_watts(line: &[u8]) -> EnergyError {
    EnergyError::NoWatts { line: String::from_utf8_lossy(line).trim().chars().take(60).collect() }
}

/// Which of these can be read, or have ended; none if the time is over.
fn wait(descriptors: &[BorrowedFd<'_>], time: Duration) -> Result<Vec<bool>, EnergyError> {
    let mut waiting: Vec<PollFd<'_>> =
        descriptors.iter().map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    match poll(&mut waiting, Some(&timeout)) {
        // A signal: whoever waits looks at the time, and waits again.
        Ok(_) | Err(rustix::io::Errno::INTR) => {
            Ok(waiting.iter().map(|descriptor| !descriptor.revents().is_empty()).collect())
        }
        Err(errno) => Err(lost(errno.into())),
    }
}

fn lost(error: io::Error) -> EnergyError {
    EnergyError::Failed { status: "its output can't be read".to_owned(), words: format!(": {error}") }
}

/// A command and all that it starts, which end together.
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

    /// Waits so long for the end of the command itself, and ends it and all others of the group; how it ended.
    fn end(&mut self, patience: Duration) -> Result<String, EnergyError> {
        let Some(pid) = Pid::from_raw(self.child.id() as i32).filter(|_| !self.ended) else {
            return Ok(String::new());
        };
        self.ended = true;
        // Until its end is taken notice of, the number is the group's own.
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

/// Whether a child has ended within this time; it stays to be waited for.
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
    fn lines_are_numbers_however_they_are_cut() {
        assert_eq!(heard(&["5", "0.5\n 6e1 \n0", "\n7"]).unwrap(), [50.5, 60.0, 0.0, 7.0]);
        assert_eq!(heard(&[]).unwrap(), [0.0; 0]);
        for rubbish in ["watts\n", "50 W\n", "\n", "-1\n", "NaN\n", "inf\n", "1,5\n", "\u{1b}[0m50"] {
            let error = heard(&[rubbish]).unwrap_err().to_string();
            assert!(error.starts_with("energy.command printed \""), "{rubbish:?}: {error}");
        }
        // A line without an end does not take all memory.
        assert!(matches!(heard(&["1".repeat(400).as_str()]), Err(EnergyError::NoWatts { .. })));
        assert!(matches!(heard(&["1\n".repeat(5000).as_str()]), Err(EnergyError::TooMany(_))));
    }

    #[test]
    fn the_last_words_are_short() {
        let begun = Instant::now();
        let mut listener = Listener { begun, heard: begun, lines: 0, line: Vec::new(), words: Vec::new() };
        assert_eq!(listener.words(), "");
        listener.overhear(&[b'x'; 1000]);
        listener.overhear(b"\nno such\tmeter\n");
        assert!(listener.words().ends_with("x no such meter") && listener.words().len() <= WORDS_MAX + 2);
    }
}
