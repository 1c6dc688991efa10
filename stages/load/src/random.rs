//! Random streams: the stream that a draw comes from, and the draws.
//!
//! The 32-byte ChaCha12 seed of a stream is the BLAKE3 digest of a domain and everything that the draws may depend on,
//! so two domains never share a stream. The draws use only `next_u64` and the arithmetic written here, so a new version
//! of the random crate does not change them.

use artifacts::Digest;
use pipeline::design::CONTROL;
use pipeline::stage::{Coordinates, Job, Json};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// The root of the random streams of one measurement: the experiment's seed, and the coordinates that distinguish
/// replicates. It does not contain engine or concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The experiment's seed.
    pub seed: u64,
    /// The replicate coordinates.
    pub replicate: Coordinates,
}

impl Origin {
    /// Returns the origin of a cell's requests. A design's A/A arm sends the same as the configuration that it stands
    /// for.
    pub fn of(job: &Job<'_>) -> Self {
        Self::of_noise(job).keep(|name| name != CONTROL)
    }

    /// Returns the origin of a simulated cell's noise, which differs for the A/A arm.
    pub(crate) fn of_noise(job: &Job<'_>) -> Self {
        Self {
            seed: job.seed,
            replicate: job.replicate.clone(),
        }
    }

    /// Returns the origin with only some of the replicate coordinates.
    pub(crate) fn keep(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let mut kept = self.clone();
        kept.replicate.0.retain(|(name, _)| wanted(name));
        kept
    }

    /// Returns the root of the streams of one domain over `content` (a canonical JSON value).
    pub(crate) fn stream(&self, domain: &str, content: &Json) -> Stream {
        let mut replicate: Vec<_> = self.replicate.0.iter().collect();
        replicate.sort_by(|a, b| a.0.cmp(&b.0));
        let mut content = content.clone();
        content.sort_all_objects();
        let material = serde_json::json!([domain, self.seed, replicate, content]);
        let text = serde_json::to_vec(&material).expect("a JSON value always serializes");
        Stream {
            seed: *Digest::of(&text).as_bytes(),
        }
    }
}

/// A family of independent random streams, one per index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stream {
    seed: [u8; 32],
}

impl Stream {
    /// Returns the draws of index `i`.
    pub(crate) fn at(&self, i: u64) -> Draws {
        let mut rng = ChaCha12Rng::from_seed(self.seed);
        rng.set_stream(i);
        Draws { rng }
    }
}

/// A source of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    rng: ChaCha12Rng,
}

impl Draws {
    /// Returns a whole number in `0..n` (`n` ≥ 1); the bias is below n / 2⁶⁴.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a whole number in `from..=to` (`from` ≤ `to`).
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns a number in (0, 1], one of 2⁵³.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponential draw of mean 1 (inversion).
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Returns a standard normal draw (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns a gamma draw of a shape above 0 and scale 1 (Marsaglia and Tsang 2000; shapes
    /// below 1 by their boost).
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.unit().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    /// The Kolmogorov–Smirnov distance of a sample from a distribution, times √n.
    pub(crate) fn ks(values: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = values.iter().enumerate().fold(0.0_f64, |d, (i, &value)| {
            let p = cdf(value);
            d.max((p - i as f64 / n).abs())
                .max(((i + 1) as f64 / n - p).abs())
        });
        distance * n.sqrt()
    }

    /// √n·D exceeds this with probability 0.001.
    pub(crate) const KS_LIMIT: f64 = 1.95;
}

#[cfg(test)]
mod tests {
    use super::*;
    use artifacts::Scalar;

    fn origin(seed: u64) -> Origin {
        Origin {
            seed,
            replicate: Coordinates(vec![("rep".into(), Scalar::Int(1))]),
        }
    }

    #[test]
    fn domains_seeds_and_replicates_have_streams_of_their_own() {
        let content = serde_json::json!({"a": 1});
        let first =
            |origin: &Origin, domain: &str| origin.stream(domain, &content).at(0).below(u64::MAX);
        let base = first(&origin(1), "x");
        assert_eq!(base, first(&origin(1), "x"));
        assert_ne!(base, first(&origin(1), "y"));
        assert_ne!(base, first(&origin(2), "x"));
        let other = Origin {
            replicate: Coordinates(vec![("rep".into(), Scalar::Int(2))]),
            ..origin(1)
        };
        assert_ne!(base, first(&other, "x"));
    }

    #[test]
    fn key_order_of_the_content_does_not_matter() {
        let a = origin(1)
            .stream("x", &serde_json::json!({"a": 1, "b": 2}))
            .at(3)
            .below(u64::MAX);
        let b = origin(1)
            .stream("x", &serde_json::json!({"b": 2, "a": 1}))
            .at(3)
            .below(u64::MAX);
        assert_eq!(a, b);
    }

    #[test]
    fn the_first_draws_are_pinned() {
        let mut draws = origin(164).stream("pin", &serde_json::json!({})).at(7);
        let drawn: Vec<u64> = (0..4).map(|_| draws.below(1000)).collect();
        assert_eq!(drawn, PINNED);
    }

    /// If these change, every prompt of every experiment changes: raise the kind's semantic version.
    const PINNED: [u64; 4] = [710, 418, 92, 797];

    #[test]
    fn whole_numbers_stay_in_range_and_reach_both_ends() {
        let mut draws = origin(1).stream("range", &Json::Null).at(0);
        let drawn: Vec<u64> = (0..1000).map(|_| draws.between(3, 7)).collect();
        assert_eq!(
            (drawn.iter().min(), drawn.iter().max()),
            (Some(&3), Some(&7))
        );
    }
}
