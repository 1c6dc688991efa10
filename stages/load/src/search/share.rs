//! The share of good requests at a level, and how exactly it is known.
//!
//! In a closed loop, so many consecutive requests as there are clients are a *wave*. They share the server's batches, so
//! their latencies resemble each other, and many requests may say little more than one. The same holds for waves one after
//! the other. The interval of the share therefore counts requests as fewer independent ones. At a rate, neighbours meet the
//! same queue, and resemble each other, too.

use statistics::{Refusal, effective_size, effective_size_of_waves, share_interval_of};

use super::bisect::Level;

/// The chance that an interval decides wrongly about a level whose share is exactly the required one, over all looks at it:
/// half of it for each direction.
const ALPHA: f64 = 0.05;

/// A judged request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    /// Whether it was answered within every bound.
    pub(crate) good: bool,
    /// Its latency divided by the bound, of all bounds the largest such ratio; `None` without an answer.
    pub(crate) strain: Option<f64>,
}

/// Returns the interval of a share of which `n` independent trials are known (Clopper & Pearson 1934), for a look at so many
/// new requests of those allowed at a level; (0, 1) without trials. The looks divide [`ALPHA`] in proportion to their new
/// requests, so the chance of a wrong decision over all looks is at most `ALPHA` (Bonferroni), however many there are.
pub(super) fn interval((share, n): (f64, f64), (new, allowed): (u64, u64)) -> (f64, f64) {
    if n <= 0.0 || new == 0 {
        return (0.0, 1.0);
    }
    let ends = share_interval_of(share * n, n, 1.0 - spent(new, allowed));
    (ends.low, ends.high)
}

/// The part of [`ALPHA`] for a look at this many new requests.
fn spent(new: u64, allowed: u64) -> f64 {
    ALPHA * (new as f64 / allowed.max(1) as f64).min(1.0)
}

/// Returns whether a look at this many requests, the first at a level, can show it kept: if all are good and independent.
fn can_show(requests: u64, allowed: u64, attainment: f64) -> bool {
    let tail = spent(requests, allowed) / 2.0;
    tail.powf(1.0 / requests.max(1) as f64) >= attainment
}

/// Returns the requests of the first look at a level: a quarter, half or all of those allowed, the fewest that can show it kept.
pub(super) fn first_look(allowed: u64, attainment: f64) -> u64 {
    let parts = [4, 2].map(|parts| allowed.div_ceil(parts));
    let mut parts = parts.into_iter();
    parts
        .find(|requests| can_show(*requests, allowed, attainment))
        .unwrap_or(allowed)
}

/// Returns the fewest requests with which an interval can show a level kept, if all of them are good and independent.
pub(super) fn fewest(attainment: f64) -> u64 {
    ((ALPHA / 2.0).ln() / attainment.ln()).ceil() as u64
}

/// Returns the number of independent requests that the judged requests of a level's probes are worth for the share of
/// good ones: the smaller of the effective sizes of "good or not" and of the strains. The strains show that requests share their
/// fate also where all are good.
///
/// For clients, the requests of a wave resemble each other, and each wave resembles those before it. A single wave shows nothing,
/// and counts as one request. For rates, each request resembles those before it, because the queue is the same.
pub(super) fn independent(level: Level, probes: &[Vec<Judged>]) -> f64 {
    let n: usize = probes.iter().map(Vec::len).sum();
    if n == 0 {
        return 0.0;
    }
    let good = |one: &Judged| Some(f64::from(u8::from(one.good)));
    // Requests without an answer have no strain, so there may be fewer values, or none.
    let strain = |one: &Judged| one.strain;
    let shares = match level {
        Level::Clients(clients) => {
            let in_waves = |value: &dyn Fn(&Judged) -> Option<f64>| {
                let waves = probes
                    .iter()
                    .flat_map(|p| p.chunks(clients.max(1) as usize));
                let waves = waves.map(|wave| wave.iter().filter_map(value).collect());
                let waves: Vec<Vec<f64>> = waves.collect();
                let valued: usize = waves.iter().map(Vec::len).sum();
                Some(effective_size_of_waves(waves)? / valued as f64)
            };
            match in_waves(&good) {
                None => return 1.0,
                Some(good) => [Some(good), in_waves(&strain)],
            }
        }
        Level::Rate(_) => [in_series(probes, good), in_series(probes, strain)],
    };
    let least = shares.into_iter().flatten().fold(1.0, f64::min);
    (n as f64 * least).max(1.0)
}

