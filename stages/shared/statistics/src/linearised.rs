//! Linearised fits of Michaelis–Menten's law and of a power law, each under its own name.
//!
//! They transform the points to a line and weight the errors with the transform, so each gives different parameters
//! from the same points. They exist to reproduce what others published; the nonlinear fit of [`crate::fit()`] is the
//! default.

use crate::fit::{Fit, FitError, Model, line};
use crate::sample::sum;

/// The transform that makes the law a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearisation {
    /// 1/y over 1/x: intercept 1/Vmax, slope K/Vmax (JACS 56, 1934).
    LineweaverBurk,
    /// x/y over x: slope 1/Vmax, intercept K/Vmax (Hanes, Biochem. J. 26, 1932).
    HanesWoolf,
    /// y over y/x: intercept Vmax, slope −K.
    EadieHofstee,
    /// ln y over ln x: intercept ln a, slope b of a·x^b.
    LogLog,
}

impl Linearisation {
    /// Returns the model that the transform linearises.
    pub fn model(self) -> Model {
        match self {
            Self::LineweaverBurk | Self::HanesWoolf | Self::EadieHofstee => Model::MichaelisMenten,
            Self::LogLog => Model::PowerLaw,
        }
    }

    /// Returns the word used in settings and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::LineweaverBurk => "lineweaver-burk",
            Self::HanesWoolf => "hanes-woolf",
            Self::EadieHofstee => "eadie-hofstee",
            Self::LogLog => "log-log",
        }
    }
}

