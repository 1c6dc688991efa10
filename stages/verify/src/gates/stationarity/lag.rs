//! Values of a cell each of which resembles the one before it, as in a queue that empties slowly.
//!
//! A rank test takes every order for equally likely. Values that resemble their neighbours wander, and look like a trend. The
//! correlation of neighbours says how much more the statistic of the test then scatters.

use statistics::{mid_ranks, normal_quantile, student_two_sided};

use crate::series::median;

/// The fewest values whose correlation is estimated. That of fewer is mostly chance.
const LEAST: usize = 20;

/// A correlation counts if it is this many standard errors above that of independent values. Without such a limit, half of
/// all independent series would lose power.
const COUNTS_FROM: f64 = 1.3;

/// The largest correlation. Beyond it, a series of any usual length is one value.
const MOST: f64 = 0.95;

/// The degrees of freedom of a test that does not estimate them.
pub(crate) const NORMAL: f64 = 1e6;

/// Returns the correlation of each value with the one before it, apart from a level that values have in common; 0 if it could
/// be chance.
pub(crate) fn around_level(values: &[f64]) -> f64 {
    correlation(values, 1.0)
}

/// Returns the correlation of each value with the one before it, apart from a change: a line with this slope, or one step,
/// whichever leaves less. What a test looks for must not hide itself.
pub(crate) fn around_change(values: &[f64], slope: f64) -> f64 {
    let line = values.iter().enumerate();
    let line: Vec<f64> = line.map(|(i, v)| v - slope * i as f64).collect();
    let around_line = correlation(&line, 2.0);
    match around_line > 0.0 {
        true => around_line.min(correlation(&without_step(values), 3.0)),
        false => 0.0,
    }
}

/// Returns the correlation of the ranks of neighbours. Estimates of short series are too low, by about `fitted`/n and by a
/// share of 4/n (Kendall, Biometrika 41, 1954), and are corrected for that. 0 if it could be chance.
fn correlation(values: &[f64], fitted: f64) -> f64 {
    let n = values.len() as f64;
    if values.len() < LEAST {
        return 0.0;
    }
    let ranks = mid_ranks(values).ranks;
    let centre = f64::midpoint(n, 1.0);
    let square: f64 = ranks.iter().map(|r| (r - centre).powi(2)).sum();
    if square <= 0.0 {
        return 0.0;
    }
    let pairs = ranks.windows(2);
    let products = pairs.map(|pair| (pair[0] - centre) * (pair[1] - centre));
    let seen = products.sum::<f64>() / square;
    match seen + fitted / n < COUNTS_FROM / n.sqrt() {
        true => 0.0,
        false => ((seen * n + fitted) / (n - 4.0)).clamp(0.0, MOST),
    }
}

/// Returns values less the medians before and after their most likely step: the largest standardised sum of ranks, at least
/// three values from either end (a weighted form of Pettitt's statistic, Appl. Statist. 28, 1979).
fn without_step(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let ranks = mid_ranks(values).ranks;
    let centre = f64::midpoint(n as f64, 1.0);
    let (mut sum, mut most, mut at) = (0.0, 0.0, 0);
    for (i, rank) in ranks.iter().enumerate() {
        sum += rank - centre;
        let before = i + 1;
        let weight = ((before * (n - before)) as f64).sqrt();
        if before >= 3 && before + 3 <= n && f64::abs(sum) / weight > most {
            (most, at) = (f64::abs(sum) / weight, before);
        }
    }
    let (before, after) = values.split_at(at);
    let less = |part: &[f64]| -> Vec<f64> {
        let middle = median(part).unwrap_or(0.0);
        part.iter().map(|v| v - middle).collect()
    };
    [less(before), less(after)].concat()
}

/// Returns by how much the variance of Kendall's S exceeds that of n independent values, if the correlation of neighbours is
/// rho (Hamed & Rao, J. Hydrology 204, 1998, for a first-order autoregression).
pub(crate) fn of_trend(rho: f64, n: usize) -> f64 {
    if rho <= 0.0 {
        return 1.0;
    }
    let size = n as f64;
    let sum = sum_over_lags(rho, n, |lag| {
        (size - lag) * (size - lag - 1.0) * (size - lag - 2.0)
    });
    1.0 + 2.0 / (size * (size - 1.0) * (size - 2.0)) * sum
}

