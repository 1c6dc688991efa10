//! The estimate that belongs to the signed-rank test.

use crate::bootstrap::Interval;
use crate::refusal::{Refusal, all_finite};
use crate::wilcoxon::sign_sums;

/// Returns the centre of symmetry of paired differences and its interval. The centre is the median
/// of the means of all pairs (Hodges & Lehmann, Ann. Math. Statist. 34, 1963). The interval holds
/// the values that the exact signed-rank test does not reject, so it excludes 0 exactly if that
/// test rejects.
///
/// # Errors
/// If a value is not finite, or there are too few values for an interval of this level (6 are
/// needed at 95 %).
///
/// # Panics
/// If `level` is not strictly between 0 and 1.
pub fn hodges_lehmann(differences: &[f64], level: f64) -> Result<(f64, Interval), Refusal> {
    assert!(level > 0.0 && level < 1.0, "a level lies between 0 and 1");
    all_finite(differences)?;
    let (n, tail) = (differences.len(), (1.0 - level) / 2.0);
    let least = (1..64).find(|n| 0.5_f64.powi(*n) <= tail).unwrap_or(64) as usize;
    if n < least {
        return Err(Refusal::TooFewUnits { n, least });
    }
    let mut walsh: Vec<f64> = (0..n)
        .flat_map(|i| (i..n).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(differences[i], differences[j]))
        .collect();
    walsh.sort_by(f64::total_cmp);
    // The number of outermost means that may be cut off: P(W ≤ k − 1) ≤ tail.
    let ranks: Vec<f64> = (1..=n).map(|r| r as f64).collect();
    let chances = sign_sums(&ranks);
    let (mut below, mut cut) = (0.0, 0);
    for chance in chances.iter().step_by(2) {
        below += chance;
        if below > tail * (1.0 + 1e-12) {
            break;
        }
        cut += 1;
    }
    // `cut` counts the sums that may still be excluded, so the next one inwards is the end.
    let (low, high) = (walsh[cut - 1], walsh[walsh.len() - cut]);
    let middle = walsh.len() / 2;
    let centre = if walsh.len().is_multiple_of(2) {
        f64::midpoint(walsh[middle - 1], walsh[middle])
    } else {
        walsh[middle]
    };
    Ok((centre, Interval { low, high }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_differences_are_the_fewest_with_an_interval() {
        let differences = [0.1, 0.2, 0.3, 0.5, 0.4, 0.6];
        let (centre, interval) = hodges_lehmann(&differences, 0.95).unwrap();
        assert!((centre - 0.35).abs() < 1e-15);
        assert_eq!((interval.low, interval.high), (0.1, 0.6));
        assert_eq!(
            hodges_lehmann(&differences[..5], 0.95),
            Err(Refusal::TooFewUnits { n: 5, least: 6 })
        );
    }
}
