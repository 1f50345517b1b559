//! Isolation boundary of a program: none, a container, or a virtual machine. Requests to the program are
//! translated so that they can cross the boundary.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use wiretail_host::deploy::vm::{
    Accel, Backend, Boot, Guest, GuestLink, Kernel, accel, ensure_kernel, guest_launch, libvirt_xml,
};
use wiretail_host::deploy::{Container, Runtime, Workload, container, open_tap};
use wiretail_host::{CoreSet, Namespace};
use wiretail_schema::experiment::{
    ContainerRuntime, Deployment, DutKind, GuestBoot, GuestKernel, GuestNetwork, SwitchKind, Trial,
};

use super::program::{Ask, Movers, Program, Site};
use crate::run::testbed::Testbed;
use crate::run::testbed::topology::Guests;

/// Isolation boundary of a running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IsolationBoundary {
    Bare,
    /// A container that uses this network namespace.
    Container(Container),
    /// A virtual machine. The process is QEMU, and all requests to the program go through the console of the
    /// virtual machine.
    Guest(Accel),
}

/// Number of processors of a virtual machine. The last processor runs the program, and the other one runs
/// everything else.
const GUEST_CORES: u32 = 2;
/// Memory of a virtual machine, in MiB. It also holds the machine's files.
const GUEST_MEMORY_MIB: u32 = 1536;

/// A program within its isolation boundary, ready to be started.
pub struct Deployed {
    /// The program, with requests that are translated so that they cross the boundary.
    pub program: Program,
    pub command: Command,
    pub isolation_boundary: IsolationBoundary,
    /// The namespace that holds the program's links.
    pub namespace: Namespace,
}

/// Refuses a trial whose devices cannot be deployed as requested.
///
/// # Errors
/// Returns an error if the deployment is not supported; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    let (kind, deployment, switch) = (trial.dut.kind, trial.dut.deployment, trial.dut.switch);
    if kind == DutKind::Wire {
        return Ok(());
    }
    if matches!(kind, DutKind::LinuxRouter | DutKind::Ovs) && deployment != Deployment::Bare {
        bail!(
            "dut.kind = \"{kind}\" does not support dut.deployment = \"{deployment}\"; set dut.deployment = \
             \"bare\""
        );
    }
    if deployment != Deployment::Vm {
        return Ok(());
    }
    if trial.dut.network == GuestNetwork::VhostUser && switch != SwitchKind::OvsDpdk {
        bail!(
            "dut.network = \"vhost-user\" requires dut.switch = \"ovs-dpdk\", but dut.switch is \"{switch}\"; set \
             dut.switch = \"ovs-dpdk\", or dut.network = \"tap\""
        );
    }
    if trial.dut.hops > 1 && switch == SwitchKind::None {
        bail!(
            "virtual machines in a row (dut.hops) need a switch between them, but dut.switch is \"none\"; \
             set dut.switch = \"bridge\", \"ovs\" or \"ovs-dpdk\""
        );
    }
    Ok(())
}

/// Adapts the site of a device to its deployment, because cores have other numbers inside a virtual machine.
pub fn inside(trial: &Trial, site: Site) -> Site {
    match trial.dut.deployment {
        Deployment::Vm => Site { core: Some(GUEST_CORES - 1), housekeeping: Some(0), ..site },
        Deployment::Bare | Deployment::Container => site,
    }
}

/// Returns the process that must stay in the root control group while the trial's devices start. LXC creates
/// its control groups below the group of process 1. If process 1 were moved off some cores, a container could
/// not use these cores.
pub fn stays(trial: &Trial) -> Option<i32> {
    let is_lxc = trial.dut.container == ContainerRuntime::Lxc;
    (trial.dut.deployment == Deployment::Container && is_lxc).then_some(1)
}

