//! Bootstrap confidence intervals: percentile, basic, BCa (Efron & Tibshirani 1993).

use rand_xoshiro::Xoshiro256PlusPlus as Stream;

use crate::distribution::{normal_cdf, normal_quantile};
use crate::exact_sum::exact_sum;
use crate::random::{self, CHUNK};
use crate::sample::Sample;
use crate::selection::Selection;
use crate::urn::Urn;

/// The interval to read from the bootstrap distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootstrapKind {
    /// The quantiles of the bootstrap distribution.
    #[default]
    Percentile,
    /// Those quantiles reflected at the estimate.
    Basic,
    /// Bias-corrected and accelerated, acceleration from the jackknife.
    Bca,
}

impl BootstrapKind {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Percentile => "percentile",
            Self::Basic => "basic",
            Self::Bca => "bca",
        }
    }
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns whether the value lies strictly outside the interval.
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }
}

/// The parameters of a bootstrap. The resampling unit is one value of the sample. Indices are drawn
/// from xoshiro256++ streams of 250 resamples each, so the result depends on the seed but not on
/// the number of threads. The order in which a resample's values are added follows from its draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// The kind of interval.
    pub kind: BootstrapKind,
    /// The number of resamples.
    pub resamples: usize,
    /// The confidence level, strictly between 0 and 1.
    pub level: f64,
    /// The seed.
    pub seed: u64,
}

impl Bootstrap {
    /// Returns the interval of a statistic, or `None` if the kind is undefined: fewer than two
    /// values, no resample, or for BCa a degenerate bootstrap distribution or jackknife.
    ///
    /// # Panics
    /// If the level is not strictly between 0 and 1.
    pub fn interval(
        &self,
        sample: &Sample,
        statistic: impl Fn(&Sample) -> f64 + Sync,
    ) -> Option<Interval> {
        if sample.len() < 2 {
            return None;
        }
        let values = sample.values();
        let urn = Urn::new(values.iter().map(|v| [*v]).collect());
        let distribution = self.drawn(|rng, results| {
            // The values are sorted, so the count of each value's draws gives the sorted resample.
            let (mut counts, mut drawn) =
                (vec![0_u32; values.len()], Vec::with_capacity(values.len()));
            for result in results {
                urn.draw(rng, |i| counts[i] += 1);
                for (value, count) in values.iter().zip(&mut counts) {
                    drawn.extend(std::iter::repeat_n(*value, std::mem::take(count) as usize));
                }
                let resample = Sample::from_sorted(std::mem::take(&mut drawn));
                *result = statistic(&resample);
                drawn = resample.into_values();
                drawn.clear();
            }
        })?;
        let jackknife = || {
            let without = |left_out: usize| {
                let rest = [&values[..left_out], &values[left_out + 1..]].concat();
                statistic(&Sample::from_sorted(rest))
            };
            vec![(0..values.len()).map(without).collect()]
        };
        self.interval_from(statistic(sample), distribution, jackknife)
    }

    /// Returns the interval of the mean. It uses the same draws without building the resamples.
    ///
    /// # Panics
    /// As [`Bootstrap::interval`].
    pub fn interval_of_mean(&self, sample: &Sample) -> Option<Interval> {
        if sample.len() < 2 {
            return None;
        }
        let mean = ResampledMean::of(sample);
        let distribution = self.drawn(|rng, means| mean.draw(rng, means))?;
        self.interval_from(sample.mean(), distribution, || vec![mean.without_one()])
    }

    /// Draws the bootstrap distribution. Each call of `some` fills in the statistics of some
    /// resamples.
    pub(crate) fn drawn(&self, some: impl Fn(&mut Stream, &mut [f64]) + Sync) -> Option<Selection> {
        assert!(
            self.level > 0.0 && self.level < 1.0,
            "a confidence level lies between 0 and 1"
        );
        Selection::new(random::chunks(self.resamples, self.seed, some)).ok()
    }

    /// Reads the interval from a bootstrap distribution. The jackknife holds the estimates without
    /// each unit, with one list per group that is resampled separately.
    pub(crate) fn interval_from(
        &self,
        estimate: f64,
        mut distribution: Selection,
        jackknife: impl FnOnce() -> Vec<Vec<f64>>,
    ) -> Option<Interval> {
        let tail = (1.0 - self.level) / 2.0;
        let (low, high) = match self.kind {
            BootstrapKind::Percentile | BootstrapKind::Basic => (tail, 1.0 - tail),
            BootstrapKind::Bca => bca_probabilities(estimate, &distribution, &jackknife(), tail)?,
        };
        let ends = distribution.quantiles(&[low, high]);
        let (low, high) = (ends[0], ends[1]);
        Some(if self.kind == BootstrapKind::Basic {
            Interval {
                low: 2.0 * estimate - high,
                high: 2.0 * estimate - low,
            }
        } else {
            Interval { low, high }
        })
    }
}

/// The mean of a sample, resampled value by value.
pub(crate) struct ResampledMean<'a> {
    values: &'a [f64],
    urn: Urn<1>,
}

