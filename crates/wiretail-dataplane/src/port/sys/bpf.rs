//! The program that hands received packets to an AF_XDP socket: five instructions, loaded by bpf(2)
//! (numbers and layouts: include/uapi/linux/bpf.h and if_link.h of the kernel).

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE_ELEM: i32 = 2;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const FUNC_REDIRECT_MAP: u32 = 51;
const XDP_PASS: u32 = 2;

/// Where rx_queue_index stands in struct xdp_md.
const QUEUE_AT: i16 = 16;

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
struct MapUpdate {
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

/// A map from queue numbers to AF_XDP sockets.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// A map for the queues below `queues`.
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        let attributes =
            MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues };
        // SAFETY: this command takes these attributes, has no pointers, and returns a new descriptor.
        unsafe { bpf_fd(MAP_CREATE, &attributes) }.map(Self)
    }

    /// From now on the packets of this queue go to the socket. The entry vanishes with the socket.
    pub(crate) fn insert(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        let value = socket.as_fd().as_raw_fd();
        let attributes = MapUpdate {
            map_fd: self.0.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are live and four bytes long, as the map was made for.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// One instruction (struct bpf_insn): code, registers, offset, immediate value.
fn instruction(code: u8, to: u64, from: u64, offset: i16, value: u32) -> u64 {
    // As a 64-bit integer in the order of this machine, whose bit fields follow the same order.
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    let [low, high] = offset.to_ne_bytes();
    let [a, b, c, d] = value.to_ne_bytes();
    u64::from_ne_bytes([code, registers as u8, low, high, a, b, c, d])
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: what no socket takes goes on into the
/// stack.
fn program(map: &SocketMap) -> [u64; 6] {
    let (ldx_word, ld_imm64, mov, call, exit) = (0x61, 0x18, 0xb7, 0x85, 0x95);
    let pseudo_map_fd = 1;
    [
        instruction(ldx_word, 2, 1, QUEUE_AT, 0),
        instruction(ld_imm64, 1, pseudo_map_fd, 0, map.0.as_raw_fd() as u32),
        0,
        instruction(mov, 3, 0, 0, XDP_PASS),
        instruction(call, 0, 0, 0, FUNC_REDIRECT_MAP),
        instruction(exit, 0, 0, 0, 0),
    ]
}

/// Loads the program that hands packets to the sockets of this map.
pub(crate) fn load_program(map: &SocketMap) -> io::Result<OwnedFd> {
    let instructions = program(map);
    let license = c"Apache-2.0";
    let attributes = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kern_version: 0,
        flags: 0,
        name: *b"wiretail_to_xsk\0",
        ifindex: 0,
        expected_attach_type: ATTACH_TYPE_XDP,
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
