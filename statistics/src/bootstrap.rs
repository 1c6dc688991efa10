//! Bootstrap confidence intervals: percentile, basic, BCa (Efron & Tibshirani 1993).

use rand_chacha::ChaCha20Rng;

use crate::distribution::{normal_cdf, normal_quantile};
use crate::random;
use crate::sample::Sample;

/// Which interval is read from the bootstrap distribution.
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

/// The parameters of a bootstrap. The resampling unit is one value of the sample; indices are
/// drawn from ChaCha20 streams of 250 resamples each, so that the result depends on the seed
/// and not on the number of threads.
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
    /// Returns the interval of a statistic, or `None` where the kind is undefined: fewer than
    /// two values, no resample, or for BCa a degenerate bootstrap distribution or jackknife.
    ///
    /// # Panics
    /// If the level is not strictly between 0 and 1 or the sample has more than 2³² values.
    pub fn interval(&self, sample: &Sample, statistic: impl Fn(&Sample) -> f64 + Sync) -> Option<Interval> {
        let distribution = self.distribution(sample, &statistic)?;
        self.read(sample, &statistic, &distribution)
    }

    /// Returns the interval of the mean (the same definition, without sorting each resample).
    ///
    /// # Panics
    /// As [`Bootstrap::interval`].
    pub fn interval_of_mean(&self, sample: &Sample) -> Option<Interval> {
        if sample.len() < 2 {
            return None;
        }
        let distribution = self.drawn_many(sample.len(), |indices, totals| {
            add_up(sample.values(), indices, totals);
            totals.iter_mut().for_each(|total| *total /= sample.len() as f64);
        })?;
        self.read(sample, &Sample::mean, &distribution)
    }

    fn distribution(&self, sample: &Sample, statistic: &(impl Fn(&Sample) -> f64 + Sync)) -> Option<Sample> {
        let n = sample.len();
        let values = sample.values();
        let bound = u32::try_from(n).expect("a sample has fewer than 2³² values");
        self.draw(sample, |rng| {
            let drawn = Sample::new((0..n).map(|_| values[random::below(rng, bound)]))
                .expect("a resample of a sample is a sample");
            statistic(&drawn)
        })
    }

    fn draw(&self, sample: &Sample, one: impl Fn(&mut ChaCha20Rng) -> f64 + Sync) -> Option<Sample> {
        if sample.len() < 2 { None } else { self.drawn(one) }
    }

    /// Draws the bootstrap distribution of a statistic of `units` indices: `many` gets the indices
    /// of some resamples, one after the other, and the place for as many results.
    pub(crate) fn drawn_many(
        &self,
        units: usize,
        many: impl Fn(&[u32], &mut [f64]) + Sync,
    ) -> Option<Sample> {
        assert!(self.level > 0.0 && self.level < 1.0, "a confidence level lies between 0 and 1");
        let bound = u32::try_from(units).expect("a sample has fewer than 2³² values");
        let drawn = random::chunks(self.resamples, self.seed, |rng, size| {
            let (mut indices, mut words) = (vec![0; units * LANES.min(size)], Vec::new());
            let mut results = vec![0.0; size];
            for results in results.chunks_mut(LANES) {
                let indices = &mut indices[..units * results.len()];
                random::fill_below(rng, bound, indices, &mut words);
                many(indices, results);
            }
            results
        });
        Sample::new(drawn).ok()
    }

    /// Draws the bootstrap distribution.
    pub(crate) fn drawn(&self, one: impl Fn(&mut ChaCha20Rng) -> f64 + Sync) -> Option<Sample> {
        assert!(self.level > 0.0 && self.level < 1.0, "a confidence level lies between 0 and 1");
        let drawn =
            random::chunks(self.resamples, self.seed, |rng, size| (0..size).map(|_| one(rng)).collect());
        Sample::new(drawn).ok()
    }

    fn read(
        &self,
        sample: &Sample,
        statistic: &impl Fn(&Sample) -> f64,
        distribution: &Sample,
    ) -> Option<Interval> {
        let values = sample.values();
        let jackknife = || {
            let without = |left_out: usize| {
                let rest = values.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, v)| *v);
                statistic(&Sample::new(rest).expect("a sample of two or more loses one value"))
            };
            vec![(0..values.len()).map(without).collect()]
        };
        self.interval_from(statistic(sample), distribution, jackknife)
    }

    /// Reads the interval from a bootstrap distribution; the jackknife holds the estimates
    /// without each unit, a list for each group that is resampled by itself.
    pub(crate) fn interval_from(
        &self,
        estimate: f64,
        distribution: &Sample,
        jackknife: impl FnOnce() -> Vec<Vec<f64>>,
    ) -> Option<Interval> {
        let tail = (1.0 - self.level) / 2.0;
        let (low, high) = match self.kind {
            BootstrapKind::Percentile | BootstrapKind::Basic => (tail, 1.0 - tail),
            BootstrapKind::Bca => bca_probabilities(estimate, distribution, &jackknife(), tail)?,
        };
        let (low, high) = (distribution.quantile(low), distribution.quantile(high));
        Some(if self.kind == BootstrapKind::Basic {
            Interval { low: 2.0 * estimate - high, high: 2.0 * estimate - low }
        } else {
            Interval { low, high }
        })
    }
}

