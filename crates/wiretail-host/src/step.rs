//! The changes of the host as data: what is printed by a dry run is what is done, written down and
//! undone.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::network::mac::MacAddress;

/// One end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VethEnd {
    /// Name of its network namespace; none for the one that the run itself is in.
    pub namespace: Option<String>,
    /// Name of the link, at most 15 bytes.
    pub link: String,
    /// Its Ethernet address; none for one that the kernel draws.
    pub mac: Option<MacAddress>,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// `lxc-execute` of Debian's package lxc.
    Lxc,
    /// `runc`, which Docker and Kubernetes use.
    Runc,
}

impl Runtime {
    /// As written in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Lxc => "lxc",
            Runtime::Runc => "runc",
        }
    }
}

/// A container as its step has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Of its control groups, too.
    pub name: String,
    /// Who runs it.
    pub runtime: Runtime,
    /// What the runtime needs is in it; gone with the container.
    pub folder: PathBuf,
    /// The runtime's configuration.
    pub config: String,
}

/// One change of the host. `namespace: None` is the network namespace that the run itself is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Make `/run/netns` ready for names, as `ip netns add` does. [`Plan::push`] adds it.
    PrepareNamespaces,
    /// Make a network namespace.
    AddNamespace {
        /// Not taken yet.
        name: String,
    },
    /// Make a veth pair.
    AddVeth {
        /// One end.
        a: VethEnd,
        /// The other.
        b: VethEnd,
    },
    /// Make a bridge, without spanning tree and multicast snooping, and give it its ports.
    AddBridge {
        /// Where.
        namespace: Option<String>,
        /// Of the bridge, at most 15 bytes.
        name: String,
        /// Links that are there already, in the same namespace.
        ports: Vec<String>,
    },
    /// Make a tap: a link whose other end is held by a program, [`open_tap`](crate::deploy::open_tap).
    AddTap {
        /// Where.
        namespace: Option<String>,
        /// Name of the link, at most 15 bytes.
        link: String,
        /// Its Ethernet address; none for one that the kernel draws.
        mac: Option<MacAddress>,
    },
    /// Set a link up.
    SetUp {
        /// Where.
        namespace: Option<String>,
        /// Which.
        link: String,
    },
    /// Set the longest packet of a link.
    SetMtu {
        /// Where.
        namespace: Option<String>,
        /// Which.
        link: String,
        /// In bytes, without the Ethernet header.
        mtu: u32,
    },
    /// Give a link an address.
    AddAddress {
        /// Where.
        namespace: Option<String>,
        /// Which.
        link: String,
        /// IPv4 or IPv6.
        address: IpAddr,
        /// Bits of the network part.
        prefix_len: u8,
    },
    /// Tell a link a neighbour's Ethernet address, so that no ARP is on the wire.
    AddNeighbour {
        /// Where.
        namespace: Option<String>,
        /// Which.
        link: String,
        /// The neighbour's.
        address: IpAddr,
        /// The neighbour's.
        mac: MacAddress,
    },
    /// Send what is for these addresses to a gateway.
    AddRoute {
        /// Where.
        namespace: Option<String>,
        /// Which link reaches the gateway; it has an address beside the gateway's.
        link: String,
        /// IPv4 or IPv6.
        destination: IpAddr,
        /// Bits of the network part.
        prefix_len: u8,
        /// Of the same family.
        gateway: IpAddr,
    },
    /// Switch a link's generic receive offload on or off. With it on, the link of a veth pair takes frames
    /// that XDP redirects into the other end; without it (and without an XDP program of its own) it takes
    /// none of them, and nobody tells.
    SetGro {
        /// Where.
        namespace: Option<String>,
        /// Which.
        link: String,
        /// On or off.
        on: bool,
    },
    /// Set a sysctl of a namespace of this run, which takes it with it.
    SetSysctl {
        /// Which.
        namespace: String,
        /// Below /proc/sys, such as net/ipv4/ip_forward.
        name: String,
        /// Without the end of line.
        value: String,
    },
    /// Keep IPv6 out of a namespace of this run: no router solicitations between the packets that
    /// are measured.
    DisableIpv6 {
        /// Which.
        namespace: String,
    },
    /// Write a file of /proc, /sys or a cgroup; its value is kept and written again afterwards.
    WriteFile {
        /// Which, whole path.
        path: PathBuf,
        /// Without the end of line.
        value: String,
        /// Whether the kernel may say no, as for interrupts that belong to one core. Then nothing is
        /// changed and the plan goes on.
        may_refuse: bool,
    },
    /// Put a file of configuration in its place, with the folders that it needs. What stood there is kept and put back afterwards.
    AddFile {
        /// Which, whole path.
        path: PathBuf,
        /// All of it.
        text: String,
    },
    /// Make a folder, of cgroups mostly. Sockets that programs have left in it are removed with it.
    AddDirectory {
        /// Not there yet.
        path: PathBuf,
    },
    /// Move every task from one cpuset (cgroup v1) to another. Those that the kernel keeps, as
    /// threads of its own that belong to a core, stay.
    MoveTasks {
        /// Folder of the cpuset they are in.
        from: PathBuf,
        /// Folder of the cpuset they go to, and are taken back from.
        to: PathBuf,
        /// Processes that stay with all their threads.
        keep: Vec<i32>,
    },
    /// Reserve huge pages of the default size, beside those that are there.
    AddHugePages {
        /// How many more.
        pages: u64,
    },
    /// Make an instance of the kernel's trace buffers. All that is set in it goes with it.
    AddTraceInstance {
        /// Not taken yet.
        name: String,
    },
    /// Make what a container's runtime needs. Undoing kills who is inside.
    AddContainer {
        /// Which.
        container: ContainerSpec,
    },
}

