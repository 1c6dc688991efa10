//! Bootstrap intervals whose resampling unit is not one value: clusters, and two groups.

use crate::bootstrap::{Bootstrap, Interval, add_up};
use crate::random;
use crate::sample::{Sample, sum};

impl Bootstrap {
    /// Returns the interval of the mean of all values when whole clusters are drawn: values
    /// within a cluster (the repetitions of a cell, the requests of a run) are not independent,
    /// so the cluster is the unit (Davison & Hinkley 1997, §3.8). The statistic of a resample is
    /// the mean over all values of the clusters drawn. `None` for fewer than two clusters, an
    /// empty cluster, a value that is not finite, or where the kind is undefined. The jackknife
    /// of BCa leaves one cluster out.
    ///
    /// # Panics
    /// If the level is not strictly between 0 and 1 or there are more than 2³² clusters.
    pub fn interval_of_clusters(&self, clusters: &[Vec<f64>]) -> Option<Interval> {
        if clusters.len() < 2 {
            return None;
        }
        let mut units: Vec<(f64, f64)> = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            // Through a sample, so that the order of the values decides nothing.
            let values = Sample::new(cluster.iter().copied()).ok()?;
            units.push((sum(values.values().iter().copied()), values.len() as f64));
        }
        units.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let total = (sum(units.iter().map(|u| u.0)), sum(units.iter().map(|u| u.1)));
        let (sums, sizes): (Vec<f64>, Vec<f64>) = units.iter().copied().unzip();
        let distribution = self.drawn_many(units.len(), |indices, results| {
            let mut bottoms = vec![0.0; results.len()];
            add_up(&sums, indices, results);
            add_up(&sizes, indices, &mut bottoms);
            results.iter_mut().zip(bottoms).for_each(|(top, bottom)| *top /= bottom);
        })?;
        let jackknife =
            || vec![units.iter().map(|u| (total.0 - u.0) / (total.1 - u.1)).collect::<Vec<f64>>()];
        self.interval_from(total.0 / total.1, &distribution, jackknife)
    }

    /// Returns the interval of the difference of two independent means, a − b, each group
    /// resampled by itself. `None` if either has fewer than two values, or where the kind is
    /// undefined. The jackknife of BCa leaves out one value of one group at a time.
    ///
    /// # Panics
    /// As [`Bootstrap::interval_of_clusters`].
    pub fn interval_of_difference(&self, a: &Sample, b: &Sample) -> Option<Interval> {
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let bound = |s: &Sample| u32::try_from(s.len()).expect("a sample has fewer than 2³² values");
        let (bound_a, bound_b) = (bound(a), bound(b));
        let distribution = self.drawn(|rng| {
            let mut mean = |s: &Sample, bound: u32| {
                let drawn: f64 = (0..s.len()).map(|_| s.values()[random::below(rng, bound)]).sum();
                drawn / s.len() as f64
            };
            mean(a, bound_a) - mean(b, bound_b)
        })?;
        let (mean_a, mean_b) = (a.mean(), b.mean());
        let without = |s: &Sample| -> Vec<f64> {
            let (total, rest) = (sum(s.values().iter().copied()), (s.len() - 1) as f64);
            s.values().iter().map(|v| (total - v) / rest).collect()
        };
        let jackknife = || {
            let of_a = without(a).into_iter().map(|m| m - mean_b).collect();
            let of_b = without(b).into_iter().map(|m| mean_a - m).collect();
            vec![of_a, of_b]
        };
        self.interval_from(mean_a - mean_b, &distribution, jackknife)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BootstrapKind, t_interval};

    fn bootstrap(kind: BootstrapKind, seed: u64) -> Bootstrap {
        Bootstrap { kind, resamples: 1_000, level: 0.95, seed }
    }

    #[test]
    fn clusters_of_one_value_are_the_ordinary_bootstrap() {
        let values: Vec<f64> = (1..=25).map(|i| f64::from(i * i % 17)).collect();
        let alone: Vec<Vec<f64>> = values.iter().map(|v| vec![*v]).collect();
        for kind in [BootstrapKind::Percentile, BootstrapKind::Basic, BootstrapKind::Bca] {
            let plain = bootstrap(kind, 1).interval_of_mean(&Sample::new(values.clone()).unwrap()).unwrap();
            let clustered = bootstrap(kind, 1).interval_of_clusters(&alone).unwrap();
            assert!((plain.low - clustered.low).abs() < 1e-9, "{kind:?}");
            assert!((plain.high - clustered.high).abs() < 1e-9, "{kind:?}");
        }
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
        let mut clusters = vec![vec![1.0, 2.0, 0.3], vec![4.0], vec![2.5, 0.1], vec![9.0, 9.5]];
        let one = bootstrap(BootstrapKind::Bca, 3).interval_of_clusters(&clusters);
        clusters.rotate_left(2);
        clusters.iter_mut().for_each(|c| c.reverse());
        assert_eq!(one, bootstrap(BootstrapKind::Bca, 3).interval_of_clusters(&clusters));
    }

    #[test]
    fn every_kind_covers_the_true_mean_about_as_often_as_it_says() {
        // 400 samples of 40 values of a skewed distribution (a product of two uniforms) of mean
        // ¼. Binomial standard deviation at 0.94: 0.012; the bootstrap of 40 undercovers by about
        // a hundredth, so the bounds are three and more of them away from 0.94.
        let mut covered = [0_usize; 4];
        for trial in 0..400_usize {
            let mut rng = random::stream(2024, trial);
            let mut uniform = || random::below(&mut rng, 1 << 20) as f64 / f64::from(1 << 20);
            let drawn = Sample::new((0..40).map(|_| uniform() * uniform())).unwrap();
            let kinds = [BootstrapKind::Percentile, BootstrapKind::Basic, BootstrapKind::Bca];
            for (kind, hits) in kinds.into_iter().zip(&mut covered) {
                let interval = bootstrap(kind, trial as u64).interval_of_mean(&drawn).unwrap();
                *hits += usize::from(!interval.excludes(0.25));
            }
            let t = t_interval(&drawn, 0.95).unwrap();
            covered[3] += usize::from(t.low <= 0.25 && 0.25 <= t.high);
        }
        assert!(covered.iter().all(|c| (358..=397).contains(c)), "{covered:?} of 400");
    }

    #[test]
    fn the_interval_of_a_difference_covers_about_as_often_as_it_says() {
        let mut covered = 0_usize;
        for trial in 0..400_usize {
            let mut rng = random::stream(77, trial);
            let mut draw = |n: usize, width: u32| {
                Sample::new((0..n).map(|_| random::below(&mut rng, width) as f64)).unwrap()
            };
            let (a, b) = (draw(35, 10_001), draw(45, 6_001));
            let kind = BootstrapKind::Percentile;
            let interval = bootstrap(kind, trial as u64).interval_of_difference(&a, &b).unwrap();
            covered += usize::from(!interval.excludes(2_000.0));
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }
}
