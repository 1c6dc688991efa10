//! A checked sample and its descriptive statistics.

use std::fmt;

use crate::exact_sum::exact_sum;

/// A non-empty set of finite numbers, kept in ascending order.
///
/// The sample does not keep the input order, so every statistic is invariant under permutation to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

/// The reason why values are not a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleError {
    /// There are no values.
    Empty,
    /// The value at this position is NaN or infinite.
    NotFinite(usize),
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a sample needs at least one value"),
            Self::NotFinite(at) => write!(f, "value {at} is not a finite number"),
        }
    }
}

impl std::error::Error for SampleError {}

impl Sample {
    /// Makes a sample.
    ///
    /// # Errors
    /// If there are no values, or one is NaN or infinite.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Result<Self, SampleError> {
        Self::of(values.into_iter().collect())
    }

    fn of(values: Vec<f64>) -> Result<Self, SampleError> {
        // Sorted as integers, which is several times as fast.
        let mut keys = keys(values)?;
        keys.sort_unstable();
        Ok(Self {
            sorted: keys.into_iter().map(value).collect(),
        })
    }

    /// Makes a sample from at least one finite value in ascending order.
    pub(crate) fn from_sorted(sorted: Vec<f64>) -> Self {
        debug_assert!(!sorted.is_empty() && sorted.is_sorted());
        Self { sorted }
    }

    /// Returns the values in ascending order, for reuse.
    pub(crate) fn into_values(self) -> Vec<f64> {
        self.sorted
    }

    /// Returns the number of values, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a sample is never empty")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// Returns the smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// Returns the largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// Returns the arithmetic mean, from the exact sum.
    pub fn mean(&self) -> f64 {
        exact_mean(self.sorted.iter().copied(), self.len()).clamp(self.min(), self.max())
    }

    /// Returns the sample variance with divisor n − 1; `None` for one value.
    pub fn variance(&self) -> Option<f64> {
        variance(self.sorted.iter().copied(), self.len(), self.mean())
    }

    /// Returns the sample standard deviation with divisor n − 1; `None` for one value.
    pub fn std(&self) -> Option<f64> {
        let ends = (self.min(), self.max());
        std(self.sorted.iter().copied(), self.len(), self.mean(), ends)
    }

    /// Returns the coefficient of variation, std ÷ mean; `None` for one value or mean 0.
    pub fn cv(&self) -> Option<f64> {
        let mean = self.mean();
        if mean == 0.0 {
            None
        } else {
            self.std().map(|std| std / mean.abs())
        }
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the quantile of probability `p` in \[0, 1\], type 7 of Hyndman & Fan (1996): linear
    /// interpolation at (n − 1)·p, the default of NumPy and R.
    ///
    /// # Panics
    /// If `p` is outside \[0, 1\] or NaN.
    pub fn quantile(&self, p: f64) -> f64 {
        quantile_of_sorted(&self.sorted, p).expect("a sample is never empty")
    }
}

/// Returns the quantile of probability `p` in \[0, 1\] of values in ascending order, the same as [`Sample::quantile`] to the
/// last bit. Returns `None` without values.
///
/// # Panics
/// If `p` is outside \[0, 1\] or NaN, or if a value beside the quantile is NaN.
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    (!sorted.is_empty()).then(|| {
        let place = QuantilePlace::of(p, sorted.len());
        place.between(sorted[place.low], sorted[place.high])
    })
}

/// The place of a quantile among sorted values, type 7 like [`Sample::quantile`]. Whoever does not hold the values looks up
/// the two at its ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantilePlace {
    /// The rank of the value before it, from 0.
    pub low: usize,
    /// The rank of the value after it, from 0; that of the largest value if there is none after it.
    pub high: usize,
    /// How far it lies from the first to the second, from 0 to 1.
    pub weight: f64,
}

