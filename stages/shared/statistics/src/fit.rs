//! Fits of scaling models by nonlinear least squares on the original scale.
//!
//! Levenberg–Marquardt with analytic gradients. The method is part of the result: a linearised fit (Lineweaver–Burk,
//! Hanes–Woolf, Eadie–Hofstee) weights the same points differently and gives other parameters.

use std::fmt;

use crate::distribution::student_critical;
use crate::sample::sum;

/// A model of y over x > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Vmax·x ÷ (K + x).
    MichaelisMenten,
    /// a·x^b.
    PowerLaw,
    /// X1·x ÷ (1 + σ(x − 1)).
    Amdahl,
    /// X1·x ÷ (1 + σ(x − 1) + κx(x − 1)) (Gunther 1993).
    Usl,
}

impl Model {
    /// Returns the formula.
    pub fn formula(self) -> &'static str {
        match self {
            Self::MichaelisMenten => "vmax · x ÷ (k + x)",
            Self::PowerLaw => "a · x^b",
            Self::Amdahl => "x1 · x ÷ (1 + sigma · (x − 1))",
            Self::Usl => "x1 · x ÷ (1 + sigma · (x − 1) + kappa · x · (x − 1))",
        }
    }

    /// Returns the names of the parameters.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::MichaelisMenten => &["vmax", "k"],
            Self::PowerLaw => &["a", "b"],
            Self::Amdahl => &["x1", "sigma"],
            Self::Usl => &["x1", "sigma", "kappa"],
        }
    }

    /// Returns the value at `x`, in the unit of y. The parameters are in the order of their names.
    ///
    /// # Panics
    /// If there are fewer parameters than the model has.
    pub fn at(self, parameters: &[f64], x: f64) -> f64 {
        self.value(parameters, x).0
    }

    /// Returns the standard error of the value at `x` from the covariance of the parameters (delta method, Seber &
    /// Wild, Nonlinear Regression, 1989, section 5.1); `None` if the matrix does not fit the model or gives no
    /// variance.
    pub fn error_at(self, parameters: &[f64], covariance: &[Vec<f64>], x: f64) -> Option<f64> {
        let n = self.parameters().len();
        if parameters.len() != n
            || covariance.len() != n
            || covariance.iter().any(|row| row.len() != n)
        {
            return None;
        }
        let (_, gradient) = self.value(parameters, x);
        let through = |row: &Vec<f64>| row.iter().zip(&gradient).map(|(c, g)| c * g).sum::<f64>();
        let variance: f64 = covariance
            .iter()
            .zip(&gradient)
            .map(|(row, g)| g * through(row))
            .sum();
        (variance.is_finite() && variance >= 0.0).then(|| variance.sqrt())
    }

    /// Returns the value at `x` and its derivative with respect to each parameter.
    pub(crate) fn value(self, p: &[f64], x: f64) -> (f64, Vec<f64>) {
        match self {
            Self::MichaelisMenten => {
                let share = x / (p[1] + x);
                (p[0] * share, vec![share, -p[0] * x / (p[1] + x).powi(2)])
            }
            Self::PowerLaw => {
                let power = x.powf(p[1]);
                (p[0] * power, vec![power, p[0] * power * x.ln()])
            }
            Self::Amdahl | Self::Usl => {
                let kappa = p.get(2).copied().unwrap_or(0.0);
                let bottom = 1.0 + p[1] * (x - 1.0) + kappa * x * (x - 1.0);
                let by_bottom = -p[0] * x / (bottom * bottom);
                let mut gradient =
                    vec![x / bottom, by_bottom * (x - 1.0), by_bottom * x * (x - 1.0)];
                gradient.truncate(p.len());
                (p[0] * x / bottom, gradient)
            }
        }
    }

    fn start(self, points: &[(f64, f64)]) -> Vec<f64> {
        let top = points.iter().map(|p| p.1).fold(f64::MIN, f64::max);
        let first = points
            .iter()
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("there are points");
        let per_one = first.1 / first.0;
        match self {
            Self::MichaelisMenten => {
                // Hanes–Woolf: x/y is linear in x, with slope 1/Vmax.
                let (slope, intercept) =
                    line(&points.iter().map(|(x, y)| (*x, x / y)).collect::<Vec<_>>());
                if slope > 0.0 && intercept > 0.0 {
                    vec![1.0 / slope, intercept / slope]
                } else {
                    vec![2.0 * top, points.iter().map(|p| p.0).fold(0.0, f64::max)]
                }
            }
            Self::PowerLaw => {
                let (b, a) = line(
                    &points
                        .iter()
                        .map(|(x, y)| (x.ln(), y.ln()))
                        .collect::<Vec<_>>(),
                );
                vec![a.exp(), b]
            }
            Self::Amdahl => vec![per_one, 0.1],
            Self::Usl => vec![per_one, 0.1, 0.001],
        }
    }
}

