//! What `wiretail predict queueing` can be asked for.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use wiretail_schema::prediction::interrupt::InterruptSpec;
use wiretail_schema::prediction::queueing::{Interrupts, Length, Release};
use wiretail_schema::units::Duration;
use wiretail_schema::units::rate::Rate;

use crate::cli::count;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict queueing --rate 10kpps --service 30us
  wiretail predict queueing --rate 10kpps,20kpps,30kpps,40kpps --service 30us --interrupt '250 Hz 12us'
  wiretail predict queueing --rate 10kpps --burst 64 --batch 4 --release batch --service 1us      # a ramp; with 32, two steps
  wiretail predict queueing --rate 60kpps --service 11.4us --service-dist exponential --arrivals poisson --json | jq .loads

From a measured run, and against others:
  wiretail run experiments/prediction/queueing.toml --out runs/queueing --allow-system-changes
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --rate 20kpps,50kpps,80kpps     # another load, another sender
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --validate runs/queueing --report queueing.html
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --save device.json
  wiretail predict queueing --model device.json --validate runs/later

Exit code: 0 fine; 1 a validated prediction is beyond its limit; 2 error.
Model, formulas and limits: docs/kpi/queueing.md.")]
pub struct QueueingArgs {
    /// Packets offered a second, such as 10kpps; several, separated by commas, make a row each
    #[arg(
        long = "rate",
        value_name = "RATE",
        required_unless_present_any = ["validate", "save", "calibrate", "calibrate_captures", "arrival_times"],
        value_delimiter = ',',
        value_parser = rate
    )]
    pub rates: Vec<u64>,
    /// When packets arrive
    #[arg(long, value_enum, default_value_t = ArrivalChoice::Constant)]
    pub arrivals: ArrivalChoice,
    /// Packets that arrive together; the rate stays what it is, over all
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub burst: NonZeroU64,
    /// From one packet of a burst to the next [default: as calibrated, else 0s]
    #[arg(long, value_name = "DURATION")]
    pub spacing: Option<Duration>,
    /// Packets that arrive when this file says: a time in ns on each line, in order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rates", "burst"])]
    pub arrival_times: Option<PathBuf>,

    /// Work for each packet, on average
    #[arg(
        long,
        value_name = "DURATION",
        required_unless_present_any = ["service_samples", "calibrate", "calibrate_captures", "model"]
    )]
    pub service: Option<Duration>,
    /// How it is distributed
    #[arg(long, value_enum, default_value_t = ServiceChoice::Constant)]
    pub service_dist: ServiceChoice,
    /// Work for each packet, drawn from the lines of this file: measured ones, in ns
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "calibrate", "calibrate_captures", "model"])]
    pub service_samples: Option<PathBuf>,
    /// Work for each batch besides
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub overhead: Duration,
    /// From the arrival of a packet that finds the device idle until it starts: a sleeping thread's way to wake up
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub wake: Duration,
    /// How it is distributed
    #[arg(long, value_enum, default_value_t = ServiceChoice::Constant)]
    pub wake_dist: ServiceChoice,
    /// Packets that the device takes at a time, at most [default: as calibrated, else 32]
    #[arg(long, value_name = "N")]
    pub batch: Option<u64>,
    /// When packets leave the device [default: as calibrated, else immediate]
    #[arg(long, value_enum)]
    pub release: Option<ReleaseChoice>,
    /// Packets that may wait; one that finds as many is lost [default: 8192 of a calibrated skeleton, else 4096]
    #[arg(long, value_name = "N")]
    pub ring: Option<u64>,
    /// Interrupts that take the core away, such as '250 Hz 12us'; may be repeated
    ///
    /// [NAME] RATE LENGTH [PHASE], as for predict capacity and interrupts: 'LOC 250/s 12us'. At the beat of a clock and each as
    /// long, unless 'poisson' (times) or 'exponential' (lengths) stands behind it: '250 Hz 12us poisson exponential'. A phase that
    /// is not given is drawn by the seed.
    #[arg(long = "interrupt", value_name = "SOURCE", value_parser = interrupts)]
    pub interrupts: Vec<Interrupts>,
    /// By how many millionths the beat of interrupts is faster than stated, as the device's clock is not the sender's
    ///
    /// Without it, 10 kpps would meet 250 Hz at the same phase for ever: either each fortieth packet is hit, or none.
    #[arg(long, value_name = "PPM", default_value_t = 10.0, allow_hyphen_values = true)]
    pub clock_offset: f64,
    /// Everything else on the way, for each packet; negative where it leaves before its work is done
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub transfer: Duration,

    /// Take the device from the valid trials of a run, or those of that number, name or pattern of names ('*-5kpps-*'); may be
    /// repeated
    ///
    /// Needs packets that waited for others, and some that found the device idle: bursts or Poisson arrivals at a low mean rate
    /// (experiments/prediction/queueing.toml).
    #[arg(
        long,
        value_name = "RUN[:TRIAL]",
        conflicts_with_all = ["service", "overhead", "wake", "transfer", "interrupts", "model"]
    )]
    pub calibrate: Vec<String>,
    /// Take the device from two captures, of the ingress and the egress wire
    #[arg(
        long,
        value_names = ["PRE", "POST"],
        num_args = 2,
        conflicts_with_all = ["calibrate", "service", "overhead", "wake", "transfer", "interrupts", "model"]
    )]
    pub calibrate_captures: Vec<PathBuf>,
    /// A forwarder without work in the device's place: enough where no packet waited for another, and weaker
    #[arg(long, value_name = "RUN[:TRIAL]", requires = "calibrate")]
    pub baseline: Option<String>,
    /// Take the device from a file that --save wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "overhead", "wake", "transfer", "interrupts"])]
    pub model: Option<PathBuf>,
    /// Write the device into a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Hold it against the valid trials of a run, or those of that number, name or pattern; may be repeated
    ///
    /// Loads by which it was calibrated are left out. The others are simulated, with batch and release, as often as makes a
    /// million packets; of repeats the median counts, measured and simulated. The median delay must be within 10 %, the 99th
    /// percentile within 20 %. Beside that, each is replayed: with the arrivals at its ingress tap, and with the stalls
    /// of its device where it lists them (stalls.csv).
    #[arg(long, value_name = "RUN[:TRIAL]")]
    pub validate: Vec<String>,
    /// Write a page with both distributions of each validated trial
    #[arg(long, value_name = "FILE", requires = "validate")]
    pub report: Option<PathBuf>,

    /// Packets simulated at each rate, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub packets: NonZeroU64,
    /// Seed of everything random; the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON (docs/formats/queueing.md)
    #[arg(long)]
    pub json: bool,
}

