//! The variation that rounding alone gives to recorded values.
//!
//! Three blocks of 101 against 100, 102 against 101 and 103 against 102 have nearly one ratio. The reason is not that
//! launches barely vary, but that values in between were rounded away. Without a floor, their spread would make any
//! difference certain.

/// The number of digits of the largest value that are examined.
const DIGITS: i32 = 9;

/// The finest step considered besides powers of ten: this many steps from 0 to the largest value.
const STEPS: f64 = 1e4;

/// Returns the step of which all values are whole multiples: the largest power of ten, within nine digits of the
/// largest value (1 for whole numbers, 0.01 for cents), or a larger step of any size, such as 1/12 for shares of twelve
/// requests. `None` if no step exists, as for computed means, or if every value is 0.
pub fn resolution(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    match (digit(values.iter().copied()), step(&values)) {
        (Some(digit), Some(step)) => Some(digit.max(step)),
        (digit, step) => digit.or(step),
    }
}

/// Returns the greatest common divisor of values that have one, by Euclid's algorithm.
fn step(values: &[f64]) -> Option<f64> {
    let largest = values.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return None;
    }
    let zero = 1e-9 * largest;
    let mut common = 0.0;
    for value in values {
        let (mut a, mut b) = (value.abs(), common);
        while b > zero {
            let rest = a % b;
            // A remainder of a few last bits counts as 0.
            (a, b) = (b, if b - rest < zero { 0.0 } else { rest });
        }
        common = a;
        if common > zero && common * STEPS < largest {
            return None;
        }
    }
    let whole = |v: &f64| (v / common - (v / common).round()).abs() < 1e-6;
    (common > zero && values.iter().all(whole)).then_some(common)
}

/// Returns the largest power of ten of which all values are whole multiples.
fn digit(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let largest = values.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return None;
    }
    let first = largest.log10().floor() as i32;
    let multiple = |power: i32| {
        values.iter().all(|v| {
            // Powers with a negative exponent are not exact, so divide by the exact ones instead.
            let scaled = if power < 0 {
                v * 10_f64.powi(-power)
            } else {
                v / 10_f64.powi(power)
            };
            (scaled - scaled.round()).abs() <= 1e-14 * scaled.abs()
        })
    };
    let power = (first - DIGITS + 1..=first)
        .rev()
        .find(|power| multiple(*power))?;
    Some(if power < 0 {
        1.0 / 10_f64.powi(-power)
    } else {
        10_f64.powi(power)
    })
}

/// Returns the standard deviation that rounding alone gives to the logarithm of a value; 0 for unrounded values.
pub fn rounding_of_logs(values: &[f64]) -> f64 {
    let Some(step) = resolution(values.iter().copied()) else {
        return 0.0;
    };
    let variance = |v: &f64| (step / v).powi(2) / 12.0;
    let error = (values.iter().map(variance).sum::<f64>() / values.len() as f64).sqrt();
    if error.is_finite() { error } else { 0.0 }
}

/// Returns the standard deviation that rounding alone gives to a value, in its unit; 0 for unrounded values.
pub fn rounding_of_values(values: &[f64]) -> f64 {
    resolution(values.iter().copied()).map_or(0.0, |step| step / 12.0_f64.sqrt())
}

/// Returns the standard deviation that rounding alone gives to a log ratio a ÷ b of units (a, b). Each side moves
/// uniformly by up to half its resolution, with variance resolution²/12 (Sheppard, Proc. London Math. Soc. 29, 1897). 0
/// for unrounded values.
pub fn rounding_of_ratios(units: &[(f64, f64)]) -> f64 {
    let Some(step) = resolution(units.iter().flat_map(|(a, b)| [*a, *b])) else {
        return 0.0;
    };
    let variance = |(a, b): &(f64, f64)| ((step / a).powi(2) + (step / b).powi(2)) / 12.0;
    let error = (units.iter().map(variance).sum::<f64>() / units.len() as f64).sqrt();
    if error.is_finite() { error } else { 0.0 }
}

/// Returns the standard deviation that rounding alone gives to a difference a − b of units (a, b), in their unit; 0 for
/// unrounded values.
pub fn rounding_of_differences(units: &[(f64, f64)]) -> f64 {
    let step = resolution(units.iter().flat_map(|(a, b)| [*a, *b]));
    step.map_or(0.0, |step| step / 6.0_f64.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_is_the_last_digit_that_all_values_share() {
        assert_eq!(resolution([101.0, 99.0, 120.0]), Some(1.0));
        assert_eq!(resolution([110.0, 90.0]), Some(10.0));
        assert_eq!(resolution([0.25, 1.37]), Some(0.01));
        assert_eq!(resolution([1e-3, 12e-3]), Some(1e-3));
        assert_eq!(resolution([1.0 / 3.0, std::f64::consts::SQRT_2]), None);
        assert_eq!(resolution([0.0, 0.0]), None);
        assert_eq!(resolution([]), None);
    }

    #[test]
    fn shares_of_twelve_requests_have_steps_of_a_twelfth() {
        let near = |found: Option<f64>, step: f64| {
            assert!((found.unwrap() - step).abs() < 1e-12, "{found:?}");
        };
        near(resolution([11.0 / 12.0, 1.0, 10.0 / 12.0]), 1.0 / 12.0);
        near(resolution([7.0 / 300.0, 11.0 / 300.0, 1.0]), 1.0 / 300.0);
        near(resolution([104.0, 108.0, 116.0]), 4.0);
        near(resolution([-0.75, 0.0, 0.5]), 0.25);
        // Freely varying values have no steps.
        assert_eq!(
            resolution([1.0_f64.exp(), std::f64::consts::PI, 2.0_f64.sqrt()]),
            None
        );
    }

    #[test]
    fn one_side_of_a_ratio_has_half_its_variance() {
        let (a, b) = ([101.0, 102.0, 100.0], [100.0, 101.0, 99.0]);
        let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
        let [x, y] = [a, b].map(|side| rounding_of_logs(&side));
        assert!((x.hypot(y) - rounding_of_ratios(&pairs)).abs() < 1e-12);
        assert!((rounding_of_values(&a) - 1.0 / 12.0_f64.sqrt()).abs() < 1e-15);
        assert_eq!(rounding_of_logs(&[0.1_f64.exp(), 2.0_f64.sqrt()]), 0.0);
    }

    #[test]
    fn whole_numbers_near_a_hundred_move_by_four_per_mille() {
        let error = rounding_of_ratios(&[(101.0, 100.0), (102.0, 101.0), (100.0, 99.0)]);
        assert!((error - 0.0041).abs() < 1e-4, "{error}");
        assert!((rounding_of_differences(&[(2.0, 1.0)]) - 1.0 / 6.0_f64.sqrt()).abs() < 1e-15);
        assert_eq!(rounding_of_ratios(&[(1.234_567_890_12, 2.0)]), 0.0);
        assert_eq!(rounding_of_ratios(&[(1.0, 0.0)]), 0.0);
    }
}
