//! The price of machines, and the most that a study may spend on them.

use pipeline::Problem;
use serde::{Deserialize, Serialize};

/// The currency if a study names none.
const CURRENCY: &str = "USD";

/// The price of one machine, and the most that an experiment may spend on all machines, all runs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The price of one machine per hour.
    pub cost_per_hour: f64,
    /// The most that the experiment may cost.
    pub budget: f64,
    /// The currency of both. GPU-hours are also possible.
    pub currency: String,
}

impl Terms {
    /// Returns the cost of one machine for some seconds.
    pub fn cost(&self, seconds: f64) -> f64 {
        self.cost_per_hour * seconds / 3600.0
    }
}

/// Reads the terms of a place; `None` if it has none.
///
/// # Errors
/// Every mistake, with a route that starts at the place.
pub(crate) fn read(
    place: &str,
    cost_per_hour: Option<f64>,
    budget: Option<f64>,
    currency: Option<&str>,
) -> Result<Option<Terms>, Vec<Problem>> {
    let mut problems = Vec::new();
    for (key, amount) in [("cost-per-hour", cost_per_hour), ("budget", budget)] {
        if let Some(amount) = amount.filter(|amount| !amount.is_finite() || *amount <= 0.0) {
            let message = format!("`{key}` must be greater than 0, got {amount}");
            problems.push(Problem::at(&[place, key], message));
        }
    }
    let hint = "`cost-per-hour: 2.49` is the hourly cost of one machine, and `budget: 20` is the most that this \
                experiment may cost; `cost-per-hour: 8, currency: GPU-hours` counts the hours of 8 GPUs";
    let lacks = match (cost_per_hour, budget, currency) {
        (None, Some(_), _) => Some(("budget", "a budget needs `cost-per-hour`")),
        (Some(_), None, _) => Some(("cost-per-hour", "a price needs `budget`")),
        (None, None, Some(_)) => {
            Some(("currency", "a currency needs `cost-per-hour` and `budget`"))
        }
        _ => None,
    };
    problems.extend(lacks.map(|(key, message)| Problem::at(&[place, key], message).hint(hint)));
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(cost_per_hour
        .zip(budget)
        .map(|(cost_per_hour, budget)| Terms {
            cost_per_hour,
            budget,
            currency: currency.unwrap_or(CURRENCY).to_owned(),
        }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_and_a_budget_go_together() {
        let terms_of = |cost, budget, currency| {
            let read = read("pool", cost, budget, currency);
            read.map_err(|problems| problems.into_iter().map(|p| p.message).collect::<String>())
        };
        assert_eq!(terms_of(None, None, None), Ok(None));
        let terms = terms_of(Some(8.0), Some(4.0), Some("GPU-hours"))
            .expect("terms")
            .expect("some");
        assert!(
            (terms.cost(900.0) - 2.0).abs() < 1e-12,
            "a quarter of an hour of 8 GPUs"
        );
        assert!(
            terms_of(None, Some(1.0), None)
                .expect_err("a lack")
                .contains("cost-per-hour")
        );
        assert!(
            terms_of(Some(1.0), None, None)
                .expect_err("a lack")
                .contains("budget")
        );
        assert!(terms_of(None, None, Some("EUR")).is_err());
        for amount in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(terms_of(Some(amount), Some(1.0), None).is_err(), "{amount}");
            assert!(terms_of(Some(1.0), Some(amount), None).is_err(), "{amount}");
        }
    }
}
