//! The hot loops: packets out at planned times, packets through, packets stamped on both wires.
//!
//! Three roles of a trial, each a plain plan, an `open` or `new` that does all that may fail or needs
//! memory, and a loop that does nothing but its work:
//!
//! - [`generator`]: the load generator. What it sends is a `plan` (or a `recording`), when is a
//!   `schedule`, how the packets look is in `frame`;
//! - [`skeleton`]: the minimal forwarder, the smallest possible device under test, with known delays
//!   and known `faults` on request;
//! - [`timestamper`]: taps on the wires, into memory that holds a whole trial.
//!
//! And a forwarder without a loop: [`redirect`], programs that the kernel runs; and a loop without packets: [`spin`],
//! which finds out what interrupts cost; [`noise`], which watches for how long a core is taken away.
//!
//! What delays packets on purpose, at known times, so that whoever names causes can be checked: [`interfere`].
//!
//! Beneath them: [`port`] (where frames leave and enter; `sys` is the only place with `unsafe`),
//! [`placement`] (core, priority, memory, network namespace of a thread), [`clock`], [`counters`] and
//! `lateness` (what the loops count into), `stalls` (when a loop's core was taken from it), [`error`].
//!
//! Invariants: between its first and its last packet a loop allocates nothing, logs nothing, formats
//! nothing, and makes no system call but those that move packets. It counts; others read the counters
//! ([`SharedCounters`]). No file is read or written here, and no process or namespace is made.

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
