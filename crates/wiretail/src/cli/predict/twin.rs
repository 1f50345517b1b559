//! What `wiretail predict twin` can be asked for.

use std::num::NonZeroU64;

use clap::{Args, ValueEnum};
use wiretail_schema::experiment::parse_rate;
use wiretail_schema::predict::twin::{Interrupts, Length, Release};
use wiretail_schema::units::Duration;

use crate::cli::count;

/// Arguments of `wiretail predict twin`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wiretail predict twin --rate 10kpps --service 30us
  wiretail predict twin --rate 10kpps,20kpps,30kpps,40kpps --service 30us --interrupt '250 Hz 12us'
  wiretail predict twin --rate 10kpps --burst 64 --batch 4 --release batch --service 1us      # a ramp; with 32, two steps
  wiretail predict twin --rate 60kpps --service 11.4us --service-dist exponential --arrivals poisson --json | jq .loads

Model, formulas and limits: docs/kpi/twin.md.")]
pub struct TwinArgs {
    /// Packets offered a second, such as 10kpps; several, separated by commas, make a row each
    #[arg(long = "rate", value_name = "RATE", required = true, value_delimiter = ',', value_parser = rate)]
    pub rates: Vec<u64>,
    /// When packets arrive
    #[arg(long, value_enum, default_value_t = ArrivalChoice::Constant)]
    pub arrivals: ArrivalChoice,
    /// Packets that arrive together; the rate stays what it is, over all
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub burst: NonZeroU64,
    /// From one packet of a burst to the next
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub spacing: Duration,

    /// Work for each packet, on average
    #[arg(long, value_name = "DURATION")]
    pub service: Duration,
    /// How it is distributed
    #[arg(long, value_enum, default_value_t = ServiceChoice::Constant)]
    pub service_dist: ServiceChoice,
    /// Work for each batch besides
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub overhead: Duration,
    /// Packets that the device takes at a time, at most
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch: u64,
    /// When packets leave the device
    #[arg(long, value_enum, default_value_t = ReleaseChoice::Immediate)]
    pub release: ReleaseChoice,
    /// Packets that may wait; one that finds as many is lost
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub ring: u64,
    /// Interrupts that take the core away, such as '250 Hz 12us'; may be repeated
    ///
    /// At the beat of a clock and each as long, unless 'poisson' (times) or 'exponential' (lengths) stands behind it: '250 Hz
    /// 12us poisson exponential'. The beat's phase is drawn by the seed.
    #[arg(long = "interrupt", value_name = "SOURCE", value_parser = interrupts)]
    pub interrupts: Vec<Interrupts>,
    /// By how many millionths the beat of interrupts is faster than stated, as the device's clock is not the sender's
    ///
    /// Without it, 10 kpps would meet 250 Hz at the same phase for ever: either each fortieth packet is hit, or none.
    #[arg(long, value_name = "PPM", default_value_t = 10.0, allow_hyphen_values = true)]
    pub clock_offset: f64,
    /// Everything else on the way, for each packet
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub transfer: Duration,

    /// Packets simulated at each rate, such as 300000, 300k or 20M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub packets: NonZeroU64,
    /// Seed of everything random; the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON (docs/formats/twin.md)
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
    parse_rate(text).map_err(|error| format!("expected {}", error.expected))
}

/// A source of interrupts: rate, length, and how both are distributed.
fn interrupts(text: &str) -> Result<Interrupts, String> {
    let expected = "expected a rate and a length, and poisson or exponential behind them: 250 Hz 12us";
    let (rate, rest) = text.split_once("Hz").ok_or(expected)?;
    let per_second: f64 = rate.trim().parse().map_err(|_| expected)?;
    if !(per_second.is_finite() && per_second > 0.0) {
        return Err("expected more than 0 Hz; without interrupts, leave the option out".to_owned());
    }
    let mut words = rest.split_whitespace();
    let length: Duration = words.next().ok_or(expected)?.parse().map_err(|_| expected)?;
    let (mut poisson, mut exponential) = (false, false);
    for word in words {
        match word {
            "poisson" => poisson = true,
            "exponential" => exponential = true,
            _ => return Err(expected.to_owned()),
        }
    }
    let ns = length.ns as f64;
    let length = if exponential { Length::Exponential(ns) } else { Length::Constant(ns) };
    Ok(if poisson {
        Interrupts::Poisson { per_second, length }
    } else {
        Interrupts::Periodic { period_ns: 1e9 / per_second, phase_ns: None, length }
    })
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
        for wrong in ["", "250", "250 Hz", "250 Hz 12", "x Hz 1us", "250 Hz 1us often", "12us 250 Hz"] {
            assert!(interrupts(wrong).is_err_and(|error| error.contains("250 Hz 12us")), "{wrong}");
        }
        for none in ["0 Hz 12us", "-1 Hz 1us", "inf Hz 1us"] {
            assert!(interrupts(none).is_err_and(|error| error.contains("more than 0 Hz")), "{none}");
        }
    }
}
