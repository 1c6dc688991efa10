//! Exact figures of samples of any length in bounded memory.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use statistics::QuantilePlace;

use crate::summary::Distribution;

/// The most values held in memory; further values go to a file.
const HELD: usize = 1 << 17;

/// A sample of values that are added one by one. Its figures are read once, at the end.
#[derive(Debug)]
pub(crate) struct Sample {
    folder: PathBuf,
    held: Vec<f64>,
    limit: usize,
    file: Option<BufWriter<File>>,
    n: usize,
}

impl Sample {
    /// Makes an empty sample. Values beyond its limit go to a file in `folder`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            held: Vec::new(),
            limit: HELD,
            file: None,
            n: 0,
        }
    }

    /// Adds a value.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn push(&mut self, value: f64) -> io::Result<()> {
        self.n += 1;
        self.held.push(value);
        if self.held.len() < self.limit {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(tempfile::tempfile_in(&self.folder)?)),
        };
        for value in self.held.drain(..) {
            file.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    }

    /// Returns the figures; `None` for an empty sample. Quantiles are exact: the required values are found digit by
    /// digit, with a pass over the file for each 16 bits.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn distribution(self) -> io::Result<Option<Distribution>> {
        let Some(file) = self.file else {
            return Ok(Distribution::of(self.held));
        };
        let mut values = Values {
            file: file.into_inner().map_err(io::IntoInnerError::into_error)?,
            held: self.held,
        };
        let n = self.n;
        let (mut sum, mut min, mut max) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        values.each(|v| {
            sum += v;
            min = f64::min(min, v);
            max = f64::max(max, v);
        })?;
        let mean = sum / n as f64;
        let mut squares = 0.0;
        values.each(|v| squares += (v - mean).powi(2))?;
        let places = [0.50, 0.90, 0.95, 0.99].map(|p| QuantilePlace::of(p, n));
        let ranks: Vec<usize> = places.iter().flat_map(|at| [at.low, at.high]).collect();
        let ranked = values.at_ranks(&ranks)?;
        let at = |i: usize| places[i].between(ranked[2 * i], ranked[2 * i + 1]);
        Ok(Some(Distribution {
            n,
            mean,
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min,
            max,
            p50: at(0),
            p90: at(1),
            p95: at(2),
            p99: at(3),
        }))
    }
}

/// The values of a sample on disk and in memory.
struct Values {
    file: File,
    held: Vec<f64>,
}

impl Values {
    fn each(&mut self, mut take: impl FnMut(f64)) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(64 * 1024, &self.file);
        let mut bytes = [0_u8; 8];
        loop {
            match reader.read_exact(&mut bytes) {
                Ok(()) => take(f64::from_le_bytes(bytes)),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(e) => return Err(e),
            }
        }
        self.held.iter().copied().for_each(take);
        Ok(())
    }

    /// Returns the values at some ranks (from 0) of the sorted sample.
    fn at_ranks(&mut self, ranks: &[usize]) -> io::Result<Vec<f64>> {
        // For each rank: the leading bits known so far, and the number of values before them.
        let mut leading: Vec<(u64, usize)> = vec![(0, 0); ranks.len()];
        for digit in 0..4_u32 {
            let shift = 48 - 16 * digit;
            let mut prefixes: Vec<u64> = leading.iter().map(|(prefix, _)| *prefix).collect();
            prefixes.sort_unstable();
            prefixes.dedup();
            let mut counts = vec![vec![0_usize; 1 << 16]; prefixes.len()];
            self.each(|value| {
                let key = ordered_bits(value);
                let prefix = key.checked_shr(shift + 16).unwrap_or(0);
                if let Ok(i) = prefixes.binary_search(&prefix) {
                    counts[i][(key >> shift) as usize & 0xffff] += 1;
                }
            })?;
            for ((prefix, before), rank) in leading.iter_mut().zip(ranks) {
                let i = prefixes
                    .binary_search(prefix)
                    .expect("every prefix is listed");
                for (next, count) in counts[i].iter().enumerate() {
                    if *before + count > *rank {
                        *prefix = (*prefix << 16) | next as u64;
                        break;
                    }
                    *before += count;
                }
            }
        }
        Ok(leading
            .into_iter()
            .map(|(bits, _)| from_ordered_bits(bits))
            .collect())
    }
}

/// Returns bits that sort as a whole number in the order of the values.
fn ordered_bits(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | (1 << 63)
    }
}

fn from_ordered_bits(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 {
        bits & !(1 << 63)
    } else {
        !bits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_sample_on_disk_has_the_figures_of_one_in_memory(
            values in proptest::collection::vec(prop_oneof![-1e9..1e9_f64, Just(0.0), Just(2.5)], 1..300),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut sample = Sample { limit: 16, ..Sample::new(folder.path().to_owned()) };
            values.iter().for_each(|v| sample.push(*v).unwrap());
            prop_assert!(sample.held.len() <= 16);
            let (distribution, expected) = (sample.distribution().unwrap().unwrap(), Distribution::of(values).unwrap());
            prop_assert_eq!(
                (distribution.n, distribution.min, distribution.max, distribution.p50, distribution.p90, distribution.p95, distribution.p99),
                (expected.n, expected.min, expected.max, expected.p50, expected.p90, expected.p95, expected.p99)
            );
            prop_assert!((distribution.mean - expected.mean).abs() <= 1e-3);
        }
    }

    #[test]
    fn an_empty_sample_has_no_figures() {
        assert!(
            Sample::new(std::env::temp_dir())
                .distribution()
                .unwrap()
                .is_none()
        );
    }
}