/// Fits a law to points (x, y) by the least-squares line of a transform. RSS and R² are on the original scale. There
/// are no standard errors, because those of the transform would not apply. The power law is the exception: its exponent
/// is a slope of its line, and its factor has the error of its logarithm (delta method).
///
/// # Errors
/// If there are fewer than two points, a number is not positive and finite, or the line does
/// not give positive finite parameters.
pub fn fit_linearised(kind: Linearisation, points: &[(f64, f64)]) -> Result<Fit, FitError> {
    if points.len() < 2 {
        return Err(FitError::TooFewPoints);
    }
    if points
        .iter()
        .any(|(x, y)| !(x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0))
    {
        return Err(FitError::NotPositive);
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let over = |f: fn(f64, f64) -> (f64, f64)| {
        line(&points.iter().map(|(x, y)| f(*x, *y)).collect::<Vec<_>>())
    };
    let (first, second) = match kind {
        Linearisation::LineweaverBurk => {
            let (slope, intercept) = over(|x, y| (1.0 / x, 1.0 / y));
            (1.0 / intercept, slope / intercept)
        }
        Linearisation::HanesWoolf => {
            let (slope, intercept) = over(|x, y| (x, x / y));
            (1.0 / slope, intercept / slope)
        }
        Linearisation::EadieHofstee => {
            let (slope, intercept) = over(|x, y| (y / x, y));
            (intercept, -slope)
        }
        Linearisation::LogLog => {
            let (slope, intercept) = over(|x, y| (x.ln(), y.ln()));
            (intercept.exp(), slope)
        }
    };
    let model = kind.model();
    let fits = second > 0.0 || model == Model::PowerLaw;
    let one_x = points.iter().all(|p| p.0 == points[0].0);
    if !(first.is_finite() && second.is_finite() && first > 0.0 && fits) || one_x {
        return Err(FitError::NoConvergence);
    }
    let values = vec![first, second];
    let rss = sum(points
        .iter()
        .map(|(x, y)| (y - model.value(&values, *x).0).powi(2)));
    let mean = sum(points.iter().map(|p| p.1)) / points.len() as f64;
    let total = sum(points.iter().map(|p| (p.1 - mean).powi(2)));
    let r2 = (total > 0.0).then(|| 1.0 - rss / total);
    let largest_x = points[points.len() - 1].0;
    Ok(Fit {
        model,
        covariance: (model == Model::PowerLaw)
            .then(|| of_logarithms(&points, &values))
            .flatten(),
        values,
        rss,
        r2,
        df: points.len() - 2,
        largest_x,
    })
}

/// Returns the covariance of a and b of a·x^b from the line through the logarithms; `None` without degrees of freedom.
fn of_logarithms(points: &[(f64, f64)], values: &[f64]) -> Option<Vec<Vec<f64>>> {
    let (a, b) = (values[0], values[1]);
    let n = points.len() as f64;
    let mean = sum(points.iter().map(|(x, _)| x.ln())) / n;
    let spread = sum(points.iter().map(|(x, _)| (x.ln() - mean).powi(2)));
    let residual = |(x, y): &(f64, f64)| (y.ln() - a.ln() - b * x.ln()).powi(2);
    let df = points.len().checked_sub(2).filter(|df| *df > 0)?;
    let variance = sum(points.iter().map(residual)) / df as f64;
    let of_b = variance / spread;
    let of_ln_a = variance * (1.0 / n + mean * mean / spread);
    let both = -mean * of_b;
    Some(vec![vec![a * a * of_ln_a, a * both], vec![a * both, of_b]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_logarithms_weighs_small_values_as_much_as_large_ones() {
        // R: coef(summary(lm(log(y) ~ log(x)))) with x = c(1, 2, 4, 8), y = c(1, 2.5, 3.5, 9)
        let points = [(1.0, 1.0), (2.0, 2.5), (4.0, 3.5), (8.0, 9.0)];
        let fit = fit_linearised(Linearisation::LogLog, &points).unwrap();
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, y)| (x.log2(), y.log2())).unzip();
        // By hand: x = 0, 1, 2, 3; the slope is Σ (x − 1.5) y ÷ 5.
        let slope = x.iter().zip(&y).map(|(x, y)| (x - 1.5) * y).sum::<f64>() / 5.0;
        assert!((fit.values[1] - slope).abs() < 1e-12);
        let factor = (y.iter().sum::<f64>() / 4.0 - 1.5 * slope).exp2();
        assert!((fit.values[0] - factor).abs() < 1e-12);
        let residuals = x
            .iter()
            .zip(&y)
            .map(|(x, y)| (y - factor.log2() - slope * x).powi(2));
        let error = (residuals.sum::<f64>() / 2.0 / 5.0).sqrt();
        assert!((fit.error(1).unwrap() - error).abs() < 1e-12);
        let best = crate::fit(Model::PowerLaw, &points).unwrap();
        assert!(fit.rss > best.rss && fit.values[1] != best.values[1]);
        let same = fit_linearised(Linearisation::LogLog, &[(2.0, 1.0), (2.0, 3.0)]);
        assert_eq!(same, Err(FitError::NoConvergence));
    }

    #[test]
    fn no_linearisation_gives_the_published_saturation_parameters() {
        // Published as 8351.4 and 411.8: the method is part of the result.
        let points = [(10.0, 224.6), (50.0, 894.6), (100.0, 1637.6)];
        for (kind, expected) in [
            (Linearisation::LineweaverBurk, "4400.5 186.1"),
            (Linearisation::HanesWoolf, "5540.1 244.9"),
            (Linearisation::EadieHofstee, "4935.7 212.4"),
        ] {
            let fit = fit_linearised(kind, &points).unwrap();
            assert_eq!(
                format!("{:.1} {:.1}", fit.values[0], fit.values[1]),
                expected,
                "{kind:?}"
            );
            let best = crate::fit(Model::MichaelisMenten, &points).unwrap();
            assert!(
                fit.rss > best.rss,
                "{kind:?}: least squares has the least squares"
            );
        }
    }

    #[test]
    fn points_on_the_curve_give_the_same_parameters_whatever_the_transform() {
        let points: Vec<(f64, f64)> = [1.0, 4.0, 20.0]
            .iter()
            .map(|x| (*x, 900.0 * x / (12.0 + x)))
            .collect();
        for kind in [
            Linearisation::LineweaverBurk,
            Linearisation::HanesWoolf,
            Linearisation::EadieHofstee,
        ] {
            let fit = fit_linearised(kind, &points).unwrap();
            assert!(
                (fit.values[0] - 900.0).abs() < 1e-6 && (fit.values[1] - 12.0).abs() < 1e-7,
                "{kind:?}"
            );
        }
    }
}
