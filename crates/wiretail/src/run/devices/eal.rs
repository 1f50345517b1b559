//! Arguments of DPDK's environment abstraction layer (EAL). They are the same for every program that uses
//! DPDK.

use std::path::PathBuf;

use wiretail_schema::experiment::PollModeDriver;

use super::program::{Movers, Site};

/// Names of the polling threads in different releases of DPDK: "rte-worker-1" (22.11), "lcore-worker-1",
/// "dpdk-worker1" (23.07).
const WORKERS: [&str; 3] = ["rte-worker", "lcore-worker", "dpdk-worker"];

/// Number of slots in a packet socket's rings. Packets wait in a ring while another task runs on the worker's
/// core. The driver's default of 512 slots holds 5 ms of traffic at 100 kpps.
const SLOTS: u32 = 4096;

/// Selects the polling threads.
pub fn workers() -> Movers {
    Movers::Threads(WORKERS.map(str::to_owned).to_vec())
}

/// Returns the folder of DPDK's drivers, which programs load when they start.
pub fn drivers() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let dpdk = folders.map(|folder| folder.path().join("dpdk"));
    let inside = dpdk.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    inside.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Returns the EAL arguments. They select memory without huge pages and one virtual device per link, and they
/// place the control thread on the housekeeping core and the worker on the device's core.
pub fn arguments(site: &Site, pmd: PollModeDriver) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--no-pci", "--no-huge", "-m", "256", "--no-shconf", "--no-telemetry"].map(str::to_owned).to_vec();
    arguments.extend(["--lcores".to_owned(), lcores(site)]);
    arguments.extend(devices(site, pmd).into_iter().map(|device| format!("--vdev={device}")));
    arguments
}

/// Maps DPDK's lcore 1 to the worker's core, which may have any number.
fn lcores(site: &Site) -> String {
    match (site.housekeeping, site.core) {
        (Some(housekeeping), Some(core)) if housekeeping != core => format!("0@{housekeeping},1@{core}"),
        (_, Some(core)) => format!("(0,1)@{core}"),
        _ => "(0,1)@0".to_owned(),
    }
}

/// Returns a virtual device for each link of each pair, in order (DPDK, Network Interface Controller Drivers:
/// AF_PACKET and AF_XDP Poll Mode Drivers).
pub fn devices(site: &Site, pmd: PollModeDriver) -> Vec<String> {
    let links = site.pairs.iter().flat_map(|(left, right)| [left, right]);
    let device = |(number, link): (usize, &String)| match pmd {
        // Busy polling by the driver requires a hardware queue.
        PollModeDriver::AfXdp => format!("net_af_xdp{number},iface={link},busy_budget=0"),
        PollModeDriver::AfPacket => format!("net_af_packet{number},iface={link},framecnt={SLOTS}"),
    };
    links.enumerate().map(device).collect()
}
