//! What is asked of bpf(2): maps, programs, and links that attach them (numbers and layouts:
//! include/uapi/linux/bpf.h and if_link.h of the kernel). The programs themselves are in
//! [`super::bpf_code`].

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

/// More processors than a kernel can be built for (CONFIG_NR_CPUS is 8192 at most).
const CPUS_MAX: usize = 8192;

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    /// By the driver, before a packet has a socket buffer (XDP_FLAGS_DRV_MODE).
    Native,
    /// By the stack, on a socket buffer (XDP_FLAGS_SKB_MODE).
    Generic,
}

/// Parts of union bpf_attr, as far as they are used; the kernel takes what follows for zeros.
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

/// # Safety
/// The caller's SAFETY reason: `T` is the layout that the command wants, and its pointers are to live memory of
/// the lengths given.
unsafe fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    let (pointer, len) = (&raw const *attributes, size_of_val(attributes) as u32);
    // SAFETY: the attributes live through the call, which reads `len` bytes of them; the rest says the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// The caller's SAFETY reason: as for [`bpf`]; and the command returns a new descriptor.
unsafe fn bpf_fd<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: both are what the caller says; a descriptor that was just made has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attributes)?)) }
}

/// A map whose keys are 32-bit numbers from 0.
#[derive(Debug)]
struct Map(OwnedFd);

impl Map {
    fn new(map_type: u32, value_size: u32, max_entries: u32) -> io::Result<Self> {
        let attributes = MapCreate { map_type, key_size: 4, value_size, max_entries };
        // SAFETY: this command takes these attributes, has no pointers, and returns a new descriptor.
        unsafe { bpf_fd(MAP_CREATE, &attributes) }.map(Self)
    }

    /// Of a map whose values are four bytes.
    fn insert(&self, key: u32, value: u32) -> io::Result<()> {
        let attributes = MapElement {
            map_fd: self.0.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are live and four bytes long, as the map was made for.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// A map from queue numbers to AF_XDP sockets.
#[derive(Debug)]
pub(crate) struct SocketMap(Map);

impl SocketMap {
    /// A map for the queues below `queues`.
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_XSKMAP, 4, queues).map(Self)
    }

    /// From now on the packets of this queue go to the socket. The entry vanishes with the socket.
    pub(crate) fn insert(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        self.0.insert(queue, socket.as_fd().as_raw_fd() as u32)
    }

    /// For programs that use it.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// A map from numbers to interfaces, for redirection.
#[derive(Debug)]
pub(crate) struct DeviceMap(Map);

impl DeviceMap {
    /// A map with so many places.
    pub(crate) fn new(places: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_DEVMAP, 4, places).map(Self)
    }

    /// Puts an interface of the calling thread's namespace there. The entry vanishes with the interface.
    pub(crate) fn insert(&self, place: u32, interface: u32) -> io::Result<()> {
        self.0.insert(place, interface)
    }

    /// The kernel's number of the map, by which tracepoints name it.
    pub(crate) fn id(&self) -> io::Result<u32> {
        // The start of struct bpf_map_info: type and number.
        let mut info = [0_u32; 2];
        let len = size_of_val(&info) as u32;
        let attributes = InfoByFd { fd: self.fd() as u32, len, info: (&raw mut info) as u64 };
        // SAFETY: room for `len` bytes of integers, of which the kernel fills no more.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &attributes) }?;
        Ok(info[1])
    }

    /// For programs that use it.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// Counters, each once a processor: programs add without locks.
#[derive(Debug)]
pub(crate) struct CounterMap(Map);

impl CounterMap {
    /// So many counters, all 0.
    pub(crate) fn new(counters: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_PERCPU_ARRAY, 8, counters).map(Self)
    }

    /// The sum over all processors.
    pub(crate) fn sum(&self, counter: u32) -> io::Result<u64> {
        let mut values = vec![0_u64; CPUS_MAX];
        let attributes = MapElement {
            map_fd: self.fd() as u32,
            padding: 0,
            key: (&raw const counter) as u64,
            value: values.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the key is live and four bytes long; the kernel writes eight bytes for each processor that
        // it may have, of which there are no more than values.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(values.iter().sum())
    }

    /// For programs that use it.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// Numbers that programs leave for each other, the same for all processors.
#[derive(Debug)]
pub(crate) struct NumberMap(Map);

impl NumberMap {
    /// So many numbers of 64 bits, all 0.
    pub(crate) fn new(numbers: u32) -> io::Result<Self> {
        Map::new(MAP_TYPE_ARRAY, 8, numbers).map(Self)
    }

    /// One of them.
    pub(crate) fn get(&self, place: u32) -> io::Result<u64> {
        let mut value = 0_u64;
        let attributes = MapElement {
            map_fd: self.fd() as u32,
            padding: 0,
            key: (&raw const place) as u64,
            value: (&raw mut value) as u64,
            flags: 0,
        };
        // SAFETY: the key is live and four bytes long, and there is room for a value, which is eight.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(value)
    }

    /// For programs that use it.
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
    // SAFETY: instructions and license are live, of the count given and ended by a zero; a new descriptor.
    unsafe { bpf_fd(PROG_LOAD, &attributes) }
}

/// Attaches the program to an interface of the calling thread's namespace, until the descriptor is
/// closed: the end of the process, however it comes, detaches it.
pub(crate) fn attach(program: &OwnedFd, interface: u32, how: Attach) -> io::Result<OwnedFd> {
    let flags = match how {
        Attach::Generic => 1 << 1,
        Attach::Native => 1 << 2,
    };
    let prog_fd = program.as_raw_fd() as u32;
    let attributes = LinkCreate { prog_fd, ifindex: interface, attach_type: ATTACH_TYPE_XDP, flags };
    // SAFETY: this command takes these attributes, has no pointers, and returns a new descriptor.
    unsafe { bpf_fd(LINK_CREATE, &attributes) }
}

/// Has the kernel run the program at each of its events of this name, until the descriptor is closed.
pub(crate) fn attach_to_tracepoint(program: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    let attributes = RawTracepointOpen { name: name.as_ptr() as u64, prog_fd, padding: 0 };
    // SAFETY: the name is live and ends with a zero; a new descriptor.
    unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &attributes) }
}
