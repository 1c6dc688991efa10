//! Intervals of quantiles from order statistics, and when they do not exist.

use crate::bootstrap::Interval;
use crate::distribution::binomial_cdf;
use crate::refusal::Refusal;
use crate::sample::Sample;

/// The ranks whose values bound a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileRanks {
    /// The rank of the lower end among the sorted values, from 1.
    pub lower: usize,
    /// The rank of the upper end, from 1.
    pub upper: usize,
    /// The chance that a continuous distribution's quantile lies between the two; at least the
    /// requested level.
    pub coverage: f64,
}

/// A quantile with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileInterval {
    /// The interval.
    pub interval: Interval,
    /// The ranks of its ends.
    pub ranks: QuantileRanks,
}

/// Returns the ranks that bound the quantile of probability `p` among `n` independent values, with
/// each tail at most (1 − level)/2: the largest l with P(Bin(n, p) ≤ l − 1) ≤ tail and the smallest
/// u with P(Bin(n, p) ≤ u − 1) ≥ 1 − tail (Conover, Practical Nonparametric Statistics, 1999,
/// section 3.2). For dependent values, `n` is their effective number
/// ([`crate::effective_sizes_of_quantiles`]).
///
/// # Errors
/// If a rank would lie outside 1 … n: too few values leave the quantile unbounded on one side.
///
/// # Panics
/// If `p` or `level` is not strictly between 0 and 1.
pub fn quantile_ranks(n: usize, p: f64, level: f64) -> Result<QuantileRanks, Refusal> {
    for share in [p, level] {
        assert!(
            share > 0.0 && share < 1.0,
            "a probability lies between 0 and 1, got {share}"
        );
    }
    let least = least_for_quantile(p, level);
    if n < least {
        return Err(Refusal::QuantileUnbounded {
            n,
            least,
            probability: p,
        });
    }
    let tail = (1.0 - level) / 2.0;
    let below = |k: usize| binomial_cdf(k as u64, n as u64, p);
    // The first count whose cumulative probability exceeds a share.
    let first = |share: f64, strictly: bool| {
        let (mut low, mut high) = (0, n);
        while low < high {
            let middle = usize::midpoint(low, high);
            let beyond = if strictly {
                below(middle) > share
            } else {
                below(middle) >= share
            };
            if beyond {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    // P(Bin ≤ l − 1) ≤ tail holds up to the count before the first beyond the tail.
    let (lower, upper) = (
        first(tail, true).max(1),
        (first(1.0 - tail, false) + 1).min(n),
    );
    Ok(QuantileRanks {
        lower,
        upper,
        coverage: below(upper - 1) - below(lower - 1),
    })
}

/// Returns the interval of the quantile of probability `p` of values that are worth `effective`
/// independent ones. The ranks for this number are scaled to all values and rounded outwards.
///
/// # Errors
/// As [`quantile_ranks`], for the effective number.
///
/// # Panics
/// As [`quantile_ranks`].
pub fn quantile_interval_of(
    sample: &Sample,
    effective: usize,
    p: f64,
    level: f64,
) -> Result<QuantileInterval, Refusal> {
    let n = sample.len();
    let effective = effective.min(n);
    let ranks = quantile_ranks(effective, p, level)?;
    let scale = n as f64 / effective as f64;
    // The value before and the value after the scaled ranks.
    let lower = (((ranks.lower - 1) as f64 * scale).floor() as usize + 1).min(n);
    let upper = ((ranks.upper as f64 * scale).ceil() as usize).clamp(1, n);
    let values = sample.values();
    Ok(QuantileInterval {
        interval: Interval {
            low: values[lower - 1],
            high: values[upper - 1],
        },
        ranks: QuantileRanks {
            lower,
            upper,
            ..ranks
        },
    })
}

/// Returns the smallest number of values that bound the quantile of probability `p` on both sides,
/// with each tail at most (1 − level)/2. Both pⁿ and (1 − p)ⁿ must fit into a tail. At 95 %: 6 for
/// the median, 36 for p90, 72 for p95, 368 for p99.
///
/// # Panics
/// If `p` or `level` is not strictly between 0 and 1.
pub fn least_for_quantile(p: f64, level: f64) -> usize {
    least_for_tail(p.max(1.0 - p), (1.0 - level) / 2.0)
}

fn least_for_tail(p: f64, tail: f64) -> usize {
    for share in [p, tail] {
        assert!(
            share > 0.0 && share < 1.0,
            "a probability lies between 0 and 1, got {share}"
        );
    }
    let n = (tail.ln() / p.ln()).ceil();
    // Rounding in the quotient of logarithms must not miss an exact power.
    let n = if p.powf(n - 1.0) <= tail { n - 1.0 } else { n };
    n.max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_numbers_are_the_published_ones() {
        let both = [0.5, 0.9, 0.95, 0.99].map(|p| least_for_quantile(p, 0.95));
        assert_eq!(both, [6, 36, 72, 368]);
        assert_eq!(least_for_quantile(0.1, 0.95), 36);
        // An exact power: ½⁴ fits into a tail of 1/16.
        assert_eq!(least_for_quantile(0.5, 0.875), 4);
    }

    #[test]
    fn a_thousand_values_have_the_published_ranks() {
        let published = [
            (0.5, 469, 532),
            (0.9, 881, 919),
            (0.95, 936, 964),
            (0.99, 983, 997),
        ];
        for (p, lower, upper) in published {
            let ranks = quantile_ranks(1_000, p, 0.95).unwrap();
            assert_eq!((ranks.lower, ranks.upper), (lower, upper));
            assert!(ranks.coverage >= 0.95);
        }
    }

    #[test]
    fn a_quantile_that_so_few_values_cannot_bound_is_refused() {
        let few = Sample::new((0..71).map(f64::from)).unwrap();
        assert_eq!(
            quantile_interval_of(&few, few.len(), 0.95, 0.95).unwrap_err(),
            Refusal::QuantileUnbounded {
                n: 71,
                least: 72,
                probability: 0.95
            }
        );
        let enough = Sample::new((1..=72).map(f64::from)).unwrap();
        let interval = quantile_interval_of(&enough, enough.len(), 0.95, 0.95)
            .unwrap()
            .interval;
        assert_eq!((interval.low, interval.high), (64.0, 72.0));
    }

    #[test]
    fn dependent_values_have_the_wider_interval_of_fewer() {
        let sample = Sample::new((1..=1_000).map(f64::from)).unwrap();
        let all = quantile_interval_of(&sample, sample.len(), 0.9, 0.95)
            .unwrap()
            .interval;
        let tenth = quantile_interval_of(&sample, 100, 0.9, 0.95)
            .unwrap()
            .interval;
        assert_eq!((all.low, all.high), (881.0, 919.0));
        assert_eq!((tenth.low, tenth.high), (831.0, 960.0));
        let too_few = quantile_interval_of(&sample, 35, 0.9, 0.95);
        assert!(matches!(
            too_few,
            Err(Refusal::QuantileUnbounded { n: 35, .. })
        ));
    }
}
