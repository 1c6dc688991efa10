//! The GPUs' recent power, for the watchdog.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The most samples kept for each GPU.
const KEPT: usize = 8192;

/// The recent power of each GPU: written by the sampler, read by the watchdog.
#[derive(Debug, Default)]
pub(crate) struct Power(Mutex<BTreeMap<i64, VecDeque<(i64, f64)>>>);

impl Power {
    /// Records a GPU's power, W.
    pub(crate) fn note(&self, gpu: i64, at_ns: i64, watts: f64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = all.entry(gpu).or_default();
        if readings.len() == KEPT {
            readings.pop_front();
        }
        readings.push_back((at_ns, watts));
    }

    /// Returns the largest of the GPUs' mean powers since a stamp, W; `None` without samples.
    pub(crate) fn since(&self, from_ns: i64) -> Option<f64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let means = all.values().filter_map(|readings| {
            let recent: Vec<f64> = readings
                .iter()
                .filter(|(at, _)| *at >= from_ns)
                .map(|(_, w)| *w)
                .collect();
            (!recent.is_empty()).then(|| recent.iter().sum::<f64>() / recent.len() as f64)
        });
        means.max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_gpu_counts_and_only_since_the_silence_began() {
        let power = Power::default();
        assert_eq!(power.since(0), None);
        for (gpu, at, watts) in [(0, 1, 400.0), (0, 5, 30.0), (0, 6, 40.0), (1, 5, 20.0)] {
            power.note(gpu, at, watts);
        }
        assert_eq!(power.since(5), Some(35.0));
        assert_eq!(power.since(7), None);
    }
}
