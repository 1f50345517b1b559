//! What each planter does to the device's core.

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

/// How long a hog computes, in ns.
const HOG_NS: u64 = 200_000;
/// Pages that are given back one after the other. Each costs the device's core some 5 to 10 us, with as much in
/// between on the core that asks: a packet is late by more than 20 us if the device needs long enough for it.
const PAGES: usize = 24;
/// Barriers one after the other, likewise.
const BARRIERS: usize = 32;
/// Datagrams of each send: the kernel carries them as one packet to the receiver, on whose core it takes them apart.
const DATAGRAMS: usize = 60;
/// Sends one after the other.
const SENDS: usize = 2;
/// Length of a datagram, in bytes.
const DATAGRAM_LEN: usize = 16;
/// The last datagram has arrived by then, or never will, in ns.
const PATIENCE_NS: u64 = 2_000_000;

/// Timers of a group.
pub(super) const TIMERS: usize = 5;
/// From one of them to the next, in ns: what an interrupt costs a virtual processor, about.
const TIMERS_GAP_NS: u64 = 10_000;
/// From the first one to the end of the last one's interrupt, in ns.
pub(super) const TIMERS_END_NS: u64 = (TIMERS as u64 - 1) * TIMERS_GAP_NS + 30_000;
/// Most timers of a trial; each is an open file.
pub(super) const TIMERS_MAX: usize = 10_000;
/// Files that are open besides.
const FILES_BESIDES: u64 = 256;

/// What a thread does each time.
pub(super) enum Interferer {
    /// Gives pages back.
    Unmap(Vec<Pages>),
    /// Computes.
    Hog,
    /// Has packets received.
    Flood(Flood),
    /// Interrupts.
    Storm,
}

impl Interferer {
    /// Gets everything that may be missing.
    pub(super) fn prepare(kind: InterferenceKind) -> Result<Self, DataplaneError> {
        Ok(match kind {
            InterferenceKind::Shootdown => Self::Unmap(Vec::with_capacity(PAGES)),
            InterferenceKind::Softirq => {
                Self::Flood(Flood::open().map_err(|source| DataplaneError::Thread {
                    step: "sending datagrams in segments over loopback".to_owned(),
                    source,
                    next: "it needs Linux 4.18 or newer; leave dut.interference = \"softirq\" out",
                })?)
            }
            InterferenceKind::Ipi => {
                membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(|errno| {
                    DataplaneError::Thread {
                        step: "registering for membarrier".to_owned(),
                        source: errno.into(),
                        next: "it needs Linux 4.14 or newer with CONFIG_MEMBARRIER; leave dut.interference = \"ipi\" out",
                    }
                })?;
                Self::Storm
            }
            _ => Self::Hog,
        })
    }

    /// What can be done before it is time.
    pub(super) fn get_ready(&mut self) {
        if let Self::Unmap(pages) = self {
            // Where there is no memory, there is nothing to give back: the disturbance is a short one.
            pages.extend((0..PAGES).map_while(|_| Pages::fresh(1).ok()));
            pages.iter_mut().for_each(|page| page.touch(0));
        }
    }

    /// Disturbs; returns when it was over.
    pub(super) fn interfere(&mut self, start_ns: u64) -> u64 {
        match self {
            // One by one: each page given back is a call of its own (munmap(2)).
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

/// Datagrams to oneself.
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

    /// Sends all, and returns when the last one had been received.
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

/// Makes so many timers.
pub(super) fn make_timers(count: usize) -> Result<Vec<OwnedFd>, DataplaneError> {
    allow_files(count as u64 + FILES_BESIDES);
    let make = |_| Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?);
    (0..count).map(make).collect::<io::Result<_>>().map_err(|source| DataplaneError::Thread {
        step: format!("making {count} timers"),
        source,
        next: "raise the limit of open files (`ulimit -n`), or let timers disturb less often",
    })
}

/// Arms the timers of all groups, on the core on which they are to expire.
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
                next: "leave dut.interference = \"timer\" out",
            }
        })?;
    }
    Ok(())
}

/// Raises this process's own limit of open files to at least so many, as far as it is allowed to.
fn allow_files(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        let wanted = limit.maximum.map_or(files, |maximum| maximum.min(files));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}
