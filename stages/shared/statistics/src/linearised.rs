//! Linearised fits of Michaelis–Menten's law, each under its name.
//!
//! They transform the points to a line and weigh the errors with the transform, so that each
//! gives other parameters from the same points. Here to reproduce what others published; the
//! nonlinear fit of [`crate::fit()`] is the default.

use crate::fit::{Fit, FitError, Model, line};
use crate::sample::sum;

/// How the law becomes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearisation {
    /// 1/y over 1/x: intercept 1/Vmax, slope K/Vmax (JACS 56, 1934).
    LineweaverBurk,
    /// x/y over x: slope 1/Vmax, intercept K/Vmax (Hanes, Biochem. J. 26, 1932).
    HanesWoolf,
    /// y over y/x: intercept Vmax, slope −K.
    EadieHofstee,
}

impl Linearisation {
    /// Returns the word used in settings and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::LineweaverBurk => "lineweaver-burk",
            Self::HanesWoolf => "hanes-woolf",
            Self::EadieHofstee => "eadie-hofstee",
        }
    }
}

/// Fits Michaelis–Menten's law to points (x, y) by the least-squares line of a transform. RSS and
/// R² are on the original scale; there are no standard errors, since the transform's would not
/// be theirs.
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
    let (vmax, k) = match kind {
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
    };
    if !(vmax.is_finite() && k.is_finite() && vmax > 0.0 && k > 0.0) {
        return Err(FitError::NoConvergence);
    }
    let model = Model::MichaelisMenten;
    let values = vec![vmax, k];
    let rss = sum(points
        .iter()
        .map(|(x, y)| (y - model.value(&values, *x).0).powi(2)));
    let mean = sum(points.iter().map(|p| p.1)) / points.len() as f64;
    let total = sum(points.iter().map(|p| (p.1 - mean).powi(2)));
    let r2 = (total > 0.0).then(|| 1.0 - rss / total);
    let largest_x = points[points.len() - 1].0;
    Ok(Fit {
        model,
        values,
        covariance: None,
        rss,
        r2,
        df: points.len() - 2,
        largest_x,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_linearisation_gives_the_published_saturation_parameters() {
        // Published as 8351.4 and 411.8: the method belongs to the result.
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
