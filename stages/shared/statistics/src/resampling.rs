//! Bootstrap intervals whose resampling unit is not one value: clusters and two groups.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;

use crate::bootstrap::{Bootstrap, Interval, ResampledMean};
use crate::exact_sum::exact_sum;
use crate::random::CHUNK;
use crate::sample::Sample;
use crate::urn::Urn;

impl Bootstrap {
    /// Returns the interval of the mean of all values when whole clusters are drawn. Values within a cluster (the
    /// repetitions of a cell, the requests of a run) are not independent, so the cluster is the unit (Davison & Hinkley
    /// 1997, §3.8). The statistic of a resample is the mean over all values of the drawn clusters. `None` for fewer
    /// than two clusters, an empty cluster, a value that is not finite, or an undefined kind. The jackknife of BCa
    /// leaves one cluster out.
    ///
    /// # Panics
    /// If the level is not strictly between 0 and 1.
    pub fn interval_of_clusters(&self, clusters: &[Vec<f64>]) -> Option<Interval> {
        let clusters = Clusters::new(clusters)?;
        let distribution = self.drawn(|rng, means| clusters.draw(rng, means))?;
        self.interval_from(clusters.mean(), distribution, || {
            vec![clusters.without_one()]
        })
    }

    /// Returns the interval of the difference of two independent means, a − b, with each group resampled separately.
    /// `None` if either has fewer than two values, or for an undefined kind. The jackknife of BCa leaves out one value
    /// of one group at a time.
    ///
    /// # Panics
    /// As [`Bootstrap::interval_of_clusters`].
    pub fn interval_of_difference(&self, a: &Sample, b: &Sample) -> Option<Interval> {
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let (mean_a, mean_b) = (a.mean(), b.mean());
        let (a, b) = (ResampledMean::of(a), ResampledMean::of(b));
        let distribution = self.drawn(|rng, results| {
            difference(
                rng,
                results,
                |rng, means| a.draw(rng, means),
                |rng, means| b.draw(rng, means),
            );
        })?;
        let jackknife =
            || without_one_of_either((mean_a, a.without_one()), (mean_b, b.without_one()));
        self.interval_from(mean_a - mean_b, distribution, jackknife)
    }

    /// Returns the interval of the difference of two independent means, a − b, over all values of each group, with
    /// whole clusters of each group drawn separately. `None` as in [`Bootstrap::interval_of_clusters`] for either
    /// group. The jackknife of BCa leaves out one cluster of one group at a time.
    ///
    /// # Panics
    /// As [`Bootstrap::interval_of_clusters`].
    pub fn interval_of_difference_of_clusters(
        &self,
        a: &[Vec<f64>],
        b: &[Vec<f64>],
    ) -> Option<Interval> {
        let (a, b) = (Clusters::new(a)?, Clusters::new(b)?);
        let distribution = self.drawn(|rng, results| {
            difference(
                rng,
                results,
                |rng, means| a.draw(rng, means),
                |rng, means| b.draw(rng, means),
            );
        })?;
        let jackknife =
            || without_one_of_either((a.mean(), a.without_one()), (b.mean(), b.without_one()));
        self.interval_from(a.mean() - b.mean(), distribution, jackknife)
    }
}

/// Fills in differences of the means of resamples: first all draws of a, then all of b.
fn difference(
    rng: &mut Stream,
    results: &mut [f64],
    a: impl Fn(&mut Stream, &mut [f64]),
    b: impl Fn(&mut Stream, &mut [f64]),
) {
    let mut means = [0.0; CHUNK];
    let means = &mut means[..results.len()];
    a(rng, results);
    b(rng, means);
    results
        .iter_mut()
        .zip(means)
        .for_each(|(result, mean)| *result -= *mean);
}

/// Returns the differences a − b without one unit of either group, from each group's mean and its leave-one-out means.
fn without_one_of_either(
    (mean_a, without_a): (f64, Vec<f64>),
    (mean_b, without_b): (f64, Vec<f64>),
) -> Vec<Vec<f64>> {
    let of_a = without_a.into_iter().map(|m| m - mean_b).collect();
    let of_b = without_b.into_iter().map(|m| mean_a - m).collect();
    vec![of_a, of_b]
}

/// Clusters that are drawn whole.
struct Clusters {
    /// The sum and size of each cluster, in an order that depends only on them.
    units: Vec<[f64; 2]>,
    total: [f64; 2],
    urn: Urn<2>,
}

impl Clusters {
    fn new(clusters: &[Vec<f64>]) -> Option<Self> {
        if clusters.len() < 2 {
            return None;
        }
        let whole = |c: &Vec<f64>| !c.is_empty() && c.iter().all(|v| v.is_finite());
        let unit = |c: &Vec<f64>| whole(c).then(|| [exact_sum(c.iter().copied()), c.len() as f64]);
        let mut units = clusters
            .iter()
            .map(unit)
            .collect::<Option<Vec<[f64; 2]>>>()?;
        units.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        let total = [0, 1].map(|i| exact_sum(units.iter().map(|unit| unit[i])));
        Some(Self {
            total,
            urn: Urn::new(units.clone()),
            units,
        })
    }

    fn mean(&self) -> f64 {
        self.total[0] / self.total[1]
    }

    /// Fills in the means of resamples.
    fn draw(&self, rng: &mut Stream, means: &mut [f64]) {
        let mut totals = [[0.0; 2]; CHUNK];
        let totals = &mut totals[..means.len()];
        self.urn.totals(rng, totals);
        for (mean, [sum, size]) in means.iter_mut().zip(totals) {
            *mean = *sum / *size;
        }
    }

