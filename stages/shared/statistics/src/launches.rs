//! Statistics of requests within launches. The launch is the unit that varies, however many requests it has.

use crate::bootstrap::Interval;
use crate::distribution::{normal_upper, student_critical};
use crate::quantile_interval::least_for_quantile;
use crate::random;
use crate::refusal::{Refusal, all_finite};
use crate::sample::sum;
use crate::selection::Selection;
use crate::unit::unit_effect;

/// The smallest number of units that can be resampled or left out in turn.
pub(crate) const LEAST_RESAMPLED: usize = 5;

/// The parameters of a bootstrap of launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    /// The number of resamples.
    pub resamples: usize,
    /// The confidence level, strictly between 0 and 1.
    pub level: f64,
    /// The seed.
    pub seed: u64,
}

/// A quantile over launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchQuantile {
    /// The quantile of all requests, with equal weight for each launch.
    pub estimate: f64,
    /// Its interval.
    pub interval: Interval,
    /// The number of launches.
    pub launches: usize,
}

/// Returns the quantile of probability `p` of a server's requests over its launches. The interval holds all values q at
/// which the share of requests up to q, one share per launch, has a t interval that contains p (Woodruff, JASA 47,
/// 1952, with launches as clusters). Unlike a t interval over the launches' own quantiles, it is not affected by the
/// bias of quantiles from few requests.
///
/// # Errors
/// If there are fewer than five launches, a launch has fewer requests than bound the quantile
/// ([`crate::least_for_quantile`] at 95 %: 72 for p95, 368 for p99), or a value is not finite. With three launches,
/// values farther out would be accepted again, and the interval would cover up to 98 %.
///
/// # Panics
/// If `p` or `level` is not strictly between 0 and 1.
pub fn launch_quantile(
    launches: &[Vec<f64>],
    p: f64,
    level: f64,
) -> Result<LaunchQuantile, Refusal> {
    let (n, least) = (launches.len(), LEAST_RESAMPLED);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    let least = least_for_quantile(p, 0.95);
    for launch in launches {
        all_finite(launch)?;
        if launch.len() < least {
            return Err(Refusal::QuantileUnbounded {
                n: launch.len(),
                least,
                probability: p,
            });
        }
    }
    let critical = student_critical((1.0 - level) / 2.0, (n - 1) as f64);
    let mut pooled: Vec<(f64, usize)> = launches
        .iter()
        .enumerate()
        .flat_map(|(launch, values)| values.iter().map(move |v| (*v, launch)))
        .collect();
    pooled.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut shares = vec![0.0; n];
    let (mut estimate, mut low, mut high) = (None, None, None);
    let mut groups = pooled.chunk_by(|a, b| a.0 == b.0).peekable();
    while let Some(group) = groups.next() {
        for (_, launch) in group {
            shares[*launch] += 1.0 / launches[*launch].len() as f64;
        }
        // The shares are constant from this value to the next.
        let (value, next) = (group[0].0, groups.peek().map_or(group[0].0, |g| g[0].0));
        let mean = shares.iter().sum::<f64>() / n as f64;
        let squares: f64 = shares.iter().map(|s| (s - mean).powi(2)).sum();
        let error = (squares / (n * (n - 1)) as f64).sqrt();
        let reached = estimate.is_none() && mean >= p - 1e-12;
        if reached {
            estimate = Some(value);
        }
        if reached || (mean - p).abs() <= critical * error {
            low = low.or(Some(value));
            high = Some(next);
        }
    }
    // The shares reach 1, which is above p.
    let estimate = estimate.unwrap_or(pooled[pooled.len() - 1].0);
    Ok(LaunchQuantile {
        estimate,
        interval: Interval {
            low: low.unwrap_or(estimate),
            high: high.unwrap_or(estimate),
        },
        launches: n,
    })
}

/// Returns the interval of any statistic of requests within launches. Launches are drawn, then requests within each
/// drawn launch (Davison & Hinkley, Bootstrap Methods, 1997, section 3.8). With few launches, the quantiles of such a
/// distribution are too narrow. They are read farther out, at Φ(−t·√(n/(n − 1))), so that a mean of normal values would
/// have its t interval (Hesterberg, The American Statistician 69, 2015, section 5.2). For a verdict, use effects of
/// units; for a quantile, use [`launch_quantile`].
///
/// # Errors
/// If there are fewer than five launches, a launch is empty, or a value or the statistic is not finite.
///
/// # Panics
/// If the level is not strictly between 0 and 1, or the number of resamples is 0.
pub fn hierarchical_bootstrap(
    launches: &[Vec<f64>],
    resampling: &Resampling,
    statistic: impl Fn(&[Vec<f64>]) -> f64 + Sync,
) -> Result<Interval, Refusal> {
    let Resampling {
        resamples,
        level,
        seed,
    } = *resampling;
    assert!(resamples > 0, "a bootstrap draws at least once");
    let (n, least) = (launches.len(), LEAST_RESAMPLED);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    for (at, launch) in launches.iter().enumerate() {
        all_finite(launch)?;
        if launch.is_empty() {
            return Err(Refusal::Incomplete { at });
        }
    }
    let distribution = random::chunks(resamples, seed, |rng, results: &mut [f64]| {
        for result in results {
            let launch = |_| {
                let values = &launches[random::below(rng, n)];
                let value = |_| values[random::below(rng, values.len())];
                (0..values.len()).map(value).collect::<Vec<f64>>()
            };
            *result = statistic(&(0..n).map(launch).collect::<Vec<_>>());
        }
    });
    let mut distribution =
        Selection::new(distribution).map_err(|_| Refusal::NotFinite { at: 0 })?;
    let size = n as f64;
    let critical = student_critical((1.0 - level) / 2.0, size - 1.0);
    let tail = normal_upper(critical * (size / (size - 1.0)).sqrt());
    let ends = distribution.quantiles(&[tail, 1.0 - tail]);
    Ok(Interval {
        low: ends[0],
        high: ends[1],
    })
}

