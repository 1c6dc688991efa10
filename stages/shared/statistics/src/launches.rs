//! Statistics of requests within launches. The launch is the unit that varies, however many requests it has.

use crate::bootstrap::Interval;
use crate::distribution::student_critical;
use crate::quantile_interval::least_for_quantile;
use crate::refusal::{Refusal, all_finite};

/// The smallest number of launches that bound a quantile.
const LEAST_LAUNCHES: usize = 5;

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

/// Returns the quantile of probability `p` of a server's requests over its launches, with Woodruff's interval (JASA 47,
/// 1952, with launches as clusters). The share of requests up to the estimate, one share per launch, has a t interval
/// around p. Its ends, read from the mean of the launches' distributions, are the ends of the quantile's interval. Unlike a
/// t interval over the launches' own quantiles, it is not affected by the bias of quantiles from few requests. The
/// spread is that at the estimate: farther out in the tail, all shares are near 1 and their spread says nothing.
///
/// # Errors
/// If there are fewer than five launches, a launch has fewer requests than bound the quantile
/// ([`crate::least_for_quantile`] at 95 %: 72 for p95, 368 for p99), or a value is not finite. Also if the launches differ
/// so much that an end of the interval of the share lies outside 0 to 1.
///
/// # Panics
/// If `p` or `level` is not strictly between 0 and 1.
pub fn launch_quantile(
    launches: &[Vec<f64>],
    p: f64,
    level: f64,
) -> Result<LaunchQuantile, Refusal> {
    let (n, least) = (launches.len(), LEAST_LAUNCHES);
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
    let (steps, at, error) = shares(launches, p);
    // Launches with equal shares show no spread, but independent requests would still have this one.
    let requests = launches.iter().map(Vec::len).sum::<usize>() as f64;
    let error = match error {
        0.0 => (p * (1.0 - p) / requests).sqrt(),
        error => error,
    };
    let half = student_critical((1.0 - level) / 2.0, (n - 1) as f64) * error;
    if p - half <= 0.0 || p + half >= 1.0 {
        return Err(Refusal::LaunchesApart { n, probability: p });
    }
    let low = steps.partition_point(|(_, share)| *share < p - half);
    // The share is constant between one value and the next.
    let high = steps.partition_point(|(_, share)| *share <= p + half);
    Ok(LaunchQuantile {
        estimate: steps[at].0,
        interval: Interval {
            low: steps[low.min(at)].0,
            high: steps[high.clamp(at, steps.len() - 1)].0,
        },
        launches: n,
    })
}

/// Returns quantiles of requests over launches, with equal weight for each launch that has requests: type 7 of Hyndman & Fan
/// (1996), in which a value is as wide as its share of its launch. If all launches have equally many requests, they are
/// those of all requests together. Empty without requests. Values that are not finite give no meaningful result.
pub fn quantiles_of_launches(launches: &[Vec<f64>], probabilities: &[f64]) -> Vec<f64> {
    let launches = launches.iter().filter(|launch| !launch.is_empty());
    let share = |launch: &'_ Vec<f64>| 1.0 / launch.len() as f64;
    let values = launches.flat_map(|launch| launch.iter().map(move |v| (*v, share(launch))));
    let mut values: Vec<(f64, f64)> = values.collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // Each value lies at the middle of its share.
    let mut end = 0.0;
    let middle = |(value, share): (f64, f64)| {
        end += share;
        (value, end - share / 2.0)
    };
    let places: Vec<(f64, f64)> = values.into_iter().map(middle).collect();
    let (Some((_, first)), Some((_, last))) = (places.first(), places.last()) else {
        return Vec::new();
    };
    let quantile = |p: &f64| {
        let place = first + p * (last - first);
        let above = places.partition_point(|(_, at)| *at < place);
        let (high, above_at) = places[above.min(places.len() - 1)];
        let (low, below_at) = places[above.saturating_sub(1)];
        match above_at > below_at {
            true => {
                low + (high - low) * ((place - below_at) / (above_at - below_at)).clamp(0.0, 1.0)
            }
            false => high,
        }
    };
    probabilities.iter().map(quantile).collect()
}

