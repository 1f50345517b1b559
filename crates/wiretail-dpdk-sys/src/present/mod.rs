//! Safe types for DPDK. A port is used by one thread at a time, and is closed when it is dropped.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{
    BATCH_MAX, DirectionCounts, DpdkError, ForwarderConfig, Inside, Packet, PortCounts, PortOptions,
};

mod ffi;

/// Proof that DPDK (its environment abstraction layer) was started.
#[derive(Debug, Clone, Copy)]
pub struct Eal(());

impl Eal {
    /// Starts DPDK. `arguments` are its command-line arguments without the program name.
    ///
    /// # Errors
    /// Returns an error if DPDK was already started or fails to start, for example because of invalid
    /// arguments, insufficient memory or missing permissions. DPDK prints the cause to standard error.
    pub fn start(arguments: &[String]) -> Result<Self, DpdkError> {
        static STARTED: AtomicBool = AtomicBool::new(false);
        let failed = |source| DpdkError::Start { arguments: arguments.join(" "), source };
        let words = std::iter::once("wiretail").chain(arguments.iter().map(String::as_str));
        let words: Vec<CString> =
            words.map(CString::new).collect::<Result<_, _>>().map_err(|error| failed(error.into()))?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(DpdkError::StartedBefore);
        }
        // Uses a separate thread, because DPDK pins the thread that starts it to its first core.
        let started = std::thread::scope(|scope| scope.spawn(|| init(words)).join());
        match started.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            0 => Ok(Self(())),
            error => Err(failed(io::Error::from_raw_os_error(-error))),
        }
    }
}

fn init(words: Vec<CString>) -> i32 {
    let mut argv: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    argv.push(ptr::null_mut());
    // SAFETY: argv holds writable, NUL-terminated strings, followed by a null pointer. They are never freed,
    // so DPDK may keep them. This is called once per process.
    unsafe { ffi::wt_eal_init(argv.len() as i32 - 1, argv.as_mut_ptr()) }
}

/// An open port with one queue per direction, in promiscuous mode.
pub struct Port {
    id: u16,
    driver: String,
    timestamps: bool,
    link_up: bool,
    inside: Inside,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({}, {})", self.id, self.driver)
    }
}

impl Port {
    /// Opens a device such as `net_af_packet0,iface=eth0` or `0000:01:00.0`. The port receives packets from
    /// then on.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, has no driver, or its driver reports an error.
    pub fn open(_eal: Eal, device: &str, options: PortOptions, inside: Inside) -> Result<Self, DpdkError> {
        let failed =
            |step: &str, source| DpdkError::Port { device: device.to_owned(), step: step.to_owned(), source };
        let name = CString::new(device).map_err(|error| failed("parsing the device name", error.into()))?;
        let plan = ffi::Plan { timestamps: options.timestamps.into(), link_wait_ms: options.link_wait_ms };
        let mut info = ffi::PortInfo { id: 0, timestamps: 0, link_up: 0, driver: [0; ffi::NAME_LEN] };
        let mut opened = Err((String::new(), 0));
        inside(&mut || {
            let mut step = c"opening".as_ptr();
            // SAFETY: all pointers refer to live values, and C writes only to the last two. The name is
            // NUL-terminated. An `Eal` exists only if DPDK is started.
            let result = unsafe { ffi::wt_port_open(name.as_ptr(), &plan, &mut info, &mut step) };
            // SAFETY: the step is a NUL-terminated string constant of the C code.
            let step = unsafe { CStr::from_ptr(step) }.to_string_lossy().into_owned();
            opened = if result < 0 { Err((step, -result)) } else { Ok(()) };
        })
        .map_err(|error| failed("entering the device's network namespace", error))?;
        opened.map_err(|(step, error)| failed(&step, io::Error::from_raw_os_error(error)))?;
        let driver = CStr::from_bytes_until_nul(&info.driver).unwrap_or_default();
        Ok(Self {
            id: info.id,
            driver: driver.to_string_lossy().into_owned(),
            timestamps: info.timestamps != 0,
            link_up: info.link_up != 0,
            inside,
        })
    }

    /// Name of the driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Whether the link was up when the port was opened.
    pub fn is_link_up(&self) -> bool {
        self.link_up
    }

    /// Whether the NIC timestamps received packets. Requested with [`PortOptions::timestamps`].
    pub fn has_timestamps(&self) -> bool {
        self.timestamps
    }

    /// Driver counters since the port was opened; all zero if the driver does not support counters.
    pub fn counts(&self) -> PortCounts {
        let mut counts = PortCounts::default();
        // SAFETY: the port is open as long as this value lives; `counts` is live and has C's layout. Drivers
        // support reading counters while another thread forwards.
        unsafe { ffi::wt_port_counts(self.id, &mut counts) };
        counts
    }

    /// The NIC's clock in ticks; `None` if it has no readable clock.
    pub fn clock_ticks(&self) -> Option<u64> {
        let mut ticks = 0;
        // SAFETY: the port is open as long as this value lives; ticks is live.
        let result = unsafe { ffi::wt_port_clock(self.id, &mut ticks) };
        (result == 0).then_some(ticks)
    }

    /// Copies up to [`BATCH_MAX`] frames and sends them in order. Waits up to `patience_ns` for space in the
    /// send queue. Returns the number of accepted frames, and an error number if some frames were not
    /// accepted.
    pub fn send(&mut self, frames: &[&[u8]], patience_ns: u64) -> (usize, Option<i32>) {
        let count = frames.len().min(BATCH_MAX);
        let mut list = [ffi::Frame { data: ptr::null(), length: 0 }; BATCH_MAX];
        for (entry, frame) in list.iter_mut().zip(frames) {
            *entry = ffi::Frame { data: frame.as_ptr(), length: frame.len() as u64 };
        }
        let mut error = 0;
        // SAFETY: the first `count` entries point to live frames of these lengths, which C reads. The port is
        // open, and `&mut` guarantees that no other thread sends through it.
        let taken =
            unsafe { ffi::wt_send(self.id, list.as_ptr(), count as u16, patience_ns, &mut error) } as usize;
        (taken, (taken < count).then_some(error))
    }

