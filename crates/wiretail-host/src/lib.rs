//! All Linux-specific code that changes the host. Every change made here can be undone.
//!
//! A change is described as data before it is made. A dry run prints a [`Plan`] of [`Step`]s. Each step is
//! written to the [`Journal`] and synced before the host is changed. Undoing needs only the journal, so
//! [`clean`] can restore the host after a run was killed.
//!
//! - `step`: steps and plans as data; `changes`: applying and undoing them, the journal, leftovers;
//! - `network`: namespaces, netlink; `cpu`: cores, tasks, threads; `facts`: reading the host;
//! - [`deploy`]: programs in a container or a virtual machine; [`energy`]: power meters;
//! - [`trace`]: recording kernel events on selected cores; `files`: values in `/proc` and `/sys`, tracefs;
//! - `processes`: the owner of a journal; `sys`: the calls that need `unsafe`.
//!
//! Invariant: on the host, this crate runs no shell except for the commands of an experiment (`host.before`,
//! `host.after` and the command of an energy meter). It starts container runtimes and virtual machine monitors
//! directly as programs. Reading the host is always allowed
//! and needs no privileges. Callers must obtain the user's consent before they apply a step.

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
pub use changes::commands::COMMAND_LIMIT;
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
pub use network::namespace::{NAMESPACE_FOLDER, Namespace, is_of_namespace, run_in};
pub use network::netlink::generic::takes_redirected_frames;
pub use network::netlink::{Link, LinkTraffic, Netlink};
pub use step::{CommandSpec, Plan, Step, VethEnd};
pub use wiretail_schema::run::HostSnapshot;
pub use wiretail_schema::units::cores::CoreSet;
