//! Values that depend on their neighbours or on their group: their effective number.

use crate::quantile_interval::least_for_quantile;
use crate::ranks::mid_ranks;
use crate::refusal::{Refusal, all_finite};
use crate::sample::{Sample, sum};

/// The smallest series whose autocorrelation is computed.
const LEAST_SERIES: usize = 10;

/// The lags that tell independent values from those of a queue. In a queue with several slots, neighbours resemble each other
/// little, but for long.
const EARLY_LAGS: usize = 5;

/// The smallest series that can be called independent. Shorter ones of a queue with some slots often look so.
const LEAST_INDEPENDENT: usize = 100;

/// The number of independent values that a series is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSize {
    /// The number of values.
    pub n: usize,
    /// The number of independent values whose mean would vary as much, from 1 to n.
    pub size: f64,
    /// The correlation of neighbours.
    pub lag1: f64,
    /// The sum of the correlations at lags 1 to 5.
    pub early: f64,
    /// The largest lag whose autocorrelation counts.
    pub last_lag: usize,
}

impl EffectiveSize {
    /// Returns the number of independent values that a series is worth if its values stay alike for two standard errors
    /// longer than it shows. The standard error is the part √(2(2M + 1) ÷ n) of that time, with M the largest lag that counts
    /// (Madras & Sokal, J. Stat. Phys. 50, 1988). Neighbours that show no correlation above 1 ÷ √n keep their size.
    fn cautious(&self) -> f64 {
        let n = self.n as f64;
        if self.lag1 <= 1.0 / n.sqrt() {
            return self.size;
        }
        let error = (2.0 * (2.0 * self.last_lag as f64 + 1.0) / n).sqrt();
        (self.size / (1.0 + 2.0 * error)).max(1.0)
    }

    /// Returns whether the values show no dependence: the correlation of neighbours, and the sum of the early ones, are at most two
    /// standard errors above 0. A correlation of independent values has a standard error of 1 ÷ √n.
    fn looks_independent(&self) -> bool {
        let error = 1.0 / (self.n as f64).sqrt();
        self.n >= LEAST_INDEPENDENT
            && self.lag1 <= 2.0 * error
            && self.early <= 2.0 * error * (EARLY_LAGS as f64).sqrt()
    }
}