/// Returns the bootstrap-t interval of the mean of units. Each resample's own standard error scales its distance, and
/// resamples of one repeated value are dropped (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, section
/// 12.5).
///
/// # Errors
/// If there are fewer than five units, or as [`unit_effect`].
///
/// # Panics
/// If the level is not strictly between 0 and 1, or the number of resamples is 0.
pub fn bootstrap_t(effects: &[f64], resampling: &Resampling) -> Result<Interval, Refusal> {
    let Resampling {
        resamples,
        level,
        seed,
    } = *resampling;
    assert!(resamples > 0, "a bootstrap draws at least once");
    assert!(level > 0.0 && level < 1.0, "a level lies between 0 and 1");
    let (n, least) = (effects.len(), LEAST_RESAMPLED);
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    let effect = unit_effect(effects)?;
    // The order of the units must not affect the result.
    let mut units = effects.to_vec();
    units.sort_by(f64::total_cmp);
    let drawn = random::chunks(resamples, seed, |rng, results: &mut [f64]| {
        for result in results {
            let resample: Vec<f64> = (0..n).map(|_| units[random::below(rng, n)]).collect();
            let mean = sum(resample.iter().copied()) / n as f64;
            let squares = sum(resample.iter().map(|v| (v - mean).powi(2)));
            let error = (squares / (n * (n - 1)) as f64).sqrt();
            *result = if error <= 1e-12 * effect.error {
                f64::NAN
            } else {
                (mean - effect.mean) / error
            };
        }
    });
    let kept: Vec<f64> = drawn.into_iter().filter(|t| t.is_finite()).collect();
    let mut distances = Selection::new(kept).map_err(|_| Refusal::NoSpread { n })?;
    let tail = (1.0 - level) / 2.0;
    let ends = distances.quantiles(&[tail, 1.0 - tail]);
    Ok(Interval {
        low: effect.mean - ends[1] * effect.error,
        high: effect.mean - ends[0] * effect.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    /// Returns launches whose requests are shifted by the launch.
    fn launches(count: usize, requests: usize) -> Vec<Vec<f64>> {
        let request = |launch: usize, i: usize| ((i * 37 + launch * 11) % requests) as f64;
        let launch = |l: usize| {
            (0..requests)
                .map(|i| request(l, i) + l as f64 / 2.0)
                .collect()
        };
        (0..count).map(launch).collect()
    }

    #[test]
    fn the_quantile_over_launches_lies_within_its_interval() {
        let launches = launches(5, 200);
        for p in [0.5, 0.9, 0.95] {
            let quantile = launch_quantile(&launches, p, 0.95).unwrap();
            let (low, high) = (quantile.interval.low, quantile.interval.high);
            assert!(low <= quantile.estimate && quantile.estimate <= high);
            let pooled = Sample::new(launches.concat()).unwrap().quantile(p);
            assert!(
                (quantile.estimate - pooled).abs() <= 1.0,
                "{p}: {quantile:?}"
            );
        }
    }

    #[test]
    fn a_quantile_of_few_requests_or_launches_is_refused() {
        assert_eq!(
            launch_quantile(&launches(4, 100), 0.5, 0.95),
            Err(Refusal::TooFewUnits { n: 4, least: 5 })
        );
        let unbounded = Refusal::QuantileUnbounded {
            n: 24,
            least: 72,
            probability: 0.95,
        };
        assert_eq!(
            launch_quantile(&launches(5, 24), 0.95, 0.95),
            Err(unbounded)
        );
    }

    #[test]
    fn launches_that_differ_give_a_wider_interval_than_their_requests_alone() {
        let resampling = Resampling {
            resamples: 2_000,
            level: 0.95,
            seed: 164,
        };
        let mean = |launches: &[Vec<f64>]| {
            let all = launches.concat();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let alike = vec![vec![1.0, 2.0, 3.0, 4.0]; 6];
        let apart: Vec<Vec<f64>> = (0..6).map(|l| vec![f64::from(l); 4]).collect();
        let width = |launches: &[Vec<f64>]| {
            let interval = hierarchical_bootstrap(launches, &resampling, mean).unwrap();
            interval.high - interval.low
        };
        assert!(width(&apart) > 1.5 * width(&alike));
        assert_eq!(
            hierarchical_bootstrap(&alike[..4], &resampling, mean),
            Err(Refusal::TooFewUnits { n: 4, least: 5 })
        );
    }

    #[test]
    fn the_bootstrap_t_interval_is_near_the_t_interval_and_knows_no_order() {
        let effects = [0.3, -0.1, 0.4, 0.2, 0.6, 0.1, 0.5, 0.25];
        let resampling = Resampling {
            resamples: 4_000,
            level: 0.95,
            seed: 164,
        };
        let ours = bootstrap_t(&effects, &resampling).unwrap();
        let t = unit_effect(&effects).unwrap().interval(0.95);
        let ratio = (ours.high - ours.low) / (t.high - t.low);
        assert!((0.7..1.6).contains(&ratio), "{ratio}");
        let mut turned = effects;
        turned.reverse();
        assert_eq!(bootstrap_t(&turned, &resampling), Ok(ours));
        assert_eq!(
            bootstrap_t(&effects[..4], &resampling),
            Err(Refusal::TooFewUnits { n: 4, least: 5 })
        );
    }
}