/// When packets arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalChoice {
    /// Evenly spaced, or in evenly spaced bursts
    Constant,
    /// With independent, exponentially distributed gaps
    Poisson,
}

/// How the work for a packet is distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServiceChoice {
    /// Each takes as long
    Constant,
    /// Exponentially
    Exponential,
}

/// When packets leave the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReleaseChoice {
    /// Each as soon as it is served
    Immediate,
    /// All of a batch when the last of them is served
    Batch,
}

impl From<ReleaseChoice> for Release {
    fn from(choice: ReleaseChoice) -> Self {
        match choice {
            ReleaseChoice::Immediate => Self::Immediate,
            ReleaseChoice::Batch => Self::Batch,
        }
    }
}

fn rate(text: &str) -> Result<u64, String> {
    text.parse::<Rate>().map(|rate| rate.pps).map_err(|error| format!("expected {}", error.expected))
}

/// A source of interrupts as all predictions read it, and how its times and lengths are distributed.
fn interrupts(text: &str) -> Result<Interrupts, String> {
    let expected =
        "expected a rate and a length, a name before and poisson or exponential behind them: LOC 250 Hz 12us";
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let (mut poisson, mut exponential) = (false, false);
    while let Some(word @ ("poisson" | "exponential")) = words.last().copied() {
        poisson |= word == "poisson";
        exponential |= word == "exponential";
        words.pop();
    }
    let spec: InterruptSpec = words.join(" ").parse().map_err(|_| expected)?;
    let per_second = spec.rate.hz();
    if per_second <= 0.0 {
        return Err("expected more than 0 Hz; without interrupts, leave the option out".to_owned());
    }
    let ns = spec.length.ns as f64;
    let length = if exponential { Length::Exponential(ns) } else { Length::Constant(ns) };
    match (poisson, spec.phase) {
        (true, Some(_)) => {
            Err("expected no time of the first behind the length: poisson has no beat".to_owned())
        }
        (true, None) => Ok(Interrupts::Poisson { per_second, length }),
        (false, phase) => {
            let phase_ns = phase.map(|phase| phase.ns as f64);
            Ok(Interrupts::Periodic { period_ns: 1e9 / per_second, phase_ns, length })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_interrupts_are_read() {
        let beat = |period_ns, length| Interrupts::Periodic { period_ns, phase_ns: None, length };
        assert_eq!(interrupts("250 Hz 12us"), Ok(beat(4e6, Length::Constant(12_000.0))));
        assert_eq!(interrupts("0.5Hz 1ms exponential"), Ok(beat(2e9, Length::Exponential(1e6))));
        let poisson = Interrupts::Poisson { per_second: 2000.0, length: Length::Exponential(900.0) };
        assert_eq!(interrupts("2000 Hz 900ns exponential poisson"), Ok(poisson));
        // As the other predictions have it.
        assert_eq!(interrupts("LOC 250/s 12us"), interrupts("250 Hz 12us"));
        let first =
            Interrupts::Periodic { period_ns: 4e6, phase_ns: Some(5e3), length: Length::Constant(12_000.0) };
        assert_eq!(interrupts("250Hz 12us 5us"), Ok(first));
        assert!(interrupts("250Hz 12us 5us poisson").is_err_and(|error| error.contains("no beat")));
        for wrong in [
            "",
            "poisson",
            "250",
            "250 Hz",
            "250 Hz 12",
            "x Hz 1us",
            "250 Hz 1us often",
            "12us 250 Hz",
            "-1 Hz 1us",
            "inf Hz 1us",
        ] {
            assert!(interrupts(wrong).is_err_and(|error| error.contains("250 Hz 12us")), "{wrong}");
        }
        for none in ["0 Hz 12us", "0/s 1us poisson"] {
            assert!(interrupts(none).is_err_and(|error| error.contains("more than 0 Hz")), "{none}");
        }
    }
}