/// How many resamples are added up side by side.
const LANES: usize = 8;

/// Adds up the values of some resamples. Each total is the sum in the order drawn; the totals are
/// independent of each other, so that no addition waits for the one before it.
pub(crate) fn add_up(values: &[f64], indices: &[u32], totals: &mut [f64]) {
    let n = indices.len() / totals.len();
    if let Ok(totals) = <&mut [f64; LANES]>::try_from(&mut *totals) {
        let mut lanes = indices.chunks_exact(n);
        let lanes: [&[u32]; LANES] = std::array::from_fn(|_| lanes.next().unwrap_or_default());
        let mut sums = [0.0; LANES];
        for draw in 0..n {
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                *sum += values[lane[draw] as usize];
            }
        }
        *totals = sums;
    } else {
        for (total, lane) in totals.iter_mut().zip(indices.chunks_exact(n)) {
            *total = lane.iter().fold(0.0, |sum, i| sum + values[*i as usize]);
        }
    }
}

fn bca_probabilities(
    estimate: f64,
    distribution: &Sample,
    jackknife: &[Vec<f64>],
    tail: f64,
) -> Option<(f64, f64)> {
    let below = distribution.values().partition_point(|v| *v < estimate);
    let equal = distribution.values().partition_point(|v| *v <= estimate) - below;
    // As SciPy: the mean of the strict and the weak share.
    let share = (below as f64 + equal as f64 / 2.0) / distribution.len() as f64;
    if share <= 0.0 || share >= 1.0 {
        return None;
    }
    let bias = normal_quantile(share);
    let (mut cube, mut square) = (0.0, 0.0);
    for group in jackknife {
        let n = group.len() as f64;
        let centre = crate::sample::sum(group.iter().copied()) / n;
        let scale = (n - 1.0) / n;
        cube += crate::sample::sum(group.iter().map(|v| (centre - v).powi(3))) * scale.powi(3);
        square += crate::sample::sum(group.iter().map(|v| (centre - v).powi(2))) * scale.powi(2);
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
        Bootstrap { kind, resamples: 2_000, level: 0.95, seed: 164 }
    }

    fn sample() -> Sample {
        Sample::new((1..=25).map(|i| f64::from(i * i % 17))).unwrap()
    }

    #[test]
    fn the_seed_decides_the_interval_and_nothing_else_does() {
        let one = plain(BootstrapKind::Percentile).interval_of_mean(&sample());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| plain(BootstrapKind::Percentile).interval_of_mean(&sample()));
        let other = Bootstrap { seed: 165, ..plain(BootstrapKind::Percentile) }.interval_of_mean(&sample());
        assert_eq!(one, alone);
        assert_ne!(one, other);
    }

    #[test]
    fn the_first_resamples_do_not_depend_on_how_many_follow() {
        let draws = |total| {
            random::chunks(total, 7, |rng, size| {
                (0..size).map(|_| random::below(rng, 100)).collect::<Vec<_>>()
            })
        };
        assert_eq!(draws(300)[..], draws(900)[..300]);
    }

    #[test]
    fn the_short_way_to_the_mean_gives_the_same_interval() {
        for kind in [BootstrapKind::Percentile, BootstrapKind::Basic, BootstrapKind::Bca] {
            let short = plain(kind).interval_of_mean(&sample()).unwrap();
            let long = plain(kind).interval(&sample(), Sample::mean).unwrap();
            assert!((short.low - long.low).abs() < 1e-12 && (short.high - long.high).abs() < 1e-12);
        }
    }

    #[test]
    fn a_constant_sample_has_a_point_interval_and_no_bca() {
        let constant = Sample::new([2.0; 6]).unwrap();
        let interval = plain(BootstrapKind::Percentile).interval_of_mean(&constant);
        assert_eq!(interval, Some(Interval { low: 2.0, high: 2.0 }));
        assert_eq!(plain(BootstrapKind::Bca).interval_of_mean(&constant), None);
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(plain(BootstrapKind::Basic).interval_of_mean(&Sample::new([1.0]).unwrap()), None);
    }

    #[test]
    fn the_percentile_interval_covers_the_mean_about_as_often_as_it_says() {
        // 400 samples of 40 uniform values; the bootstrap of 40 undercovers slightly. Binomial
        // standard deviation at 0.94: 0.012, so 0.90 is more than three of them away.
        let mut covered = 0;
        for trial in 0..400_usize {
            let mut rng = random::stream(99, trial);
            let drawn = Sample::new((0..40).map(|_| random::below(&mut rng, 10_001) as f64)).unwrap();
            let bootstrap =
                Bootstrap { kind: BootstrapKind::Percentile, resamples: 500, level: 0.95, seed: 1 };
            let interval = bootstrap.interval_of_mean(&drawn).unwrap();
            covered += usize::from(!interval.excludes(5_000.0));
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }
}