    /// Passes up to `most` available packets to `sink`, but at most [`BATCH_MAX`]. Returns the number of
    /// packets.
    pub fn receive(&mut self, most: usize, sink: &mut dyn FnMut(Packet<'_>)) -> usize {
        let nothing = ffi::ReceivedPacket {
            buffer: ptr::null_mut(),
            data: ptr::null(),
            length: 0,
            wire_length: 0,
            ticks: 0,
            timestamped: 0,
        };
        let mut packets = [nothing; BATCH_MAX];
        // SAFETY: there is room for the requested number of packets. The port is open, and `&mut` guarantees
        // that no other thread receives from it.
        let count =
            unsafe { ffi::wt_receive(self.id, packets.as_mut_ptr(), most.min(BATCH_MAX) as u16) } as usize;
        for packet in &packets[..count] {
            // SAFETY: the C code guarantees this many bytes at `data`. They stay valid until the packet is
            // released below, and nothing writes to them.
            let data = unsafe { std::slice::from_raw_parts(packet.data, packet.length as usize) };
            let ticks = (packet.timestamped != 0).then_some(packet.ticks);
            sink(Packet { data, wire_len: packet.wire_length, ticks });
        }
        // SAFETY: the packets were received above, and each is released once.
        unsafe { ffi::wt_release(packets.as_mut_ptr(), count as u16) };
        count
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let id = self.id;
        // SAFETY: `id` refers to a port that was opened and is not used any more.
        let _ = (self.inside)(&mut || unsafe { ffi::wt_port_close(id) });
    }
}

#[derive(Debug)]
struct ForwardingPaths {
    ports: Vec<Port>,
    forwarding_paths: Vec<ffi::ForwardingPath>,
}

/// A forwarder between ports, ready to run.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<ForwardingPaths>,
    config: ForwarderConfig,
}

impl Forwarder {
    /// Creates a forwarder. Each direction is a pair of indices into `ports`: the receiving port and the
    /// sending port.
    ///
    /// # Errors
    /// Returns an error if the batch size or an index is out of range.
    pub fn new(
        ports: Vec<Port>,
        forwarding_paths: &[(usize, usize)],
        config: ForwarderConfig,
    ) -> Result<Self, DpdkError> {
        if !(1..=BATCH_MAX).contains(&config.batch) {
            let found = config.batch;
            return Err(DpdkError::Range { what: "batch", found, expected: "1 to 64 packets" });
        }
        let id = |place: usize| {
            let expected = "the index of an open port, counted from 0";
            let out = DpdkError::Range { what: "port of a direction", found: place, expected };
            ports.get(place).map(|port| port.id).ok_or(out)
        };
        let forwarding_path = |&(from, to): &(usize, usize)| {
            Ok(ffi::ForwardingPath {
                from: id(from)?,
                to: id(to)?,
                reserved: 0,
                received: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                bursts: AtomicU64::new(0),
                burst_max: AtomicU64::new(0),
            })
        };
        let forwarding_paths =
            forwarding_paths.iter().map(forwarding_path).collect::<Result<_, DpdkError>>()?;
        Ok(Self { shared: Arc::new(ForwardingPaths { ports, forwarding_paths }), config })
    }

    /// Returns a handle for reading the counters while the forwarder runs.
    pub fn watcher(&self) -> Watcher {
        Watcher(Arc::clone(&self.shared))
    }

    /// Forwards packets in the calling thread, which busy-waits, until `stop` is set. The packets found by
    /// one poll are sent together immediately. Packets that the sending port does not accept are dropped.
    pub fn run(&mut self, stop: &AtomicBool) {
        let forwarding_paths = &self.shared.forwarding_paths;
        let ForwarderConfig { batch, work_ns, quiet_ns } = self.config;
        let config = ffi::ForwarderConfig { batch: batch as u64, work_ns, quiet_ns };
        // SAFETY: the paths, the configuration and the flag outlive the call. C writes only the counters of
        // the paths, with atomic stores into atomics. The ports are open because they live in the same
        // structure. `&mut` and the ownership of the ports guarantee that no other thread uses their queues.
        unsafe {
            ffi::wt_forward(forwarding_paths.as_ptr(), forwarding_paths.len() as u32, &config, stop.as_ptr())
        };
    }
}

/// Reads the counters of a forwarder, from any thread.
#[derive(Debug, Clone)]
pub struct Watcher(Arc<ForwardingPaths>);

impl Watcher {
    /// Packet counts of each direction.
    pub fn forwarding_paths(&self) -> Vec<DirectionCounts> {
        let counts = |forwarding_path: &ffi::ForwardingPath| DirectionCounts {
            received: forwarding_path.received.load(Ordering::Relaxed),
            taken: forwarding_path.taken.load(Ordering::Relaxed),
            refused: forwarding_path.refused.load(Ordering::Relaxed),
            bursts: forwarding_path.bursts.load(Ordering::Relaxed),
            burst_max: forwarding_path.burst_max.load(Ordering::Relaxed),
        };
        self.0.forwarding_paths.iter().map(counts).collect()
    }

    /// The ports, in the order passed to [`Forwarder::new`].
    pub fn ports(&self) -> &[Port] {
        &self.0.ports
    }
}
