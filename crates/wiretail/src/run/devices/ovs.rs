//! Open vSwitch (ovs-vswitchd(8)) between the links of a node: as a device, or as the switch between the
//! devices. The program has its own database, sockets and log.
//!
//! Only one process is monitored. It starts as a shell, which creates the database, writes the ports into it,
//! and then executes the switch in its place. The database server is a child of that process, and the kernel
//! ends the server when its parent ends.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use wiretail_host::Step;
use wiretail_schema::experiment::{DutKind, OvsDatapath, SwitchKind, Trial};

use super::counts::Counts;
use super::program::{Ask, Counting, Movers, Program, Site};
use crate::cli::setup::PartName;
use crate::run::testbed::topology::{Switch, Topology};
use crate::setup::missing;

/// How Open vSwitch forwards packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datapath {
    /// Packet sockets, read by the main thread, which sleeps while there are no packets.
    Userspace,
    /// DPDK, with polling threads.
    Dpdk,
}

/// Schema of the database.
const TABLES: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Program name of the Open vSwitch build with DPDK.
const WITH_DPDK: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// Output of the switch after it has opened the ports in the database for the first time.
const READY: &str = "(Open vSwitch)";
/// Memory that DPDK uses in the switch, in MiB. It consists of huge pages.
const DPDK_MEMORY_MIB: u64 = 512;
/// Size of a huge page (admin-guide/mm/hugetlbpage.rst).
const HUGE_PAGE_MIB: u64 = 2;
/// File with the number of unused huge pages.
const FREE_PAGES: &str = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Returns the datapath of a device (`dut.datapath`).
pub fn datapath_of_device(trial: &Trial) -> Datapath {
    match trial.dut.datapath {
        OvsDatapath::Userspace => Datapath::Userspace,
        OvsDatapath::Dpdk => Datapath::Dpdk,
    }
}

/// Returns the datapath of the switch between the devices (`dut.switch`).
pub fn datapath_of_switch(trial: &Trial) -> Datapath {
    match trial.dut.switch {
        SwitchKind::OvsDpdk => Datapath::Dpdk,
        SwitchKind::None | SwitchKind::Bridge | SwitchKind::Ovs => Datapath::Userspace,
    }
}

/// Properties of the testbed around a switch, except its links.
#[derive(Debug, Default)]
pub struct Around {
    /// Shared-memory links to virtual machines, each with the socket on which QEMU waits for the switch.
    pub guests: Vec<(String, PathBuf)>,
    /// Whether taps must see packets that leave the switch. DPDK can bypass the queueing discipline, and taps
    /// do not see packets that bypass it.
    pub taps_see_departures: bool,
}

/// Returns the program that connects the site's pairs of links.
///
/// # Errors
/// Returns an error if Open vSwitch is not installed.
pub fn program(datapath: Datapath, site: &Site, around: &Around) -> Result<Program> {
    if let Some(reason) = missing(PartName::Ovs) {
        bail!("{reason}");
    }
    let folder = site.file(&format!("ovs{}", site.node));
    let folder = Path::new(&folder);
    let script = script(datapath, site, around, folder);
    let mut program = Program::new(site, ["sh", "-c", &script].map(str::to_owned).to_vec());
    program.ready = READY.to_owned();
    let bridge = format!("unix:{}/br0.mgmt", folder.display());
    let flow = |from: usize, to: usize| {
        let flow = format!("in_port={from},actions=output:{to}");
        ["ovs-ofctl", "add-flow", &bridge, &flow].map(str::to_owned).to_vec()
    };
    program.then = (0..site.pairs.len())
        .map(|pair| (2 * pair + 1, 2 * pair + 2))
        .flat_map(|(left, right)| [flow(left, right), flow(right, left)])
        .collect();
    program.movers = Movers::Threads(match datapath {
        Datapath::Userspace => vec!["ovs-vswitchd".to_owned()],
        Datapath::Dpdk => vec!["pmd-c".to_owned()],
    });
    let ask = Ask::Run(["ovs-ofctl", "dump-ports", &bridge].map(str::to_owned).to_vec());
    let ports = site.pairs.len() * 2;
    program.counting = Some(Counting::now(ask, move |text| counts(text, ports)));
    Ok(program)
}

