//! The variation that rounding alone gives to recorded values.
//!
//! Three blocks of 101 against 100, 102 against 101 and 103 against 102 have nearly one ratio. The reason is not that
//! launches barely vary, but that values in between were rounded away. Without a floor, their spread would make any
//! difference certain.

/// The number of digits of the largest value that are examined.
const DIGITS: i32 = 9;

/// The finest step considered besides powers of ten: this many steps from 0 to the largest value.
const STEPS: f64 = 1e4;

/// Returns the step that divides all values: the largest power of ten, within nine digits of the
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

/// Returns the largest power of ten that divides all values.
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

/// Returns the step of the values of each side; 0 for a side that was not rounded. A step that all values share holds
/// for both sides. One side may have a coarser step, for example if one tool prints whole milliseconds and the other
/// microseconds.
fn steps_of_sides(units: &[(f64, f64)]) -> [f64; 2] {
    if units.is_empty() {
        return [0.0; 2];
    }
    let joint = resolution(units.iter().flat_map(|(a, b)| [*a, *b]));
    [|(a, _): &(f64, f64)| *a, |(_, b): &(f64, f64)| *b].map(|side| {
        let values: Vec<f64> = units.iter().map(side).collect();
        // A common divisor of one value, or of a few whole numbers, is a coincidence. A common digit is not.
        let divides = joint.is_none() && values.iter().any(|v| *v != values[0]);
        let divisor = divides.then(|| step(&values)).flatten();
        let own = printed(&values).into_iter().chain(divisor).reduce(f64::max);
        joint.unwrap_or(0.0).max(own.unwrap_or(0.0))
    })
}

/// Returns the last digit to which the values of one side were printed. Zeros at the end of a single value may be
/// significant, so 100 counts as whole. A side that is always 1 is a base or a full share, and exact.
fn printed(values: &[f64]) -> Option<f64> {
    let digit = digit(values.iter().copied())?;
    let one = values.iter().all(|v| *v == values[0]);
    match one {
        true if values[0] == 1.0 => None,
        true => Some(digit.min(1.0)),
        false => Some(digit),
    }
}

/// Returns the variance that rounding to multiples of `step` gives to the mean of `values` through an error that all of
/// them share; 0 if they scatter over more than two steps. If all values are 10, the true ones may be 9.6 or 10.4, and
/// more launches do not reveal which. If a share f of the values is one step higher than the rest, the error lies
/// between 0 and f − ½ steps, and the variance is that of a uniform distribution.
fn shared(values: &[f64], step: f64) -> f64 {
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(*v), high.max(*v))
        });
    // One value has only its own error. A share of 0 or 1 is exact.
    let exact = low == 0.0 || high == 1.0;
    if step <= 0.0 || values.len() < 2 || exact || high - low > 1.5 * step {
        return 0.0;
    }
    let upper = values.iter().filter(|v| **v - low > 0.5 * step).count();
    let off = 0.5 - upper as f64 / values.len() as f64;
    (off * step).powi(2) / 3.0
}

/// Returns for each stratum of one side the most by which the mean of its values may be off through an error that all of them
/// share; 0 for values that were not rounded, or that scatter over more than two steps. A figure computed from such values has
/// this error too, and its digits do not show it.
pub fn shared_errors(strata: &[Vec<f64>]) -> Vec<f64> {
    let digits = significant(strata.iter().flatten());
    let own = printed(&strata.concat()).unwrap_or(0.0);
    let error = |values: &Vec<f64>| {
        let step = own.max(of_stratum(values, digits));
        (3.0 * shared(values, step)).sqrt()
    };
    strata.iter().map(error).collect()
}

/// Returns the variance that the rounding of one side gives to a unit, chosen so that n units have the variance of
/// their mean. It has two parts. Each unit has a uniform error of variance step²/12 by itself (Sheppard, Proc. London
/// Math. Soc. 29, 1897). The error that all share counts n times.
fn of_side(values: &[f64], step: f64, relative: bool) -> f64 {
    let n = values.len() as f64;
    let each = |v: &f64| {
        let size = if relative { *v } else { 1.0 };
        (step / size).powi(2) / 12.0
    };
    let size = match relative {
        true => values.iter().sum::<f64>() / n,
        false => 1.0,
    };
    values.iter().map(each).sum::<f64>() / n + n * shared(values, step) / size.powi(2)
}

/// Returns the standard deviation that rounding alone gives to the logarithms of the values of units. 0 for values that were
/// not rounded.
pub fn rounding_of_logs(values: &[f64]) -> f64 {
    of_values(&[values.to_vec()], true)
}

/// Returns the same as [`rounding_of_logs`] for the means of units over strata, with the values of one stratum in each list.
pub fn rounding_of_logs_over(strata: &[Vec<f64>]) -> f64 {
    of_values(strata, true)
}

/// Returns the standard deviation that rounding alone gives to the means of units over strata, in their unit, with the values
/// of one stratum in each list. 0 for values that were not rounded.
pub fn rounding_of_values_over(strata: &[Vec<f64>]) -> f64 {
    of_values(strata, false)
}

