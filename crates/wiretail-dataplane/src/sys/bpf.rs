//! The bpf(2) system call: maps, programs, and links that attach programs. Numbers and layouts are from
//! include/uapi/linux/bpf.h and if_link.h of the kernel. The programs are built with [`super::bpf_code`].

use std::ffi::CStr;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::bpf_code::Code;

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const PROG_LOAD: i32 = 5;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const LINK_CREATE: i32 = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const MAP_TYPE_DEVMAP: u32 = 14;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const ATTACH_TYPE_XDP: u32 = 37;

/// Upper bound on the number of CPUs of a kernel (CONFIG_NR_CPUS is 8192 at most).
const CPUS_MAX: usize = 8192;

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver, before a packet has a socket buffer (XDP_FLAGS_DRV_MODE).
    Native,
    /// In the network stack, on a socket buffer (XDP_FLAGS_SKB_MODE).
    Generic,
}

/// The used parts of union bpf_attr. The kernel treats missing bytes as zeros.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kern_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// `T` must have the layout that the command expects, and its pointers must refer to live memory of the given
/// lengths.
unsafe fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    let (pointer, len) = (&raw const *attributes, size_of_val(attributes) as u32);
    // SAFETY: the attributes live through the call, which reads `len` bytes of them; the caller guarantees
    // the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Calls bpf(2) and takes ownership of the returned descriptor.
///
/// # Safety
/// `attributes` must meet the SAFETY conditions of [`bpf`], and the command must return a new descriptor.
unsafe fn bpf_fd<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees both conditions; a new descriptor has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attributes)?)) }
}

/// A map whose keys are 32-bit numbers from 0.
#[derive(Debug)]
struct Map(OwnedFd);

impl Map {
    fn new(map_type: u32, value_size: u32, max_entries: u32) -> io::Result<Self> {
        let attributes = MapCreate { map_type, key_size: 4, value_size, max_entries };
        // SAFETY: the command takes these attributes, has no pointers, and returns a new descriptor.
        unsafe { bpf_fd(MAP_CREATE, &attributes) }.map(Self)
    }

    /// Only for maps with values of four bytes.
    fn insert(&self, key: u32, value: u32) -> io::Result<()> {
        let attributes = MapElement {
            map_fd: self.0.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are live and four bytes long, as the map requires.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// A map from queue numbers to AF_XDP sockets.
#[derive(Debug)]
pub(crate) struct SocketMap(Map);

impl SocketMap {
    /// Creates a map for queues below `queues`.
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_XSKMAP, 4, queues).map(Self)
    }

    /// Redirects the packets of this queue to the socket. Closing the socket removes the entry.
    pub(crate) fn insert(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        self.0.insert(queue, socket.as_fd().as_raw_fd() as u32)
    }

    /// Descriptor for use in programs.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// A map from numbers to interfaces, for redirection.
#[derive(Debug)]
pub(crate) struct DeviceMap(Map);

impl DeviceMap {
    /// Creates a map with this many entries.
    pub(crate) fn new(places: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_DEVMAP, 4, places).map(Self)
    }

    /// Adds an interface of the calling thread's namespace. Removing the interface removes the entry.
    pub(crate) fn insert(&self, place: u32, interface: u32) -> io::Result<()> {
        self.0.insert(place, interface)
    }

    /// The kernel's ID of the map, which tracepoints report.
    pub(crate) fn id(&self) -> io::Result<u32> {
        // The first two fields of struct bpf_map_info: type and ID.
        let mut info = [0_u32; 2];
        let len = size_of_val(&info) as u32;
        let attributes = InfoByFd { fd: self.fd() as u32, len, info: (&raw mut info) as u64 };
        // SAFETY: the buffer holds `len` bytes of integers, and the kernel writes at most that many.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &attributes) }?;
        Ok(info[1])
    }

    /// Descriptor for use in programs.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// Per-CPU counters, which programs increment without locks.
#[derive(Debug)]
pub(crate) struct CounterMap(Map);

impl CounterMap {
    /// Creates this many counters, all 0.
    pub(crate) fn new(counters: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_PERCPU_ARRAY, 8, counters).map(Self)
    }

    /// Sum over all CPUs.
    pub(crate) fn sum(&self, counter: u32) -> io::Result<u64> {
        let mut values = vec![0_u64; CPUS_MAX];
        let attributes = MapElement {
            map_fd: self.fd() as u32,
            padding: 0,
            key: (&raw const counter) as u64,
            value: values.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the key is live and four bytes long. The kernel writes eight bytes per possible CPU, and
        // `values` has room for all of them.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(values.iter().sum())
    }

    /// Descriptor for use in programs.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// Numbers that programs share with each other, global to all CPUs.
#[derive(Debug)]
pub(crate) struct NumberMap(Map);

impl NumberMap {
    /// Creates this many 64-bit numbers, all 0.
    pub(crate) fn new(numbers: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_ARRAY, 8, numbers).map(Self)
    }

    /// Reads a number.
    pub(crate) fn get(&self, place: u32) -> io::Result<u64> {
        let mut value = 0_u64;
        let attributes = MapElement {
            map_fd: self.fd() as u32,
            padding: 0,
            key: (&raw const place) as u64,
            value: (&raw mut value) as u64,
            flags: 0,
        };
        // SAFETY: the key is live and four bytes long, and `value` has eight bytes.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(value)
    }

    /// Descriptor for use in programs.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// Loads a program for [`attach`].
pub(crate) fn load_xdp(code: &Code, name: &CStr) -> io::Result<OwnedFd> {
    load(PROG_TYPE_XDP, ATTACH_TYPE_XDP, code, name)
}

/// Loads a program for [`attach_to_tracepoint`].
pub(crate) fn load_tracepoint(code: &Code, name: &CStr) -> io::Result<OwnedFd> {
    load(PROG_TYPE_RAW_TRACEPOINT, 0, code, name)
}

fn load(prog_type: u32, expected_attach_type: u32, code: &Code, name: &CStr) -> io::Result<OwnedFd> {
    let instructions = code.instructions();
    let license = c"Apache-2.0";
    let mut short = [0; 16];
    for (to, from) in short[..15].iter_mut().zip(name.to_bytes()) {
        *to = *from;
    }
    let attributes = ProgLoad {
        prog_type,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kern_version: 0,
        flags: 0,
        name: short,
        ifindex: 0,
        expected_attach_type,
    };
    // SAFETY: the instructions are live and have the given count; the license is live and NUL-terminated; the
    // command returns a new descriptor.
    unsafe { bpf_fd(PROG_LOAD, &attributes) }
}

/// Attaches the program to an interface of the calling thread's namespace until the descriptor is closed. The
/// kernel detaches it when the process exits, even after SIGKILL.
pub(crate) fn attach(program: &OwnedFd, interface: u32, how: Attach) -> io::Result<OwnedFd> {
    let flags = match how {
        Attach::Generic => 1 << 1,
        Attach::Native => 1 << 2,
    };
    let prog_fd = program.as_raw_fd() as u32;
    let attributes = LinkCreate { prog_fd, ifindex: interface, attach_type: ATTACH_TYPE_XDP, flags };
    // SAFETY: the command takes these attributes, has no pointers, and returns a new descriptor.
    unsafe { bpf_fd(LINK_CREATE, &attributes) }
}

/// Runs the program at each event of this tracepoint until the descriptor is closed.
pub(crate) fn attach_to_tracepoint(program: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    let attributes = RawTracepointOpen { name: name.as_ptr() as u64, prog_fd, padding: 0 };
    // SAFETY: the name is live and NUL-terminated; the command returns a new descriptor.
    unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &attributes) }
}
