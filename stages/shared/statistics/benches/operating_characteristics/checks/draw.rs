//! Random numbers, requests and launches.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use rand_xoshiro::rand_core::Rng;

/// The standard deviation of the logarithms of a server's requests.
pub(super) const REQUESTS: f64 = 0.5;

/// Returns a uniform number strictly between 0 and 1.
pub(super) fn uniform(rng: &mut Stream) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Returns a standard normal number (Marsaglia's polar method).
pub(super) fn normal(rng: &mut Stream) -> f64 {
    loop {
        let (x, y) = (2.0 * uniform(rng) - 1.0, 2.0 * uniform(rng) - 1.0);
        let square = x * x + y * y;
        if square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Returns the latencies of a launch's requests: log-normal, all shifted by the launch.
pub(super) fn requests(rng: &mut Stream, count: usize, launch: f64) -> Vec<f64> {
    let shift = launch * normal(rng);
    (0..count)
        .map(|_| (shift + REQUESTS * normal(rng)).exp())
        .collect()
}

/// Returns a first-order autoregression of variance 1.
pub(super) fn autoregression(rng: &mut Stream, rho: f64, n: usize) -> Vec<f64> {
    let mut value = normal(rng);
    let mut next = || {
        value = rho * value + (1.0 - rho * rho).sqrt() * normal(rng);
        value
    };
    (0..n).map(|_| next()).collect()
}

/// Returns the effects of blocks; each is the log ratio of two launches.
pub(super) fn effects(rng: &mut Stream, blocks: usize, launch: f64, effect: f64) -> Vec<f64> {
    (0..blocks)
        .map(|_| effect + launch * (normal(rng) - normal(rng)))
        .collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
