//! Seeded random streams that do not depend on the number of threads.
//!
//! Work is cut into chunks of a fixed size; chunk `i` draws from ChaCha20 with the seed and
//! stream number `i`. Who computes a chunk, and when, decides nothing.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How many resamples share one stream. Part of the definition: changing it changes results.
pub(crate) const CHUNK: usize = 250;

/// Returns the stream of a chunk.
pub(crate) fn stream(seed: u64, chunk: usize) -> ChaCha20Rng {
    let mut key = [0_u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(key);
    rng.set_stream(chunk as u64);
    rng
}

/// Returns a uniform index below `n` (Lemire's multiply-and-reject on 32 bits, arXiv 1805.10941).
pub(crate) fn below(rng: &mut ChaCha20Rng, n: u32) -> usize {
    let threshold = n.wrapping_neg() % n;
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(n);
        if product as u32 >= threshold {
            return (product >> 32) as usize;
        }
    }
}

/// Fills `indices` with the same draws as so many calls of [`below`], many at a time: the words
/// of the stream come in blocks, and all of them are scaled before any is looked at.
pub(crate) fn fill_below(rng: &mut ChaCha20Rng, n: u32, indices: &mut [u32], words: &mut Vec<u8>) {
    words.resize(4 * indices.len(), 0);
    rng.fill_bytes(words);
    let threshold = n.wrapping_neg() % n;
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut rejected = false;
    for (index, bytes) in indices.iter_mut().zip(words.chunks_exact(4)) {
        let product = u64::from(word(bytes)) * u64::from(n);
        rejected |= (product as u32) < threshold;
        *index = (product >> 32) as u32;
    }
    if rejected {
        // Rare: what follows a rejected word moves up, and the gap at the end is drawn.
        let mut kept = 0;
        for bytes in words.chunks_exact(4) {
            let product = u64::from(word(bytes)) * u64::from(n);
            if product as u32 >= threshold {
                indices[kept] = (product >> 32) as u32;
                kept += 1;
            }
        }
        for index in &mut indices[kept..] {
            *index = below(rng, n) as u32;
        }
    }
}

/// Runs `work` for each chunk of `total` units and returns the results in order.
pub(crate) fn chunks<T: Send>(
    total: usize,
    seed: u64,
    work: impl Fn(&mut ChaCha20Rng, usize) -> Vec<T> + Sync,
) -> Vec<T> {
    use rayon::prelude::*;
    let parts: Vec<Vec<T>> = (0..total.div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let size = CHUNK.min(total - chunk * CHUNK);
            work(&mut stream(seed, chunk), size)
        })
        .collect();
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_draws_at_a_time_are_those_of_one_at_a_time() {
        // With a bound just above 2³¹ about half of the words are rejected.
        for bound in [1, 2, 6, 1_000, (1 << 31) + 1, u32::MAX] {
            let (mut one, mut many, mut words) = (stream(164, 3), stream(164, 3), Vec::new());
            for size in [1, 3, 64, 1_000, 7] {
                let mut indices = vec![0; size];
                fill_below(&mut many, bound, &mut indices, &mut words);
                let alone: Vec<u32> = (0..size).map(|_| below(&mut one, bound) as u32).collect();
                assert_eq!(indices, alone, "bound {bound}");
            }
        }
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
}