impl QuantilePlace {
    /// Returns the place of the quantile of probability `p` among `n` values.
    ///
    /// # Panics
    /// If `p` is outside \[0, 1\] or NaN, or if there are no values.
    pub fn of(p: f64, n: usize) -> Self {
        assert!(
            (0.0..=1.0).contains(&p),
            "a probability lies between 0 and 1, got {p}"
        );
        assert!(n > 0, "a quantile needs at least one value");
        let at = (n - 1) as f64 * p;
        let low = at.floor() as usize;
        Self {
            low,
            high: (low + 1).min(n - 1),
            weight: at - low as f64,
        }
    }

    /// Interpolates between the values at its ranks.
    ///
    /// # Panics
    /// If the first value is above the second, or one is NaN.
    pub fn between(&self, a: f64, b: f64) -> f64 {
        let weight = self.weight;
        // Like NumPy, from the nearer end, so that weight 1 gives b to the bit.
        let value = if weight < 0.5 {
            a + (b - a) * weight
        } else {
            b - (b - a) * (1.0 - weight)
        };
        value.clamp(a, b)
    }
}

/// Returns the arithmetic mean, from the exact sum; `None` if there are no values, or one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    let sample = Sample::new(values.iter().copied()).ok()?;
    Some(sample.mean())
}

/// Returns the mean of `n` values. Rounding could move it outside their range: only clamping makes the mean of equal values
/// that value.
pub(crate) fn exact_mean(values: impl Iterator<Item = f64> + Clone, n: usize) -> f64 {
    exact_sum(values) / n as f64
}

/// Returns the variance of `n` values about their mean, with divisor n − 1; `None` for one value.
pub(crate) fn variance(
    values: impl Iterator<Item = f64> + Clone,
    n: usize,
    mean: f64,
) -> Option<f64> {
    (n > 1).then(|| exact_sum(values.map(|v| (v - mean) * (v - mean))) / (n - 1) as f64)
}

/// Returns the standard deviation of `n` values about their mean, with divisor n − 1; `None` for one value. The last argument
/// has the smallest and the largest value.
pub(crate) fn std(
    values: impl Iterator<Item = f64> + Clone,
    n: usize,
    mean: f64,
    (least, most): (f64, f64),
) -> Option<f64> {
    let squared = variance(values.clone(), n, mean)?;
    let span = most - least;
    if squared.is_normal() || span == 0.0 || !span.is_finite() {
        return Some(squared.sqrt());
    }
    // A double cannot hold the squares.
    let scaled = values.map(move |v| (v - least) / span);
    let mean = exact_mean(scaled.clone(), n).clamp(0.0, 1.0);
    Some(variance(scaled, n, mean)?.sqrt() * span)
}

/// Returns integers in the order of the values. There is only one zero; otherwise equal samples could differ in a bit.
///
/// # Errors
/// If there are no values, or one is NaN or infinite.
pub(crate) fn keys(values: Vec<f64>) -> Result<Vec<i64>, SampleError> {
    if values.is_empty() {
        return Err(SampleError::Empty);
    }
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(SampleError::NotFinite(at));
    }
    Ok(values
        .into_iter()
        .map(|v| flip((v + 0.0).to_bits().cast_signed()))
        .collect())
}

/// Returns the value of a key.
pub(crate) fn value(key: i64) -> f64 {
    f64::from_bits(flip(key).cast_unsigned())
}

/// Maps the bits of a double, as an integer, to an integer in its order (that of [`f64::total_cmp`]), and back.
fn flip(bits: i64) -> i64 {
    bits ^ (((bits >> 63).cast_unsigned() >> 1).cast_signed())
}

