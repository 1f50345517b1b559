//! What DPDK's environment abstraction layer (EAL) is told, the same for every program that uses it.

use std::path::PathBuf;

use wiretail_schema::experiment::PollModeDriver;

use super::program::{Movers, Site};

/// What releases of DPDK have called the threads that poll: "rte-worker-1" (22.11), "lcore-worker-1",
/// "dpdk-worker1" (23.07).
const WORKERS: [&str; 3] = ["rte-worker", "lcore-worker", "dpdk-worker"];

/// Slots of a packet socket's rings: what arrives while the worker's core is taken from it waits there. The driver's
/// 512 are 5 ms at 100 kpps.
const SLOTS: u32 = 4096;

/// The threads that poll.
pub fn workers() -> Movers {
    Movers::Threads(WORKERS.map(str::to_owned).to_vec())
}

/// Where its drivers are: programs load them when they start.
pub fn drivers() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let dpdk = folders.map(|folder| folder.path().join("dpdk"));
    let inside = dpdk.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    inside.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The arguments: memory without huge pages, one virtual device a link, the control thread on the housekeeping
/// core and the worker on the device's.
pub fn arguments(site: &Site, pmd: PollModeDriver) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--no-pci", "--no-huge", "-m", "256", "--no-shconf", "--no-telemetry"].map(str::to_owned).to_vec();
    arguments.extend(["--lcores".to_owned(), lcores(site)]);
    arguments.extend(devices(site, pmd).into_iter().map(|device| format!("--vdev={device}")));
    arguments
}

/// The worker is lcore 1, whatever core that is.
fn lcores(site: &Site) -> String {
    match (site.housekeeping, site.core) {
        (Some(housekeeping), Some(core)) if housekeeping != core => format!("0@{housekeeping},1@{core}"),
        (_, Some(core)) => format!("(0,1)@{core}"),
        _ => "(0,1)@0".to_owned(),
    }
}

/// A virtual device for each link of each pair, in their order (DPDK, Network Interface Controller Drivers:
/// AF_PACKET and AF_XDP Poll Mode Drivers).
pub fn devices(site: &Site, pmd: PollModeDriver) -> Vec<String> {
    let links = site.pairs.iter().flat_map(|(left, right)| [left, right]);
    let device = |(number, link): (usize, &String)| match pmd {
        // Busy polling by the driver needs a NIC's queue.
        PollModeDriver::AfXdp => format!("net_af_xdp{number},iface={link},busy_budget=0"),
        PollModeDriver::AfPacket => format!("net_af_packet{number},iface={link},framecnt={SLOTS}"),
    };
    links.enumerate().map(device).collect()
}