/// Returns the number of independent values that a series is worth: n ÷ (1 + 2Σρ). The autocorrelations are added in
/// pairs while a pair's sum is positive and falls (Geyer's initial monotone sequence, Statist. Sci. 7, 1992).
///
/// # Errors
/// If there are fewer than ten values, a value is not finite, or all are equal.
pub fn effective_size(series: &[f64]) -> Result<EffectiveSize, Refusal> {
    let n = series.len();
    if n < LEAST_SERIES {
        let least = LEAST_SERIES;
        return Err(Refusal::TooFewValues { n, least });
    }
    all_finite(series)?;
    let mean = sum(series.iter().copied()) / n as f64;
    let apart: Vec<f64> = series.iter().map(|v| v - mean).collect();
    let covariance = |lag: usize| -> f64 {
        let pairs = apart[lag..].iter().zip(&apart);
        pairs.map(|(a, b)| a * b).sum::<f64>() / n as f64
    };
    let variance = covariance(0);
    let largest = series.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    if variance.sqrt() <= 1e-12 * largest || variance == 0.0 {
        return Err(Refusal::NoSpread { n });
    }
    let lag1 = covariance(1) / variance;
    let early = (1..=EARLY_LAGS).map(covariance).sum::<f64>() / variance;
    // The first pair is lags 0 and 1.
    let (mut total, mut least, mut last_lag) = (1.0 + lag1, 1.0 + lag1, 1);
    for lag in (2..n - 1).step_by(2) {
        let pair = (covariance(lag) + covariance(lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        least = least.min(pair);
        total += least;
        last_lag = lag + 1;
    }
    let time = (2.0 * total - 1.0).max(1.0);
    let size = (n as f64 / time).max(1.0);
    Ok(EffectiveSize {
        n,
        size,
        lag1,
        early,
        last_lag,
    })
}

/// Returns the number of independent values that a series is worth for its quantiles of these probabilities, as the latencies
/// of one queue: the smaller of the cautious effective sizes of the ranks and of the indicator "lies above the quantile". The
/// indicator alone flatters a short series: in it, one long queue holds nearly all values above the quantile, or no long queue
/// happened.
///
/// By chance, independent values also show some correlation. If neither the ranks nor the indicator show more of it than chance
/// does, the number is at least the smallest one that bounds the quantile at this level ([`crate::least_for_quantile`]), if there
/// are so many values and at least 100. This gives the widest possible interval.
///
/// A quantile above which there is no value has no number; nor has any quantile if the series has fewer than ten values, if one
/// is not finite, or if all are equal.
///
/// # Panics
/// If a probability or the level is not strictly between 0 and 1.
pub fn effective_sizes_of_quantiles<const N: usize>(
    series: &[f64],
    probabilities: [f64; N],
    level: f64,
) -> [Option<f64>; N] {
    let Ok(sample) = Sample::new(series.iter().copied()) else {
        return [None; N];
    };
    let Ok(of_ranks) = effective_size(&mid_ranks(series).ranks) else {
        return [None; N];
    };
    probabilities.map(|p| {
        let quantile = sample.quantile(p);
        let above = series.iter().map(|v| f64::from(u8::from(*v > quantile)));
        let of_indicator = effective_size(&above.collect::<Vec<f64>>()).ok()?;
        let both = [of_ranks, of_indicator];
        let least = match both.iter().all(EffectiveSize::looks_independent) {
            true => least_for_quantile(p, level).min(series.len()) as f64,
            false => 1.0,
        };
        let size = of_ranks.cautious().min(of_indicator.cautious());
        Some(size.max(least))
    })
}

/// The number of independent values that values in groups are worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupedSize {
    /// The number of values.
    pub n: usize,
    /// The number of independent values whose mean would vary as much, from 1 to n.
    pub size: f64,
    /// The correlation of two values of one group, from 0 to 1.
    pub correlation: f64,
}

/// Returns the number of independent values that values in groups are worth: n ÷ (1 + (m − 1)·ρ), with m the mean size of
/// a group (Kish, Survey Sampling, 1965, section 5.4). ρ is the intraclass correlation of the one-way analysis of variance
/// (Donner, Int. Stat. Rev. 54, 1986), at least 0. Each series has its own mean, so only groups within a series are
/// compared: `series[i][j]` holds the values of group j of series i.
///
/// Returns `None` if no series has two groups, so that nothing shows whether the values of a group resemble each other.
pub fn effective_size_in_groups(series: &[Vec<Vec<f64>>]) -> Option<GroupedSize> {
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (mut total, mut n) = (0.0, 0_usize);
        for value in values {
            total += value;
            n += 1;
        }
        total / n.max(1) as f64
    };
    let (mut between, mut within) = (0.0, 0.0);
    let (mut n, mut groups, mut squares, mut compared) = (0_usize, 0_usize, 0.0, 0_usize);
    for groups_of_one in series {
        let groups_of_one: Vec<&Vec<f64>> =
            groups_of_one.iter().filter(|g| !g.is_empty()).collect();
        if groups_of_one.is_empty() {
            continue;
        }
        let whole = mean(&mut groups_of_one.iter().flat_map(|g| g.iter().copied()));
        for group in &groups_of_one {
            let own = mean(&mut group.iter().copied());
            between += group.len() as f64 * (own - whole).powi(2);
            within += group.iter().map(|v| (v - own).powi(2)).sum::<f64>();
            squares += (group.len() as f64).powi(2);
            n += group.len();
        }
        groups += groups_of_one.len();
        compared += groups_of_one.len() - 1;
    }
    if compared == 0 {
        return None;
    }
    let independent = GroupedSize {
        n,
        size: n as f64,
        correlation: 0.0,
    };
    if n == groups {
        return Some(independent);
    }
    let (between, within) = (between / compared as f64, within / (n - groups) as f64);
    if between <= within {
        return Some(independent);
    }
    // The mean size of a group; slightly less if sizes differ.
    let size = (n as f64 - squares / n as f64) / (groups - 1) as f64;
    let correlation = (between - within) / (between + (size - 1.0) * within);
    let design = 1.0 + (size - 1.0).max(0.0) * correlation;
    Some(GroupedSize {
        n,
        size: (n as f64 / design).max(1.0),
        correlation,
    })
}