impl<'a> ResampledMean<'a> {
    /// Prepares a sample of two values or more.
    pub(crate) fn of(sample: &'a Sample) -> Self {
        let values = sample.values();
        Self {
            values,
            urn: Urn::new(values.iter().map(|v| [*v]).collect()),
        }
    }

    /// Fills in the means of resamples.
    pub(crate) fn draw(&self, rng: &mut Stream, means: &mut [f64]) {
        let mut totals = [[0.0]; CHUNK];
        let totals = &mut totals[..means.len()];
        self.urn.totals(rng, totals);
        for (mean, [total]) in means.iter_mut().zip(totals) {
            *mean = *total / self.values.len() as f64;
        }
    }

    /// Returns the means of all values but one.
    pub(crate) fn without_one(&self) -> Vec<f64> {
        let (total, rest) = (
            exact_sum(self.values.iter().copied()),
            (self.values.len() - 1) as f64,
        );
        self.values.iter().map(|v| (total - v) / rest).collect()
    }
}

fn bca_probabilities(
    estimate: f64,
    distribution: &Selection,
    jackknife: &[Vec<f64>],
    tail: f64,
) -> Option<(f64, f64)> {
    let (below, equal) = distribution.below_and_equal(estimate);
    // Like SciPy, the mean of the strict and the weak share.
    let share = (below as f64 + equal as f64 / 2.0) / distribution.len() as f64;
    if share <= 0.0 || share >= 1.0 {
        return None;
    }
    let bias = normal_quantile(share);
    let (mut cube, mut square) = (0.0, 0.0);
    for group in jackknife {
        let n = group.len() as f64;
        let centre = exact_sum(group.iter().copied()) / n;
        let scale = (n - 1.0) / n;
        cube += exact_sum(group.iter().map(|v| (centre - v).powi(3))) * scale.powi(3);
        square += exact_sum(group.iter().map(|v| (centre - v).powi(2))) * scale.powi(2);
    }
    if square == 0.0 || square.is_nan() {
        return None;
    }
    let acceleration = cube / (6.0 * square.powf(1.5));
    let shift = |p: f64| {
        let z = bias + normal_quantile(p);
        normal_cdf(bias + z / (1.0 - acceleration * z))
    };
    Some((shift(tail), shift(1.0 - tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(kind: BootstrapKind) -> Bootstrap {
        Bootstrap {
            kind,
            resamples: 2_000,
            level: 0.95,
            seed: 164,
        }
    }

    fn sample() -> Sample {
        Sample::new((1..=25).map(|i| f64::from(i * i % 17))).unwrap()
    }

    #[test]
    fn the_seed_decides_the_interval_and_nothing_else_does() {
        let one = plain(BootstrapKind::Percentile).interval_of_mean(&sample());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        let alone = pool.install(|| plain(BootstrapKind::Percentile).interval_of_mean(&sample()));
        let other = Bootstrap {
            seed: 165,
            ..plain(BootstrapKind::Percentile)
        }
        .interval_of_mean(&sample());
        assert_eq!(one, alone);
        assert_ne!(one, other);
    }

    #[test]
    fn the_first_resamples_do_not_depend_on_how_many_follow() {
        let draws = |total| {
            random::chunks(total, 7, |rng, results: &mut [usize]| {
                results
                    .iter_mut()
                    .for_each(|result| *result = random::below(rng, 100));
            })
        };
        assert_eq!(draws(300)[..], draws(900)[..300]);
    }

    #[test]
    fn the_short_way_to_the_mean_gives_the_same_interval() {
        for kind in [
            BootstrapKind::Percentile,
            BootstrapKind::Basic,
            BootstrapKind::Bca,
        ] {
            let short = plain(kind).interval_of_mean(&sample()).unwrap();
            let long = plain(kind).interval(&sample(), Sample::mean).unwrap();
            assert!((short.low - long.low).abs() < 1e-12 && (short.high - long.high).abs() < 1e-12);
        }
    }

    #[test]
    fn a_constant_sample_has_a_point_interval_and_no_bca() {
        let constant = Sample::new([2.0; 6]).unwrap();
        let interval = plain(BootstrapKind::Percentile).interval_of_mean(&constant);
        assert_eq!(
            interval,
            Some(Interval {
                low: 2.0,
                high: 2.0
            })
        );
        assert_eq!(plain(BootstrapKind::Bca).interval_of_mean(&constant), None);
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(
            plain(BootstrapKind::Basic).interval_of_mean(&Sample::new([1.0]).unwrap()),
            None
        );
    }

    #[test]
    fn the_percentile_interval_covers_the_mean_about_as_often_as_it_says() {
        // 400 samples of 40 uniform values; the bootstrap of 40 undercovers slightly. The binomial
        // standard deviation at 0.94 is 0.012, so 0.90 is more than three of them away.
        let mut covered = 0;
        for trial in 0..400_usize {
            let mut rng = random::stream(99, trial);
            let drawn =
                Sample::new((0..40).map(|_| random::below(&mut rng, 10_001) as f64)).unwrap();
            let bootstrap = Bootstrap {
                kind: BootstrapKind::Percentile,
                resamples: 500,
                level: 0.95,
                seed: 1,
            };
            let interval = bootstrap.interval_of_mean(&drawn).unwrap();
            covered += usize::from(!interval.excludes(5_000.0));
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }
}
