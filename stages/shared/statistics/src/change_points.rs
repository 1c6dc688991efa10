//! Change points in the level of a series whose values may depend on each other.

mod critical;

use critical::critical;

/// The fewest values of a level.
const SHORTEST: usize = 3;

/// The fewest values of a series in which a change can be shown: two levels.
pub const LEAST_FOR_A_CHANGE: usize = 2 * SHORTEST;

/// The correlations between neighbouring values that the null hypothesis allows.
const CORRELATIONS: [f64; 4] = [0.0, 0.2, 0.4, 0.6];

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

/// Returns the segments of a series in order: one if no change of level is shown. `None` if the series has fewer than
/// [`LEAST_FOR_A_CHANGE`] values.
///
/// The null hypothesis is one level and a first-order autoregression of any correlation from 0 to 0.6. The test is the
/// likelihood ratio of one or two changes, each with the correlation and the positions that fit best (the supremum tests
/// of Andrews, Econometrica 61, 1993, and of Bai and Perron, Econometrica 66, 1998, with their errors from a generalized
/// least squares fit). Asymptotic critical values do not hold for series this short, so these are simulated: the largest
/// over the correlations and over normal, heavy-tailed, skewed and contaminated values, growing noise and unequal
/// precision. If a change is shown, each part of the series is tested again at its share of the level (binary
/// segmentation). A level lasts for at least three values, so a single outlier has none.
///
/// `rounding` is the variance that rounding gives to a value. `level` is the probability of any false change, from 0.0001
/// to 0.05.
///
/// # Panics
/// If a value is not finite.
pub fn segments(values: &[f64], rounding: f64, level: f64) -> Option<Vec<Segment>> {
    assert!(values.iter().all(|v| v.is_finite()), "a value is finite");
    if values.len() < LEAST_FOR_A_CHANGE {
        return None;
    }
    let mut starts = vec![0];
    split(values, 0, rounding, level, &mut starts);
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([values.len()]);
    let segment = |(from, to): (&usize, usize)| Segment {
        from: *from,
        to,
        level: values[*from..to].iter().sum::<f64>() / (to - from) as f64,
    };
    Some(starts.iter().zip(ends).map(segment).collect())
}

/// Adds the starts of new levels in a part that begins at `offset`.
fn split(part: &[f64], offset: usize, rounding: f64, level: f64, starts: &mut Vec<usize>) {
    let Some(changed) = changes(part, rounding) else {
        return;
    };
    let inner = match changed.shown(part.len(), level) {
        Shown::None => return,
        Shown::One => vec![changed.one.1],
        Shown::Two => changed.two.1.to_vec(),
    };
    starts.extend(inner.iter().map(|at| offset + at));
    let edges: Vec<usize> = [0].into_iter().chain(inner).chain([part.len()]).collect();
    for pair in edges.windows(2) {
        let share = (pair[1] - pair[0]) as f64 / part.len() as f64;
        let inside = &part[pair[0]..pair[1]];
        split(inside, offset + pair[0], rounding, level * share, starts);
    }
}

/// The best changes of a series.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Twice the log likelihood ratio of one change, and its position.
    pub one: (f64, usize),
    /// The same for two changes; the ratio is 0 if the series is too short.
    pub two: (f64, [usize; 2]),
}

enum Shown {
    None,
    One,
    Two,
}

impl Changes {
    /// Tests one and two changes, each at half of the level. If both are shown, the one further above its critical value
    /// counts.
    fn shown(&self, n: usize, level: f64) -> Shown {
        if n < 3 * SHORTEST {
            let [one, _] = critical(n, level);
            return match self.one.0 > one {
                true => Shown::One,
                false => Shown::None,
            };
        }
        let [one, two] = critical(n, level / 2.0);
        let (one, two) = (self.one.0 / one, self.two.0 / two);
        match (one > 1.0, two > 1.0) {
            (false, false) => Shown::None,
            _ if one >= two => Shown::One,
            _ => Shown::Two,
        }
    }
}