/// Points that no model can be fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitError {
    /// Fewer points than parameters.
    TooFewPoints,
    /// A point is not a pair of positive finite numbers.
    NotPositive,
    /// The iteration does not converge: the points do not determine the parameters.
    NoConvergence,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFewPoints => "fewer points than parameters",
            Self::NotPositive => "a point is not a pair of positive numbers",
            Self::NoConvergence => "the points do not determine the parameters",
        })
    }
}

impl std::error::Error for FitError {}

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The model.
    pub model: Model,
    /// The parameters, in the order of [`Model::parameters`].
    pub values: Vec<f64>,
    /// Their covariance, parameters × parameters; `None` without degrees of freedom, and for a
    /// linearised fit.
    pub covariance: Option<Vec<Vec<f64>>>,
    /// The residual sum of squares.
    pub rss: f64,
    /// 1 − RSS ÷ total sum of squares about the mean; `None` if every y is the same.
    pub r2: Option<f64>,
    /// Points minus parameters. With 0, the curve passes through every point and R² is meaningless.
    pub df: usize,
    /// The largest observed x.
    pub largest_x: f64,
}

impl Fit {
    /// Returns the standard error of a parameter; `None` without a covariance.
    pub fn error(&self, parameter: usize) -> Option<f64> {
        Some(
            self.covariance
                .as_ref()?
                .get(parameter)?
                .get(parameter)?
                .sqrt(),
        )
    }

    /// Returns the t interval of a parameter; `None` without degrees of freedom.
    pub fn interval(&self, parameter: usize, level: f64) -> Option<(f64, f64)> {
        let error = self.error(parameter)?;
        let half = student_critical((1.0 - level) / 2.0, self.df as f64) * error;
        Some((self.values[parameter] - half, self.values[parameter] + half))
    }

    /// Returns the value at `x`, or `None` if `x` is more than `factor` times the largest observed x. Beyond that, a
    /// fit is not evidence.
    pub fn predict(&self, x: f64, factor: f64) -> Option<f64> {
        (x > 0.0 && x <= factor * self.largest_x).then(|| self.model.value(&self.values, x).0)
    }
}