/// Returns the share of each launch's requests up to the quantile of probability `p` of all requests: the values whose
/// spread decides the interval of [`launch_quantile`]. Empty if a launch has no requests.
pub fn shares_at_quantile(launches: &[Vec<f64>], p: f64) -> Vec<f64> {
    if launches.is_empty() || launches.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let (steps, at, _) = shares(launches, p);
    let estimate = steps[at].0;
    let share = |launch: &Vec<f64>| {
        let up_to = launch.iter().filter(|value| **value <= estimate);
        up_to.count() as f64 / launch.len() as f64
    };
    launches.iter().map(share).collect()
}

/// Returns each value that occurs with the share of requests up to it, averaged over the launches, in ascending order. Also
/// the position at which the share reaches `p`, and the standard error of the share there.
fn shares(launches: &[Vec<f64>], p: f64) -> (Vec<(f64, f64)>, usize, f64) {
    let n = launches.len();
    let mut pooled: Vec<(f64, usize)> = launches
        .iter()
        .enumerate()
        .flat_map(|(launch, values)| values.iter().map(move |v| (*v, launch)))
        .collect();
    pooled.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut counts = vec![0_usize; n];
    let (mut steps, mut reached) = (Vec::new(), None);
    for group in pooled.chunk_by(|a, b| a.0 == b.0) {
        for (_, launch) in group {
            counts[*launch] += 1;
        }
        let share = |(count, launch): (&usize, &Vec<f64>)| *count as f64 / launch.len() as f64;
        let shares = counts.iter().zip(launches).map(share);
        let mean = shares.clone().sum::<f64>() / n as f64;
        if reached.is_none() && mean >= p - 1e-12 {
            let squares: f64 = shares.map(|s| (s - mean).powi(2)).sum();
            let error = (squares / (n * (n - 1)) as f64).sqrt();
            // Tiny differences are rounding errors, not spread.
            reached = Some((steps.len(), if error < 1e-12 { 0.0 } else { error }));
        }
        steps.push((group[0].0, mean));
    }
    // The shares reach 1, which is above p.
    let (at, error) = reached.unwrap_or((steps.len() - 1, 0.0));
    (steps, at, error)
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
    fn quantiles_of_launches_weigh_launches_and_not_requests() {
        let alike = launches(5, 200);
        let all = Sample::new(alike.concat()).unwrap();
        for (p, quantile) in [0.01, 0.5, 0.9, 0.99]
            .into_iter()
            .zip(quantiles_of_launches(&alike, &[0.01, 0.5, 0.9, 0.99]))
        {
            assert!((quantile - all.quantile(p)).abs() < 1e-9, "{p}: {quantile}");
        }
        // Thirty times as many requests of the last launch change nothing, and neither does an empty launch.
        let mut unlike = alike.clone();
        unlike[4] = alike[4].repeat(30);
        unlike.push(Vec::new());
        for (alike, unlike) in quantiles_of_launches(&alike, &[0.5, 0.9])
            .iter()
            .zip(quantiles_of_launches(&unlike, &[0.5, 0.9]))
        {
            assert!((alike - unlike).abs() <= 0.5, "{alike} {unlike}");
        }
        assert_eq!(
            quantiles_of_launches(&[vec![3.0]], &[0.0, 0.5, 1.0]),
            [3.0; 3]
        );
        assert!(quantiles_of_launches(&[Vec::new()], &[0.5]).is_empty());
    }

    #[test]
    fn a_tail_that_the_launches_do_not_share_is_refused() {
        // On four launches, a tenth of the requests is above 190. On the fifth, all are.
        let mut launches = launches(5, 200);
        let apart = Refusal::LaunchesApart {
            n: 5,
            probability: 0.95,
        };
        launches[4].iter_mut().for_each(|value| *value += 200.0);
        assert_eq!(launch_quantile(&launches, 0.95, 0.95), Err(apart));
        // Launches with identical requests have the spread of independent requests.
        let alike = vec![launches[0].clone(); 5];
        let quantile = launch_quantile(&alike, 0.5, 0.95).unwrap();
        assert!(quantile.interval.low < quantile.estimate);
        assert!(quantile.interval.high > quantile.estimate);
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
}
