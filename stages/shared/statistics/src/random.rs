//! Seeded random streams that do not depend on the number of threads.
//!
//! Work is cut into chunks of a fixed size. Chunk `i` draws from xoshiro256++ (Blackman & Vigna, ACM TOMS 47, 2021),
//! seeded from the seed and `i` through SplitMix64. It does not matter which thread computes a chunk or when.
//! Resampling needs speed and uniform draws, not secrecy.

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus as Stream};

/// The generator of every resampling procedure, as tables name it.
pub const GENERATOR: &str = "xoshiro256++";

/// The number of resamples that share one stream. It is part of the definition: changing it changes results.
pub(crate) const CHUNK: usize = 250;

/// Returns the stream of a chunk.
pub(crate) fn stream(seed: u64, chunk: usize) -> Stream {
    // Mix the seed first, or chunk 1 of one seed would be chunk 0 of the next.
    let mixed = SplitMix64::seed_from_u64(seed).next_u64();
    Stream::seed_from_u64(mixed.wrapping_add(chunk as u64))
}

/// Returns a uniform index below `bound` ≥ 1 (Lemire's multiply-and-reject, arXiv 1805.10941).
pub(crate) fn below(rng: &mut Stream, bound: usize) -> usize {
    let bound = bound as u64;
    let mut product = u128::from(rng.next_u64()) * u128::from(bound);
    if (product as u64) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (product as u64) < threshold {
            product = u128::from(rng.next_u64()) * u128::from(bound);
        }
    }
    (product >> 64) as usize
}

/// Standard normal values of simulated studies. Each study has its own stream, which follows from a seed and the
/// study's number.
#[derive(Debug)]
pub struct Normals(Stream);

impl Normals {
    /// Starts the stream of a study.
    pub fn new(seed: u64, study: u64) -> Self {
        Self(stream(seed, study as usize))
    }

    /// Returns the next value.
    pub fn draw(&mut self) -> f64 {
        normal(&mut self.0)
    }
}

/// Uniform and normal numbers of simulated studies from a seed: SplitMix64 (Steele, Lea & Flood 2014).
#[derive(Debug)]
pub struct Noise(pub u64);

impl Noise {
    /// Returns a number in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
    }

    /// Returns a standard normal number.
    pub fn normal(&mut self) -> f64 {
        box_muller(self.uniform(), self.uniform())
    }
}

/// Returns a standard normal number from two uniform ones, of which the first is above 0 (Box & Muller 1958).
pub fn box_muller(first: f64, second: f64) -> f64 {
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// Returns a standard normal value: the quantile of a uniform one, so that one word yields one value.
pub(crate) fn normal(rng: &mut Stream) -> f64 {
    let uniform = ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    crate::distribution::normal_quantile(uniform)
}

/// Uniform, independent dice with equally many faces. One word of the stream yields as many rolls as fit
/// (Brackett-Rozinsky & Lemire, Software: Practice and Experience 55, 2025).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice {
    faces: u64,
    /// Words whose last remainder is below this are rejected: at most one in 256, or more for a die with more than 2⁵⁶
    /// faces.
    threshold: u64,
}

impl Dice {
    /// Makes dice with the faces 0 … `faces` − 1.
    pub(crate) fn new(faces: usize) -> Self {
        let faces = faces as u64;
        let dice = Self {
            faces,
            threshold: 0,
        };
        let all = faces.saturating_pow(dice.per_word());
        Self {
            threshold: all.wrapping_neg() % all,
            ..dice
        }
    }

    /// Returns the number of rolls per word: the product of their faces is at most 2⁵⁶.
    pub(crate) fn per_word(&self) -> u32 {
        match self.faces {
            0..=25 => 12,
            26..=128 => 8,
            129..=645 => 6,
            646..=2_352 => 5,
            2_353..=16_384 => 4,
            16_385..=416_127 => 3,
            416_128..=268_435_456 => 2,
            _ => 1,
        }
    }

    /// Returns the rolls from one word, [`Dice::per_word`] of them.
    #[inline(always)]
    pub(crate) fn roll<const N: usize>(&self, rng: &mut Stream) -> [usize; N] {
        loop {
            let mut rest = rng.next_u64();
            let rolled = std::array::from_fn(|_| {
                let product = u128::from(rest) * u128::from(self.faces);
                rest = product as u64;
                (product >> 64) as usize
            });
            if rest >= self.threshold {
                return rolled;
            }
        }
    }
}

/// Produces `total` results, chunk by chunk, each chunk with its own stream.
pub(crate) fn chunks<T: Clone + Default + Send>(
    total: usize,
    seed: u64,
    work: impl Fn(&mut Stream, &mut [T]) + Sync,
) -> Vec<T> {
    use rayon::prelude::*;
    let mut results = vec![T::default(); total];
    let parts = results.par_chunks_mut(CHUNK).enumerate();
    parts.for_each(|(chunk, part)| work(&mut stream(seed, chunk), part));
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_uniform_enough_and_in_range() {
        let mut rng = stream(164, 0);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[below(&mut rng, 6)] += 1;
        }
        // Six standard deviations of a binomial count: sqrt(60000 · 1/6 · 5/6) ≈ 91.
        assert!(
            counts.iter().all(|c| c.abs_diff(10_000) < 550),
            "{counts:?}"
        );
    }

    #[test]
    fn normal_values_have_mean_zero_and_variance_one_and_follow_from_seed_and_number() {
        let draws = |study| {
            let mut normals = Normals::new(164, study);
            std::array::from_fn::<f64, 10_000, _>(|_| normals.draw())
        };
        let values = draws(3);
        let mean = values.iter().sum::<f64>() / 1e4;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1e4;
        // Four standard errors: 0.01 for the mean, √2/100 for the variance.
        assert!(mean.abs() < 0.04 && (variance - 1.0).abs() < 0.057);
        assert_eq!(values, draws(3));
        assert_ne!(values[0], draws(4)[0]);
    }

    #[test]
    fn the_noise_of_a_seed_is_that_of_the_published_generator() {
        let mut noise = Noise(0);
        for word in [
            0xe220_a839_7b1d_cdaf_u64,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ] {
            let share = (word >> 11) as f64 / (1_u64 << 53) as f64;
            assert_eq!(noise.uniform(), share + 1e-17);
        }
    }

    #[test]
    fn streams_of_neighbouring_chunks_and_seeds_have_nothing_in_common() {
        let first = |seed, chunk| stream(seed, chunk).next_u64();
        let mut words: Vec<u64> = (0..100)
            .flat_map(|s| (0..100).map(move |c| first(s, c)))
            .collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 10_000);
    }
}