/// Returns the best changes of a series; `None` if it is too short.
pub fn changes(values: &[f64], rounding: f64) -> Option<Changes> {
    let n = values.len();
    if n < LEAST_FOR_A_CHANGE {
        return None;
    }
    let centre = values.iter().sum::<f64>() / n as f64;
    let centred: Vec<f64> = values.iter().map(|v| v - centre).collect();
    // Cancellation leaves an error of this order; it must not count as a fit.
    let scale = values.iter().fold(0.0_f64, |top, v| top.max(v.abs()));
    let floor = n as f64 * (rounding + (1e-12 * scale).powi(2)) + f64::MIN_POSITIVE;
    let mut none = f64::NEG_INFINITY;
    let (mut one, mut two) = ((none, 0), (none, [0; 2]));
    for rho in CORRELATIONS {
        let fit = Fit::of(&centred, rho);
        let likelihood = |squares: f64| {
            let squares = squares.max(0.0) + floor;
            (1.0 - rho * rho).ln() - n as f64 * (squares / n as f64).ln()
        };
        none = none.max(likelihood(fit.squares));
        let (drop, at) = fit.one();
        let with = likelihood(fit.squares - drop);
        if with > one.0 {
            one = (with, at);
        }
        if let Some((drop, at)) = fit.two() {
            let with = likelihood(fit.squares - drop);
            if with > two.0 {
                two = (with, at);
            }
        }
    }
    Some(Changes {
        one: (one.0 - none, one.1),
        two: ((two.0 - none).max(0.0), two.1),
    })
}

/// A series after the transformation that makes its errors independent for one correlation (Prais and Winsten, 1954),
/// with the steps at which a level may begin, after the mean is removed.
struct Fit {
    n: usize,
    /// 1 − ρ, the weight of a value after the first.
    weight: f64,
    /// Sum of squares of the mean's column.
    mean: f64,
    /// The residual sum of squares without a change.
    squares: f64,
    /// For each position: the product with the mean's column, the remaining sum of squares of the step's column, and
    /// its product with the residuals.
    steps: Vec<[f64; 3]>,
}

impl Fit {
    fn of(values: &[f64], rho: f64) -> Self {
        let n = values.len();
        let (weight, first) = (1.0 - rho, (1.0 - rho * rho).sqrt());
        let at = |t: usize| match t {
            0 => first * values[0],
            _ => values[t] - rho * values[t - 1],
        };
        let mut after = vec![0.0; n + 1];
        let mut squares = 0.0;
        for t in (0..n).rev() {
            after[t] = after[t + 1] + at(t);
            squares += at(t).powi(2);
        }
        let mean = first * first + weight * weight * (n as f64 - 1.0);
        let product = first * at(0) + weight * after[1];
        let step = |k: usize| {
            let rest = weight * weight * (n - 1 - k) as f64;
            let with_mean = weight + rest;
            let own = 1.0 + rest - with_mean * with_mean / mean;
            let with_values = at(k) + weight * after[k + 1] - with_mean * product / mean;
            [with_mean, own, with_values]
        };
        Self {
            n,
            weight,
            mean,
            squares: squares - product * product / mean,
            // No level begins at 0; its column would be that of the mean.
            steps: [[0.0, 1.0, 0.0]]
                .into_iter()
                .chain((1..n).map(step))
                .collect(),
        }
    }

    /// Returns by how much the best single step lowers the residual sum of squares, and where the step is.
    fn one(&self) -> (f64, usize) {
        let drop = |k: usize| {
            let [_, own, with] = self.steps[k];
            (with * with / own, k)
        };
        best((SHORTEST..=self.n - SHORTEST).map(drop)).unwrap_or((0.0, SHORTEST))
    }

    /// The same for the best two steps; `None` if the series has no room for three levels.
    fn two(&self) -> Option<(f64, [usize; 2])> {
        let last = self.n - SHORTEST;
        let pairs = (SHORTEST..=last).flat_map(|i| (i + SHORTEST..=last).map(move |j| [i, j]));
        best(pairs.map(|[i, j]| {
            let ([mean_i, own_i, with_i], [mean_j, own_j, with_j]) = (self.steps[i], self.steps[j]);
            let rest = self.weight * self.weight * (self.n - 1 - j) as f64;
            let both = self.weight + rest - mean_i * mean_j / self.mean;
            let drop =
                with_i * with_i * own_j - 2.0 * with_i * with_j * both + with_j * with_j * own_i;
            (drop / (own_i * own_j - both * both), [i, j])
        }))
    }
}

