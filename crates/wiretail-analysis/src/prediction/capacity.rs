//! Capacity model: the highest rate of a device, computed from its median delay and its interrupts (S.
//! Gallenmueller, J. Naab, I. Adam, G. Carle, "5G QoS: Impact of Security Functions on Latency", NOMS 2020).
//! Formulas and limits: `docs/kpi/capacity.md`.
//!
//! Interval arithmetic propagates the uncertainty: each bound of the result is computed from the least
//! favorable bound of every input. This makes no assumption about correlations between the inputs, and the
//! result is wider than a 95 % confidence interval.

use std::fmt;

use wiretail_schema::prediction::capacity::{
    Capacity, CapacityInputs, CapacityValidation, Deployment, Estimate, InterruptLoad, Judgement,
    SearchValidation,
};
use wiretail_schema::prediction::deployments::DeploymentSpec;
use wiretail_schema::prediction::interrupt::{InterruptRate, InterruptSpec};
use wiretail_schema::search::{GoalResult, Search};

const SECOND_NS: f64 = 1e9;

/// Inputs for which no capacity can be computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapacityError {
    /// The baseline forwarder is not faster than the device.
    NoWork {
        /// Median delay of the device, in ns.
        dut_ns: f64,
        /// Median delay of the forwarder, in ns.
        forwarder_ns: f64,
    },
    /// Interrupts take all of the core's time.
    NoTime {
        /// Interrupt time per second, in ns.
        interrupts_ns: f64,
    },
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWork { dut_ns, forwarder_ns } => write!(
                f,
                "the forwarder's median ({} us) is not below the device's ({} us): their difference is not a service time; \
                 expected a forwarder that does nothing, in the same deployment and under the same load",
                forwarder_ns / 1e3,
                dut_ns / 1e3
            ),
            Self::NoTime { interrupts_ns } => write!(
                f,
                "interrupts take {:.4} s of each second: the core has no time for packets; expected less than 1 s (check the \
                 rates and lengths)",
                interrupts_ns / SECOND_NS
            ),
        }
    }
}

impl std::error::Error for CapacityError {}

/// Computes the capacity and compares it with the measured overload.
///
/// # Errors
///
/// Returns an error if the interrupts leave no time for packets, or if the medians yield no service time.
pub fn deployment(inputs: CapacityInputs) -> Result<Deployment, CapacityError> {
    let capacity = capacity(&inputs)?;
    let against = inputs.overload_pps.map(|bounds| judge(&capacity, bounds));
    Ok(Deployment { inputs, capacity, against, searched: Vec::new() })
}

/// Compares the predicted capacity with the results of a search on the same device, for each loss goal. Delay
/// goals are skipped: delays grow before the device is overloaded, so the rate within a delay budget does not
/// show the capacity.
pub fn against_search(capacity: &Capacity, search: &Search) -> Vec<SearchValidation> {
    let predicted = capacity.max_pps.value;
    let validation = |result: &GoalResult| {
        let found = place(predicted, [result.lower, result.upper]);
        SearchValidation {
            search: search.name.clone(),
            goal: result.goal.clone(),
            lower_pps: result.lower,
            upper_pps: result.upper,
            judgement: found.map(|(judgement, _)| judgement),
            error: found.map(|(_, error)| error),
        }
    };
    search.rates_of_loss().map(validation).collect()
}

/// Position of a predicted rate relative to two measured rates: the highest rate that the device carried and
/// the lowest rate that it did not carry. Also returns the relative error against the nearer of the two.
/// `None` if the rate needed for the decision is unknown.
pub fn place(pps: f64, [carried, overloaded]: [Option<u64>; 2]) -> Option<(Judgement, f64)> {
    let far = |bound: u64| if bound > 0 { pps / bound as f64 - 1.0 } else { 0.0 };
    match (carried, overloaded) {
        (Some(carried), _) if pps < carried as f64 => Some((Judgement::LowerBound, far(carried))),
        (_, Some(overloaded)) if pps > overloaded as f64 => Some((Judgement::Off, far(overloaded))),
        (Some(_), Some(_)) => Some((Judgement::Inside, 0.0)),
        _ => None,
    }
}

/// R_max = (1 s - d) / t. The service time t is median(device) - median(forwarder), and d is the sum of rate
/// times length over all interrupts.
///
/// # Errors
///
/// Returns the errors of [`deployment`].
pub fn capacity(inputs: &CapacityInputs) -> Result<Capacity, CapacityError> {
    let (dut, forwarder) = (inputs.dut_median_ns, inputs.forwarder_median_ns);
    let cpu_ns = Estimate {
        value: dut.value - forwarder.value,
        low: forwarder.high.map_or(0.0, |high| (dut.low - high).max(0.0)),
        high: dut.high.map(|high| high - forwarder.low),
    };
    if cpu_ns.value <= 0.0 {
        return Err(CapacityError::NoWork { dut_ns: dut.value, forwarder_ns: forwarder.value });
    }
    let interrupts_ns = sum(&inputs.interrupts);
    let left_ns = SECOND_NS - interrupts_ns.value;
    if left_ns <= 0.0 {
        return Err(CapacityError::NoTime { interrupts_ns: interrupts_ns.value });
    }
    let least_ns = interrupts_ns.high.map_or(0.0, |high| (SECOND_NS - high).max(0.0));
    let max_pps = Estimate {
        value: left_ns / cpu_ns.value,
        low: cpu_ns.high.map_or(0.0, |cpu| least_ns / cpu),
        high: (cpu_ns.low > 0.0).then(|| (SECOND_NS - interrupts_ns.low) / cpu_ns.low),
    };
    Ok(Capacity { cpu_ns, interrupts_ns, max_pps })
}