/// The most waves whose autocorrelations are computed. They cost up to the square of their number.
const MOST_WAVES: usize = 1024;

/// Returns the number of independent values that the values of consecutive waves are worth, given in the order of time. The
/// values of a wave may resemble each other, as [`effective_size_in_groups`] shows, and so may neighbouring waves. The
/// means of the waves then count as fewer ([`effective_size`]), and the values are worth that many times their variance
/// ÷ that of the means. The smaller of the two numbers counts, from 1 to n. Waves of one value are a plain series.
///
/// The second number counts only if the correlation of neighbouring waves is above its standard error, 1 ÷ √waves:
/// otherwise, independent waves would lose a tenth of their worth to chance. Fewer than ten waves cannot show it, and count
/// as independent of each other.
///
/// Returns `None` if there are not two waves with a value.
pub fn effective_size_of_waves(mut waves: Vec<Vec<f64>>) -> Option<f64> {
    waves.retain(|wave| !wave.is_empty());
    if waves.len() > MOST_WAVES {
        let together = waves.len().div_ceil(MOST_WAVES);
        waves = waves.chunks(together).map(<[Vec<f64>]>::concat).collect();
    }
    let means: Vec<f64> = waves
        .iter()
        .map(|wave| sum(wave.iter().copied()) / wave.len() as f64)
        .collect();
    let variance = |values: Vec<f64>| Sample::new(values).ok()?.std().map(|std| std * std);
    let all = variance(waves.concat());
    let within = effective_size_in_groups(&[waves])?.size;
    let Ok(series) = effective_size(&means) else {
        return Some(within);
    };
    if series.lag1 <= 1.0 / (means.len() as f64).sqrt() {
        return Some(within);
    }
    let ratio = all
        .zip(variance(means))
        .map_or(1.0, |(all, between)| all / between);
    Some(within.min(ratio * series.size).max(1.0))
}

