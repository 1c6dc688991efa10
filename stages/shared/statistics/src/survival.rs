//! The product-limit estimator for values, some of which are only known to exceed a bound.

/// One step of a survival curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// A value at which at least one observation ended.
    pub at: f64,
    /// The number of observations at or beyond it.
    pub at_risk: usize,
    /// The number of observations that ended there.
    pub ended: usize,
    /// The estimated share of values beyond it.
    pub survival: f64,
    /// Greenwood's standard error of that share; 0 if no observation remains.
    pub std_error: f64,
}

/// The Kaplan–Meier estimate of the share of values larger than t (JASA 53, 1958).
#[derive(Clone, Debug, PartialEq)]
pub struct Survival {
    /// The steps, ascending.
    pub steps: Vec<Step>,
    /// The number of fully observed values.
    pub observed: usize,
    /// The number of values only known to be larger.
    pub censored: usize,
    /// The largest value, fully observed or not.
    pub largest: f64,
}

/// Returns the estimate from observed values and from bounds that values exceeded; `None` if there
/// are none, or one is not finite. By the usual convention, a value equal to a bound ended before
/// it.
pub fn kaplan_meier(observed: &[f64], censored: &[f64]) -> Option<Survival> {
    let mut all: Vec<(f64, bool)> = observed
        .iter()
        .map(|v| (*v, true))
        .chain(censored.iter().map(|v| (*v, false)))
        .collect();
    if all.is_empty() || all.iter().any(|(v, _)| !v.is_finite()) {
        return None;
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut steps, mut survival, mut greenwood) = (Vec::new(), 1.0, 0.0);
    let mut at_risk = all.len();
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let ended = group.iter().filter(|(_, seen)| *seen).count();
        if ended > 0 {
            let (d, r) = (ended as f64, at_risk as f64);
            survival *= 1.0 - d / r;
            greenwood += if ended < at_risk {
                d / (r * (r - d))
            } else {
                0.0
            };
            let std_error = survival * f64::sqrt(greenwood);
            steps.push(Step {
                at: group[0].0,
                at_risk,
                ended,
                survival,
                std_error,
            });
        }
        at_risk -= group.len();
    }
    let largest = all[all.len() - 1].0;
    Some(Survival {
        steps,
        observed: observed.len(),
        censored: censored.len(),
        largest,
    })
}

impl Survival {
    /// Returns the smallest value beyond which at most the share 1 − `p` lies. Returns `None` if
    /// the estimate does not fall that far; then only [`Survival::largest`] is known, as a lower
    /// bound. (statsmodels requires *less* than 1 − p, so on a step exactly at 1 − p it returns the
    /// next one.)
    ///
    /// # Panics
    /// If `p` is not strictly between 0 and 1.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        assert!(
            p > 0.0 && p < 1.0,
            "a probability lies strictly between 0 and 1, got {p}"
        );
        // By rounding, a product of shares may miss 1 − p.
        self.steps
            .iter()
            .find(|s| s.survival <= 1.0 - p + 1e-12)
            .map(|s| s.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_censoring_the_curve_is_the_share_beyond() {
        let curve = kaplan_meier(&[1.0, 2.0, 3.0, 4.0], &[]).unwrap();
        let shares: Vec<f64> = curve.steps.iter().map(|s| s.survival).collect();
        assert_eq!(shares, [0.75, 0.5, 0.25, 0.0]);
        assert_eq!(curve.quantile(0.5), Some(2.0));
    }

    #[test]
    fn a_quantile_beyond_the_last_end_is_unknown_and_not_the_bound() {
        let curve = kaplan_meier(&[1.0, 2.0], &[10.0, 10.0]).unwrap();
        assert_eq!(
            (curve.quantile(0.5), curve.quantile(0.51)),
            (Some(2.0), None)
        );
        assert_eq!(
            (curve.largest, curve.observed, curve.censored),
            (10.0, 2, 2)
        );
    }

    #[test]
    fn values_that_are_all_censored_have_no_quantile() {
        assert_eq!(kaplan_meier(&[], &[5.0]).unwrap().quantile(0.01), None);
        assert_eq!(kaplan_meier(&[], &[]), None);
    }

    proptest! {
        #[test]
        fn quantiles_rise_and_do_not_depend_on_the_order(
            mut seen in prop::collection::vec(0.0..100.0_f64, 1..30),
            bounds in prop::collection::vec(0.0..100.0_f64, 0..10),
            mut a in 0.01..0.99_f64, mut b in 0.01..0.99_f64,
        ) {
            if a > b { std::mem::swap(&mut a, &mut b); }
            let one = kaplan_meier(&seen, &bounds).unwrap();
            seen.reverse();
            prop_assert_eq!(&one, &kaplan_meier(&seen, &bounds).unwrap());
            match (one.quantile(a), one.quantile(b)) {
                (Some(low), Some(high)) => prop_assert!(low <= high),
                (low, high) => prop_assert!(low.is_some() || high.is_none()),
            }
        }
    }
}
