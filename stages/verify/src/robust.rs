//! Robust location and spread: a few outliers barely change them.

use crate::series::median;

/// The median of the logarithms of positive values and their robust standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Centre {
    log_median: f64,
    log_deviation: f64,
}

impl Centre {
    /// Returns the centre of the positive values; `None` if there are none.
    pub(crate) fn of_logs(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values
            .iter()
            .filter(|v| **v > 0.0)
            .map(|v| v.ln())
            .collect();
        let log_median = median(&logs)?;
        let distances: Vec<f64> = logs.iter().map(|l| (l - log_median).abs()).collect();
        Some(Self {
            log_median,
            // For a normal distribution the median distance is 0.6745 standard deviations.
            log_deviation: median(&distances)? / 0.674_49,
        })
    }

    pub(crate) fn median(self) -> f64 {
        self.log_median.exp()
    }

    /// Returns the value this many deviations above the median.
    pub(crate) fn above(self, deviations: f64) -> f64 {
        (self.log_median + deviations * self.log_deviation).exp()
    }
}