impl Step {
    /// What it concerns, for messages.
    pub fn object(&self) -> String {
        match self {
            Step::PrepareNamespaces => crate::network::namespace::NAMESPACE_FOLDER.into(),
            Step::AddNamespace { name } | Step::AddTraceInstance { name } => name.clone(),
            Step::AddVeth { a, .. } => place(a.namespace.as_deref(), &a.link),
            Step::AddBridge { namespace, name, .. } => place(namespace.as_deref(), name),
            Step::SetUp { namespace, link }
            | Step::AddTap { namespace, link, .. }
            | Step::SetMtu { namespace, link, .. }
            | Step::AddAddress { namespace, link, .. }
            | Step::AddNeighbour { namespace, link, .. }
            | Step::AddRoute { namespace, link, .. }
            | Step::SetGro { namespace, link, .. } => place(namespace.as_deref(), link),
            Step::SetSysctl { namespace, name, .. } => place(Some(namespace), name),
            Step::DisableIpv6 { namespace } => namespace.clone(),
            Step::WriteFile { path, .. } | Step::AddFile { path, .. } | Step::AddDirectory { path } => {
                path.display().to_string()
            }
            Step::MoveTasks { to, .. } => to.display().to_string(),
            Step::AddHugePages { .. } => "huge pages".into(),
            Step::AddContainer { container } => container.name.clone(),
        }
    }
}