/// Fits a model to points (x, y).
///
/// # Errors
/// If there are fewer points than parameters, a number is not positive and finite, or the iteration does not converge.
pub fn fit(model: Model, points: &[(f64, f64)]) -> Result<Fit, FitError> {
    let count = model.parameters().len();
    if points.len() < count {
        return Err(FitError::TooFewPoints);
    }
    if points
        .iter()
        .any(|(x, y)| !(x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0))
    {
        return Err(FitError::NotPositive);
    }
    let mut points = points.to_vec();
    // The order of the points must not affect the last bit.
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let rss = |p: &[f64]| {
        sum(points
            .iter()
            .map(|(x, y)| (y - model.value(p, *x).0).powi(2)))
    };
    let mut values = model.start(&points);
    let mut best = rss(&values);
    let mut damping = 1e-3;
    let mut settled = false;
    for _ in 0..10_000 {
        let (normal, right) = normal_equations(model, &values, &points);
        let mut damped = normal.clone();
        for (i, row) in damped.iter_mut().enumerate() {
            row[i] *= 1.0 + damping;
        }
        let Some(step) = solve(damped, right) else {
            damping *= 10.0;
            if damping > 1e30 {
                break;
            }
            continue;
        };
        let next: Vec<f64> = values.iter().zip(&step).map(|(v, s)| v + s).collect();
        let error = rss(&next);
        let small = values
            .iter()
            .zip(&step)
            .all(|(v, s)| s.abs() <= 1e-13 * v.abs().max(1e-300));
        if error.is_finite() && error <= best {
            (values, best) = (next, error);
            damping = (damping / 10.0).max(1e-300);
        } else {
            damping *= 10.0;
        }
        if small || damping > 1e30 {
            settled = true;
            break;
        }
    }
    let (normal, _) = normal_equations(model, &values, &points);
    if !settled || values.iter().any(|v| !v.is_finite()) {
        return Err(FitError::NoConvergence);
    }
    let df = points.len() - count;
    let covariance = if df == 0 {
        None
    } else {
        let inverse: Option<Vec<Vec<f64>>> = (0..count)
            .map(|i| {
                let unit = (0..count).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
                solve(normal.clone(), unit)
            })
            .collect();
        let scaled = |column: Vec<f64>| column.into_iter().map(|v| v * best / df as f64).collect();
        Some(
            inverse
                .ok_or(FitError::NoConvergence)?
                .into_iter()
                .map(scaled)
                .collect(),
        )
    };
    let mean = sum(points.iter().map(|p| p.1)) / points.len() as f64;
    let total = sum(points.iter().map(|p| (p.1 - mean).powi(2)));
    let r2 = (total > 0.0).then(|| 1.0 - best / total);
    let largest_x = points[points.len() - 1].0;
    Ok(Fit {
        model,
        values,
        covariance,
        rss: best,
        r2,
        df,
        largest_x,
    })
}

fn normal_equations(model: Model, p: &[f64], points: &[(f64, f64)]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let n = p.len();
    let (mut normal, mut right) = (vec![vec![0.0; n]; n], vec![0.0; n]);
    for (x, y) in points {
        let (value, gradient) = model.value(p, *x);
        for i in 0..n {
            right[i] += gradient[i] * (y - value);
            for j in 0..n {
                normal[i][j] += gradient[i] * gradient[j];
            }
        }
    }
    (normal, right)
}

/// Solves a small linear system by elimination with pivoting and scaled columns.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    let scale: Vec<f64> = (0..n).map(|i| a[i][i].abs().sqrt()).collect();
    if scale.iter().any(|s| *s == 0.0 || !s.is_finite()) {
        return None;
    }
    for i in 0..n {
        b[i] /= scale[i];
        for j in 0..n {
            a[i][j] /= scale[i] * scale[j];
        }
    }
    for column in 0..n {
        let pivot =
            (column..n).max_by(|x, y| a[*x][column].abs().total_cmp(&a[*y][column].abs()))?;
        if a[pivot][column].abs() < 1e-14 {
            return None;
        }
        a.swap(column, pivot);
        b.swap(column, pivot);
        let pivot_row = a[column].clone();
        for row in column + 1..n {
            let factor = a[row][column] / pivot_row[column];
            for (value, above) in a[row].iter_mut().zip(&pivot_row) {
                *value -= factor * above;
            }
            b[row] -= factor * b[column];
        }
    }
    for row in (0..n).rev() {
        let solved: f64 = (row + 1..n).map(|j| a[row][j] * b[j]).sum();
        b[row] = (b[row] - solved) / a[row][row];
    }
    Some(b.iter().zip(&scale).map(|(v, s)| v / s).collect())
}