    /// Returns the means without one cluster.
    fn without_one(&self) -> Vec<f64> {
        self.units
            .iter()
            .map(|[sum, size]| (self.total[0] - sum) / (self.total[1] - size))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BootstrapKind, random, t_interval};

    fn bootstrap(kind: BootstrapKind, seed: u64) -> Bootstrap {
        Bootstrap {
            kind,
            resamples: 1_000,
            level: 0.95,
            seed,
        }
    }

    #[test]
    fn clusters_of_one_value_are_the_ordinary_bootstrap() {
        let values: Vec<f64> = (1..=25).map(|i| f64::from(i * i % 17)).collect();
        let alone: Vec<Vec<f64>> = values.iter().map(|v| vec![*v]).collect();
        for kind in [
            BootstrapKind::Percentile,
            BootstrapKind::Basic,
            BootstrapKind::Bca,
        ] {
            let plain = bootstrap(kind, 1)
                .interval_of_mean(&Sample::new(values.clone()).unwrap())
                .unwrap();
            let clustered = bootstrap(kind, 1).interval_of_clusters(&alone).unwrap();
            assert!((plain.low - clustered.low).abs() < 1e-9, "{kind:?}");
            assert!((plain.high - clustered.high).abs() < 1e-9, "{kind:?}");
        }
    }

    #[test]
    fn a_difference_of_clusters_of_one_value_is_the_ordinary_difference() {
        let (a, b): (Vec<f64>, Vec<f64>) = (1..=20)
            .map(|i| (f64::from(i), f64::from(i * i % 7)))
            .unzip();
        let alone = |values: &[f64]| values.iter().map(|v| vec![*v]).collect::<Vec<_>>();
        let sample = |values: &[f64]| Sample::new(values.iter().copied()).unwrap();
        for kind in [
            BootstrapKind::Percentile,
            BootstrapKind::Basic,
            BootstrapKind::Bca,
        ] {
            let plain = bootstrap(kind, 1)
                .interval_of_difference(&sample(&a), &sample(&b))
                .unwrap();
            let clustered = bootstrap(kind, 1)
                .interval_of_difference_of_clusters(&alone(&a), &alone(&b))
                .unwrap();
            assert!((plain.low - clustered.low).abs() < 1e-9, "{kind:?}");
            assert!((plain.high - clustered.high).abs() < 1e-9, "{kind:?}");
        }
        assert_eq!(
            bootstrap(BootstrapKind::Basic, 1).interval_of_difference_of_clusters(&alone(&a), &[b]),
            None
        );
    }

    #[test]
    fn clusters_that_agree_within_give_a_wider_interval_than_their_values_alone() {
        let clusters: Vec<Vec<f64>> = (0..10).map(|c| vec![f64::from(c); 20]).collect();
        let values = Sample::new(clusters.concat()).unwrap();
        let kind = BootstrapKind::Percentile;
        let by_cluster = bootstrap(kind, 1).interval_of_clusters(&clusters).unwrap();
        let by_value = bootstrap(kind, 1).interval_of_mean(&values).unwrap();
        assert!(by_cluster.high - by_cluster.low > 3.0 * (by_value.high - by_value.low));
    }

    #[test]
    fn the_order_of_clusters_and_of_their_values_decides_nothing() {
        let mut clusters = vec![
            vec![1.0, 2.0, 0.3],
            vec![4.0],
            vec![2.5, 0.1],
            vec![9.0, 9.5],
        ];
        let one = bootstrap(BootstrapKind::Bca, 3).interval_of_clusters(&clusters);
        clusters.rotate_left(2);
        clusters.iter_mut().for_each(|c| c.reverse());
        assert_eq!(
            one,
            bootstrap(BootstrapKind::Bca, 3).interval_of_clusters(&clusters)
        );
    }

    #[test]
    fn every_kind_covers_the_true_mean_about_as_often_as_it_says() {
        // 400 samples of 40 values of a skewed distribution (a product of two uniforms) with mean ¼. The binomial
        // standard deviation at 0.94 is 0.012, and the bootstrap of 40 undercovers by about a hundredth. So the bounds
        // are at least three standard deviations away from 0.94.
        let mut covered = [0_usize; 4];
        for trial in 0..400_usize {
            let mut rng = random::stream(2024, trial);
            let mut uniform = || random::below(&mut rng, 1 << 20) as f64 / f64::from(1 << 20);
            let drawn = Sample::new((0..40).map(|_| uniform() * uniform())).unwrap();
            let kinds = [
                BootstrapKind::Percentile,
                BootstrapKind::Basic,
                BootstrapKind::Bca,
            ];
            for (kind, hits) in kinds.into_iter().zip(&mut covered) {
                let interval = bootstrap(kind, trial as u64)
                    .interval_of_mean(&drawn)
                    .unwrap();
                *hits += usize::from(!interval.excludes(0.25));
            }
            let t = t_interval(&drawn, 0.95).unwrap();
            covered[3] += usize::from(t.low <= 0.25 && 0.25 <= t.high);
        }
        assert!(
            covered.iter().all(|c| (358..=397).contains(c)),
            "{covered:?} of 400"
        );
    }

    #[test]
    fn the_interval_of_a_difference_covers_about_as_often_as_it_says() {
        let mut covered = 0_usize;
        for trial in 0..400_usize {
            let mut rng = random::stream(77, trial);
            let mut draw = |n: usize, width: usize| {
                Sample::new((0..n).map(|_| random::below(&mut rng, width) as f64)).unwrap()
            };
            let (a, b) = (draw(35, 10_001), draw(45, 6_001));
            let kind = BootstrapKind::Percentile;
            let interval = bootstrap(kind, trial as u64)
                .interval_of_difference(&a, &b)
                .unwrap();
            covered += usize::from(!interval.excludes(2_000.0));
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }
}
