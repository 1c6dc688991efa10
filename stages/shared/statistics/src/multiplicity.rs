//! Adjustment of the p values of a family of tests.

/// Returns Holm's step-down adjusted p values (Scand. J. Statist. 6, 1979), in input order: the
/// running maximum of (m − i)·p₍ᵢ₊₁₎, capped at 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut running = 0.0_f64;
    adjust(p, ascending(p), |i, p_i, m| {
        running = running.max(((m - i) as f64 * p_i).min(1.0));
        running
    })
}

/// Returns Benjamini and Hochberg's adjusted p values (JRSS B 57, 1995), in input order: the
/// running minimum from the largest of m·p₍ᵢ₎/i, capped at 1.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut running = 1.0_f64;
    let mut order = ascending(p);
    order.reverse();
    adjust(p, order, |i, p_i, m| {
        // `i` counts from the largest; its rank from the smallest is m − i. The factor comes first:
        // it is at least 1, so rounding cannot take the adjusted value below the raw one.
        running = running.min(p_i * (m as f64 / (m - i) as f64));
        running
    })
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

fn adjust(
    p: &[f64],
    order: Vec<usize>,
    mut step: impl FnMut(usize, f64, usize) -> f64,
) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    for (i, at) in order.into_iter().enumerate() {
        adjusted[at] = step(i, p[at], p.len());
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn adjusted_p_values_keep_the_order_and_never_fall(p in prop::collection::vec(0.0..=1.0_f64, 0..20)) {
            for adjusted in [holm(&p), benjamini_hochberg(&p)] {
                for i in 0..p.len() {
                    prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                    for j in 0..p.len() {
                        prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                    }
                }
            }
        }

        #[test]
        fn holm_is_never_more_liberal_than_benjamini_hochberg(p in prop::collection::vec(0.0..=1.0_f64, 1..20)) {
            for (h, b) in holm(&p).into_iter().zip(benjamini_hochberg(&p)) {
                prop_assert!(h >= b - 1e-15);
            }
        }
    }
}
