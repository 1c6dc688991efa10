//! Effect sizes.

use crate::ranks::mid_ranks;
use crate::sample::Sample;

/// Returns Cohen's d, (mean a − mean b) ÷ pooled std (n − 1 weights); `None` if the pooled std
/// is undefined or 0. For independent groups.
pub fn cohens_d(a: &Sample, b: &Sample) -> Option<f64> {
    let df = a.len() + b.len() - 2;
    if df == 0 {
        return None;
    }
    let part = |s: &Sample| s.variance().unwrap_or(0.0) * (s.len() - 1) as f64;
    let pooled = ((part(a) + part(b)) / df as f64).sqrt();
    (pooled > 0.0).then(|| (a.mean() - b.mean()) / pooled)
}

/// Returns Hedges' g: d with the exact small-sample factor Γ(df/2) / (√(df/2)·Γ((df − 1)/2))
/// (Hedges 1981); `None` if d is undefined, or with one degree of freedom.
pub fn hedges_g(a: &Sample, b: &Sample) -> Option<f64> {
    use statrs::function::gamma::ln_gamma;
    let df = (a.len() + b.len()) as f64 - 2.0;
    if df < 2.0 {
        return None;
    }
    let factor = (ln_gamma(df / 2.0) - ln_gamma((df - 1.0) / 2.0)).exp() / (df / 2.0).sqrt();
    cohens_d(a, b).map(|d| d * factor)
}

/// Returns the paired dz, mean ÷ std of the differences; `None` if that std is undefined or 0.
pub fn cohens_dz(differences: &Sample) -> Option<f64> {
    let std = differences.std()?;
    (std > 0.0).then(|| differences.mean() / std)
}

/// Returns Cliff's delta, P(a > b) − P(a < b), in \[−1, 1\].
pub fn cliffs_delta(a: &Sample, b: &Sample) -> f64 {
    let (mut above, mut below) = (0_u64, 0_u64);
    for value in a.values() {
        below += b.values().partition_point(|v| v < value) as u64;
        above += (b.len() - b.values().partition_point(|v| v <= value)) as u64;
    }
    (below as f64 - above as f64) / (a.len() as f64 * b.len() as f64)
}

/// Returns the matched-pairs rank-biserial correlation, (W₊ − W₋)/(W₊ + W₋) over the non-zero
/// differences (Kerby 2014); `None` if all differences are 0 or the list is empty.
pub fn rank_biserial(differences: &[f64]) -> Option<f64> {
    let moved: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let sizes: Vec<f64> = moved.iter().map(|d| d.abs()).collect();
    let ranks = mid_ranks(&sizes).ranks;
    let (mut plus, mut minus) = (0.0, 0.0);
    for (difference, rank) in moved.iter().zip(ranks) {
        if *difference > 0.0 {
            plus += rank;
        } else {
            minus += rank;
        }
    }
    (plus + minus > 0.0).then(|| (plus - minus) / (plus + minus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_overlap_have_delta_one() {
        let (low, high) = (
            Sample::new([1.0, 2.0]).unwrap(),
            Sample::new([3.0, 4.0]).unwrap(),
        );
        assert_eq!(
            (cliffs_delta(&high, &low), cliffs_delta(&low, &high)),
            (1.0, -1.0)
        );
        assert_eq!(cliffs_delta(&low, &low), 0.0);
    }

    #[test]
    fn an_effect_without_spread_is_undefined() {
        let constant = Sample::new([1.0, 1.0]).unwrap();
        assert_eq!(
            (cohens_d(&constant, &constant), cohens_dz(&constant)),
            (None, None)
        );
        assert_eq!(rank_biserial(&[0.0, 0.0]), None);
    }
}
