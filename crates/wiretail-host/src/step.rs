//! Host changes as data. A dry run prints the same steps that a run applies, records and undoes.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::network::mac::MacAddress;

/// One end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VethEnd {
    /// Name of its network namespace; `None` means the namespace of the run itself.
    pub namespace: Option<String>,
    /// Name of the link, at most 15 bytes.
    pub link: String,
    /// Its Ethernet address; `None` lets the kernel choose one.
    pub mac: Option<MacAddress>,
}

/// A container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// `lxc-execute` of Debian's package lxc.
    Lxc,
    /// `runc`, which Docker and Kubernetes use.
    Runc,
}

impl Runtime {
    /// The name used in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Lxc => "lxc",
            Runtime::Runc => "runc",
        }
    }
}

/// The parameters of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Name of the container and of its control groups.
    pub name: String,
    pub runtime: Runtime,
    /// Folder for the files that the runtime needs. It is removed with the container.
    pub folder: PathBuf,
    pub config: String,
}

/// One change of the host. `namespace: None` means the network namespace of the run itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Prepare `/run/netns` for named namespaces, as `ip netns add` does. [`Plan::push`] adds this step
    /// automatically.
    PrepareNamespaces,
    /// Create a network namespace.
    AddNamespace {
        /// A name that is not in use.
        name: String,
    },
    /// Create a veth pair.
    AddVeth { a: VethEnd, b: VethEnd },
    /// Create a bridge without spanning tree and multicast snooping, and add its ports.
    AddBridge {
        namespace: Option<String>,
        /// Name of the bridge, at most 15 bytes.
        name: String,
        /// Existing links in the same namespace.
        ports: Vec<String>,
    },
    /// Create a tap link. A program opens the link's other end with [`open_tap`](crate::deploy::open_tap).
    AddTap {
        namespace: Option<String>,
        /// Name of the link, at most 15 bytes.
        link: String,
        /// Its Ethernet address; `None` lets the kernel choose one.
        mac: Option<MacAddress>,
    },
    /// Set a link up.
    SetUp { namespace: Option<String>, link: String },
    /// Set the MTU of a link.
    SetMtu {
        namespace: Option<String>,
        link: String,
        /// In bytes, without the Ethernet header.
        mtu: u32,
    },
    /// Add an address to a link.
    AddAddress {
        namespace: Option<String>,
        link: String,
        /// IPv4 or IPv6.
        address: IpAddr,
        /// Length of the network prefix, in bits.
        prefix_len: u8,
    },
    /// Add a static neighbor entry to a link, so that no ARP requests are sent on the wire.
    AddNeighbour {
        namespace: Option<String>,
        link: String,
        /// The neighbor's IP address.
        address: IpAddr,
        /// The neighbor's Ethernet address.
        mac: MacAddress,
    },
    /// Route a destination prefix through a gateway.
    AddRoute {
        namespace: Option<String>,
        /// The outgoing link; the gateway must be in a subnet of this link.
        link: String,
        /// IPv4 or IPv6.
        destination: IpAddr,
        /// Length of the destination prefix, in bits.
        prefix_len: u8,
        /// An address of the same family as the destination.
        gateway: IpAddr,
    },
    /// Turn generic receive offload of a link on or off. With GRO on, a veth link accepts frames that XDP
    /// redirects to its peer. With GRO off and no XDP program attached, the link drops all redirected frames
    /// without reporting an error.
    SetGro { namespace: Option<String>, link: String, on: bool },
    /// Set a sysctl in a namespace of this run. The setting disappears with the namespace.
    SetSysctl {
        namespace: String,
        /// Path below /proc/sys, such as net/ipv4/ip_forward.
        name: String,
        /// Without the trailing newline.
        value: String,
    },
    /// Disable IPv6 in a namespace of this run, so that no router solicitations appear among the measured
    /// packets.
    DisableIpv6 { namespace: String },
    /// Write a value to a file of /proc, /sys or a cgroup. Undoing writes the previous value.
    WriteFile {
        /// Absolute path.
        path: PathBuf,
        /// Without the trailing newline.
        value: String,
        /// Whether the kernel may reject the write, as for interrupts that are bound to one core. After a
        /// rejected write, the value is unchanged and the plan continues.
        may_refuse: bool,
    },
    /// Install a configuration file, and create missing parent folders. Undoing restores the previous file.
    AddFile {
        /// Absolute path.
        path: PathBuf,
        /// The complete content.
        text: String,
    },
    /// Create a folder, usually a cgroup. Undoing also removes sockets that programs left in it.
    AddDirectory {
        /// A path that does not exist.
        path: PathBuf,
    },
    /// Move all tasks from one cpuset (cgroup v1) to another. Tasks that the kernel does not move, such as
    /// per-core kernel threads, stay.
    MoveTasks {
        /// Folder of the source cpuset.
        from: PathBuf,
        /// Folder of the target cpuset; undoing moves its tasks back.
        to: PathBuf,
        /// Processes that stay, with all their threads.
        keep: Vec<i32>,
    },
    /// Reserve huge pages of the default size in addition to the existing ones.
    AddHugePages {
        /// Number of pages to add.
        pages: u64,
    },
    /// Create an instance of the kernel's trace buffers. Undoing removes it with all its settings.
    AddTraceInstance {
        /// A name that is not in use.
        name: String,
    },
    /// Create the files and cgroups that a container runtime needs. Undoing kills the processes in the
    /// container.
    AddContainer { container: ContainerSpec },
}

