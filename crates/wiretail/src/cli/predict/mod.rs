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
    #[command(subcommand)]
    pub what: Predict,
}

// The predictions.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Predict {
    /// Predict the highest rate of a device, from two medians and its interrupts
    ///
    /// R_max = (1 s - d) / t. The core's time per packet, t, is the median delay of the device minus the
    /// median delay of a forwarder that does no work but is deployed in the same way. The interrupt time per
    /// second, d, is rate times length, summed over all interrupts.
    Capacity(CapacityArgs),
    /// Predict which packets of a constant-rate stream meet interrupts, and the pattern of the worst packets
    ///
    /// Simulates one core that serves packets in order of arrival and is preempted by interrupts. A packet
    /// waits for the interrupt that it meets, and for the delayed packets ahead of it.
    Interrupts(InterruptsArgs),
    /// Predict rare delays, such as one in 40 hours, from the highest delays of two captures
    ///
    /// Fits a generalized Pareto distribution to the delays above a threshold, which is chosen by goodness of
    /// fit. Refuses, with the reason, if no threshold fits, if high delays are unevenly distributed over
    /// time, or if the highest delay is inconsistent with the tail fitted to the others.
    Tail(super::tail::TailArgs),
    /// Simulate the path: delays, loss and overload at any rate, burst and batch size
    ///
    /// Packets wait in a ring for a server that takes batches from it and is preempted by interrupts.
    /// Deterministic for a given seed; simulates tens of millions of packets per second.
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

'250/s' is taken as exact. For '7500/90s', 7500 events counted in 90 s, the confidence interval of
the count is propagated. Numbers in [brackets] are 95 % confidence intervals, computed by
interval arithmetic, with every input at its worst end.
Meaning and limits: docs/kpi/capacity.md")]
pub struct CapacityArgs {
    /// Median delay through the device, at a rate that causes no queues
    #[arg(long, value_name = "DURATION", requires = "forwarder_median", conflicts_with_all = ["run", "from"])]
    pub dut_median: Option<Duration>,
    /// Median delay through a forwarder that does no work, in the same deployment and at the same rate
    #[arg(long, value_name = "DURATION", requires = "dut_median")]
    pub forwarder_median: Option<Duration>,
    /// Interrupts of the device's core: name, rate, length; may be repeated
    #[arg(long = "interrupt", value_name = "NAME RATE LENGTH")]
    pub interrupts: Vec<InterruptSpec>,
    /// Total interrupt time per second, if only the sum is known
    #[arg(long, value_name = "DURATION")]
    pub interrupt_time: Option<Duration>,
    /// Measured overload: the highest rate that was carried, and the lowest that was not
    #[arg(long, value_name = "A..B")]
    pub overload: Option<OverloadBounds>,

    /// Take the medians from the trials of a run, and the interrupts from the device's trial
    ///
    /// If the device's trial belongs to a search, R_max is compared with the rates that the search found.
    #[arg(long, value_name = "RUN", requires_all = ["dut", "forwarder"], conflicts_with = "from")]
    pub run: Option<PathBuf>,
    /// For --run: number of the device's trial
    #[arg(long, value_name = "N", requires = "run")]
    pub dut: Option<usize>,
    /// For --run: number of the forwarder's trial
    #[arg(long, value_name = "N", requires = "run")]
    pub forwarder: Option<usize>,
    /// For --run: duration of one interrupt, by name of the counter, if the trial was not traced; may be
    /// repeated
    #[arg(long = "interrupt-cost", value_name = "NAME=DURATION", requires = "run", value_parser = cost)]
    pub costs: Vec<(String, Duration)>,
    /// For --run: the device's core, whose interrupt counters are used
    #[arg(long, value_name = "N", requires = "run")]
    pub cpu: Option<u32>,

    /// Read deployments from a TOML file: tables [[deployment]] with name, dut-median, forwarder-median,
    /// interrupts, interrupt-time, overload
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interrupts", "interrupt_time", "overload"])]
    pub from: Option<PathBuf>,

    /// Write an HTML page with the predicted and measured rates, and the inputs of the prediction
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

An interrupt is [NAME] RATE LENGTH [PHASE]; PHASE is the time of the first interrupt after the first
packet. A phase that is not given is drawn from the seed. The pattern is sensitive to the last digit
of the rate: see the table for neighboring rates.
Model and closed forms: docs/kpi/capacity.md")]
pub struct InterruptsArgs {
    /// Offered load, such as 10kpps or 10052pps
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: NonZeroU64,
    /// Interrupt source; may be repeated
    #[arg(long = "interrupt", value_name = "RATE LENGTH", required = true)]
    pub interrupts: Vec<InterruptSpec>,
    /// Packets sent, such as 300000 or 300k, at most 10M
    #[arg(long, value_name = "N", default_value = "300k", value_parser = count)]
    pub packets: NonZeroU64,
    /// The core's time per packet
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub service: Duration,
    /// Seed for phases that are not given
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Capture of the ingress wire, to compare a measurement with the model
    #[arg(requires = "post")]
    pub pre: Option<PathBuf>,
    /// Capture of the egress wire
    pub post: Option<PathBuf>,
    /// Key by which a packet is matched in these captures, as in `wiretail analyze`
    #[arg(long, value_name = "RULE", default_value = "auto", requires = "post")]
    pub key: String,
    /// Warm-up at the start of the captures; packets sent during it are left out
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "post")]
    pub trim: Duration,
    /// Write a figure of the worst packets over time as SVG
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
    /// Write an HTML page with the simulated and the measured pattern, and its dependence on the rate
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the result as JSON (docs/formats/sampling.schema.json)
    #[arg(long)]
    pub json: bool,
}

fn cost(text: &str) -> Result<(String, Duration), String> {
    let expected = "expected a name from /proc/interrupts and a duration, such as LOC=3.2us";
    let (name, length) = text.split_once('=').ok_or(expected)?;
    let length: Duration = length.parse().map_err(|error| format!("{error}"))?;
    if name.is_empty() || length.ns < 0 { Err(expected.to_owned()) } else { Ok((name.to_owned(), length)) }
}
