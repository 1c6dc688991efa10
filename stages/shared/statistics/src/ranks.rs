//! Mid-ranks: tied values share the mean of the ranks they occupy.

/// Ranks of a list of values.
#[derive(Clone, Debug, PartialEq)]
pub struct MidRanks {
    /// The rank of each value, in input order, from 1.
    pub ranks: Vec<f64>,
    /// Σ (t³ − t) over the groups of t tied values; 0 without ties.
    pub tie_term: f64,
}

/// Returns the mid-ranks of finite values.
pub fn mid_ranks(values: &[f64]) -> MidRanks {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut tie_term = 0.0;
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        let rank = (start + 1 + end) as f64 / 2.0;
        for at in &order[start..end] {
            ranks[*at] = rank;
        }
        let t = (end - start) as f64;
        tie_term += t * t * t - t;
        start = end;
    }
    MidRanks { ranks, tie_term }
}

/// The part of a value by which rounding may change it, in the mean of some values and in a difference.
const ROUNDING: f64 = 1e-12;

/// Returns the differences a − b of pairs, for tests of ranks and signs. Sizes that only rounding distinguishes are the same, and
/// are 0 if only rounding distinguishes them from 0. Otherwise ranks and signs would depend on the unit: 3 − 2 is 2 − 1, but
/// 0.3 − 0.2 is not 0.2 − 0.1.
pub fn paired_differences(pairs: &[(f64, f64)]) -> Vec<f64> {
    let mut differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|i, j| differences[*i].abs().total_cmp(&differences[*j].abs()));
    let (mut before, mut same) = (0.0, 0.0);
    for i in order {
        let size = differences[i].abs();
        let (a, b) = pairs[i];
        if size - before > ROUNDING * a.abs().max(b.abs()) {
            same = size;
        }
        before = size;
        differences[i] = f64::copysign(same, differences[i]);
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_do_not_depend_on_the_unit() {
        let pairs = [(2.0, 1.0), (3.0, 2.0), (1.0, 3.0), (7.0, 7.0)];
        let scaled = pairs.map(|(a, b)| (a / 10.0, b / 10.0));
        // Means of the same values in another unit may differ in the last bit.
        let scaled = [scaled.as_slice(), &[(0.1 + 0.2, 0.3)]].concat();
        let differences = paired_differences(&scaled);
        assert_eq!(differences[0], differences[1]);
        assert!((differences[2] + 0.2).abs() < 1e-12);
        assert_eq!(differences[3..], [0.0, 0.0]);
        assert_eq!(paired_differences(&pairs), [1.0, 1.0, -2.0, 0.0]);
        // A difference that is small and real.
        assert!(paired_differences(&[(1.0 + 1e-9, 1.0)])[0] > 0.0);
        assert_eq!(paired_differences(&[]), [] as [f64; 0]);
    }

    #[test]
    fn tied_values_share_their_mean_rank() {
        let ranked = mid_ranks(&[3.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            (ranked.ranks, ranked.tie_term),
            (vec![3.5, 1.0, 3.5, 2.0], 6.0)
        );
    }
}
