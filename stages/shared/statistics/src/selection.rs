//! Quantiles of many values without sorting them.

use crate::sample::{self, QuantilePlace, SampleError};

/// A non-empty set of finite numbers for computing a few quantiles. Every statistic equals that of a
/// [`Sample`](crate::Sample) of the same values, to the bit, at a fraction of its cost if there are many values.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Integers in the order of the values.
    keys: Vec<i64>,
    least: f64,
    most: f64,
}

impl Selection {
    /// Takes the values.
    ///
    /// # Errors
    /// If there are no values, or one is NaN or infinite.
    pub fn new(values: Vec<f64>) -> Result<Self, SampleError> {
        let keys = sample::keys(values)?;
        let ends = keys.iter().fold((i64::MAX, i64::MIN), |(low, high), k| {
            (low.min(*k), high.max(*k))
        });
        Ok(Self {
            keys,
            least: sample::value(ends.0),
            most: sample::value(ends.1),
        })
    }

    fn values(&self) -> impl Iterator<Item = f64> + Clone {
        self.keys.iter().map(|key| sample::value(*key))
    }

    /// Returns the number of values, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a selection is never empty")]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the smallest value.
    pub fn min(&self) -> f64 {
        self.least
    }

    /// Returns the largest value.
    pub fn max(&self) -> f64 {
        self.most
    }

    /// Returns the arithmetic mean and the sample standard deviation (divisor n − 1; `None` for one value).
    pub fn mean_and_std(&self) -> (f64, Option<f64>) {
        let mean = sample::exact_mean(self.values(), self.len()).clamp(self.least, self.most);
        let ends = (self.least, self.most);
        (mean, sample::std(self.values(), self.len(), mean, ends))
    }

    /// Returns how many values are below the given one, and how many equal it.
    pub(crate) fn below_and_equal(&self, value: f64) -> (usize, usize) {
        let count =
            |holds: fn(&f64, &f64) -> bool| self.values().filter(|v| holds(v, &value)).count();
        (count(|v, value| v < value), count(|v, value| v == value))
    }

    /// Returns the quantiles of the given probabilities, type 7 of Hyndman & Fan (1996) like
    /// [`Sample::quantile`](crate::Sample::quantile). The wanted ranks are selected one by one, each within the range
    /// that the others leave (Hoare's FIND). The values are rearranged.
    ///
    /// # Panics
    /// If a probability is outside \[0, 1\] or NaN.
    pub fn quantiles(&mut self, probabilities: &[f64]) -> Vec<f64> {
        let places: Vec<QuantilePlace> = probabilities
            .iter()
            .map(|p| QuantilePlace::of(*p, self.len()))
            .collect();
        let mut ranks: Vec<usize> = places
            .iter()
            .flat_map(|place| [place.low, place.high])
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        select(&mut self.keys, 0, &ranks);
        let value = |rank: usize| sample::value(self.keys[rank]);
        places
            .iter()
            .map(|place| place.between(value(place.low), value(place.high)))
            .collect()
    }
}

/// Moves the keys of the given ascending ranks to their places. The first key has the rank `first`.
fn select(keys: &mut [i64], first: usize, ranks: &[usize]) {
    // The one nearest the middle goes first: it leaves the least to search for the others.
    let middle = first + keys.len() / 2;
    let Some(at) = (0..ranks.len()).min_by_key(|at| ranks[*at].abs_diff(middle)) else {
        return;
    };
    let (left, _, right) = keys.select_nth_unstable(ranks[at] - first);
    select(left, first, &ranks[..at]);
    select(right, ranks[at] + 1, &ranks[at + 1..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Sample;

    #[test]
    fn what_is_no_sample_is_no_selection() {
        assert_eq!(Selection::new(Vec::new()).unwrap_err(), SampleError::Empty);
        assert_eq!(
            Selection::new(vec![1.0, f64::NAN]).unwrap_err(),
            SampleError::NotFinite(1)
        );
    }

    fn probabilities() -> impl Strategy<Value = Vec<f64>> {
        let often = prop::sample::select(vec![0.0, 0.5, 0.99, 1.0]);
        prop::collection::vec(prop_oneof![0.0..=1.0_f64, often], 0..8)
    }

    proptest! {
        #[test]
        fn every_statistic_is_that_of_the_sorted_values_to_the_bit(
            values in prop::collection::vec(prop_oneof![-1e300..1e300_f64, -3.0..3.0_f64, Just(0.5), Just(-0.0)], 1..300),
            probabilities in probabilities(),
        ) {
            let sample = Sample::new(values.iter().copied()).unwrap();
            let mut selection = Selection::new(values).unwrap();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let sorted: Vec<f64> = probabilities.iter().map(|p| sample.quantile(*p)).collect();
            prop_assert_eq!(bits(&selection.quantiles(&probabilities)), bits(&sorted));
            // Also after rearranging.
            let (mean, std) = selection.mean_and_std();
            prop_assert_eq!(mean.to_bits(), sample.mean().to_bits());
            prop_assert_eq!(std.map(f64::to_bits), sample.std().map(f64::to_bits));
            let ends = bits(&[selection.min(), selection.max()]);
            prop_assert_eq!(ends, bits(&[sample.min(), sample.max()]));
            let at = sorted.first().copied().unwrap_or(0.5);
            let below = sample.values().iter().filter(|v| **v < at).count();
            let equal = sample.values().iter().filter(|v| **v == at).count();
            prop_assert_eq!(selection.below_and_equal(at), (below, equal));
        }
    }
}
