//! Seeded random streams that do not depend on the number of threads.
//!
//! Work is cut into chunks of a fixed size; chunk `i` draws from xoshiro256++ (Blackman & Vigna, ACM
//! TOMS 47, 2021), started from the seed and `i` through SplitMix64. Who computes a chunk, and
//! when, decides nothing. Resampling needs speed and even draws, not secrecy.

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus as Stream};

/// The generator behind every resampling procedure, as tables name it.
pub const GENERATOR: &str = "xoshiro256++";

/// How many resamples share one stream. Part of the definition: changing it changes results.
pub(crate) const CHUNK: usize = 250;

/// Returns the stream of a chunk.
pub(crate) fn stream(seed: u64, chunk: usize) -> Stream {
    // The seed is mixed first: else chunk 1 of one seed would be chunk 0 of the next.
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

/// Dice of equal faces, as many of them from one word of the stream as fit (Brackett-Rozinsky &
/// Lemire, Software: Practice and Experience 55, 2025): uniform and independent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice {
    faces: u64,
    /// Words whose last remainder is below are rejected, at most one in 16.
    threshold: u64,
}

impl Dice {
    /// Makes dice with the faces 0 … `faces` − 1.
    pub(crate) fn new(faces: usize) -> Self {
        let faces = faces as u64;
        let all = faces.saturating_pow(Self::per_word(faces));
        Self { faces, threshold: all.wrapping_neg() % all }
    }

    /// How many dice one word gives: the product of their faces is at most 2⁶⁰.
    fn per_word(faces: u64) -> u32 {
        match faces {
            0..=32 => 12,
            33..=181 => 8,
            182..=1_024 => 6,
            1_025..=32_768 => 4,
            32_769..=1_048_576 => 3,
            1_048_577..=1_073_741_824 => 2,
            _ => 1,
        }
    }

    /// Rolls `count` dice and gathers their faces: the dice of a word go to as many accumulators,
    /// the n-th of each word to the n-th of them, so that no addition waits for the one before it; the
    /// accumulators are joined in order.
    pub(crate) fn gather<T: Copy>(
        &self,
        rng: &mut Stream,
        count: usize,
        start: T,
        add: impl FnMut(&mut T, usize),
        join: impl FnMut(T, T) -> T,
    ) -> T {
        match Self::per_word(self.faces) {
            12 => self.gather_by::<12, T>(rng, count, start, add, join),
            8 => self.gather_by::<8, T>(rng, count, start, add, join),
            6 => self.gather_by::<6, T>(rng, count, start, add, join),
            4 => self.gather_by::<4, T>(rng, count, start, add, join),
            3 => self.gather_by::<3, T>(rng, count, start, add, join),
            2 => self.gather_by::<2, T>(rng, count, start, add, join),
            _ => self.gather_by::<1, T>(rng, count, start, add, join),
        }
    }

    fn gather_by<const N: usize, T: Copy>(
        &self,
        rng: &mut Stream,
        count: usize,
        start: T,
        mut add: impl FnMut(&mut T, usize),
        join: impl FnMut(T, T) -> T,
    ) -> T {
        let mut gathered = [start; N];
        for _ in 0..count / N {
            for (one, face) in gathered.iter_mut().zip(self.word::<N>(rng)) {
                add(one, face);
            }
        }
        let rest = count % N;
        if rest > 0 {
            for (one, face) in gathered.iter_mut().zip(self.word::<N>(rng)).take(rest) {
                add(one, face);
            }
        }
        gathered.into_iter().reduce(join).unwrap_or(start)
    }

    /// Returns the faces that one word gives.
    fn word<const N: usize>(&self, rng: &mut Stream) -> [usize; N] {
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

/// Makes `total` results, chunk by chunk, each with the stream of its own.
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

    /// So many rolls, in order.
    fn rolls(faces: usize, count: usize) -> Vec<usize> {
        let mut rolled = Vec::new();
        Dice::new(faces).gather(&mut stream(164, 0), count, (), |(), face| rolled.push(face), |(), ()| ());
        rolled
    }

    #[test]
    fn indices_are_uniform_enough_and_in_range() {
        let mut rng = stream(164, 0);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[below(&mut rng, 6)] += 1;
        }
        // Six standard deviations of a binomial count: sqrt(60000 · 1/6 · 5/6) ≈ 91.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 550), "{counts:?}");
    }

    #[test]
    fn faces_are_uniform_enough_however_many_dice_a_word_gives() {
        for faces in [2, 32, 33, 181, 182, 1_024, 1_025, 32_768, 32_769, 1_048_577, 1 << 31] {
            let rolled = rolls(faces, 120_000);
            let mut counts = [0_u32; 12];
            for face in &rolled {
                assert!(*face < faces);
                counts[face * 12 / faces] += 1;
            }
            // Chi-squared of what each twelfth of the faces should get: 11 degrees of freedom, above
            // 45 once in 10⁵ times.
            let expected = |part: usize| {
                let first = |part: usize| (part * faces).div_ceil(12);
                (first(part + 1) - first(part)) as f64 / faces as f64 * rolled.len() as f64
            };
            let squared = |part: usize| {
                let expected = expected(part);
                if expected == 0.0 { 0.0 } else { (f64::from(counts[part]) - expected).powi(2) / expected }
            };
            let chi: f64 = (0..12).map(squared).sum();
            assert!(chi < 45.0, "{faces} faces: {chi}");
        }
    }

    #[test]
    fn dice_of_one_word_do_not_follow_each_other() {
        // Of 36 equally likely pairs of neighbours each comes 10,000 times, standard deviation 99.
        let mut counts = [0_u32; 36];
        for pair in rolls(6, 720_000).chunks_exact(2) {
            counts[pair[0] * 6 + pair[1]] += 1;
        }
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 600), "{counts:?}");
    }

    #[test]
    fn streams_of_neighbouring_chunks_and_seeds_have_nothing_in_common() {
        let first = |seed, chunk| stream(seed, chunk).next_u64();
        let mut words: Vec<u64> = (0..100).flat_map(|s| (0..100).map(move |c| first(s, c))).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 10_000);
    }
}