/// Returns the sum with Neumaier's compensation (ZAMM 54, 1974).
pub(crate) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() {
            (total - next) + value
        } else {
            (value - next) + total
        };
        total = next;
    }
    total + lost
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sample_without_values_is_refused() {
        assert_eq!(Sample::new([]), Err(SampleError::Empty));
    }

    #[test]
    fn a_value_that_is_no_number_is_refused_with_its_place() {
        assert_eq!(Sample::new([1.0, f64::NAN]), Err(SampleError::NotFinite(1)));
        assert_eq!(Sample::new([f64::INFINITY]), Err(SampleError::NotFinite(0)));
    }

    #[test]
    fn one_value_has_a_mean_but_no_spread() {
        let one = Sample::new([3.0]).unwrap();
        assert_eq!(
            (one.mean(), one.std(), one.cv(), one.median()),
            (3.0, None, None, 3.0)
        );
    }

    #[test]
    fn quantiles_of_one_to_four_are_those_of_numpy() {
        let sample = Sample::new([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(sample.quantile(0.0), 1.0);
        assert_eq!(sample.quantile(0.25), 1.75);
        assert_eq!(sample.quantile(0.9), 3.7);
        assert_eq!(sample.quantile(1.0), 4.0);
    }

    #[test]
    fn a_quantile_of_sorted_values_needs_a_value() {
        assert_eq!(quantile_of_sorted(&[], 0.5), None);
        assert_eq!(quantile_of_sorted(&[2.5], 0.99), Some(2.5));
        let place = QuantilePlace::of(0.875, 5);
        assert_eq!((place.low, place.high, place.weight), (3, 4, 0.5));
    }

    #[test]
    fn a_large_offset_does_not_spoil_the_variance() {
        let sample = Sample::new([1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
        assert_eq!(sample.variance(), Some(30.0));
    }

    #[test]
    fn values_whose_squares_are_no_doubles_have_a_standard_deviation() {
        for size in [1e-300, 1e300] {
            let std = Sample::new([1.0, 2.0, 6.0].map(|v| v * size)).unwrap();
            let ratio = std.std().unwrap() / size / 7.0_f64.sqrt();
            assert!((ratio - 1.0).abs() < 1e-12, "{size}: {ratio}");
        }
        assert_eq!(Sample::new([1e300; 3]).unwrap().std(), Some(0.0));
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1e6..1e6_f64, 1..60)
    }

    #[test]
    fn a_sample_is_sorted_by_size_with_one_zero() {
        let given = [1e-310, -0.0, f64::MAX, -2.5, 0.0, -1e300, 7.0, -2.5];
        let sample = Sample::new(given).unwrap();
        assert_eq!(
            sample.values(),
            [-1e300, -2.5, -2.5, 0.0, 0.0, 1e-310, 7.0, f64::MAX]
        );
        assert!(
            sample
                .values()
                .iter()
                .all(|v| v.to_bits() != (-0.0_f64).to_bits())
        );
    }

    proptest! {
        #[test]
        fn statistics_do_not_depend_on_the_order(mut values in values(), turn in 0usize..60) {
            let one = Sample::new(values.clone()).unwrap();
            let turn = turn % values.len();
            values.rotate_left(turn);
            values.reverse();
            let other = Sample::new(values).unwrap();
            prop_assert_eq!(one.mean().to_bits(), other.mean().to_bits());
            prop_assert_eq!(one.std().map(f64::to_bits), other.std().map(f64::to_bits));
        }

        #[test]
        fn quantiles_rise_with_the_probability_and_stay_within_the_range(
            values in values(), mut a in 0.0..=1.0_f64, mut b in 0.0..=1.0_f64,
        ) {
            if a > b { std::mem::swap(&mut a, &mut b); }
            let sample = Sample::new(values).unwrap();
            prop_assert!(sample.quantile(a) <= sample.quantile(b));
            prop_assert!(sample.min() <= sample.quantile(a) && sample.quantile(b) <= sample.max());
        }

        #[test]
        fn merging_two_samples_equals_pooling_their_values(a in values(), b in values()) {
            let pooled = Sample::new(a.iter().chain(&b).copied()).unwrap();
            let merged = Sample::new(b.iter().chain(&a).copied()).unwrap();
            prop_assert_eq!(pooled, merged);
        }
    }
}