/// Cuts a series into groups of this many values. A rest of less than half a group belongs to the last one.
///
/// # Panics
/// If `size` is 0.
pub fn in_groups(series: &[f64], size: usize) -> Vec<Vec<f64>> {
    assert!(size > 0, "a group has at least one value");
    let mut groups: Vec<Vec<f64>> = series.chunks(size).map(<[f64]>::to_vec).collect();
    if groups.len() > 1 && groups.last().is_some_and(|last| 2 * last.len() < size) {
        let rest = groups.pop().unwrap_or_default();
        if let Some(last) = groups.last_mut() {
            last.extend(rest);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{normal, stream};

    /// Returns a first-order autoregression of variance 1.
    fn autoregression(rho: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = stream(seed, 0);
        let mut value = normal(&mut rng);
        let mut next = || {
            value = rho * value + (1.0 - rho * rho).sqrt() * normal(&mut rng);
            value
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn an_autoregression_is_worth_its_share() {
        for rho in [0.0, 0.5, 0.8] {
            let n = 20_000;
            let series = autoregression(rho, n, 164);
            let share = effective_size(&series).unwrap().size / n as f64;
            let expected = (1.0 - rho) / (1.0 + rho);
            assert!((share / expected - 1.0).abs() < 0.15, "{rho}: {share}");
        }
    }

    #[test]
    fn a_series_that_turns_at_every_step_is_worth_no_more_than_its_length() {
        let series: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let effective = effective_size(&series).unwrap();
        assert_eq!(effective.size, 100.0);
        assert!(effective.lag1 < -0.9);
        assert_eq!(effective_size(&[1.0; 50]), Err(Refusal::NoSpread { n: 50 }));
    }

    #[test]
    fn tails_of_a_dependent_series_are_worth_less_than_its_values() {
        let series = autoregression(0.9, 5_000, 3);
        let [tail] = effective_sizes_of_quantiles(&series, [0.95], 0.95).map(Option::unwrap);
        assert!(tail < 2_500.0, "{tail}");
        // Values that show no dependence keep their number, apart from chance.
        let series = autoregression(0.0, 5_000, 3);
        let [tail] = effective_sizes_of_quantiles(&series, [0.95], 0.95).map(Option::unwrap);
        assert!(tail > 4_000.0, "{tail}");
        assert_eq!(
            effective_sizes_of_quantiles(&[1.0; 50], [0.5], 0.95),
            [None]
        );
    }

    #[test]
    fn independent_values_keep_the_interval_of_a_tail() {
        // With the cautious number alone, 61, 58 and 84 % keep it. Of values whose neighbours resemble each other, few do.
        for (n, p, rho, least, most) in [
            (100, 0.95, 0.0, 0.9, 1.0),
            (400, 0.99, 0.0, 0.9, 1.0),
            (500, 0.99, 0.0, 0.9, 1.0),
            (100, 0.95, 0.5, 0.0, 0.1),
            (400, 0.99, 0.3, 0.0, 0.1),
        ] {
            let keeps = |seed: u64| {
                let series = autoregression(rho, n, seed);
                let [size] = effective_sizes_of_quantiles(&series, [p], 0.95);
                size.is_some_and(|size| size >= least_for_quantile(p, 0.95) as f64)
            };
            let share = (0..500).filter(|seed| keeps(*seed)).count() as f64 / 500.0;
            assert!((least..=most).contains(&share), "{n} {p} {rho}: {share}");
        }
    }

    #[test]
    fn groups_of_like_values_are_worth_as_much_as_their_number() {
        let alike: Vec<f64> = (0..40).map(|i| f64::from(i / 8)).collect();
        let size = effective_size_in_groups(&[in_groups(&alike, 8)]).unwrap();
        assert_eq!((size.n, size.size, size.correlation), (40, 5.0, 1.0));
        // The same values in turn: each group has all of them.
        let mixed: Vec<f64> = (0..40).map(|i| f64::from(i % 5)).collect();
        let size = effective_size_in_groups(&[in_groups(&mixed, 8)]).unwrap();
        assert_eq!((size.size, size.correlation), (40.0, 0.0));
        // A group of one value has nothing to resemble, and one group has nothing to differ from.
        assert_eq!(
            effective_size_in_groups(&[in_groups(&alike, 1)]).map(|s| s.size),
            Some(40.0)
        );
        assert_eq!(effective_size_in_groups(&[in_groups(&alike, 40)]), None);
        assert_eq!(effective_size_in_groups(&[]), None);
    }

    #[test]
    fn each_series_has_its_own_mean() {
        let low = in_groups(&[1.0, 3.0, 3.0, 1.0, 1.0, 3.0], 2);
        let high = in_groups(&[101.0, 103.0, 103.0, 101.0, 101.0, 103.0], 2);
        let size = effective_size_in_groups(&[low, high]).unwrap();
        assert_eq!((size.n, size.size), (12, 12.0));
    }

    #[test]
    fn the_correlation_in_groups_is_that_of_the_model() {
        let mut rng = stream(7, 0);
        for rho in [0.0_f64, 0.3, 0.8] {
            let groups: Vec<Vec<f64>> = (0..400)
                .map(|_| {
                    let shared = rho.sqrt() * normal(&mut rng);
                    let own = (1.0 - rho).sqrt();
                    (0..16).map(|_| shared + own * normal(&mut rng)).collect()
                })
                .collect();
            let size = effective_size_in_groups(&[groups]).unwrap();
            assert!((size.correlation - rho).abs() < 0.05, "{rho}: {size:?}");
            let expected = 6_400.0 / (1.0 + 15.0 * rho);
            assert!((size.size / expected - 1.0).abs() < 0.15, "{rho}: {size:?}");
        }
    }

    /// Waves of a closed loop: each has a level of its own, an autoregression from wave to wave, and a share `alike` of the
    /// variance of the values is that of the levels.
    fn waves(clients: usize, count: usize, (rho, alike): (f64, f64), seed: u64) -> Vec<Vec<f64>> {
        let levels = autoregression(rho, count, seed);
        let mut rng = stream(seed, 1);
        let mut own = || (1.0_f64 - alike).sqrt() * normal(&mut rng);
        let wave = |level: &f64| (0..clients).map(|_| alike.sqrt() * level + own()).collect();
        levels.iter().map(wave).collect()
    }

    /// The share of a thousand cells whose interval of the median contains it, and the mean share of the values that count
    /// as independent.
    fn coverage_of_medians(clients: usize, count: usize, how: (f64, f64)) -> (f64, f64) {
        let (mut covered, mut intervals, mut worth) = (0, 0, 0.0);
        for seed in 0..1000 {
            let values = waves(clients, count, how, seed).concat();
            let ranks = mid_ranks(&values).ranks;
            let size = effective_size_of_waves(in_groups(&ranks, clients)).unwrap();
            worth += size / values.len() as f64;
            let sample = Sample::new(values).unwrap();
            if let Ok(quantile) =
                crate::quantile_interval_of(&sample, size.floor() as usize, 0.5, 0.95)
            {
                intervals += 1;
                let interval = quantile.interval;
                covered += u32::from(interval.low <= 0.0 && 0.0 <= interval.high);
            }
        }
        (f64::from(covered) / f64::from(intervals), worth / 1000.0)
    }

    #[test]
    fn an_interval_covers_the_median_of_waves_that_resemble_their_neighbours() {
        // Counted by the intraclass correlation alone, these cover 56, 60, 46 and 54 %.
        for (clients, count, how) in [
            (1, 200, (0.8, 1.0)),
            (4, 100, (0.8, 1.0)),
            (4, 100, (0.9, 0.5)),
            (16, 60, (0.8, 0.5)),
        ] {
            let (covered, _) = coverage_of_medians(clients, count, how);
            assert!(covered >= 0.9, "{clients} {count} {how:?}: {covered}");
        }
    }

    #[test]
    fn independent_waves_are_worth_what_their_correlation_within_says() {
        for (clients, count, alike, within) in [
            (1, 40, 1.0, 1.0),
            (1, 400, 1.0, 1.0),
            (4, 50, 0.5, 0.42),
            (16, 60, 0.0, 0.94),
        ] {
            let (covered, worth) = coverage_of_medians(clients, count, (0.0, alike));
            assert!(
                covered >= 0.94 && (0.93..=1.01).contains(&(worth / within)),
                "{clients} {count} {alike}: {covered} {worth}"
            );
        }
    }

    #[test]
    fn waves_without_neighbours_or_without_spread_are_counted_by_their_correlation_within() {
        let few = waves(4, 9, (0.95, 1.0), 1);
        let within = effective_size_in_groups(std::slice::from_ref(&few))
            .unwrap()
            .size;
        assert_eq!(effective_size_of_waves(few), Some(within));
        assert_eq!(effective_size_of_waves(vec![vec![2.0]; 30]), Some(30.0));
        assert_eq!(
            effective_size_of_waves(vec![vec![1.0, 2.0], Vec::new()]),
            None
        );
        // Neighbours that alternate do not make the values worth more.
        let turns = (0..100).map(|i| vec![f64::from(i % 2)]).collect();
        assert_eq!(effective_size_of_waves(turns), Some(100.0));
    }

    #[test]
    fn a_long_series_of_waves_is_worth_as_much_for_each_value() {
        let share = |count: usize| {
            let waves = waves(1, count, (0.8, 1.0), 7);
            effective_size_of_waves(waves).unwrap() / count as f64
        };
        let ratio = share(20_000) / (0.2 / 1.8);
        assert!((0.7..1.4).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_short_rest_belongs_to_the_last_group() {
        let lengths = |n: usize| -> Vec<usize> {
            let series = vec![0.0; n];
            in_groups(&series, 4).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(9), [4, 5]);
        assert_eq!(lengths(10), [4, 4, 2]);
        assert_eq!(lengths(1), [1]);
        assert_eq!(lengths(0), [0_usize; 0]);
    }
}