/// Returns the step that reserves memory for a trial's switches with DPDK; `None` if they need no memory or
/// enough memory is free.
pub fn memory(trial: &Trial, topology: &Topology) -> Option<Step> {
    huge_pages(Path::new("/"), pages(trial, topology))
}

/// Number of huge pages required by a trial's switches with DPDK.
fn pages(trial: &Trial, topology: &Topology) -> u64 {
    let is_device = trial.dut.kind == DutKind::Ovs && datapath_of_device(trial) == Datapath::Dpdk;
    let is_switch = topology.switch == Switch::Ovs && datapath_of_switch(trial) == Datapath::Dpdk;
    let switches = if is_device { topology.devices } else { 0 } + usize::from(is_switch);
    switches as u64 * DPDK_MEMORY_MIB / HUGE_PAGE_MIB
}

/// Returns the step that makes this number of huge pages free; `None` if they are already free.
fn huge_pages(root: &Path, pages: u64) -> Option<Step> {
    let free = std::fs::read_to_string(root.join(FREE_PAGES)).ok().and_then(|text| text.trim().parse().ok());
    let lacking = pages.saturating_sub(free.unwrap_or(0));
    (lacking > 0).then_some(Step::AddHugePages { pages: lacking })
}

/// Returns the shell script that sets up the database and then replaces itself with the switch.
fn script(datapath: Datapath, site: &Site, around: &Around, folder: &Path) -> String {
    let folder = quoted(&folder.display().to_string());
    let ports = site.pairs.iter().flat_map(|(left, right)| [left, right]).enumerate();
    let add = |(number, link): (usize, &String)| {
        let guest = around.guests.iter().find(|(guest, _)| guest == link);
        let kind = match (guest, datapath) {
            // QEMU creates the socket. The switch tries to connect to this socket once a second.
            (Some((_, socket)), _) => {
                format!("type=dpdkvhostuserclient options:vhost-server-path={}", socket.display())
            }
            (None, Datapath::Userspace) => "type=system".to_owned(),
            (None, Datapath::Dpdk) => {
                let qdisc = if around.taps_see_departures { ",qdisc_bypass=0" } else { "" };
                format!("type=dpdk options:dpdk-devargs=eth_af_packet{number},iface={link}{qdisc}")
            }
        };
        format!(" -- add-port br0 {link} -- set Interface {link} {kind} ofport_request={}", number + 1)
    };
    let ports: String = ports.map(add).collect();
    let (dpdk, switch) = match datapath {
        Datapath::Userspace => (String::new(), "ovs-vswitchd"),
        Datapath::Dpdk => {
            let (housekeeping, core) = (mask(site.housekeeping), mask(site.core));
            let extra = format!("--no-pci --no-telemetry -m {DPDK_MEMORY_MIB}");
            let settings = format!(
                "other_config:dpdk-init=true other_config:dpdk-extra='\"{extra}\"' \
                 other_config:dpdk-lcore-mask={housekeeping} other_config:pmd-cpu-mask={core}"
            );
            (format!("$vsctl set Open_vSwitch . {settings}\n"), WITH_DPDK)
        }
    };
    format!(
        "set -e\n\
         folder={folder}\n\
         mkdir -p \"$folder\"\n\
         export OVS_RUNDIR=\"$folder\" OVS_DBDIR=\"$folder\" OVS_LOGDIR=\"$folder\" OVS_SYSCONFDIR=\"$folder\"\n\
         rm -f \"$folder\"/*\n\
         ovsdb-tool create \"$folder/conf.db\" {TABLES}\n\
         setpriv --pdeathsig TERM ovsdb-server \"$folder/conf.db\" --no-chdir --remote=\"punix:$folder/db.sock\" \
         --unixctl=\"$folder/db.ctl\" -vconsole:warn &\n\
         vsctl=\"ovs-vsctl --no-wait --timeout=10 --db=unix:$folder/db.sock\"\n\
         until [ -S \"$folder/db.sock\" ]; do kill -0 $!; sleep 0.02; done\n\
         $vsctl init\n\
         {dpdk}\
         $vsctl add-br br0 -- set Bridge br0 datapath_type=netdev fail_mode=secure{ports}\n\
         exec {switch} \"unix:$folder/db.sock\" --no-chdir --unixctl=\"$folder/switch.ctl\" -vconsole:info\n"
    )
}