/// Total time of all interrupts, in ns per second.
fn sum(interrupts: &[InterruptLoad]) -> Estimate {
    let times = || interrupts.iter().map(|load| load.time_ns);
    // Adding 0.0 avoids -0: the sum of an empty iterator is -0.
    Estimate {
        value: 0.0 + times().map(|time| time.value).sum::<f64>(),
        low: 0.0 + times().map(|time| time.low).sum::<f64>(),
        high: times().map(|time| time.high).sum(),
    }
}

/// Compares the predicted capacity with the highest rate that was carried and the lowest rate that was not.
fn judge(capacity: &Capacity, [carried, overloaded]: [u64; 2]) -> CapacityValidation {
    let predicted = capacity.max_pps;
    let (low, high) = (carried as f64, overloaded as f64);
    let kpps = |pps: f64| format!("{} kpps", (pps / 100.0).round() / 10.0);
    let bounds = format!("{} and {}", kpps(low), kpps(high));
    let (judgement, error) =
        place(predicted.value, [Some(carried), Some(overloaded)]).unwrap_or((Judgement::Inside, 0.0));
    let reason = match judgement {
        Judgement::LowerBound => format!(
            "a lower bound: the device still carried {}, {} more than predicted (overloaded between {bounds})",
            kpps(low),
            kpps(low - predicted.value)
        ),
        Judgement::Off => format!(
            "off: the device was already overloaded at {}, {} below the prediction (overloaded between {bounds})",
            kpps(high),
            kpps(predicted.value - high)
        ),
        Judgement::Inside => format!("correct: overloaded between {bounds}"),
    };
    let reaches = predicted.low <= high && predicted.high.is_none_or(|top| top >= low);
    let doubt =
        if judgement != Judgement::Inside && reaches { "; its interval includes this range" } else { "" };
    CapacityValidation { judgement, reason: reason + doubt, error }
}

/// Model inputs of a deployment that the user described on the command line or in a file.
pub fn inputs(spec: &DeploymentSpec) -> CapacityInputs {
    let mut interrupts: Vec<InterruptLoad> = spec.interrupts.iter().map(load).collect();
    interrupts.extend(spec.interrupt_time.map(|time| InterruptLoad::together(time.ns as f64)));
    CapacityInputs {
        name: spec.name.clone(),
        dut_median_ns: spec.dut_median_ns,
        forwarder_median_ns: spec.forwarder_median_ns,
        interrupts,
        overload_pps: spec.overload.map(|bounds| [bounds.carried_pps, bounds.overloaded_pps]),
        basis: None,
    }
}

/// Load of one kind of interrupt.
fn load(spec: &InterruptSpec) -> InterruptLoad {
    let rate_hz = match spec.rate {
        InterruptRate::Exact(_) => Estimate::exact(spec.rate.hz()),
        InterruptRate::Counted(count, time) => counted(count, time.ns as f64 / SECOND_NS),
    };
    InterruptLoad::new(spec.name.clone(), rate_hz, spec.length.ns as f64)
}