/// Places a program within the isolation boundary of the trial. The program's files must exist already.
///
/// # Errors
/// Returns an error if the container runtime or the hypervisor is not installed.
pub fn deploy(trial: &Trial, program: Program, site: &Site, testbed: &mut Testbed) -> Result<Deployed> {
    let program = by_the_line(program);
    match trial.dut.deployment {
        Deployment::Vm => in_guest(trial, program, site, testbed),
        Deployment::Container => in_container(trial, program, site, testbed),
        Deployment::Bare => bare(program, testbed.namespace(site.node)?),
    }
}

/// Library that stdbuf(1) preloads into the programs that it starts.
const STDBUF: &str = "/usr/libexec/coreutils/libstdbuf.so";

/// Makes a program line-buffer its output.
fn by_the_line(mut program: Program) -> Program {
    if program.by_the_block {
        program.argv.splice(0..0, ["stdbuf".to_owned(), "-oL".to_owned()]);
        program.reads.extend(Some(PathBuf::from(STDBUF)).filter(|library| library.exists()));
    }
    program
}

/// Deploys a program in its namespace, without a boundary.
pub fn bare(program: Program, namespace: Namespace) -> Result<Deployed> {
    let (first, arguments) = program.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut command = Command::new(first);
    command.args(arguments).envs(program.env.iter().map(|(name, value)| (name, value)));
    if matches!(program.stop, Ask::SignalAll(_)) {
        command.process_group(0);
    }
    Ok(Deployed { program, command, isolation_boundary: IsolationBoundary::Bare, namespace })
}

fn workload(program: &Program, site: &Site, namespace: &Namespace) -> Workload {
    Workload {
        argv: program.argv.clone(),
        env: program.env.clone(),
        directory: site.directory.clone(),
        reads: program.reads.clone(),
        namespace: namespace.clone(),
        cores: CoreSet::new(site.core.into_iter().chain(site.housekeeping)),
        hugepages: false,
    }
}

fn in_container(trial: &Trial, mut program: Program, site: &Site, testbed: &mut Testbed) -> Result<Deployed> {
    let namespace = testbed.namespace(site.node)?;
    let workload = workload(&program, site, &namespace);
    let name = format!("{}-dut{}", testbed.name(), site.node);
    let runtime = match trial.dut.container {
        ContainerRuntime::Lxc => Runtime::Lxc,
        ContainerRuntime::Runc => Runtime::Runc,
    };
    let launch = container(runtime, &name, &workload, &std::env::temp_dir())?;
    testbed.change(&launch.plan)?;
    if program.movers == Movers::Everything {
        // The processes that set up the container must not get the device's core and priority. The program's
        // threads are therefore placed from outside once the program runs.
        program.movers = Movers::Threads(vec![String::new()]);
    }
    let isolation_boundary = IsolationBoundary::Container(Container::new(&name)?);
    Ok(Deployed { program, command: launch.command, isolation_boundary, namespace })
}

fn in_guest(trial: &Trial, mut program: Program, site: &Site, testbed: &mut Testbed) -> Result<Deployed> {
    let namespace = testbed.namespace(site.node)?;
    let topology = *testbed.topology();
    let mut links = Vec::new();
    for (own, peer) in topology.links_of(site.node) {
        let backend = if topology.guests == Guests::SharedMemory {
            // QEMU waits for the switch, which may start later.
            Backend::VhostUser { socket: testbed.socket(&peer.link), server: true }
        } else {
            let at = testbed.namespace(peer.node)?;
            Backend::Tap(open_tap(Some(at.name()), &peer.link)?)
        };
        links.push(GuestLink { mac: topology.mac(&own), name: own.link, backend });
    }
    let kernel = match trial.dut.kernel {
        GuestKernel::Standard => Kernel::Standard,
        GuestKernel::Rt => Kernel::Rt,
        GuestKernel::Cloud => Kernel::Cloud,
    };
    let boot = match trial.dut.boot {
        GuestBoot::Plain => Boot::Plain,
        GuestBoot::Tuned => Boot::Tuned,
    };
    let accel = accel(&ensure_kernel(kernel)?)?;
    let guest = Guest {
        name: format!("{}-dut{}", testbed.name(), site.node),
        kernel,
        boot,
        words: String::new(),
        memory_mib: GUEST_MEMORY_MIB,
        vcpus: GUEST_CORES,
        links,
        workload: workload(&program, site, &namespace),
        accel,
    };
    let domain = site.directory.join("domain.xml");
    std::fs::write(&domain, libvirt_xml(&guest, &site.cores()))
        .with_context(|| format!("{}: cannot be written", domain.display()))?;
    let launch = guest_launch(guest)?;
    testbed.change(&launch.plan)?;
    translate(&mut program)?;
    Ok(Deployed {
        program,
        command: launch.command,
        isolation_boundary: IsolationBoundary::Guest(accel),
        namespace,
    })
}