fn place(namespace: Option<&str>, link: &str) -> String {
    format!("{}:{link}", namespace.unwrap_or("host"))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object();
        match self {
            Step::PrepareNamespaces => write!(f, "make {object} ready for network namespaces"),
            Step::AddNamespace { .. } => write!(f, "add network namespace {object}"),
            Step::AddTraceInstance { .. } => write!(f, "add trace instance {object}"),
            Step::AddVeth { b, .. } => {
                write!(f, "add veth {object} to {}", place(b.namespace.as_deref(), &b.link))
            }
            Step::AddBridge { ports, .. } => write!(f, "add bridge {object} over {}", ports.join(", ")),
            Step::AddTap { .. } => write!(f, "add tap {object}"),
            Step::SetUp { .. } => write!(f, "set {object} up"),
            Step::SetMtu { mtu, .. } => write!(f, "set the MTU of {object} to {mtu} bytes"),
            Step::AddAddress { address, prefix_len, .. } => {
                write!(f, "add address {address}/{prefix_len} to {object}")
            }
            Step::AddNeighbour { address, mac, .. } => {
                write!(f, "tell {object} that {address} is at {mac}")
            }
            Step::AddRoute { destination, prefix_len, gateway, .. } => {
                write!(f, "route {destination}/{prefix_len} by {object} to {gateway}")
            }
            Step::SetGro { on, .. } => {
                write!(f, "switch GRO of {object} {}", if *on { "on" } else { "off" })
            }
            Step::SetSysctl { value, .. } => write!(f, "set {object} to {value}"),
            Step::DisableIpv6 { .. } => write!(f, "disable IPv6 in {object}"),
            Step::WriteFile { value, may_refuse, .. } => {
                write!(f, "write {value:?} to {object}{}", if *may_refuse { ", if allowed" } else { "" })
            }
            Step::AddFile { text, .. } => {
                write!(f, "put a file of {} lines at {object}", text.lines().count())
            }
            Step::AddDirectory { .. } => write!(f, "make folder {object}"),
            Step::MoveTasks { from, .. } => write!(f, "move tasks from {} to {object}", from.display()),
            Step::AddHugePages { pages } => write!(f, "reserve {pages} more huge pages"),
            Step::AddContainer { container } => {
                let ContainerSpec { runtime, folder, .. } = container;
                write!(f, "add {} container {object} in {}", runtime.name(), folder.display())
            }
        }
    }
}

/// Steps in the order in which they are done; undone from the last to the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// A plan that changes nothing.
    pub fn new() -> Self {
        Plan::default()
    }

    /// Appends a step; before the first namespace, also what namespaces need.
    pub fn push(&mut self, step: Step) -> &mut Self {
        if matches!(step, Step::AddNamespace { .. }) && !self.steps.contains(&Step::PrepareNamespaces) {
            self.steps.push(Step::PrepareNamespaces);
        }
        self.steps.push(step);
        self
    }

    /// What is to be done, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Extend<Step> for Plan {
    fn extend<T: IntoIterator<Item = Step>>(&mut self, steps: T) {
        for step in steps {
            self.push(step);
        }
    }
}

/// One numbered line a step.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:3}. {step}", number + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_as_it_is_done() {
        let mut plan = Plan::new();
        plan.push(Step::AddNamespace { name: "g".into() }).push(Step::AddNamespace { name: "d".into() });
        let end = |namespace: Option<&str>, link: &str| VethEnd {
            namespace: namespace.map(Into::into),
            link: link.into(),
            mac: None,
        };
        plan.push(Step::AddVeth { a: end(Some("g"), "out"), b: end(None, "tap") });
        plan.push(Step::WriteFile { path: "/proc/x".into(), value: "1".into(), may_refuse: true });
        let expected = "  1. make /run/netns ready for network namespaces
  2. add network namespace g
  3. add network namespace d
  4. add veth g:out to host:tap
  5. write \"1\" to /proc/x, if allowed
";
        assert_eq!(plan.to_string(), expected);
    }

    #[test]
    fn a_step_survives_being_written_down() {
        let step = Step::AddNeighbour {
            namespace: Some("g".into()),
            link: "out".into(),
            address: "10.0.0.2".parse().expect("an address"),
            mac: MacAddress::local(1),
        };
        let line = serde_json::to_string(&step).expect("JSON");
        assert_eq!(serde_json::from_str::<Step>(&line).expect("the same"), step);
        assert!(
            serde_json::from_str::<Step>(r#"{"do":"set-up","link":"a","namespace":null,"x":1}"#).is_err()
        );
    }
}