/// Formats a core as a hexadecimal mask. `None` is formatted as the first core.
fn mask(core: Option<u32>) -> String {
    let core = core.unwrap_or(0) as usize;
    format!("0x{:x}{}", 1u32 << (core % 4), "0".repeat(core / 4))
}

/// Quotes a word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Sums the counters that `ovs-ofctl dump-ports` prints for all ports except the bridge's internal port.
fn counts(text: &str, ports: usize) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut whole = 0;
    let mut ours = false;
    for line in text.lines() {
        let line = line.trim();
        let (direction, fields) = match line.strip_prefix("port") {
            Some(port) => {
                let (name, fields) = port.split_once(':')?;
                ours = name.trim() != "LOCAL";
                fields.trim().split_once(' ')?
            }
            None => line.split_once(' ').unwrap_or((line, "")),
        };
        let field = |name: &str| -> u64 {
            let value =
                fields.split([' ', ',']).find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        match direction {
            "rx" if ours => {
                counts.received += field("pkts");
                counts.dropped += field("drop");
            }
            "tx" if ours => {
                counts.sent += field("pkts");
                counts.failed += field("drop") + field("errs");
                whole += 1;
            }
            _ => {}
        }
    }
    (whole == ports).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            node: 1,
            pairs: vec![("in".to_owned(), "to1".to_owned()), ("from1".to_owned(), "out".to_owned())],
            both_directions: true,
            core: Some(5),
            housekeeping: Some(0),
            directory: "/tmp".into(),
        }
    }

    #[test]
    fn sums_statistics_of_all_ports_but_the_internal_one() {
        let port = |name: &str, rx: u64, tx: u64| {
            format!(
                "  port {name}: rx pkts={rx}, bytes=0, drop=1, errs=0, frame=0, over=0, crc=0\n           \
                 tx pkts={tx}, bytes=0, drop=2, errs=?, coll=0\n"
            )
        };
        let text =
            "OFPST_PORT reply (xid=0x2): 3 ports\n".to_owned() + &port("LOCAL", 100, 100) + &port(" 1", 7, 5);
        assert_eq!(counts(&text, 2), None);
        let whole = text + &port("\"out\"", 30, 40);
        assert_eq!(
            counts(&whole, 2),
            Some(Counts { received: 37, sent: 45, dropped: 2, failed: 4, ..Counts::default() })
        );
    }

    #[test]
    fn numbers_ports_and_assigns_threads_to_cores() {
        let script = script(Datapath::Dpdk, &site(), &Around::default(), Path::new("/run/it's"));
        assert!(script.contains("iface=from1 ofport_request=3"), "{script}");
        assert!(script.contains("dpdk-lcore-mask=0x1 ") && script.contains("pmd-cpu-mask=0x20"), "{script}");
        assert!(script.contains("folder='/run/it'\\''s'"), "{script}");
        assert_eq!(mask(Some(64)), "0x10000000000000000");
    }

    #[test]
    fn connects_to_virtual_machines_at_their_sockets() {
        let guests =
            vec![("to1".to_owned(), "/run/w/to1".into()), ("from1".to_owned(), "/run/w/from1".into())];
        let around = Around { guests, taps_see_departures: true };
        let script = script(Datapath::Dpdk, &site(), &around, Path::new("/run/it"));
        for port in [
            "Interface in type=dpdk options:dpdk-devargs=eth_af_packet0,iface=in,qdisc_bypass=0 ofport_request=1",
            "Interface to1 type=dpdkvhostuserclient options:vhost-server-path=/run/w/to1 ofport_request=2",
            "Interface from1 type=dpdkvhostuserclient options:vhost-server-path=/run/w/from1 ofport_request=3",
            "Interface out type=dpdk options:dpdk-devargs=eth_af_packet3,iface=out,qdisc_bypass=0 ofport_request=4",
        ] {
            assert!(script.contains(port), "{port} in {script}");
        }
    }

    #[test]
    fn reserves_only_missing_memory() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(huge_pages(root.path(), 256), Some(Step::AddHugePages { pages: 256 }));
        std::fs::write(folder.join("free_hugepages"), "200\n").unwrap();
        assert_eq!(huge_pages(root.path(), 256), Some(Step::AddHugePages { pages: 56 }));
        std::fs::write(folder.join("free_hugepages"), "256\n").unwrap();
        assert!(huge_pages(root.path(), 256).is_none());
    }
}