/// Returns the slope and intercept of the least-squares line.
pub(crate) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mx, my) = (
        points.iter().map(|p| p.0).sum::<f64>() / n,
        points.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = if sxx == 0.0 { 0.0 } else { sxy / sxx };
    (slope, my - slope * mx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_curve_is_that_of_its_scale_where_nothing_else_counts() {
        // At x = 1, a power law and Amdahl's law equal their first parameter.
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0]
            .map(|x: f64| (x, 3.0 * x.powf(0.8) + x % 3.0))
            .to_vec();
        for model in [Model::PowerLaw, Model::Amdahl, Model::Usl] {
            let fit = fit(model, &points).unwrap();
            let at = |x: f64| {
                model
                    .error_at(&fit.values, fit.covariance.as_ref().unwrap(), x)
                    .unwrap()
            };
            assert!(
                (at(1.0) / fit.error(0).unwrap() - 1.0).abs() < 1e-12,
                "{model:?}"
            );
            assert!(at(8.0) > 0.0);
        }
        assert_eq!(Model::Amdahl.error_at(&[1.0, 0.1], &[vec![1.0]], 2.0), None);
    }

    #[test]
    fn the_published_saturation_fit_is_nonlinear_least_squares() {
        // Published from these three points: Vmax 8351.4, K 411.8, R² 0.999.
        let points = [(10.0, 224.6), (50.0, 894.6), (100.0, 1637.6)];
        let fit = fit(Model::MichaelisMenten, &points).unwrap();
        let text: Vec<String> = fit.values.iter().map(|v| format!("{v:.2}")).collect();
        assert_eq!(text, ["8351.11", "410.92"]);
        assert_eq!(format!("{:.2}", fit.rss), "823.92");
        assert_eq!(format!("{:.4}", fit.r2.unwrap()), "0.9992");
        assert_eq!(fit.df, 1);
        // One degree of freedom: the interval is too wide to be useful.
        let (low, high) = fit.interval(0, 0.95).unwrap();
        assert!(low < 0.0 && high > 16_000.0, "{low} {high}");
    }

    #[test]
    fn a_fit_is_silent_beyond_the_declared_factor() {
        let points = [(10.0, 224.6), (50.0, 894.6), (100.0, 1637.6)];
        let fit = fit(Model::MichaelisMenten, &points).unwrap();
        assert!(fit.predict(200.0, 2.0).is_some());
        assert_eq!(fit.predict(201.0, 2.0), None);
    }

    #[test]
    fn planted_parameters_come_back() {
        for (model, planted) in [
            (Model::MichaelisMenten, vec![900.0, 12.0]),
            (Model::PowerLaw, vec![3.0, 0.7]),
            (Model::Amdahl, vec![100.0, 0.05]),
            (Model::Usl, vec![100.0, 0.05, 0.002]),
        ] {
            let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
                .iter()
                .map(|x| (*x, model.value(&planted, *x).0))
                .collect();
            let fit = fit(model, &points).unwrap();
            for (fitted, truth) in fit.values.iter().zip(&planted) {
                assert!(
                    (fitted - truth).abs() < 1e-6 * truth,
                    "{model:?}: {fitted} {truth}"
                );
            }
        }
    }

    #[test]
    fn points_that_determine_nothing_are_refused() {
        assert_eq!(
            fit(Model::Usl, &[(1.0, 1.0), (2.0, 2.0)]),
            Err(FitError::TooFewPoints)
        );
        assert_eq!(
            fit(Model::PowerLaw, &[(0.0, 1.0), (2.0, 2.0)]),
            Err(FitError::NotPositive)
        );
        let exact = fit(Model::PowerLaw, &[(1.0, 1.0), (2.0, 2.0)]).unwrap();
        assert_eq!((exact.df, exact.covariance), (0, None));
    }
}
