//! Declarations that match `c/wiretail_dpdk.h`. Both sides assert the sizes of the structures.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use crate::PortCounts;

pub(super) const NAME_LEN: usize = 64;

#[repr(C)]
pub(super) struct Plan {
    pub timestamps: u32,
    pub link_wait_ms: u32,
}

#[repr(C)]
pub(super) struct PortInfo {
    pub id: u16,
    pub timestamps: u8,
    pub link_up: u8,
    pub driver: [u8; NAME_LEN],
}

/// One C thread writes the counters with relaxed atomic stores; any thread may read them. The other fields
/// are constant.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct ForwardingPath {
    pub from: u16,
    pub to: u16,
    pub reserved: u32,
    pub received: AtomicU64,
    pub taken: AtomicU64,
    pub refused: AtomicU64,
    pub bursts: AtomicU64,
    pub burst_max: AtomicU64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ForwarderConfig {
    pub batch: u64,
    pub work_ns: u64,
    pub quiet_ns: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Frame {
    pub data: *const u8,
    pub length: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ReceivedPacket {
    pub buffer: *mut c_void,
    pub data: *const u8,
    pub length: u32,
    pub wire_length: u32,
    pub ticks: u64,
    pub timestamped: u64,
}

const _: () = assert!(size_of::<ForwardingPath>() == 128);
const _: () = assert!(size_of::<ReceivedPacket>() == 40);
const _: () = assert!(size_of::<PortInfo>() == 4 + NAME_LEN);

unsafe extern "C" {
    pub(super) fn wt_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn wt_port_open(
        device: *const c_char,
        plan: *const Plan,
        port: *mut PortInfo,
        step: *mut *const c_char,
    ) -> c_int;
    pub(super) fn wt_port_close(id: u16);
    pub(super) fn wt_port_counts(id: u16, counts: *mut PortCounts) -> c_int;
    pub(super) fn wt_port_clock(id: u16, ticks: *mut u64) -> c_int;
    pub(super) fn wt_forward(
        forwarding_paths: *const ForwardingPath,
        count: u32,
        config: *const ForwarderConfig,
        stop: *const bool,
    );
    pub(super) fn wt_send(
        id: u16,
        frames: *const Frame,
        count: u16,
        patience_ns: u64,
        error: *mut c_int,
    ) -> u16;
    pub(super) fn wt_receive(id: u16, packets: *mut ReceivedPacket, most: u16) -> u16;
    pub(super) fn wt_release(packets: *mut ReceivedPacket, count: u16);
}