/// Returns by how much the variance of the difference between the first a and the next b values exceeds that of independent
/// ones with the same spread, if the correlation of neighbours is rho.
pub(crate) fn of_beginning(rho: f64, a: usize, b: usize) -> f64 {
    if rho <= 0.0 {
        return 1.0;
    }
    let (first, later) = (a as f64, b as f64);
    let n = first + later;
    let independent = 1.0 / first + 1.0 / later;
    let difference = sum_over_lags(rho, a + b, |lag| {
        let within =
            (first - lag).max(0.0) / (first * first) + (later - lag).max(0.0) / (later * later);
        let across = first.min(n - lag) - (first - lag).max(0.0);
        within - across / (first * later)
    });
    let mean = sum_over_lags(rho, a + b, |lag| n - lag);
    // A series that wanders shows less spread around its own mean.
    let spread = (n - (n + 2.0 * mean) / n) / (n - 1.0);
    (independent + 2.0 * difference) / (independent * spread)
}

/// Adds up what each lag contributes, weighted by its correlation.
fn sum_over_lags(rho: f64, n: usize, of_lag: impl Fn(f64) -> f64) -> f64 {
    let mut weight = 1.0;
    let mut sum = 0.0;
    for lag in 1..n {
        weight *= rho;
        if weight < 1e-9 {
            break;
        }
        sum += weight * of_lag(lag as f64);
    }
    sum
}

/// Returns a two-sided p value if the variance of the statistic is larger by a factor, with these degrees of freedom. A factor
/// of 1 leaves it as it is.
pub(crate) fn widened(p: f64, factor: f64, df: f64) -> f64 {
    if factor <= 1.0 || p >= 1.0 {
        return p;
    }
    // A p of 0 has no quantile.
    let z = -normal_quantile(p.max(1e-300) / 2.0);
    student_two_sided(z / factor.sqrt(), df.clamp(1.0, NORMAL)).max(p)
}

/// Says that values resemble each other; empty if they do not.
pub(crate) fn words(rho: f64) -> String {
    match rho > 0.0 {
        true => format!(", each like the one before (correlation {rho:.1})"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use statistics::{Noise, kendall_trend};

    use super::*;

    /// Draws a first-order autoregression.
    fn wandering(seed: u64, n: usize, rho: f64) -> Vec<f64> {
        let mut noise = Noise(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let mut last = noise.normal();
        (0..n)
            .map(|_| {
                last = rho * last + (1.0 - rho * rho).sqrt() * noise.normal();
                last
            })
            .collect()
    }

    /// Returns the p value of a trend, and the same with the resemblance counted.
    fn trend(values: &[f64]) -> [f64; 2] {
        let p = kendall_trend(&[values.to_vec()]).unwrap().p;
        let n = values.len();
        let factor = of_trend(around_change(values, 0.0), n);
        [p, widened(p, factor, n as f64 / factor - 2.0)]
    }

    #[test]
    fn values_that_resemble_their_neighbours_are_no_trend() {
        let tested = (1..=200).map(|seed| trend(&wandering(seed, 60, 0.8)));
        let [bare, counted] = tested.fold([0, 0], |[bare, counted], [p, q]| {
            [
                bare + usize::from(p <= 0.01),
                counted + usize::from(q <= 0.01),
            ]
        });
        assert!(bare > 50 && counted <= 16, "{bare} {counted}");
    }

    #[test]
    fn a_trend_and_a_step_are_no_resemblance() {
        let mut seen = [0, 0];
        for seed in 1..=100 {
            let noise = wandering(seed, 40, 0.0);
            let drift: Vec<f64> = noise
                .iter()
                .enumerate()
                .map(|(i, v)| v + 0.1 * i as f64)
                .collect();
            let step: Vec<f64> = noise
                .iter()
                .enumerate()
                .map(|(i, v)| if i < 10 { v + 6.0 } else { *v })
                .collect();
            seen[0] += usize::from(around_change(&drift, 0.1) > 0.0);
            seen[1] += usize::from(around_change(&step, 0.0) > 0.0);
        }
        assert!(seen[0] <= 30 && seen[1] <= 30, "{seen:?}");
    }

    #[test]
    fn independent_values_keep_their_p_value() {
        assert!((of_trend(0.0, 40) - 1.0).abs() < 1e-12);
        assert!((of_beginning(0.0, 10, 30) - 1.0).abs() < 1e-12);
        assert_eq!(widened(0.01, 1.0, 30.0), 0.01);
        assert!(widened(0.01, 2.0, NORMAL) > 0.06);
        // Nine times the variance of independent values, for very long series with a correlation of 0.8.
        assert!((of_trend(0.8, 5000) - 9.0).abs() < 0.1);
        assert!((of_beginning(0.8, 2500, 2500) - 9.0).abs() < 0.1);
    }
}
