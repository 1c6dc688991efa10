//! One value far from all others, in a sample of few.

use crate::refusal::{Refusal, all_finite};

/// The smallest number of values in which one can lie apart from the others.
pub const LEAST_FOR_AN_OUTLIER: usize = 3;

/// The value of a sample that lies farthest beyond the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    /// Its position, from 0.
    pub at: usize,
    /// Its distance to the nearest other value, divided by the range of the others (Dixon 1950, Ann. Math. Stat. 21,
    /// 488). Infinite if all others are equal and the caller sets no smallest range.
    pub ratio: f64,
    /// The probability that some value of a sample without an outlier lies at least this far beyond the others.
    pub p: f64,
}

/// Returns the value that lies farthest beyond the others, above or below, with a p value that needs no assumption of
/// normality.
///
/// The reference distribution is that of exponential values, whose spacings are independent (Sukhatme 1937, Ann. Eugen. 8,
/// 52): the ratio exceeds r with probability Π k ÷ (k + r) over k = 2 … n − 1 on the side of the tail, and
/// Π k ÷ (k + (n − 1) r) over k = 1 … n − 2 on the other side. The p value is their sum, so it is exact for exponential
/// values. Every distribution with an increasing hazard rate, such as the normal, the uniform, or any other with a
/// log-concave density, is a concave function of an exponential value. A concave function stretches the last spacing less
/// than those before it, so each side exceeds r at most as often as the tail of an exponential. Simulated samples of
/// both sides stay below the level. Distributions with longer tails than the exponential exceed it.
///
/// `least_range` replaces a smaller range of the others, for values that cannot be known more exactly.
///
/// # Errors
/// If there are fewer than three values, or one is not finite.
pub fn outlier(values: &[f64], least_range: f64) -> Result<Outlier, Refusal> {
    let (n, least) = (values.len(), LEAST_FOR_AN_OUTLIER);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    all_finite(values)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let at = |i: usize| values[order[i]];
    let ratio = |gap: f64, range: f64| match gap {
        0.0 => 0.0,
        gap => gap / range.max(least_range),
    };
    let above = ratio(at(n - 1) - at(n - 2), at(n - 2) - at(0));
    let below = ratio(at(1) - at(0), at(n - 1) - at(1));
    let (at, ratio) = match above >= below {
        true => (order[n - 1], above),
        false => (order[0], below),
    };
    Ok(Outlier {
        at,
        ratio,
        p: p_of(ratio, n),
    })
}

/// Returns the smallest ratio that is significant at `level` among `n` values: see [`Outlier::ratio`].
///
/// # Panics
/// If `level` is not strictly between 0 and 1, or `n` is below three.
pub fn outlier_ratio(n: usize, level: f64) -> f64 {
    assert!(level > 0.0 && level < 1.0 && n >= LEAST_FOR_AN_OUTLIER);
    let (mut low, mut high) = (0.0, 1.0);
    while p_of(high, n) > level {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        match p_of(middle, n) > level {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

fn p_of(ratio: f64, n: usize) -> f64 {
    let product = |factor: &dyn Fn(f64) -> f64, from: usize, to: usize| -> f64 {
        (from..=to).map(|k| factor(k as f64)).product()
    };
    let tail = product(&|k| k / (k + ratio), 2, n - 1);
    let other = product(&|k| k / (k + (n as f64 - 1.0) * ratio), 1, n - 2);
    (tail + other).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_beyond_the_others_is_named_on_either_side() {
        let above = outlier(&[1.0, 9.0, 1.5, 2.0], 0.0).unwrap();
        assert_eq!((above.at, above.ratio), (1, 7.0));
        let below = outlier(&[-1.0, -9.0, -1.5, -2.0], 0.0).unwrap();
        assert_eq!((below.at, below.ratio, below.p), (1, 7.0, above.p));
    }

    #[test]
    fn p_is_the_sum_of_both_sides_of_an_exponential_sample() {
        // Three values: 2 ÷ (2 + r) for the tail, 1 ÷ (1 + 2 r) for the other side.
        let result = outlier(&[0.0, 1.0, 11.0], 0.0).unwrap();
        assert!((result.p - (2.0 / 12.0 + 1.0 / 21.0)).abs() < 1e-15);
        // Four values: 2·3 ÷ ((2 + r)(3 + r)) and 1·2 ÷ ((1 + 3 r)(2 + 3 r)).
        let result = outlier(&[0.0, 0.5, 1.0, 3.0], 0.0).unwrap();
        assert!((result.p - (6.0 / 20.0 + 2.0 / 56.0)).abs() < 1e-15);
    }

    #[test]
    fn equal_values_have_no_outlier_and_a_smallest_range_bounds_the_ratio() {
        assert_eq!(outlier(&[2.0; 5], 0.0).unwrap().p, 1.0);
        assert_eq!(outlier(&[2.0, 2.0, 2.0, 2.1], 0.0).unwrap().p, 0.0);
        let bounded = outlier(&[2.0, 2.0, 2.0, 2.1], 0.05).unwrap();
        assert!((bounded.ratio - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_smallest_significant_ratio_has_the_p_of_its_level() {
        for n in [3, 5, 10, 40] {
            for level in [0.05, 0.01, 0.0005] {
                assert!((p_of(outlier_ratio(n, level), n) / level - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn two_values_are_too_few_and_values_without_a_size_are_refused() {
        let few = outlier(&[1.0, 2.0], 0.0);
        assert_eq!(few, Err(Refusal::TooFewUnits { n: 2, least: 3 }));
        assert!(outlier(&[1.0, f64::NAN, 2.0], 0.0).is_err());
    }
}
