//! The seam to Linux: all that Wiretail changes on a host goes through here, and all of it is undone.
//!
//! A change is data before it is done: a [`Plan`] of [`Step`]s is printed by a dry run, and each step
//! is in the [`Journal`], synced, before the host is touched. Undoing needs the journal only, so
//! [`clean`] puts back what a run left that was killed.
//!
//! | module | what |
//! |---|---|
//! | `step` | the steps and the plan: data, printable |
//! | `apply` | doing a step and undoing it |
//! | `journal` | write down, then do; undo in reverse |
//! | `leftovers` | what dead runs left, and putting it back |
//! | `namespace` | network namespaces with a name; running inside one |
//! | `netlink` | links, addresses, neighbours, routes, GRO: netlink without a library |
//! | `configuration` | files of configuration: put there, and put back |
//! | `cores` | which cores there are, who gets which, moving others off one |
//! | `claim` | one run at a time on a core |
//! | `load` | how busy a core is, and with whom |
//! | `tasks` | moving tasks between cpusets |
//! | `threads` | threads of other programs: found, pinned, given a priority |
//! | `processes` | who owns a journal, who is inside a namespace |
//! | `hugepages` | huge pages, more of them for a while |
//! | `privileges` | what this process may do |
//! | `idle` | keeping cores from sleeping, and whether they did |
//! | `energy` | what the host takes of energy: the processor's counters, or a command that prints watts |
//! | `deploy` | a program in a container or a virtual machine |
//! | `snapshot` | what a measurement ran on |
//! | `record` | all that an audit reads of a host, as one text |
//! | `state` | the host before and after, compared |
//! | `trace` | recording what the kernel does on some cores |
//! | `loopback` | a thread's own loopback, whose packets a chosen core receives |
//! | `sys` | the calls that need `unsafe` |
//!
//! Nothing here shells out; what runs containers and machines is started as a program is. Reading is always allowed and needs no privileges; whoever applies a step
//! has asked the user before.

mod apply;
mod claim;
mod configuration;
mod cores;
pub mod deploy;
pub mod energy;
mod error;
mod hugepages;
mod idle;
mod journal;
mod leftovers;
mod load;
mod loopback;
mod mac;
mod namespace;
mod netlink;
mod privileges;
mod processes;
mod record;
mod snapshot;
mod state;
mod step;
mod sys;
mod tasks;
mod threads;
pub mod trace;

pub use claim::CoreClaim;
pub use cores::{Cores, Roles, move_tasks, quieten};
pub use error::HostError;
pub use idle::{Awake, sleeps};
pub use journal::{JOURNAL_FOLDER, Journal, KEPT_FOLDER, Undone, name_prefix};
pub use leftovers::{CleanReport, Leftover, LeftoverState, clean, leftovers};
pub use load::{CoreTimes, running_on, steal_ns};
pub use loopback::own_loopback;
pub use mac::MacAddress;
pub use namespace::{NAMESPACE_FOLDER, Namespace, run_in};
pub use netlink::generic::takes_redirected_frames;
pub use netlink::{Link, LinkTraffic, Netlink};
pub use privileges::{Missing, Privileges, privileges};
pub use record::{RecordPlan, record};
pub use snapshot::snapshot;
pub use state::{Difference, HostState, Kind};
pub use step::{Plan, Step, VethEnd};
pub use threads::{is_realtime, place_thread, threads_named};
pub use wiretail_schema::cores::CoreSet;
pub use wiretail_schema::run::HostSnapshot;
