//! Change points in the level of a series.

/// A part of a series with one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The index of the first value.
    pub from: usize,
    /// The index after the last value.
    pub to: usize,
    /// The mean of the values.
    pub level: f64,
}

/// Returns the segments of a series in order, at least one unless the series is empty. They minimize the squared
/// distances from the segments' means plus 2 ln n · σ² for each segment after the first. This is optimal partitioning
/// with the Schwarz criterion, with two parameters per change: its place and its level (Killick, Fearnhead and Eckley,
/// JASA 107, 2012, equation 1, for a change in mean). A single outlier is its own segment; only later values show
/// whether it lasts.
///
/// σ is estimated from successive differences, which changes of level barely affect: their median absolute value ÷ (√2
/// · 0.6745). If it is 0, any change starts a segment. The result describes the series. It is not a test, and a drift
/// appears as steps.
///
/// # Panics
/// If a value is not finite.
pub fn segments(values: &[f64]) -> Vec<Segment> {
    assert!(values.iter().all(|v| v.is_finite()), "a value is finite");
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let penalty = 2.0 * (n as f64).ln() * noise(values).powi(2);
    // Prefix sums, about the mean to limit cancellation.
    let centre = values.iter().sum::<f64>() / n as f64;
    let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
    for value in values {
        let v = value - centre;
        sums.push(sums[sums.len() - 1] + v);
        squares.push(squares[squares.len() - 1] + v * v);
    }
    let cost = |from: usize, to: usize| {
        let sum: f64 = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64).max(0.0)
    };
    // best[to]: the least total over the first `to` values, and the start of their last segment.
    let mut best: Vec<(f64, usize)> = vec![(-penalty, 0)];
    for to in 1..=n {
        let total = |from: usize| best[from].0 + cost(from, to) + penalty;
        // Among equal totals, the earliest start wins: it gives fewer segments.
        let found = (0..to)
            .map(|from| (total(from), from))
            .reduce(|least, next| {
                if next.0 < least.0 - tolerance(least.0) {
                    next
                } else {
                    least
                }
            });
        best.push(found.unwrap_or((f64::INFINITY, 0)));
    }
    let mut segments = Vec::new();
    let mut to = n;
    while to > 0 {
        let from = best[to].1;
        let level = values[from..to].iter().sum::<f64>() / (to - from) as f64;
        segments.push(Segment { from, to, level });
        to = from;
    }
    segments.reverse();
    segments
}

/// Returns how far rounding can separate equal totals.
fn tolerance(total: f64) -> f64 {
    total.abs() * 1e-9 + 1e-12
}

fn noise(values: &[f64]) -> f64 {
    let differences: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let typical = match differences.is_empty() {
        true => 0.0,
        false => median_of(differences),
    };
    typical / (std::f64::consts::SQRT_2 * 0.674_489_750_196_081_7)
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(values: &[f64]) -> Vec<usize> {
        segments(values).iter().map(|s| s.from).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is_and_noise_is_none() {
        let noisy = |level: f64, i: usize| level + [0.1, -0.2, 0.15, -0.05, 0.0][i % 5];
        let flat: Vec<f64> = (0..20).map(|i| noisy(10.0, i)).collect();
        assert_eq!(starts(&flat), [0]);
        let step: Vec<f64> = (0..20)
            .map(|i| noisy(if i < 12 { 10.0 } else { 9.0 }, i))
            .collect();
        assert_eq!(starts(&step), [0, 12]);
        let levels: Vec<f64> = segments(&step).iter().map(|s| s.level).collect();
        assert!(
            (levels[0] - 10.0).abs() < 0.05 && (levels[1] - 9.0).abs() < 0.05,
            "{levels:?}"
        );
        let both: Vec<f64> = (0..30)
            .map(|i| noisy(if (10..20).contains(&i) { 12.0 } else { 10.0 }, i))
            .collect();
        assert_eq!(starts(&both), [0, 10, 20]);
    }

    #[test]
    fn one_value_that_stands_out_is_marked_where_it_is() {
        let mut values: Vec<f64> = (0..20).map(|i| 10.0 + [0.1, -0.1, 0.05][i % 3]).collect();
        values[19] = 20.0;
        assert_eq!(starts(&values), [0, 19]);
        values.swap(9, 19);
        assert_eq!(starts(&values), [0, 9, 10]);
    }

    #[test]
    fn series_without_noise_and_short_ones_have_the_segments_that_they_have() {
        assert_eq!(starts(&[]), [0; 0]);
        assert_eq!(starts(&[1.0]), [0]);
        assert_eq!(starts(&[1.0, 2.0]), [0]);
        assert_eq!(starts(&[5.0; 10]), [0]);
        assert_eq!(starts(&[5.0, 5.0, 5.0, 6.0, 6.0, 6.0]), [0, 3]);
    }

    #[test]
    fn the_scale_and_the_origin_of_the_values_change_no_segment() {
        let values: Vec<f64> = (0..40)
            .map(|i| {
                (if i < 17 { 3.0 } else { 3.4 })
                    + 0.05 * f64::from((i * i * 37 + i * 11) % 101) / 101.0
            })
            .collect();
        let moved: Vec<f64> = values.iter().map(|v| v * 1000.0 + 1e6).collect();
        assert_eq!(starts(&values), starts(&moved));
        assert_eq!(starts(&values), [0, 17]);
    }
}
