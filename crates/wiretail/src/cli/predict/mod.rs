//! Arguments of `wiretail predict`.

pub mod queueing;

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use wiretail_schema::prediction::deployments::OverloadBounds;
use wiretail_schema::prediction::interrupt::InterruptSpec;
use wiretail_schema::units::Duration;

use super::{count, rate};

#[derive(Debug, Args)]
pub struct PredictArgs {
    /// What is predicted
    #[command(subcommand)]
    pub what: Predict,
}

// What can be predicted.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Predict {
    /// The highest rate of a device, from two medians and its interrupts
    ///
    /// R_max = (1 s - d) / t. t, the core's time for a packet, is the median delay of the device less that of a forwarder
    /// without work in its place; d, what interrupts take of each second, is the sum of rate times length.
    Capacity(CapacityArgs),
    /// Which packets of a constant rate meet interrupts, and the pattern that the worst of them make
    ///
    /// Simulates one core that serves packets in the order in which they come, and that interrupts take away. A packet
    /// waits for the interrupt that it meets, and behind the packets that met one.
    Interrupts(InterruptsArgs),
    /// From the highest delays of two captures, those to come: the packet that comes once in 40 hours
    ///
    /// Fits a generalised Pareto distribution to the delays above a threshold, which is chosen by how well it fits.
    /// Refuses, with the reason, where none fits, where high delays come unevenly over time, and where the highest one is
    /// none that the others foretell.
    Tail(super::tail::TailArgs),
    /// Simulate the path: delays, loss and overload at any rate, burst and batch size
    ///
    /// Packets wait in a ring for a server that takes batches of it and is taken away by interrupts. Deterministic for a
    /// seed; tens of millions of packets a second.
    Queueing(queueing::QueueingArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict capacity --dut-median 11.4us --forwarder-median 3.2us \\
      --interrupt 'LOC 250/s 3.2us' --interrupt 'IWI 7500/90s 4us' --overload 80kpps..90kpps
  wiretail predict capacity --from docs/kpi/capacity-snort.toml --report capacity.html
  wiretail predict capacity --run runs/suricata --dut 2 --forwarder 1   # trial 2 was traced
  wiretail predict capacity --run runs/suricata --dut 2 --forwarder 1 \\
      --cpu 2 --interrupt-cost LOC=3.2us

'250/s' is taken as exact; of '7500/90s', 7500 counted in 90 s, the confidence interval is
carried through. Numbers in [brackets] are 95 % confidence intervals, by interval arithmetic:
every input at its worst end.
What it means, and where it fails: docs/kpi/capacity.md")]
pub struct CapacityArgs {
    /// Median delay through the device, at a rate without queues
    #[arg(long, value_name = "DURATION", requires = "forwarder_median", conflicts_with_all = ["run", "from"])]
    pub dut_median: Option<Duration>,
    /// Median delay through a forwarder that does no work, in the same deployment and at the same rate
    #[arg(long, value_name = "DURATION", requires = "dut_median")]
    pub forwarder_median: Option<Duration>,
    /// What interrupts the device's core: a name, how often, how long; may be repeated
    #[arg(long = "interrupt", value_name = "NAME RATE LENGTH")]
    pub interrupts: Vec<InterruptSpec>,
    /// What interrupts take of each second, where only their sum is known
    #[arg(long, value_name = "DURATION")]
    pub interrupt_time: Option<Duration>,
    /// The overload as measured: the highest rate that was carried, and the lowest that was not
    #[arg(long, value_name = "A..B")]
    pub overload: Option<OverloadBounds>,

    /// Take the medians from the trials of a run, and the interrupts from the device's trial
    ///
    /// Where the device's trial is one of a search, R_max is held against the rates that the search found.
    #[arg(long, value_name = "RUN", requires_all = ["dut", "forwarder"], conflicts_with = "from")]
    pub run: Option<PathBuf>,
    /// Of the run: the number of the device's trial
    #[arg(long, value_name = "N", requires = "run")]
    pub dut: Option<usize>,
    /// Of the run: the number of the forwarder's trial
    #[arg(long, value_name = "N", requires = "run")]
    pub forwarder: Option<usize>,
    /// Of the run: how long an interrupt of the counters takes, where the trial was not traced; may be repeated
    #[arg(long = "interrupt-cost", value_name = "NAME=DURATION", requires = "run", value_parser = cost)]
    pub costs: Vec<(String, Duration)>,
    /// Of the run: the device's core, whose counters are meant
    #[arg(long, value_name = "N", requires = "run")]
    pub cpu: Option<u32>,

    /// Take several deployments from a TOML file: tables [[deployment]] with name, dut-median, forwarder-median,
    /// interrupts, interrupt-time, overload
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interrupts", "interrupt_time", "overload"])]
    pub from: Option<PathBuf>,

    /// Write a page: predicted rates beside the measured ones, and what they were computed from
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/capacity.schema.json)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict interrupts --rate 10kpps --interrupt '250Hz 12us' --interrupt '0.1/s 600us'
  wiretail predict interrupts --rate 10052pps --interrupt 'tick 250Hz 10.5us 0us' --figure waits.svg
  wiretail predict interrupts --rate 10kpps --interrupt '250Hz 12us' pre.pcap post.pcap

An interrupt is [NAME] RATE LENGTH [PHASE]: how often, how long, and when first since the first
packet; a phase that is not given comes from the seed. The pattern hangs on the last digit of the
rate: look at the table for rates beside it.
Model and closed forms: docs/kpi/capacity.md")]
pub struct InterruptsArgs {
    /// Offered load, such as 10kpps or 10052pps
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: NonZeroU64,
    /// An interrupt; may be repeated
    #[arg(long = "interrupt", value_name = "RATE LENGTH", required = true)]
    pub interrupts: Vec<InterruptSpec>,
    /// Packets sent, such as 300000 or 300k; 10M at most
    #[arg(long, value_name = "N", default_value = "300k", value_parser = count)]
    pub packets: NonZeroU64,
    /// The core's time for a packet
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub service: Duration,
    /// Seed of the phases that are not given
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Capture of the ingress wire, to set a measurement beside it
    #[arg(requires = "post")]
    pub pre: Option<PathBuf>,
    /// Capture of the egress wire
    pub post: Option<PathBuf>,
    /// How a packet is recognised in these captures, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto", requires = "post")]
    pub key: String,
    /// Leave out packets of the captures sent in the first part of the measurement, as warm-up
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "post")]
    pub trim: Duration,
    /// Write the worst packets over time as an SVG
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
    /// Write a page: the pattern as simulated and as measured, and how it hangs on the rate
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/sampling.schema.json)
    #[arg(long)]
    pub json: bool,
}

fn cost(text: &str) -> Result<(String, Duration), String> {
    let expected = "expected a name of /proc/interrupts and a duration, such as LOC=3.2us";
    let (name, length) = text.split_once('=').ok_or(expected)?;
    let length: Duration = length.parse().map_err(|error| format!("{error}"))?;
    if name.is_empty() || length.ns < 0 { Err(expected.to_owned()) } else { Ok((name.to_owned(), length)) }
}