/// Translates the requests to a program in a guest into lines on the guest's console.
fn translate(program: &mut Program) -> Result<()> {
    program.movers = Movers::Threads(vec![format!("CPU {}/", GUEST_CORES - 1)]);
    if !program.then.is_empty() {
        bail!("{} needs configuration from outside and cannot run in a virtual machine", program.argv[0]);
    }
    let over_console = |ask: &Ask| match ask {
        Ask::Signal(signal) | Ask::SignalAll(signal) => {
            Some(Ask::Line(format!("signal {}", signal_name(*signal))))
        }
        Ask::Line(line) => Some(Ask::Line(format!("line {line}"))),
        Ask::Run(_) | Ask::End(_) => None,
    };
    program.stop = over_console(&program.stop).unwrap_or(Ask::Line("stop".to_owned()));
    program.counting = program.counting.take().and_then(|mut counting| {
        counting.ask = over_console(&counting.ask)?;
        Some(counting)
    });
    Ok(())
}

/// Returns the name of a signal as `kill -s` expects it.
fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::USR1 => "USR1",
        Signal::INT => "INT",
        _ => "TERM",
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::experiment::Experiment;

    use super::*;

    /// Returns the reason why the only trial of this experiment is refused; empty if it is not refused.
    fn refusal(dut: &str) -> String {
        let text = format!(
            "title = \"t\"\nseed = 1\n[dut]\n{dut}\n[traffic]\nrate = \"1 kpps\"\n[trial]\nduration = \"1 s\"\n"
        );
        let trials = Experiment::parse(&text).expect("an experiment").trials();
        let [trial] = &trials[..] else { panic!("one trial") };
        refuse(trial).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn refuses_unsupported_deployments_and_names_the_key_to_set() {
        for (dut, says) in [
            ("kind = \"linux-router\"\ndeployment = \"container\"", "set dut.deployment = \"bare\""),
            ("kind = \"ovs\"\ndeployment = \"vm\"", "set dut.deployment = \"bare\""),
            (
                "kind = \"skeleton\"\ndeployment = \"vm\"\nnetwork = \"vhost-user\"\nswitch = \"ovs\"",
                "set dut.switch = \"ovs-dpdk\"",
            ),
            (
                "kind = \"bridge\"\ndeployment = \"vm\"\nnetwork = \"vhost-user\"",
                "dut.network = \"vhost-user\"",
            ),
            ("kind = \"bridge\"\ndeployment = \"vm\"\nhops = 2", "set dut.switch = \"bridge\""),
        ] {
            let refusal = refusal(dut);
            assert!(refusal.contains(says), "{dut}: {refusal:?}");
        }
        for dut in [
            "kind = \"linux-router\"",
            "kind = \"ovs\"\nhops = 2",
            "kind = \"bridge\"\ndeployment = \"container\"",
            "kind = \"bridge\"\ndeployment = \"vm\"",
            "kind = \"bridge\"\ndeployment = \"vm\"\nhops = 2\nswitch = \"bridge\"",
            "kind = \"skeleton\"\ndeployment = \"vm\"\nhops = 2\nnetwork = \"vhost-user\"\nswitch = \"ovs-dpdk\"",
        ] {
            assert_eq!(refusal(dut), "", "{dut}");
        }
    }
}
