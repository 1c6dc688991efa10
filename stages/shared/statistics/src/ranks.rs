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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_values_share_their_mean_rank() {
        let ranked = mid_ranks(&[3.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            (ranked.ranks, ranked.tie_term),
            (vec![3.5, 1.0, 3.5, 2.0], 6.0)
        );
    }
}
