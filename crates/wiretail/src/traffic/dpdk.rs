//! Starts DPDK for the commands on live traffic. This module builds DPDK's arguments and converts places on
//! the command line to DPDK devices.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::{Result, bail};
use wiretail_dataplane::port::dpdk::{self, Eal, Port};

use crate::cli::traffic::{DpdkArgs, Place, ThreadArgs};
use crate::traffic::live::OpenPlace;

/// Minimum number of free huge pages of 2 MiB for DPDK to use huge pages. They hold the buffers of all ports
/// and DPDK's own memory.
const HUGE_PAGES: u64 = 32;
/// Memory of DPDK if it does not use huge pages, in MiB.
const PLAIN_MIB: u32 = 256;

/// DPDK after its initialization, and the places that will become its ports.
pub struct Started<'a> {
    pub eal: Eal,
    spaces: Vec<OpenPlace<'a>>,
    devices: Vec<String>,
}

impl Started<'_> {
    /// Returns the name, namespace and device of each place.
    pub fn places(&self) -> Vec<(String, Option<BorrowedFd<'_>>, String)> {
        let places = self.spaces.iter().zip(&self.devices);
        places.map(|(space, device)| (space.name(), space.netns(), device.clone())).collect()
    }
}

/// Starts DPDK for these places.
///
/// # Errors
/// Returns an error if DPDK is not compiled in, a namespace does not exist, or there is not enough memory.
pub fn start<'a>(places: &[&'a Place], arguments: &DpdkArgs, thread: &ThreadArgs) -> Result<Started<'a>> {
    let devices: Vec<String> =
        places.iter().enumerate().map(|(number, place)| device(place, number, arguments)).collect();
    let spaces = places.iter().map(|place| OpenPlace::open(place)).collect::<Result<Vec<_>>>()?;
    let eal = Eal::start(&eal_arguments(&devices, arguments, thread, Path::new("/"))?)?;
    Ok(Started { eal, spaces, devices })
}

/// Starts DPDK and opens these places as ports, in this order.
///
/// # Errors
/// Returns an error if [`start`] fails or a device does not exist.
pub fn open(places: &[&Place], arguments: &DpdkArgs, thread: &ThreadArgs) -> Result<Vec<Port>> {
    let started = start(places, arguments, thread)?;
    let open = |(space, device): (&OpenPlace<'_>, &String)| {
        space.named(dpdk::open(started.eal, space.netns(), device, false))
    };
    started.spaces.iter().zip(&started.devices).map(open).collect()
}

fn device(place: &Place, number: usize, arguments: &DpdkArgs) -> String {
    if place.is_device {
        place.interface.clone()
    } else {
        arguments.pmd.driver().device(number, &place.interface)
    }
}

/// Returns the arguments of DPDK. `root` is the directory that contains `sys`, usually `/`.
fn eal_arguments(
    devices: &[String],
    arguments: &DpdkArgs,
    thread: &ThreadArgs,
    root: &Path,
) -> Result<Vec<String>> {
    let words = ["--no-telemetry", "--log-level", "lib.eal:warning"];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    let pci: Vec<&String> = devices.iter().filter(|device| dpdk::is_pci(device)).collect();
    if pci.is_empty() {
        words.push("--no-pci".to_owned());
    }
    for device in pci {
        words.extend(["-a".to_owned(), device.clone()]);
    }
    // The loop runs on its own thread. DPDK's own threads only sleep, and they stay off the loop's core as
    // long as DPDK believes that the core is in use.
    if let Some(cpu) = thread.cpu {
        words.extend(["--lcores".to_owned(), format!("0@{cpu}")]);
    } else {
        words.extend(["--lcores".to_owned(), format!("0@({})", allowed_cores(root)?)]);
    }
    // With either of these options, DPDK leaves no files in the file system.
    if free_huge_pages(root) >= HUGE_PAGES {
        words.push("--in-memory".to_owned());
    } else {
        let plain = ["--no-shconf", "--no-huge", "-m"].map(str::to_owned);
        words.extend(plain.into_iter().chain([PLAIN_MIB.to_string()]));
    }
    words.extend(arguments.eal.iter().flat_map(|more| more.split_whitespace()).map(str::to_owned));
    Ok(words)
}

/// Returns the cores of this process in the kernel's list format, such as `0-3,7`.
fn allowed_cores(root: &Path) -> Result<String> {
    let path = root.join("proc/self/status");
    let status = fs::read_to_string(&path).unwrap_or_default();
    match status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) {
        Some(cores) => Ok(cores.trim().to_owned()),
        None => bail!("{}: no Cpus_allowed_list; is /proc mounted?", path.display()),
    }
}

fn free_huge_pages(root: &Path) -> u64 {
    let path = root.join("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::traffic::PmdChoice;

    fn arguments(devices: &[&str], eal: Option<&str>, cpu: Option<usize>, root: &Path) -> String {
        let devices: Vec<String> = devices.iter().map(|&device| device.to_owned()).collect();
        let dpdk = DpdkArgs { pmd: PmdChoice::AfPacket, eal: eal.map(str::to_owned) };
        eal_arguments(&devices, &dpdk, &ThreadArgs { cpu, fifo: None }, root).unwrap().join(" ")
    }

    #[test]
    fn chooses_memory_cores_and_buses_by_available_resources() {
        let root = tempfile::tempdir().unwrap();
        let pages = root.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
        fs::create_dir_all(&pages).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/status"), "Name:\tx\nCpus_allowed_list:\t0-1,5\n").unwrap();
        let plain = arguments(&["net_af_packet0,iface=a"], None, None, root.path());
        assert!(plain.contains("--no-pci") && plain.contains("--lcores 0@(0-1,5)"), "{plain}");
        assert!(plain.ends_with("--no-shconf --no-huge -m 256"), "{plain}");
        fs::write(pages.join("free_hugepages"), "32\n").unwrap();
        let huge =
            arguments(&["0000:01:00.0", "net_ring0"], Some("-m 64  --iova-mode va"), Some(3), root.path());
        assert!(!huge.contains("--no-huge") && !huge.contains("--no-pci"), "{huge}");
        assert!(huge.contains("-a 0000:01:00.0 --lcores 0@3"), "{huge}");
        assert!(huge.ends_with("--in-memory -m 64 --iova-mode va"), "{huge}");
    }
}
