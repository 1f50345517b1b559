//! The pure heart of Wiretail: from packet records to numbers.
//!
//! Invariant: nothing here reads a file, a clock or the environment, prints, or starts a thread.
//! Times, seeds and sizes are arguments; results are data of `wiretail-schema`.
//!
//! A packet record takes this way:
//!
//! 1. [`tap`]: each tap by itself: rate, gaps, quality of the stamps;
//! 2. [`probe`]: the first packets of both taps: which key recognises them, do the clocks agree;
//! 3. [`matching`]: both taps merged: what became of every packet, streaming;
//! 4. [`measurement`]: the outcomes tallied: [`counts`] (exact delays), [`reordering`],
//!    [`variation`], [`worst`], [`intervals`];
//! 5. [`summarize`](mod@summarize): the tallies as a document, with [`quantile`] for percentiles and their confidence
//!    intervals, [`verdict`] for the budgets and [`findings`](mod@findings) for what the reader must know;
//! 6. [`figures`](mod@figures): the plots as data; [`comparison`]: several documents side by side;
//!    [`overload`](mod@overload): from which load on a device no longer keeps up; [`ranking`]: which device is the
//!    fastest; [`shares`]: whose the delay is, the devices' or the infrastructure's; [`overhead`]: what tracing changes
//!    of what it observes; [`energy`](mod@energy): what packets take of it.
//!
//! A soak has too many packets for that: [`live`] matches them while they come, in steps, and tells
//! what became of them every second; [`soak`] makes the same document of these seconds.
//!
//! Causes: [`attribution`] by the trace of the kernel; as far as they can be told without one, [`interrupts`] (which counter rose when packets were late)
//! and [`periodicity`] (what recurs, and by which clock or count).
//!
//! What another load would do: [`capacity`] (the highest rate, by a formula) and [`sampling`] (which packets meet
//! interrupts, by a simulation). What comes next: [`tail`] (the highest delays as a distribution of their own).
//!
//! What a core is taken away for, without packets: [`noise`](mod@noise), which no forwarder on it can be better than.
//! How a host should be set up: [`audit`] and [`tuning`]; what each setting is worth: [`proof`](mod@proof).
//!
//! What follows from all of it for whoever ran it: [`recommend`](mod@recommend), each statement with what it rests on.
//!
//! Whether the causes are told rightly is judged by planted ones: [`truth`].
//!
//! What other loads would do is predicted: [`twin`], a simulation of the path.
//!
//! [`published`] stands beside this way: the semantics of the published PostgreSQL pipeline, for
//! results that must equal its own to the byte.

pub mod attribution;
pub mod audit;
pub mod calibration;
pub mod capacity;
pub mod comparison;
pub mod counts;
pub mod energy;
pub mod figures;
pub mod findings;
pub mod interrupts;
pub mod intervals;
pub mod live;
pub mod matching;
pub mod measurement;
pub mod noise;
pub mod overhead;
pub mod overload;
pub mod periodicity;
pub mod probe;
pub mod proof;
pub mod published;
pub mod quantile;
pub mod ranking;
pub mod recommend;
pub mod reordering;
pub mod sampling;
pub mod search;
pub mod shares;
pub mod soak;
pub mod summarize;
pub mod tail;
pub mod tap;
pub mod truth;
pub mod tuning;
pub mod twin;
pub mod variation;
pub mod verdict;
pub mod worst;