/// Rate per second of `count` events in `seconds`, with the 95 % confidence interval of a Poisson mean: F.
/// Garwood (Biometrika 28, 1936), with the chi-square quantiles of Wilson and Hilferty's approximation (PNAS
/// 17, 1931). Upper bounds are within 1 % of the exact ones. Lower bounds are equally accurate for ten or
/// more events, and too low for fewer.
pub fn counted(count: u64, seconds: f64) -> Estimate {
    const Z: f64 = 1.959_964;
    let bound = |n: f64, sign: f64| n * (1.0 - 1.0 / (9.0 * n) + sign * Z / (3.0 * n.sqrt())).powi(3);
    let n = count as f64;
    let low = if count == 0 { 0.0 } else { bound(n, -1.0).max(0.0) };
    Estimate { value: n, low, high: Some(bound(n + 1.0, 1.0)) }.times(1.0 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(dut: f64, forwarder: f64, interrupts: Vec<InterruptLoad>) -> CapacityInputs {
        CapacityInputs {
            name: "x".to_owned(),
            dut_median_ns: Estimate::exact(dut),
            forwarder_median_ns: Estimate::exact(forwarder),
            interrupts,
            overload_pps: None,
            basis: None,
        }
    }

    fn interrupts(texts: &[&str]) -> Vec<InterruptLoad> {
        texts.iter().map(|text| load(&text.parse().unwrap())).collect()
    }

    #[test]
    fn formulas_match_hand_computed_values() {
        let kinds = interrupts(&["LOC 250/s 4us", "IWI 100/s 10us", "CAL 3/min 1ms"]);
        let found = capacity(&given(13_000.0, 3_000.0, kinds)).unwrap();
        // 250 * 4 us + 100 * 10 us + 0.05 * 1 ms = 2050 us; (1 s - 2050 us) / 10 us = 99,795 per second.
        assert_eq!(found.interrupts_ns, Estimate::exact(2_050_000.0));
        assert_eq!(found.cpu_ns, Estimate::exact(10_000.0));
        assert!((found.max_pps.value - 99_795.0).abs() < 1e-6 && found.max_pps.is_exact(), "{found:?}");
    }

    #[test]
    fn without_interrupts_only_service_time_limits() {
        let found = capacity(&given(2_000.0, 1_000.0, Vec::new())).unwrap();
        assert_eq!((found.interrupts_ns.value, found.max_pps), (0.0, Estimate::exact(1e6)));
        assert!(found.interrupts_ns.value.is_sign_positive());
    }

    #[test]
    fn rejects_inputs_without_time_for_packets() {
        for dut in [1_000.0, 900.0] {
            let error = capacity(&given(dut, 1_000.0, Vec::new())).unwrap_err();
            assert!(error.to_string().contains("not below"), "{error}");
        }
        for length in ["4ms", "5ms"] {
            let error =
                capacity(&given(2_000.0, 1_000.0, interrupts(&[&format!("x 250/s {length}")]))).unwrap_err();
            assert!(error.to_string().contains("no time for packets"), "{error}");
        }
    }

    #[test]
    fn bounds_use_worst_case_inputs() {
        let mut inputs = given(0.0, 0.0, vec![InterruptLoad::new("x".to_owned(), counted(100, 1.0), 1e6)]);
        inputs.dut_median_ns = Estimate { value: 11_000.0, low: 10_900.0, high: Some(11_200.0) };
        inputs.forwarder_median_ns = Estimate { value: 1_000.0, low: 900.0, high: Some(1_100.0) };
        let found = capacity(&inputs).unwrap();
        assert_eq!(found.cpu_ns, Estimate { value: 10_000.0, low: 9_800.0, high: Some(10_300.0) });
        // Garwood's bounds of 100: 81.36 and 121.63.
        assert!(
            (found.interrupts_ns.low - 81.36e6).abs() < 1e5
                && (found.interrupts_ns.high.unwrap() - 121.63e6).abs() < 1e5
        );
        assert!((found.max_pps.value - 90_000.0).abs() < 1e-6);
        assert!((found.max_pps.low - 0.878_37e9 / 10_300.0).abs() < 20.0, "{found:?}");
        assert!((found.max_pps.high.unwrap() - 0.918_64e9 / 9_800.0).abs() < 20.0, "{found:?}");

        // The intervals of the medians overlap, so the capacity has no upper bound.
        inputs.forwarder_median_ns.high = Some(10_950.0);
        assert_eq!(capacity(&inputs).unwrap().max_pps.high, None);
    }

    #[test]
    fn counts_have_bounds_of_poisson_mean() {
        // Garwood's exact bounds.
        for (count, low, high) in
            [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.39), (1000, 938.97, 1063.94)]
        {
            let found = counted(count, 1.0);
            let slack = if count < 10 { low } else { 0.01 * low };
            assert!((low - slack..=low * 1.001).contains(&found.low), "{count}: {found:?}");
            assert!((found.high.unwrap() - high).abs() <= 0.01 * high, "{count}: {found:?}");
        }
        assert_eq!(counted(50, 10.0).value, 5.0);
    }

    #[test]
    fn classifies_prediction_as_inside_lower_bound_or_off() {
        let judged = |overload: [u64; 2]| {
            let mut inputs = given(2_000.0, 1_000.0, Vec::new());
            inputs.overload_pps = Some(overload);
            let validation = deployment(inputs).unwrap().against.unwrap();
            (validation.judgement, validation.reason)
        };
        let error = |overload: [Option<u64>; 2]| {
            place(1e6, overload).map(|(judgement, error)| (judgement, error.abs()))
        };
        assert_eq!(error([Some(1_000_000), Some(1_000_000)]), Some((Judgement::Inside, 0.0)));
        assert_eq!(error([Some(1_250_000), None]).map(|(_, error)| (error - 0.2).abs() < 1e-12), Some(true));
        assert_eq!(error([None, Some(800_000)]), Some((Judgement::Off, 0.25)));
        // If only the other bound is known, the position is undefined.
        assert_eq!(
            (error([Some(900_000), None]), error([None, Some(1_100_000)]), error([None, None])),
            (None, None, None)
        );
        assert_eq!(judged([900_000, 1_100_000]).0, Judgement::Inside);
        let (judgement, reason) = judged([1_100_000, 1_200_000]);
        assert_eq!(judgement, Judgement::LowerBound);
        assert!(
            reason.starts_with("a lower bound: the device still carried 1100 kpps, 100 kpps more"),
            "{reason}"
        );
        let (judgement, reason) = judged([800_000, 900_000]);
        assert!(judgement == Judgement::Off && reason.starts_with("off: "), "{reason}");
    }
}
