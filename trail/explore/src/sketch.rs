//! Many values in little memory: individual values while they are few, and beyond that the counts in bins a thousandth
//! wide. An answer over millions of requests therefore takes no more memory than one over thousands, and states whether
//! its quantiles are exact.

use std::collections::BTreeMap;

use statistics::Sample;

/// The relative width of a bin; a reported value lies within half of it.
pub(crate) const WIDTH: f64 = 0.001;

/// Values whose ranks are wanted.
#[derive(Debug)]
pub(crate) struct Sketch {
    /// The maximum number of values kept individually.
    most: usize,
    exact: Vec<f64>,
    /// The number of values in each bin, once there were too many; values of at most 0 are in the first.
    bins: BTreeMap<i32, usize>,
    n: usize,
}

impl Sketch {
    /// Creates a sketch that keeps at most `most` individual values.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            exact: Vec::new(),
            bins: BTreeMap::new(),
            n: 0,
        }
    }

    /// Adds a value; a non-finite one is ignored.
    pub(crate) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.n += 1;
        if !self.bins.is_empty() {
            *self.bins.entry(bin(value)).or_default() += 1;
            return;
        }
        self.exact.push(value);
        if self.exact.len() > self.most {
            for value in std::mem::take(&mut self.exact) {
                *self.bins.entry(bin(value)).or_default() += 1;
            }
        }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// Returns whether every value was kept individually.
    pub(crate) fn is_exact(&self) -> bool {
        self.bins.is_empty()
    }

    /// Returns the values at ranks, which count from 1 and ascend; skips ranks that do not exist.
    pub(crate) fn at(&mut self, ranks: impl IntoIterator<Item = usize>) -> Vec<(f64, usize)> {
        self.exact.sort_unstable_by(f64::total_cmp);
        let mut bins = self.bins.iter();
        let (mut value, mut passed) = (0.0, 0);
        let valid = ranks.into_iter().filter(|rank| (1..=self.n).contains(rank));
        let value_of = |rank: usize| match self.exact.is_empty() {
            false => (self.exact[rank - 1], rank),
            true => {
                while passed < rank {
                    let Some((bin, count)) = bins.next() else {
                        break;
                    };
                    (value, passed) = (middle(*bin), passed + count);
                }
                (value, rank)
            }
        };
        valid.map(value_of).collect()
    }

    /// Returns the quantile of a share, type 7 of Hyndman & Fan (1996) as in every table of results: it lies between the
    /// two nearest ranks.
    pub(crate) fn quantile(&mut self, share: f64) -> Option<f64> {
        let place = self.n.checked_sub(1)? as f64 * share;
        let below = place.floor() as usize;
        let ranks = [below + 1, (below + 2).min(self.n)];
        let around = self.at(ranks).into_iter().map(|(value, _)| value);
        let around = Sample::new(around).ok()?;
        Some(around.quantile(place - below as f64))
    }
}

fn bin(value: f64) -> i32 {
    if value <= 0.0 {
        return i32::MIN;
    }
    (value.ln() / WIDTH.ln_1p()).floor() as i32
}

fn middle(bin: i32) -> f64 {
    match bin {
        i32::MIN => 0.0,
        bin => ((f64::from(bin) + 0.5) * WIDTH.ln_1p()).exp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_order_statistics_and_many_lie_within_half_a_bin() {
        let value = |i: usize| 0.01 * 1.0001_f64.powi(((i * 7919) % 100_000) as i32);
        let (mut few, mut many) = (Sketch::new(100_000), Sketch::new(1_000));
        for i in 0..100_000 {
            few.add(value(i));
            many.add(value(i));
        }
        assert!(few.is_exact() && !many.is_exact());
        assert_eq!((few.len(), many.len()), (100_000, 100_000));
        let ranks = [1, 2, 50_000, 99_000, 100_000];
        let (exact, approximate) = (few.at(ranks), many.at(ranks));
        assert_eq!(exact[0].0, 0.01);
        for ((a, rank), (b, _)) in exact.iter().zip(&approximate) {
            assert!((b / a - 1.0).abs() <= WIDTH / 2.0 + 1e-9, "{rank}: {a} {b}");
        }
        // There is one bin for each thousandth, regardless of the number of values.
        assert!(many.bins.len() < 11_000 && many.exact.capacity() == 0);
    }

    #[test]
    fn quantiles_are_those_of_the_tables_of_results() {
        let values: Vec<f64> = (0..37).map(|i| 1.13_f64.powi((i * 11) % 37)).collect();
        let sample = Sample::new(values.iter().copied()).unwrap();
        let mut sketch = Sketch::new(100);
        values.iter().for_each(|value| sketch.add(*value));
        for share in [0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0] {
            assert_eq!(sketch.quantile(share), Some(sample.quantile(share)));
        }
        let mut two = Sketch::new(2);
        [10.0, 20.0].iter().for_each(|value| two.add(*value));
        assert_eq!(
            (two.quantile(0.5), two.quantile(0.95)),
            (Some(15.0), Some(19.5))
        );
    }

    #[test]
    fn a_rank_that_there_is_not_has_no_value() {
        let mut none = Sketch::new(2);
        assert_eq!(none.quantile(0.5), None);
        none.add(f64::NAN);
        assert_eq!(none.len(), 0);
        for value in [3.0, 0.0, 1.0] {
            none.add(value);
        }
        assert!(!none.is_exact());
        assert_eq!(none.quantile(0.0), Some(0.0));
        assert_eq!(none.at([4]), []);
    }
}
