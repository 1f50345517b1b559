//! Arguments of `wiretail predict queueing`.

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
  wiretail predict queueing --rate 10kpps,20kpps,30kpps --service 30us --interrupt '250 Hz 12us'
  wiretail predict queueing --rate 10kpps --burst 64 --batch 4 --release batch --service 1us
  wiretail predict queueing --rate 60kpps --service 11us --service-dist exponential --json

Calibrated by a run, and validated with others:
  wiretail run experiments/prediction/queueing.toml --out runs/queueing --allow-system-changes
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --rate 20kpps,50kpps
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --validate runs/queueing
  wiretail predict queueing --calibrate 'runs/queueing:*-14.99kpps-*' --save device.json
  wiretail predict queueing --model device.json --validate runs/later

Exit code: 0 success; 1 a validated prediction is outside its limit; 2 error.
Model, formulas and limits: docs/kpi/queueing.md.")]
pub struct QueueingArgs {
    /// Offered load, such as 10kpps; several rates, separated by commas, give one row each
    #[arg(
        long = "rate",
        value_name = "RATE",
        required_unless_present_any = ["validate", "save", "calibrate", "calibrate_captures", "arrival_times"],
        value_delimiter = ',',
        value_parser = rate
    )]
    pub rates: Vec<u64>,
    /// Arrival process
    #[arg(long, value_enum, default_value_t = ArrivalChoice::Constant)]
    pub arrivals: ArrivalChoice,
    /// Number of packets that arrive together; the mean rate stays the same
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub burst: NonZeroU64,
    /// Time between two packets of a burst [default: as calibrated, else 0s]
    #[arg(long, value_name = "DURATION")]
    pub spacing: Option<Duration>,
    /// Read arrival times from this file: one time in ns per line, in ascending order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rates", "burst"])]
    pub arrival_times: Option<PathBuf>,

    /// Mean service time per packet
    #[arg(
        long,
        value_name = "DURATION",
        required_unless_present_any = ["service_samples", "calibrate", "calibrate_captures", "model"]
    )]
    pub service: Option<Duration>,
    /// Distribution of the service time
    #[arg(long, value_enum, default_value_t = ServiceChoice::Constant)]
    pub service_dist: ServiceChoice,
    /// Draw service times from this file: one measured time in ns per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "calibrate", "calibrate_captures", "model"])]
    pub service_samples: Option<PathBuf>,
    /// Additional service time per batch
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub overhead: Duration,
    /// Delay from the arrival of a packet at an idle device to the start of service, such as the wake-up of a
    /// thread
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub wake: Duration,
    /// Distribution of the wake-up delay
    #[arg(long, value_enum, default_value_t = ServiceChoice::Constant)]
    pub wake_dist: ServiceChoice,
    /// Largest batch that the device takes [default: as calibrated, else 32]
    #[arg(long, value_name = "N")]
    pub batch: Option<u64>,
    /// When packets leave the device [default: as calibrated, else immediate]
    #[arg(long, value_enum)]
    pub release: Option<ReleaseChoice>,
    /// Capacity of the ring; packets that arrive at a full ring are lost [default: 8192 for a calibrated
    /// skeleton, else 4096]
    #[arg(long, value_name = "N")]
    pub ring: Option<u64>,
    /// Interrupts that preempt the server, such as '250 Hz 12us'; may be repeated
    ///
    /// [NAME] RATE LENGTH [PHASE], as for predict capacity and interrupts: 'LOC 250/s 12us'. Interrupts are
    /// periodic and of constant length unless followed by 'poisson' (times) or 'exponential' (lengths): '250
    /// Hz 12us poisson exponential'. A phase that is not given is drawn from the seed.
    #[arg(long = "interrupt", value_name = "SOURCE", value_parser = interrupts)]
    pub interrupts: Vec<Interrupts>,
    /// How much faster periodic interrupts are than stated, in ppm, because the clocks of device and sender
    /// differ
    ///
    /// With 0, a stream of 10 kpps would always meet interrupts of 250 Hz at the same phase: an interrupt
    /// would hit either every fortieth packet or none.
    #[arg(long, value_name = "PPM", default_value_t = 10.0, allow_hyphen_values = true)]
    pub clock_offset: f64,
    /// Remaining delay of each packet; negative if packets leave before their work is done
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    pub transfer: Duration,

    /// Calibrate the device with the valid trials of a run, or with those selected by number, name or pattern
    /// ('*-5kpps-*'); may be repeated
    ///
    /// Needs packets that waited for others, and packets that found the device idle: bursts, or Poisson
    /// arrivals at a low mean rate (experiments/prediction/queueing.toml).
    #[arg(
        long,
        value_name = "RUN[:TRIAL]",
        conflicts_with_all = ["service", "overhead", "wake", "transfer", "interrupts", "model"]
    )]
    pub calibrate: Vec<String>,
    /// Calibrate the device with two captures, of the ingress and the egress wire
    #[arg(
        long,
        value_names = ["PRE", "POST"],
        num_args = 2,
        conflicts_with_all = ["calibrate", "service", "overhead", "wake", "transfer", "interrupts", "model"]
    )]
    pub calibrate_captures: Vec<PathBuf>,
    /// Trials of a forwarder that does no work and takes the device's place; sufficient if no packet waited
    /// for another, but less accurate
    #[arg(long, value_name = "RUN[:TRIAL]", requires = "calibrate")]
    pub baseline: Option<String>,
    /// Read the device from a file written by --save
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "overhead", "wake", "transfer", "interrupts"])]
    pub model: Option<PathBuf>,
    /// Write the device to a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Compare the prediction with the valid trials of a run, or with those selected by number, name or
    /// pattern; may be repeated
    ///
    /// Leaves out the loads used for calibration. Simulates the others, with batch and release, as often as
    /// needed for a million packets, and uses the median over repeats, both measured and simulated. The
    /// median delay must be within 10 %, the 99th percentile within 20 %. Each trial is also replayed with
    /// the arrivals at its ingress tap, and with the stalls of its device if it has a stalls.csv.
    #[arg(long, value_name = "RUN[:TRIAL]")]
    pub validate: Vec<String>,
    /// Write an HTML page with both distributions of each validated trial
    #[arg(long, value_name = "FILE", requires = "validate")]
    pub report: Option<PathBuf>,

    /// Packets simulated at each rate, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub packets: NonZeroU64,
    /// Seed of all random numbers; the same seed gives the same result
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON (docs/formats/queueing.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalChoice {
    /// Evenly spaced packets or bursts
    Constant,
    /// Independent, exponentially distributed gaps
    Poisson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServiceChoice {
    /// Always the same
    Constant,
    /// Exponentially distributed
    Exponential,
}

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

/// Parses a source of interrupts in the format of all predictions, and the distributions of its times and
/// lengths.
fn interrupts(text: &str) -> Result<Interrupts, String> {
    let expected =
        "expected [NAME] RATE LENGTH, then poisson or exponential if needed, such as LOC 250 Hz 12us";
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
        (true, Some(_)) => Err("expected no phase after the length: poisson interrupts have none".to_owned()),
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
    fn parses_interrupt_sources() {
        let beat = |period_ns, length| Interrupts::Periodic { period_ns, phase_ns: None, length };
        assert_eq!(interrupts("250 Hz 12us"), Ok(beat(4e6, Length::Constant(12_000.0))));
        assert_eq!(interrupts("0.5Hz 1ms exponential"), Ok(beat(2e9, Length::Exponential(1e6))));
        let poisson = Interrupts::Poisson { per_second: 2000.0, length: Length::Exponential(900.0) };
        assert_eq!(interrupts("2000 Hz 900ns exponential poisson"), Ok(poisson));
        // The other predictions use this format.
        assert_eq!(interrupts("LOC 250/s 12us"), interrupts("250 Hz 12us"));
        let first =
            Interrupts::Periodic { period_ns: 4e6, phase_ns: Some(5e3), length: Length::Constant(12_000.0) };
        assert_eq!(interrupts("250Hz 12us 5us"), Ok(first));
        assert!(interrupts("250Hz 12us 5us poisson").is_err_and(|error| error.contains("no phase")));
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
