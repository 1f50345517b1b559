//! Index of dispersion of counts: how much more than independent packets a count of late packets varies.
//!
//! If one stall delays twenty packets, these packets are one event, and the number of late packets in a trial
//! varies as if there were a twentieth of them. The index of dispersion is the variance of such a count,
//! divided by the variance that independent packets would have (Cox and Lewis, The Statistical Analysis of
//! Series of Events, 1966, chapter 4; in survey statistics, the design effect). It is estimated from the counts
//! of consecutive batches of packets. Their long-run variance includes the covariance of batches that are some
//! lags apart, weighted by the flat-top kernel of Politis and Romano (Journal of Time Series Analysis 16, 1995).
//! The bandwidth is chosen by the rule of Politis (Journal of Nonparametric Statistics 15, 2003): twice the lag
//! after which five correlations in a row are insignificant.

/// Number of consecutive insignificant correlations after the last lag that counts.
const INSIGNIFICANT: usize = 5;
/// A correlation is significant above this many times sqrt(log10(batches) / batches).
const SIGNIFICANT: f64 = 2.0;
/// Maximum lag, as a fraction of the number of batches.
const LAG_MAX: f64 = 0.1;

/// One batch of consecutive packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch {
    /// Number of packets in the batch.
    pub packets: f64,
    /// Number of these packets that count, such as those above a threshold.
    pub counted: f64,
}

/// Index of dispersion of the number of counted packets: 1 for independent packets. Values below 1, which
/// occur if counted packets keep a distance, are reported as 1. `None` if no packet or every packet is counted.
pub fn dispersion(batches: &[Batch]) -> Option<f64> {
    let packets: f64 = batches.iter().map(|batch| batch.packets).sum();
    let counted: f64 = batches.iter().map(|batch| batch.counted).sum();
    let share = counted / packets;
    let independent = counted * (1.0 - share);
    if independent.is_nan() || independent <= 0.0 {
        return None;
    }
    let residuals: Vec<f64> = batches.iter().map(|batch| batch.counted - share * batch.packets).collect();
    let index =
        (long_run_variance(&residuals, residuals.len()) * residuals.len() as f64 / independent).max(1.0);
    // The index itself is uncertain by about 1 / sqrt(m), if the counted packets form m independent events.
    Some(1.0 + (index - 1.0) * (1.0 + (index / independent).sqrt()))
}

/// Long-run variance of a series: the variance of its sum, divided by its length. From every `segment` values, their
/// mean has been subtracted. At least a tenth of the variance of the single values, because the estimate can become
/// negative.
pub fn long_run_variance(residuals: &[f64], segment: usize) -> f64 {
    let n = residuals.len();
    let covariance = |lag: usize| {
        residuals.iter().zip(residuals.get(lag..).unwrap_or_default()).map(|(a, b)| a * b).sum::<f64>()
            / n as f64
    };
    let variance = covariance(0);
    let limit = SIGNIFICANT * ((n as f64).log10() / n as f64).sqrt() * variance;
    let lag_max = (n as f64 * LAG_MAX) as usize;
    let mut covariances = Vec::new();
    let mut last = 0;
    for lag in 1..=lag_max {
        covariances.push(covariance(lag));
        if covariances[lag - 1].abs() > limit {
            last = lag;
        }
        if lag - last >= INSIGNIFICANT {
            break;
        }
    }
    // The kernel is 1 up to half of the bandwidth and falls linearly to 0.
    let bandwidth = (2 * last).min(lag_max);
    let weight = |lag: usize| (2.0 * (1.0 - lag as f64 / (bandwidth + 1) as f64)).clamp(0.0, 1.0);
    let mut sum = variance;
    let mut weights = 0.0;
    for lag in 1..=bandwidth {
        let found = covariances.get(lag - 1).copied().unwrap_or_else(|| covariance(lag));
        sum += 2.0 * weight(lag) * found;
        weights += 2.0 * weight(lag);
    }
    // The residuals of a segment sum up to 0, which lowers each covariance by about sum / segment.
    (sum / (1.0 - (1.0 + weights) / segment as f64).max(0.5)).max(variance / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Random, normal};

    fn batches(counted: impl IntoIterator<Item = f64>) -> Vec<Batch> {
        counted.into_iter().map(|counted| Batch { packets: 100.0, counted }).collect()
    }

    #[test]
    fn independent_packets_have_dispersion_one() {
        let mut sum = 0.0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let late = (0..1000).map(|_| (0..100).filter(|_| random.below(50) == 0).count() as f64);
            sum += dispersion(&batches(late)).unwrap();
        }
        assert!((sum / 50.0 - 1.0).abs() < 0.05, "{}", sum / 50.0);
    }

    #[test]
    fn bursts_have_their_length_as_dispersion() {
        // Twenty late packets in a row, split at random between two batches.
        let mut sum = 0.0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut late = vec![0.0; 1001];
            for _ in 0..60 {
                let (batch, first) = (random.below(1000) as usize, random.below(21) as f64);
                late[batch] += first;
                late[batch + 1] += 20.0 - first;
            }
            sum += dispersion(&batches(late)).unwrap();
        }
        // 60 events determine the index to 1 / sqrt(60).
        let expected = 20.0 * (1.0 + 1.0 / 60f64.sqrt());
        assert!((sum / 50.0 / expected - 1.0).abs() < 0.1, "{}", sum / 50.0);
    }

    #[test]
    fn long_run_variance_of_autoregression_matches_closed_form() {
        // x[t] = a x[t - 1] + e[t] has the long-run variance 1 / (1 - a)^2.
        for a in [0.0_f64, 0.5, 0.8] {
            let mut sum = 0.0;
            for seed in 0..40 {
                let mut random = Random::new(seed);
                let mut x = 0.0;
                let mut series: Vec<f64> = (0..1000)
                    .map(|_| {
                        x = a * x + normal(&mut random);
                        x
                    })
                    .collect();
                let mean = series.iter().sum::<f64>() / 1000.0;
                series.iter_mut().for_each(|value| *value -= mean);
                sum += long_run_variance(&series, 1000);
            }
            let expected = (1.0 - a).powi(-2);
            assert!((sum / 40.0 / expected - 1.0).abs() < 0.15, "{a}: {} against {expected}", sum / 40.0);
        }
    }

    #[test]
    fn nothing_or_everything_counted_has_no_dispersion() {
        assert_eq!(dispersion(&batches([0.0, 0.0])), None);
        assert_eq!(dispersion(&batches([100.0, 100.0])), None);
        assert_eq!(dispersion(&[]), None);
        // Exactly one in ten packets: less variation than independent packets have.
        assert_eq!(dispersion(&batches([10.0; 500])), Some(1.0));
    }
}
