//! The seam to Linux: all that Wiretail changes on a host goes through here, and all of it is undone.
//!
//! A change is data before it is done: a [`Plan`] of [`Step`]s is printed by a dry run, and each step
//! is in the [`Journal`], synced, before the host is touched. Undoing needs the journal only, so
//! [`clean`] puts back what a run left that was killed.
//!
//! - `step`: the steps and the plan, as data; `changes`: doing and undoing them, journal, leftovers;
//! - `network`: namespaces, netlink; `cpu`: cores, tasks, threads; `facts`: reading the host;
//! - [`deploy`]: a program in a container or a virtual machine; [`energy`]: power meters;
//! - [`trace`]: recording what the kernel does on some cores; `files`: values in `/proc` and `/sys`,
//!   the tracing file system; `processes`: who owns a journal; `sys`: the calls that need `unsafe`.
//!
//! Nothing here shells out; what runs containers and machines is started as a program is. Reading is always allowed and needs no privileges; whoever applies a step
//! has asked the user before.

mod changes;
mod cpu;
pub mod deploy;
pub mod energy;
mod error;
mod facts;
mod files;
mod network;
mod processes;
mod step;
mod sys;
pub mod trace;

pub use changes::claim::CoreClaim;
pub use changes::journal::{JOURNAL_FOLDER, Journal, KEPT_FOLDER, Undone, name_prefix};
pub use changes::leftovers::{CleanReport, Leftover, LeftoverState, clean, leftovers};
pub use cpu::cores::{Cores, Roles, move_tasks, quieten};
pub use cpu::idle::{Awake, sleeps};
pub use cpu::load::{CoreTimes, running_on, steal_ns};
pub use cpu::threads::{is_realtime, place_thread, threads_named};
pub use error::HostError;
pub use facts::privileges::{Missing, Privileges, privileges};
pub use facts::record::{RecordPlan, record};
pub use facts::snapshot::snapshot;
pub use facts::state::{Difference, HostState, Kind};
pub use network::loopback::own_loopback;
pub use network::mac::MacAddress;
pub use network::namespace::{NAMESPACE_FOLDER, Namespace, run_in};
pub use network::netlink::generic::takes_redirected_frames;
pub use network::netlink::{Link, LinkTraffic, Netlink};
pub use step::{Plan, Step, VethEnd};
pub use wiretail_schema::run::HostSnapshot;
pub use wiretail_schema::units::cores::CoreSet;