/// Returns the share of the values of probes that are independent, each probe taken as a series; `None` without a value. Values
/// that are all equal show no dependence. Too few values to show any count as one.
fn in_series(probes: &[Vec<Judged>], value: impl Fn(&Judged) -> Option<f64>) -> Option<f64> {
    let series = probes.iter().map(|p| p.iter().filter_map(&value).collect());
    let series: Vec<Vec<f64>> = series.filter(|s: &Vec<f64>| !s.is_empty()).collect();
    let n: usize = series.iter().map(Vec::len).sum();
    let independent: f64 = series.iter().map(|one| worth(one)).sum();
    (n > 0).then(|| independent / n as f64)
}

/// The longest series whose autocorrelations are computed as it is. They cost the square of its length.
const LONGEST: usize = 1024;

/// Returns the number of independent values that a series is worth. A long one is cut into batches: the mean of their means is
/// the mean of all, so it varies as much.
fn worth(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    let size = |values: &[f64]| match effective_size(values) {
        Ok(size) => Some(size.size),
        Err(Refusal::NoSpread { .. }) => None,
        Err(_) => Some(1.0),
    };
    if series.len() <= LONGEST {
        return size(series).unwrap_or(n);
    }
    let batches = series.chunks_exact(series.len().div_ceil(LONGEST));
    let means: Vec<f64> = batches
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let variance = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
    };
    match size(&means) {
        Some(size) => (variance(series) * size / variance(&means)).clamp(1.0, n),
        None => n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(strains: &[f64]) -> Vec<Judged> {
        strains
            .iter()
            .map(|strain| Judged {
                good: *strain <= 1.0,
                strain: Some(*strain),
            })
            .collect()
    }

    #[test]
    fn the_interval_of_a_single_look_is_the_published_one() {
        // Newcombe 1998, table I, method 5: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for ((good, n), (lower, upper)) in [
            ((81.0, 263.0), (0.2527, 0.3676)),
            ((15.0, 148.0), (0.0578, 0.1617)),
            ((0.0, 20.0), (0.0000, 0.1684)),
            ((1.0, 29.0), (0.0009, 0.1776)),
        ] {
            let interval = interval((good / n, n), (7, 7));
            assert!(
                (interval.0 - lower).abs() < 5e-5 && (interval.1 - upper).abs() < 5e-5,
                "{good}/{n}: {interval:?}"
            );
        }
        assert_eq!(interval((0.0, 0.0), (7, 7)), (0.0, 1.0));
        assert_eq!(interval((0.5, 10.0), (0, 7)), (0.0, 1.0));
    }

    #[test]
    fn a_level_begins_with_the_fewest_parts_that_can_show_it_kept() {
        for (allowed, attainment, first) in [
            (400, 0.95, 100),
            (200, 0.95, 100),
            (100, 0.95, 100),
            (400, 0.99, 400),
            (2000, 0.99, 1000),
            (2400, 0.99, 600),
            (100, 0.99, 100),
            (1, 0.5, 1),
        ] {
            assert_eq!(
                first_look(allowed, attainment),
                first,
                "{allowed} {attainment}"
            );
        }
        assert_eq!((fewest(0.95), fewest(0.99)), (72, 368));
        for allowed in [71, 72] {
            let (lower, _) = interval((1.0, allowed as f64), (allowed, allowed));
            assert_eq!(lower >= 0.95, allowed >= fewest(0.95), "{allowed}: {lower}");
        }
    }

    #[test]
    fn requests_of_a_wave_that_share_their_fate_count_once() {
        // Four waves of five clients, each with one latency.
        let alike: Vec<f64> = [0.5, 0.6, 0.4, 0.7].iter().flat_map(|s| [*s; 5]).collect();
        let size = independent(Level::Clients(5), &[judged(&alike)]);
        assert!((size - 4.0).abs() < 1e-9, "{size}");
        // The same rows as two probes.
        let parts = [judged(&alike[..10]), judged(&alike[10..])];
        let size = independent(Level::Clients(5), &parts);
        assert!((size - 4.0).abs() < 1e-9, "{size}");
        // A latency that varies within each wave as much as between them.
        let apart: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 20) / 20.0).collect();
        let size = independent(Level::Clients(5), &[judged(&apart)]);
        assert!(size > 12.0, "{size}");
    }

    #[test]
    fn a_single_wave_counts_as_one_request_and_one_client_has_no_waves() {
        let ten = judged(&[0.5; 10]);
        assert_eq!(
            independent(Level::Clients(10), std::slice::from_ref(&ten)),
            1.0
        );
        assert_eq!(
            independent(Level::Clients(1), std::slice::from_ref(&ten)),
            10.0
        );
        // Few requests of one client show no dependence.
        let rising = judged(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
        assert_eq!(independent(Level::Clients(1), &[rising]), 7.0);
        assert_eq!(independent(Level::Rate(4.0), &[ten]), 10.0);
        assert_eq!(independent(Level::Clients(4), &[]), 0.0);
    }

    #[test]
    fn requests_at_a_rate_that_resemble_those_before_them_count_as_fewer() {
        let rate = Level::Rate(4.0);
        // Runs of ten requests that meet the same queue; all are good.
        let runs: Vec<f64> = (0..200)
            .map(|i| f64::from(i / 10 * 7 % 20) / 20.0)
            .collect();
        let size = independent(rate, &[judged(&runs)]);
        assert!((10.0..50.0).contains(&size), "{size}");
        // The same latencies without runs, and twice the requests in two probes.
        let apart: Vec<f64> = (0..200).map(|i| f64::from(i * 37 % 200) / 200.0).collect();
        assert!(independent(rate, &[judged(&apart)]) > 150.0);
        let two = independent(rate, &[judged(&runs), judged(&runs)]);
        assert!((two - 2.0 * size).abs() < 1e-9, "{two}");
        // A long probe is worth as much for each request.
        let long: Vec<f64> = (0..20).flat_map(|_| runs.iter().copied()).collect();
        let per_request = independent(rate, &[judged(&long)]) / 4000.0;
        let ratio = per_request / (size / 200.0);
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
        // Too few to show how they depend on each other.
        assert_eq!(independent(rate, &[judged(&[0.5, 0.6, 0.4])]), 1.0);
    }

    #[test]
    fn failed_requests_have_no_strain_and_still_count() {
        let failed = Judged {
            good: false,
            strain: None,
        };
        let size = independent(Level::Clients(4), &[vec![failed; 40]]);
        assert_eq!(size, 40.0);
        // Whole waves that fail: in turn, and all of them at the end.
        let good = || judged(&[0.5; 4]);
        let turns: Vec<Judged> = (0..5)
            .flat_map(|_| [good(), vec![failed; 4]].concat())
            .collect();
        let size = independent(Level::Clients(4), &[turns]);
        assert!((size - 10.0).abs() < 1e-9, "{size}");
        let mut waves = judged(&[0.5; 20]);
        waves.extend(vec![failed; 20]);
        let size = independent(Level::Clients(4), &[waves]);
        assert!(size < 4.0, "{size}");
    }
}
