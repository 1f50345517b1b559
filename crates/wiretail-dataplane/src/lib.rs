//! The hot loops: packets out at planned times, packets through, packets stamped on both wires.
//!
//! Three roles of a trial, each a plain plan, an `open` or `new` that does all that may fail or needs
//! memory, and a loop that does nothing but its work:
//!
//! - [`generator`]: the load generator. What it sends is a [`plan`] (or a [`recording`]), when is a
//!   [`schedule`], how the packets look is in [`frame`];
//! - [`skeleton`]: the minimal forwarder, the smallest possible device under test, with known delays
//!   and known [`faults`] on request;
//! - [`timestamper`]: taps on the wires, into memory that holds a whole trial.
//!
//! And a forwarder without a loop: [`redirect`], programs that the kernel runs; and a loop without packets: [`spin`],
//! which finds out what interrupts cost; [`noise`], which watches for how long a core is taken away.
//!
//! What delays packets on purpose, at known times, so that whoever names causes can be checked: [`disturb`].
//!
//! Beneath them: [`port`] (where frames leave and enter; `port::sys` is the only place with `unsafe`),
//! [`placement`] (core, priority, memory, network namespace of a thread), [`clock`], [`counters`] and
//! [`lateness`] (what the loops count into), [`stalls`] (when a loop's core was taken from it), [`error`].
//!
//! Invariants: between its first and its last packet a loop allocates nothing, logs nothing, formats
//! nothing, and makes no system call but those that move packets. It counts; others read the counters
//! ([`SharedCounters`]). No file is read or written here, and no process or namespace is made.

pub mod clock;
pub mod counters;
pub mod disturb;
pub mod error;
pub mod faults;
pub mod frame;
pub mod generator;
pub mod lateness;
pub mod marks;
pub mod noise;
pub mod placement;
pub mod plan;
pub mod port;
pub mod recording;
pub mod redirect;
pub mod schedule;
pub mod skeleton;
pub mod spin;
pub mod stalls;
pub mod timestamper;

pub use clock::{ClockOffset, clock_offset, monotonic_ns, realtime_ns};
pub use counters::{CounterReading, SharedCounters};
pub use error::DataplaneError;
pub use faults::{Fault, FaultPlan, FaultSchedule};
pub use frame::{Addresses, LongSignature, Signature, read_signature};
pub use generator::{Generator, GeneratorReport};
pub use lateness::Histogram;
pub use marks::Marks;
pub use noise::{NoiseLog, NoisePlan};
pub use placement::{Placed, Placement, in_namespace};
pub use plan::{End, GeneratorPlan, Pattern, Sizes, Stream};
pub use port::af_packet::{PacketTx, TxMode, TxPlan};
pub use port::af_xdp::{XdpMode, XdpTx};
pub use port::{PortKind, PortSpec, TxPort, open_tx};
pub use recording::Recording;
pub use redirect::{Redirect, RedirectCounts};
pub use skeleton::{Counts, Delay, Release, Skeleton, SkeletonPlan, SkeletonReport};
pub use spin::{SpinPlan, disturb, spin};
pub use stalls::{STALL_NS, Stall, StallLog};
pub use timestamper::{Direction, RingPlan, StampSource, TapReport, TapSpec, Timestamper};