/// Returns the standard deviation that rounding alone gives to the log ratios a ÷ b of units (a, b). 0 for values that were
/// not rounded.
pub fn rounding_of_ratios(units: &[(f64, f64)]) -> f64 {
    of_pairs(&[units.to_vec()], true)
}

/// Returns the same as [`rounding_of_ratios`] for the means of units over strata, with the pairs of one stratum in each list.
pub fn rounding_of_ratios_over(strata: &[Vec<(f64, f64)>]) -> f64 {
    of_pairs(strata, true)
}

/// Returns the standard deviation that rounding alone gives to the differences a − b of the means of units over strata, in
/// their unit, with the pairs of one stratum in each list. 0 for values that were not rounded.
pub fn rounding_of_differences_over(strata: &[Vec<(f64, f64)>]) -> f64 {
    of_pairs(strata, false)
}

fn of_values(strata: &[Vec<f64>], relative: bool) -> f64 {
    let step = resolution(strata.iter().flatten().copied()).unwrap_or(0.0);
    let digits = significant(strata.iter().flatten());
    over_strata(strata, |values| {
        of_side(values, step.max(of_stratum(values, digits)), relative)
    })
}

fn of_pairs(strata: &[Vec<(f64, f64)>], relative: bool) -> f64 {
    let all = strata.concat();
    let [a, b] = steps_of_sides(&all);
    let digits_a = significant(all.iter().map(|(a, _)| a));
    let digits_b = significant(all.iter().map(|(_, b)| b));
    over_strata(strata, |units| {
        let first: Vec<f64> = units.iter().map(|(a, _)| *a).collect();
        let second: Vec<f64> = units.iter().map(|(_, b)| *b).collect();
        let a = a.max(of_stratum(&first, digits_a));
        let b = b.max(of_stratum(&second, digits_b));
        of_side(&first, a, relative) + of_side(&second, b, relative)
    })
}

/// Fewer values than this may share a digit by chance.
const LEAST: usize = 3;

/// The smallest number of significant digits that a tool prints.
const LEAST_DIGITS: i32 = 2;

/// Returns the largest number of significant digits of any value; `None` above nine, as for values that were not rounded.
fn significant<'a>(values: impl Iterator<Item = &'a f64>) -> Option<i32> {
    let digits = |value: &f64| {
        let text = format!("{value:e}");
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.chars().filter(char::is_ascii_digit).count() as i32
    };
    let most = values.map(digits).max()?;
    (most <= DIGITS).then_some(most)
}

/// Returns the step of the values of one stratum, where it is coarser than that of all strata. A tool that prints three
/// significant digits prints 9.96 and 100. `digits` is the number of significant digits of the side. 0 if nothing shows a
/// coarser step.
fn of_stratum(values: &[f64], digits: Option<i32>) -> f64 {
    let largest = values.iter().fold(0.0, |top: f64, v| top.max(v.abs()));
    if values.len() < LEAST || largest == 0.0 || !largest.is_finite() {
        return 0.0;
    }
    let own = match values.iter().any(|v| *v != values[0]) {
        true => digit(values.iter().copied()).unwrap_or(0.0),
        false => 0.0,
    };
    let first = largest.log10().floor() as i32;
    let reach = values.iter().filter(|v| v.abs() >= 10_f64.powi(first));
    let enough = reach.count() >= LEAST;
    let digits = digits.filter(|digits| *digits >= LEAST_DIGITS && enough);
    own.max(digits.map_or(0.0, |digits| 10_f64.powi(first - digits + 1)))
}

