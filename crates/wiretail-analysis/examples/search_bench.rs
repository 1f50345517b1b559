//! Searches simulated devices: `search_bench CASE` searches each of the case's devices and prints the results
//! as JSON.
//!
//! `benches/search_peer.py` does the same with MLRsearch's reference implementation. `benches/search` runs
//! both and compares.

use std::error::Error;

use serde_json::{Value, json};
use wiretail_analysis::search::simulated::Device;
use wiretail_analysis::search::{conclude, next};
use wiretail_schema::search::{Effort, Goal, Over};

fn search(device: &Device, effort: &Effort, goals: &[Goal]) -> Value {
    let mut trials = Vec::new();
    while let Some(ask) = next(effort, goals, &trials) {
        trials.push(device.trial(effort, goals, ask, trials.len() + 1));
    }
    let seconds = trials.iter().map(|trial| trial.duration_ns as f64 / 1e9).sum::<f64>();
    let results = conclude(effort, goals, &trials);
    let bounds: Vec<_> = results.iter().map(|result| [result.lower, result.upper]).collect();
    let forwarded: Vec<_> = results.iter().map(|result| result.forwarded_pps).collect();
    json!({ "trials": trials.len(), "seconds": seconds, "bounds": bounds, "forwarded": forwarded })
}

fn main() -> Result<(), Box<dyn Error>> {
    let case: Value = serde_json::from_str(&std::env::args().nth(1).ok_or("expected a case as JSON")?)?;
    let number = |key: &str| case[key].as_f64().ok_or(format!("expected a number as {key}"));
    let list = |key: &str| case[key].as_array().ok_or(format!("expected a list as {key}"));
    let ns = |key: &str| number(key).map(|seconds| (seconds * 1e9) as u64);
    let effort = Effort {
        over: Over::Rate,
        method: serde_json::from_value(case["method"].clone())?,
        lowest: number("lowest")? as u64,
        highest: number("highest")? as u64,
        width: number("width")?,
        full_ns: ns("full")?,
        first_ns: ns("first")?,
        trials: number("trials")? as u64,
        exceed: number("exceed")?,
        verify: number("verify")? as u64,
        stretch: 1.0,
    };
    let goals: Vec<Goal> =
        list("ratios")?.iter().filter_map(Value::as_f64).map(|ratio| Goal::Loss { ratio }).collect();
    let (bursts_per_s, overload, burst) = (number("bursts")?, number("overload")?, number("burst")? as u64);
    let mut found = Vec::new();
    for (seed, capacity_pps) in (1..).zip(list("capacities")?.iter().filter_map(Value::as_f64)) {
        let device = Device { capacity_pps, overload, ring: 0, bursts_per_s, burst, seed };
        found.push(search(&device, &effort, &goals));
    }
    println!("{}", json!(found));
    Ok(())
}
