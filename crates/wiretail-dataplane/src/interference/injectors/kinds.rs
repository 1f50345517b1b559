//! The interference that each injector causes on the device's core.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{MembarrierCommand, membarrier};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use wiretail_schema::run::interference::InterferenceKind;

use crate::clock::monotonic_ns;
use crate::error::DataplaneError;
use crate::sys::pages::Pages;
use crate::sys::socket::segment_datagrams;

/// Computing time of a hog, in ns.
const HOG_NS: u64 = 200_000;
/// Number of pages that are unmapped one by one. Each unmapped page costs the device's core 5 to 10 µs, and
/// the unmapping core needs about as long between two pages. A packet is thus delayed by more than 20 µs if
/// the device takes long enough to process it.
const PAGES: usize = 24;
/// Number of consecutive barriers, chosen like [`PAGES`] so that packets are delayed by more than 20 µs.
const BARRIERS: usize = 32;
/// Datagrams per send. The kernel passes them to the receiver as one packet, which it splits on the
/// receiver's core.
const DATAGRAMS: usize = 60;
/// Number of consecutive sends.
const SENDS: usize = 2;
/// Length of a datagram, in bytes.
const DATAGRAM_LEN: usize = 16;
/// Time limit for the arrival of the last datagram, in ns.
const PATIENCE_NS: u64 = 2_000_000;

/// Timers per group.
pub(super) const TIMERS: usize = 5;
/// Gap between the timers of a group, in ns: about the cost of an interrupt on a virtual CPU.
const TIMERS_GAP_NS: u64 = 10_000;
/// Time from the first timer to the end of the last timer's interrupt, in ns.
pub(super) const TIMERS_END_NS: u64 = (TIMERS as u64 - 1) * TIMERS_GAP_NS + 30_000;
/// Maximum number of timers in a trial. Each timer is an open file.
pub(super) const TIMERS_MAX: usize = 10_000;
/// Number of open files besides the timers.
const FILES_BESIDES: u64 = 256;

/// The activity of an injector thread.
pub(super) enum Interferer {
    /// Unmaps pages.
    Unmap(Vec<Pages>),
    /// Computes.
    Hog,
    /// Sends packets that the device's core must receive.
    Flood(Flood),
    /// Sends inter-processor interrupts.
    Storm,
}

impl Interferer {
    /// Acquires all resources that may be unavailable.
    pub(super) fn prepare(kind: InterferenceKind) -> Result<Self, DataplaneError> {
        Ok(match kind {
            InterferenceKind::Shootdown => Self::Unmap(Vec::with_capacity(PAGES)),
            InterferenceKind::Softirq => {
                Self::Flood(Flood::open().map_err(|source| DataplaneError::Thread {
                    step: "sending datagrams in segments over loopback".to_owned(),
                    source,
                    next: "needs Linux 4.18 or newer; remove dut.interference = \"softirq\"",
                })?)
            }
            InterferenceKind::Ipi => {
                membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(|errno| {
                    DataplaneError::Thread {
                        step: "registering for membarrier".to_owned(),
                        source: errno.into(),
                        next: "needs Linux 4.14 or newer with CONFIG_MEMBARRIER; remove dut.interference = \"ipi\"",
                    }
                })?;
                Self::Storm
            }
            _ => Self::Hog,
        })
    }

    /// Does all preparations that are possible before the planned time.
    pub(super) fn get_ready(&mut self) {
        if let Self::Unmap(pages) = self {
            // If memory is insufficient, fewer pages are unmapped and the interference is shorter.
            pages.extend((0..PAGES).map_while(|_| Pages::fresh(1).ok()));
            pages.iter_mut().for_each(|page| page.touch(0));
        }
    }

    /// Causes the interference and returns its end time.
    pub(super) fn interfere(&mut self, start_ns: u64) -> u64 {
        match self {
            // One by one: each unmapped page is a separate munmap(2) call.
            Self::Unmap(pages) => pages.drain(..).for_each(drop),
            Self::Hog => while monotonic_ns() < start_ns + HOG_NS {},
            Self::Flood(flood) => return flood.send(start_ns),
            Self::Storm => {
                for _ in 0..BARRIERS {
                    let _ = membarrier(MembarrierCommand::PrivateExpedited);
                }
            }
        }
        monotonic_ns()
    }
}

/// A socket pair that sends datagrams over the loopback.
pub(super) struct Flood {
    from: UdpSocket,
    to: UdpSocket,
}

impl Flood {
    fn open() -> io::Result<Self> {
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        to.set_nonblocking(true)?;
        let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        from.connect(to.local_addr()?)?;
        segment_datagrams(from.as_fd(), DATAGRAM_LEN as u16)?;
        Ok(Self { from, to })
    }

    /// Sends all datagrams. Returns the time at which the last one was received.
    fn send(&self, start_ns: u64) -> u64 {
        let text = [0u8; DATAGRAMS * DATAGRAM_LEN];
        let sent = (0..SENDS).filter(|_| self.from.send(&text).is_ok()).count() * DATAGRAMS;
        let (mut received, mut end_ns) = (0, monotonic_ns());
        let mut datagram = [0u8; DATAGRAM_LEN];
        while received < sent && monotonic_ns() < start_ns + PATIENCE_NS {
            if self.to.recv(&mut datagram).is_ok() {
                received += 1;
                end_ns = monotonic_ns();
            }
        }
        end_ns
    }
}

/// Creates `count` timers.
pub(super) fn make_timers(count: usize) -> Result<Vec<OwnedFd>, DataplaneError> {
    allow_files(count as u64 + FILES_BESIDES);
    let make = |_| Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?);
    (0..count).map(make).collect::<io::Result<_>>().map_err(|source| DataplaneError::Thread {
        step: format!("creating {count} timers"),
        source,
        next: "raise the limit on open files (`ulimit -n`), or use fewer timers",
    })
}

/// Arms the timers of all groups. Must run on the core on which they are to expire.
pub(super) fn arm(timers: &[OwnedFd], times: impl Iterator<Item = u64>) -> Result<(), DataplaneError> {
    let expiries = times.flat_map(|start| (0..TIMERS as u64).map(move |n| start + n * TIMERS_GAP_NS));
    for (timer, at_ns) in timers.iter().zip(expiries) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value =
            Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as _ };
        let once = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).map_err(|errno| {
            DataplaneError::Thread {
                step: "arming a timer".to_owned(),
                source: errno.into(),
                next: "remove dut.interference = \"timer\"",
            }
        })?;
    }
    Ok(())
}

/// Raises this process's limit on open files to `files`, as far as permitted.
fn allow_files(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        let wanted = limit.maximum.map_or(files, |maximum| maximum.min(files));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}