/// Returns the standard deviation of a mean over strata whose variances are given; 0 if it is undefined.
fn over_strata<T>(strata: &[Vec<T>], variance: impl Fn(&[T]) -> f64) -> f64 {
    let strata = strata.iter().filter(|stratum| !stratum.is_empty());
    let (sum, count) = strata.fold((0.0, 0.0), |(sum, count), stratum| {
        (sum + variance(stratum), count + 1.0)
    });
    let deviation = f64::sqrt(sum) / f64::max(count, 1.0);
    if deviation.is_finite() {
        deviation
    } else {
        0.0
    }
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
        let near = |estimate: Option<f64>, step: f64| {
            assert!((estimate.unwrap() - step).abs() < 1e-12, "{estimate:?}");
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
        // Values over three steps share no error.
        assert!((rounding_of_values_over(&[a.to_vec()]) - 1.0 / 12.0_f64.sqrt()).abs() < 1e-15);
        assert_eq!(rounding_of_logs(&[0.1_f64.exp(), 2.0_f64.sqrt()]), 0.0);
    }

    #[test]
    fn an_error_that_all_values_share_is_at_most_half_a_step() {
        let free = [10.431_234_567_89, 10.381, 10.4449];
        let errors = shared_errors(&[vec![10.0; 5], vec![20.0, 21.0, 20.0, 21.0, 20.0]]);
        assert!(
            (errors[0] - 0.5).abs() < 1e-12 && (errors[1] - 0.1).abs() < 1e-12,
            "{errors:?}"
        );
        // Values over three steps, and values in full.
        assert_eq!(
            shared_errors(&[vec![40.0, 42.0, 41.0], free.to_vec()]),
            [0.0, 0.0]
        );
        // Three significant digits have a step for each stratum.
        let errors = shared_errors(&[vec![9.96, 9.97, 9.96], vec![1000.0; 3]]);
        assert!((errors[1] - 5.0).abs() < 1e-12, "{errors:?}");
    }

    #[test]
    fn whole_numbers_near_a_hundred_move_by_four_per_mille() {
        let error = rounding_of_ratios(&[(101.0, 100.0), (102.0, 101.0), (100.0, 99.0)]);
        assert!((error - 0.0041).abs() < 1e-4, "{error}");
        let pairs = [(2.0, 1.0), (4.0, 3.0), (6.0, 5.0)];
        assert!(
            (rounding_of_differences_over(&[pairs.to_vec()]) - 1.0 / 6.0_f64.sqrt()).abs() < 1e-15
        );
        assert_eq!(
            rounding_of_ratios(&[(1.234_567_890_12, std::f64::consts::E)]),
            0.0
        );
        assert_eq!(rounding_of_ratios(&[(1.0, 0.0)]), 0.0);
    }

    #[test]
    fn sides_of_unlike_precision_have_a_step_each() {
        let free = [10.43, 10.381, 10.4449];
        let pairs = |whole: [f64; 3]| whole.into_iter().zip(free).collect::<Vec<_>>();
        let steps = |whole: [f64; 3]| steps_of_sides(&pairs(whole));
        assert_eq!(steps([10.0, 10.0, 10.0])[0], 1.0);
        assert_eq!(steps([10.0, 11.0, 10.0])[0], 1.0);
        assert_eq!(steps([100.0, 100.0, 100.0])[0], 1.0);
        assert_eq!(steps([8.0, 8.0, 8.0])[0], 1.0);
        assert_eq!(steps([1.0, 1.0, 1.0])[0], 1e-4);
        assert_eq!(steps([10.0, 10.0, 10.0])[1], 1e-4);
        // The two sides share the step that divides all values.
        let [a, b] = steps_of_sides(&[(0.5, 0.25), (0.75, 0.5), (1.0, 0.25)]);
        assert_eq!([a, b], [0.25, 0.25]);
    }

    #[test]
    fn three_significant_digits_have_a_step_for_each_stratum() {
        let small = [9.96, 9.97, 9.95, 9.96, 9.98];
        let strata = [small, [100.0; 5], [1000.0; 5]];
        let all: Vec<f64> = strata.concat();
        let digits = significant(all.iter());
        assert_eq!(digits, Some(3));
        assert_eq!(strata.map(|s| of_stratum(&s, digits)), [0.01, 1.0, 10.0]);
        // Half a step of 10 in 1,000 is 0.5 %, and more launches do not lessen it.
        let free =
            |level: f64| (1..=5).map(move |i| (level, level * (1.0 + 1e-5 * f64::from(i).sqrt())));
        let pairs: Vec<Vec<(f64, f64)>> = [100.0, 1000.0].map(|l| free(l).collect()).to_vec();
        let mut with: Vec<Vec<(f64, f64)>> = vec![small.iter().map(|v| (*v, 9.96)).collect()];
        with.extend(pairs);
        let error = rounding_of_ratios_over(&with) / 5.0_f64.sqrt();
        assert!(error > 0.001, "{error}");
        // Fixed decimals have one step, and one whole number among others is a coincidence.
        let fixed = [9.96, 100.42, 1004.13];
        assert_eq!(significant(fixed.iter()), Some(6));
        assert!(of_stratum(&[1004.13, 1003.2, 1001.37], Some(6)) <= 0.0100001);
        assert_eq!(of_stratum(&[95.0, 100.0, 97.0], Some(2)), 1.0);
        assert_eq!(of_stratum(&[9.96, 9.98, 10.0], Some(3)), 0.01);
        assert_eq!(significant([0.1 + 0.2].iter()), None);
        assert_eq!(of_stratum(&[0.0; 3], Some(3)), 0.0);
    }

    #[test]
    fn values_that_never_leave_a_step_share_its_error() {
        // Each unit has 1/12. The mean of any number of units has a further 1/12.
        for n in [3, 12] {
            let variance = of_side(&vec![10.0; n], 1.0, false) / n as f64;
            let expected = (1.0 + 1.0 / n as f64) / 12.0;
            assert!((variance - expected).abs() < 1e-12, "{variance}");
        }
        // If half of the values are one step up, the mean is right by symmetry.
        assert_eq!(shared(&[10.0, 11.0, 10.0, 11.0], 1.0), 0.0);
        assert_eq!(shared(&[10.0, 11.0, 12.0], 1.0), 0.0);
        assert!(shared(&[10.0, 10.0, 11.0], 1.0) > 0.0);
        assert_eq!(shared(&[0.0, 0.0, 1.0], 1.0), 0.0);
        assert_eq!(shared(&[1.0, 0.975, 1.0], 0.025), 0.0);
    }
}
