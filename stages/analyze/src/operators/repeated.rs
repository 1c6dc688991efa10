//! Units with exactly the same value, as rows that one launch was copied to have.
//!
//! If a baseline was launched twice and stands in four blocks, its noise is that of two launches. Values of separate
//! launches agree to their last digit only by chance, which their spread shows to be small.

use std::collections::BTreeMap;

use statistics::{Sample, resolution};

use crate::operators::pairs::Sides;

/// An agreement counts as a copy if chance would make at most this many units agree.
const BY_CHANCE: f64 = 0.01;

/// Returns the position of the first unit with the same value, for each unit in the order given; `None` if no two units share a
/// value, or if they may agree by chance. Values that all units share are a fixed reference. One value that some units
/// share, and that no other exceeds, may be a limit: 0, or a time limit.
pub(crate) fn merged(values: &[f64]) -> Option<Vec<usize>> {
    let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, value) in values.iter().enumerate() {
        places.entry(value.to_bits()).or_default().push(at);
    }
    let (n, distinct) = (values.len() as f64, places.len());
    if distinct < 2 || distinct == values.len() {
        return None;
    }
    let different = places.keys().map(|bits| f64::from_bits(*bits));
    let sample = Sample::new(different).ok()?;
    let step = resolution(values.iter().copied()).unwrap_or(0.0);
    // The density of the difference of two normal values at 0 is 1 ÷ (2 √π sd).
    let density = 1.0 / (2.0 * std::f64::consts::PI.sqrt() * spread(values, sample.std()?)?);
    let mut shared = places.values().filter(|at| at.len() > 1);
    let first = values[shared.next()?[0]];
    let limit = first == sample.min() || first == sample.max();
    if 0.5 * n * (n - 1.0) * step * density > BY_CHANCE || (limit && shared.next().is_none()) {
        return None;
    }
    let first = |value: &f64| places.get(&value.to_bits()).map_or(0, |at| at[0]);
    Some(values.iter().map(first).collect())
}

/// Returns the standard deviation of values without their outliers (median absolute deviation), at most `most`.
fn spread(values: &[f64], most: f64) -> Option<f64> {
    let middle = Sample::new(values.iter().copied()).ok()?.median();
    let from_middle = values.iter().map(|v| (v - middle).abs());
    let robust = 1.4826 * Sample::new(from_middle).ok()?.median();
    Some(if robust > 0.0 { robust.min(most) } else { most })
}

/// Equal values of all units count as copies if they have at least this many digits.
const FINE: usize = 6;

/// Notes that all units of one side have the same value, so that the other side alone varies.
pub(crate) fn reference(units: &[(f64, f64)], pair: &Sides) -> Option<String> {
    let (a, b) = pair.labels();
    let constant = |side: fn(&(f64, f64)) -> f64| {
        let first = side(units.first()?);
        let digits = first.to_string();
        let digits = digits.chars().filter(char::is_ascii_digit).count();
        let fine = digits >= FINE && units.len() > 2;
        Some(
            fine && units
                .iter()
                .all(|unit| side(unit).to_bits() == first.to_bits()),
        )
    };
    let side = match (constant(|unit| unit.0)?, constant(|unit| unit.1)?) {
        (true, false) => a,
        (false, true) => b,
        _ => return None,
    };
    Some(format!(
        "every unit of {side} has the same value, which counts as exact: if it is one launch, its noise is missing here"
    ))
}

/// Returns the means of values over units that share a value of a side, directly or through others; `None` if none do. Each
/// list has a value of every unit.
pub(crate) fn means_of_merged(values: &[f64], sides: &[Vec<f64>]) -> Option<Vec<f64>> {
    let mut launch: Vec<usize> = (0..values.len()).collect();
    let mut any = false;
    for merged in sides.iter().filter_map(|side| merged(side)) {
        any = true;
        for (unit, first) in merged.into_iter().enumerate() {
            let (from, to) = (launch[unit], launch[first]);
            launch
                .iter_mut()
                .filter(|l| **l == from)
                .for_each(|l| *l = to);
        }
    }
    let mut means: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (launch, value) in launch.into_iter().zip(values) {
        means.entry(launch).or_default().push(*value);
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    any.then(|| means.into_values().map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_agree_to_the_last_digit_are_of_one_launch() {
        let noisy = [
            100.12345678901,
            103.45678901234,
            98.76543210987,
            101.11111111119,
        ];
        let twice: Vec<f64> = noisy.iter().flat_map(|v| [*v, *v]).collect();
        assert_eq!(merged(&twice), Some(vec![0, 0, 2, 2, 4, 4, 6, 6]));
        assert_eq!(merged(&noisy), None);
        // A reference, a limit, whole numbers, and shares of requests.
        assert_eq!(merged(&[noisy[0]; 4]), None);
        assert_eq!(merged(&[noisy[0], noisy[1], 0.0, 0.0, 0.0]), None);
        assert_eq!(merged(&[100.0, 101.0, 101.0, 102.0, 100.0]), None);
        assert_eq!(
            merged(&[
                11.0 / 13.0,
                11.0 / 13.0,
                12.0 / 13.0,
                12.0 / 13.0,
                10.0 / 13.0
            ]),
            None
        );
        // An outlier does not make the others alike.
        let coarse = [10.0, 10.5, 9.5, 10.2, 10.0, 10.5, 9.5, 10_000.0];
        assert_eq!(merged(&coarse), None);
        // A single copy between others.
        let copied = [noisy[0], noisy[0], noisy[1], noisy[2]];
        assert_eq!(merged(&copied), Some(vec![0, 0, 2, 3]));
    }

    #[test]
    fn a_side_with_one_value_is_noted() {
        let pair = serde_json::json!({"axis": "side", "a": "x", "b": "y"});
        let pair: Sides = serde_json::from_value(pair).unwrap();
        let units = |b: f64| [(1.5, b), (1.7, b), (1.6, b)];
        let why = reference(&units(1.234_567_89), &pair).unwrap();
        assert!(
            why.starts_with("every unit of y has the same value"),
            "{why}"
        );
        // Coarse values agree by rounding.
        assert_eq!(reference(&units(10.0), &pair), None);
    }

    #[test]
    fn units_are_merged_over_both_sides() {
        let (a, b) = (
            vec![1.01234567891, 1.01234567891, 2.1, 3.7, 0.4],
            vec![5.1, 9.9876543211, 9.9876543211, 8.7, 11.3],
        );
        let means = means_of_merged(&[1.0, 2.0, 3.0, 4.0, 5.0], &[a, b]);
        assert_eq!(means, Some(vec![2.0, 4.0, 5.0]));
        assert_eq!(means_of_merged(&[1.0, 2.0], &[vec![1.0, 2.0]]), None);
    }
}
