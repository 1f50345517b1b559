//! Measures the speed of the queueing simulation. `queueing_bench MODEL PACKETS SEED` runs one simulation and
//! prints its CPU time and results as JSON.
//!
//! The models are the same as in `benches/queueing_simpy.py`, which uses SimPy. `benches/queueing` runs this
//! program and the SimPy version alternately. The time includes counting every delay for the percentiles.

use std::error::Error;
use std::fs;

use wiretail_analysis::prediction::queueing::predict;
use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Length, QueueingModel, Release};

fn model(name: &str) -> Result<(QueueingModel, Arrivals), String> {
    let plain = QueueingModel::serving(Length::Exponential(30_000.0), 4096, 1);
    let plain = QueueingModel { transfer_ns: 1000.0, ..plain };
    match name {
        "m-m-1" => Ok((plain, Arrivals::Poisson { rate_pps: 0.7 / 30e-6 })),
        "interrupted-batches" => {
            let model = QueueingModel {
                batch: 32,
                release: Release::Batch,
                service: Length::Constant(10_000.0),
                batch_overhead: Length::Constant(2_000.0),
                interrupts: vec![Interrupts::Periodic {
                    period_ns: 4e6,
                    phase_ns: Some(1e6),
                    length: Length::Constant(50_000.0),
                }],
                ..plain
            };
            Ok((model, Arrivals::Poisson { rate_pps: 70_000.0 }))
        }
        _ => Err(format!("no model {name}; expected m-m-1 or interrupted-batches")),
    }
}

/// CPU time of this thread in seconds, without the time that other processes take (proc(5), schedstat).
fn core_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(ns / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("expected {what}: MODEL PACKETS SEED"));
    let (model, arrivals) = model(&next("a model")?)?;
    let (packets, seed) = (next("a number of packets")?.parse()?, next("a seed")?.parse()?);
    let begin = core_seconds()?;
    let (load, _) = predict(&model, &arrivals, packets, seed)?;
    let seconds = core_seconds()? - begin;
    let mean_ns = load.delay.map_or(0.0, |delay| delay.mean_ns);
    println!(
        "{}",
        serde_json::json!({ "seconds": seconds, "sent": load.sent, "lost": load.lost, "mean_ns": mean_ns })
    );
    Ok(())
}