/// Returns the candidate with the largest value; the first among equals.
fn best<T>(candidates: impl Iterator<Item = (f64, T)>) -> Option<(f64, T)> {
    candidates.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Normals;

    fn starts(values: &[f64]) -> Vec<usize> {
        let segments = segments(values, 0.0, 0.05).unwrap();
        segments.iter().map(|s| s.from).collect()
    }

    /// Values of one level with noise of 0.1.
    fn steady(n: usize, study: u64) -> Vec<f64> {
        let mut normals = Normals::new(12, study);
        (0..n).map(|_| 10.0 + 0.1 * normals.draw()).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut step = steady(20, 1);
        assert_eq!(starts(&step), [0]);
        step[12..].iter_mut().for_each(|v| *v -= 1.0);
        assert_eq!(starts(&step), [0, 12]);
        let levels = segments(&step, 0.0, 0.05).unwrap();
        assert!((levels[0].level - 10.0).abs() < 0.1 && (levels[1].level - 9.0).abs() < 0.1);
        let mut back = steady(30, 2);
        back[10..20].iter_mut().for_each(|v| *v += 1.0);
        assert_eq!(starts(&back), [0, 10, 20]);
        let mut stairs = steady(40, 3);
        for (i, v) in stairs.iter_mut().enumerate() {
            *v += (i / 10) as f64;
        }
        assert_eq!(starts(&stairs), [0, 10, 20, 30]);
    }

    #[test]
    fn a_level_needs_three_values() {
        let mut values = steady(20, 4);
        values[9] = 20.0;
        assert_eq!(starts(&values), [0]);
        let mut values = steady(20, 4);
        values[18..].iter_mut().for_each(|v| *v += 3.0);
        assert!(starts(&values).iter().all(|at| *at <= 17));
        let mut values = steady(20, 4);
        values[17..].iter_mut().for_each(|v| *v += 3.0);
        assert_eq!(starts(&values), [0, 17]);
    }

    #[test]
    fn too_few_values_show_nothing_and_equal_values_have_one_level() {
        assert_eq!(segments(&[], 0.0, 0.05), None);
        assert_eq!(segments(&[1.0, 1.1, 1.0, 9.0, 9.1], 0.0, 0.05), None);
        assert_eq!(starts(&[5.0; 10]), [0]);
    }

    #[test]
    fn values_of_two_neighbouring_steps_of_rounding_are_no_change() {
        // 5 and 6 may be 5.49 and 5.51.
        let values: Vec<f64> = (0..10).map(|i| if i < 5 { 5.0 } else { 6.0 }).collect();
        assert_eq!(starts(&values), [0, 5]);
        let rounded = segments(&values, 1.0 / 12.0, 0.05).unwrap();
        assert_eq!(rounded.len(), 1, "{rounded:?}");
    }

    #[test]
    fn the_scale_and_the_origin_of_the_values_change_no_segment() {
        let mut values = steady(40, 5);
        values[17..].iter_mut().for_each(|v| *v += 0.8);
        let moved: Vec<f64> = values.iter().map(|v| v * 1000.0 + 1e6).collect();
        assert_eq!(starts(&values), starts(&moved));
        assert_eq!(starts(&values), [0, 17]);
    }

    #[test]
    fn the_likelihood_ratio_is_that_of_least_squares_after_the_transformation() {
        // One step at 5 of 10 values, ρ = 0.4: ordinary least squares on transformed columns, solved directly.
        let values = steady(10, 6);
        let rho: f64 = 0.4;
        let first = (1.0 - rho * rho).sqrt();
        let transform = |x: &[f64]| -> Vec<f64> {
            (0..x.len())
                .map(|t| match t {
                    0 => first * x[0],
                    _ => x[t] - rho * x[t - 1],
                })
                .collect()
        };
        let step =
            |k: usize| -> Vec<f64> { (0..10).map(|t| f64::from(u8::from(t >= k))).collect() };
        let y = transform(&values);
        let residual = |columns: Vec<Vec<f64>>| {
            // Gram–Schmidt.
            let mut basis: Vec<Vec<f64>> = Vec::new();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            let minus = |mut v: Vec<f64>, basis: &[Vec<f64>]| {
                for b in basis {
                    let along = dot(&v, b) / dot(b, b);
                    v.iter_mut().zip(b).for_each(|(x, b)| *x -= along * b);
                }
                v
            };
            for column in columns {
                let rest = minus(transform(&column), &basis);
                basis.push(rest);
            }
            let rest = minus(y.clone(), &basis);
            dot(&rest, &rest)
        };
        let centre = values.iter().sum::<f64>() / 10.0;
        let fit = Fit::of(&values.iter().map(|v| v - centre).collect::<Vec<_>>(), rho);
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-8, "{a} {b}");
        near(fit.squares, residual(vec![vec![1.0; 10]]));
        let (drop, at) = fit.one();
        near(fit.squares - drop, residual(vec![vec![1.0; 10], step(at)]));
        let (drop, [i, j]) = fit.two().unwrap();
        let columns = vec![vec![1.0; 10], step(i), step(j)];
        near(fit.squares - drop, residual(columns));
    }
}