impl Step {
    /// Short name of the changed object, for messages.
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
            Step::PrepareNamespaces => write!(f, "prepare {object} for network namespaces"),
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
                write!(f, "add neighbor {address} at {mac} to {object}")
            }
            Step::AddRoute { destination, prefix_len, gateway, .. } => {
                write!(f, "route {destination}/{prefix_len} via {gateway} on {object}")
            }
            Step::SetGro { on, .. } => {
                write!(f, "set GRO of {object} {}", if *on { "on" } else { "off" })
            }
            Step::SetSysctl { value, .. } => write!(f, "set {object} to {value}"),
            Step::DisableIpv6 { .. } => write!(f, "disable IPv6 in {object}"),
            Step::WriteFile { value, may_refuse, .. } => {
                write!(f, "write {value:?} to {object}{}", if *may_refuse { ", if allowed" } else { "" })
            }
            Step::AddFile { text, .. } => {
                write!(f, "write a file of {} lines to {object}", text.lines().count())
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

/// A list of steps. They are applied in order and undone in reverse order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Creates an empty plan.
    pub fn new() -> Self {
        Plan::default()
    }

    /// Appends a step. The first [`Step::AddNamespace`] is preceded by [`Step::PrepareNamespaces`].
    pub fn push(&mut self, step: Step) -> &mut Self {
        if matches!(step, Step::AddNamespace { .. }) && !self.steps.contains(&Step::PrepareNamespaces) {
            self.steps.push(Step::PrepareNamespaces);
        }
        self.steps.push(step);
        self
    }

    /// The steps, in the order in which they are applied.
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

/// Prints one numbered line per step.
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
    fn prints_steps_in_order() {
        let mut plan = Plan::new();
        plan.push(Step::AddNamespace { name: "g".into() }).push(Step::AddNamespace { name: "d".into() });
        let end = |namespace: Option<&str>, link: &str| VethEnd {
            namespace: namespace.map(Into::into),
            link: link.into(),
            mac: None,
        };
        plan.push(Step::AddVeth { a: end(Some("g"), "out"), b: end(None, "tap") });
        plan.push(Step::WriteFile { path: "/proc/x".into(), value: "1".into(), may_refuse: true });
        let expected = "  1. prepare /run/netns for network namespaces
  2. add network namespace g
  3. add network namespace d
  4. add veth g:out to host:tap
  5. write \"1\" to /proc/x, if allowed
";
        assert_eq!(plan.to_string(), expected);
    }

    #[test]
    fn step_survives_json_round_trip() {
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
