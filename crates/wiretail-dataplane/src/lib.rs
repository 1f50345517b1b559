//! The packet loops, which send packets at planned times, forward packets, and timestamp packets on both
//! wires.
//!
//! A trial has three roles. Each has a plan, which is plain data, and a loop. Before the loop starts, `open`
//! or `new` allocates all memory and does everything that can fail:
//!
//! - [`generator`]: the load generator. `plan` or `recording` defines the packets to send, `schedule` their
//!   times of departure, and `frame` the packet format;
//! - [`skeleton`]: the minimal forwarder, the smallest possible device under test, with known delays and
//!   optional known `faults`;
//! - [`timestamper`]: taps on the wires that record into memory for a whole trial.
//!
//! Further measurement programs: [`redirect`], forwarders that run in the kernel; [`spin`], which measures
//! the cost of interrupts; [`noise`], which measures how long a core is taken away; and [`interference`], which
//! delays packets intentionally at known times to validate explanations.
//!
//! Supporting modules: [`port`] sends and receives frames, and `sys` contains all `unsafe` code.
//! [`placement`] sets core, priority, memory and network namespace of a thread. [`clock`] reads the clocks.
//! [`counters`] and `lateness` hold the counts of the loops, and `stalls` the times at which a loop lost its
//! core. [`error`] defines the errors.
//!
//! Invariants: between its first and last packet, a loop does not allocate, log or format, and makes no
//! system calls except those that move packets. It only counts; other threads read the counters
//! ([`SharedCounters`]). This crate reads and writes no files and creates no processes or namespaces.

pub mod clock;
pub mod counters;
pub mod error;
pub mod generator;
pub mod interference;
pub mod noise;
pub mod placement;
pub mod port;
pub mod redirect;
pub mod skeleton;
#[allow(unsafe_code)]
mod sys;
pub mod timestamper;

pub use clock::{ClockOffset, clock_offset, monotonic_ns, realtime_ns};
pub use counters::lateness::Histogram;
pub use counters::stalls::{STALL_NS, Stall, StallLog};
pub use counters::{CounterReading, SharedCounters};
pub use error::DataplaneError;
pub use generator::frame::{Addresses, LongSignature, Signature, read_signature};
pub use generator::marks::Marks;
pub use generator::plan::{End, GeneratorPlan, Pattern, Sizes, Stream};
pub use generator::recording::Recording;
pub use generator::{Generator, GeneratorReport};
pub use noise::spin::{SpinPlan, interfere, spin};
pub use noise::{NoiseLog, NoisePlan};
pub use placement::{Placed, Placement, in_namespace};
pub use port::af_packet::{PacketTx, TxMode, TxPlan};
pub use port::af_xdp::{XdpMode, XdpTx};
pub use port::{PortKind, PortSpec, TxPort, open_tx};
pub use redirect::{Redirect, RedirectCounts};
pub use skeleton::faults::{Fault, FaultPlan, FaultSchedule};
pub use skeleton::{Counts, Delay, Release, Skeleton, SkeletonPlan, SkeletonReport};
pub use timestamper::{Direction, RingPlan, TapReport, TapSpec, TimestampSource, Timestamper};
