//! More than two systems in complete blocks, on the scale of their values or logarithms.

use crate::distribution::fisher_upper;
use crate::friedman::complete;
use crate::refusal::Refusal;
use crate::sample::sum;
use crate::unit::{LEAST_UNITS, UnitEffect};

/// A two-way analysis without interaction: systems and blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockAnova {
    /// The mean of each system.
    pub means: Vec<f64>,
    /// The residual variance, pooled over the systems; above 0.
    pub residual_variance: f64,
    /// The degrees of freedom of the residuals, (systems − 1)(blocks − 1).
    pub df: usize,
    /// F of "the systems do not differ".
    pub f: f64,
    /// Its p value.
    pub p: f64,
    /// The number of blocks.
    pub blocks: usize,
}

/// Analyses `blocks[b][s]`, the value of system s in block b, or its logarithm for ratios (Fisher,
/// The Design of Experiments, 1935; like `aov(value ~ block + system)` in R). It assumes the same
/// residual variance for every system, and so has more degrees of freedom than a t interval per
/// pair: 2.306 rather than 2.776 standard errors with three systems in five blocks. If one system
/// is much noisier than the others, use [`crate::unit_effect`] per pair.
///
/// # Errors
/// If there are fewer than two systems or three blocks, a block lacks a value, a value is not
/// finite, or there is no residual spread.
pub fn block_anova(blocks: &[Vec<f64>]) -> Result<BlockAnova, Refusal> {
    let k = complete(blocks, 2)?;
    let n = blocks.len();
    if n < LEAST_UNITS {
        let least = LEAST_UNITS;
        return Err(Refusal::TooFewUnits { n, least });
    }
    let (size, count) = (k as f64, n as f64);
    let means: Vec<f64> = (0..k)
        .map(|s| sum(blocks.iter().map(|b| b[s])) / count)
        .collect();
    let centre = sum(means.iter().copied()) / size;
    let residual = |block: &Vec<f64>| {
        let level = sum(block.iter().copied()) / size;
        sum(block
            .iter()
            .zip(&means)
            .map(|(value, mean)| (value - level - mean + centre).powi(2)))
    };
    let df = (k - 1) * (n - 1);
    let residual_variance = sum(blocks.iter().map(residual)) / df as f64;
    let largest = blocks
        .iter()
        .flatten()
        .fold(0.0, |top: f64, v| top.max(v.abs()));
    if residual_variance.sqrt() <= 1e-12 * largest {
        return Err(Refusal::NoSpread { n });
    }
    let between = count * sum(means.iter().map(|m| (m - centre).powi(2))) / (size - 1.0);
    let f = between / residual_variance;
    Ok(BlockAnova {
        means,
        residual_variance,
        df,
        f,
        p: fisher_upper(f, size - 1.0, df as f64),
        blocks: n,
    })
}

impl BlockAnova {
    /// Returns the effect of system a over system b, with the pooled residual variance. Several
    /// pairs are a family, so adjust their p values.
    ///
    /// # Panics
    /// If a system index is out of range.
    pub fn effect(&self, a: usize, b: usize) -> UnitEffect {
        let sd = (2.0 * self.residual_variance).sqrt();
        let error = sd / (self.blocks as f64).sqrt();
        let of_units = (self.blocks, self.df as f64);
        UnitEffect::new(of_units, self.means[a] - self.means[b], sd, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_systems_are_a_paired_t_test() {
        let effects = [0.021, 0.034, 0.012, 0.028, 0.019];
        let levels = [1.0, 2.0, 1.5, 0.5, 1.2];
        let blocks: Vec<Vec<f64>> = levels
            .iter()
            .zip(effects)
            .map(|(l, d)| vec![l + d, *l])
            .collect();
        let (anova, paired) = (
            block_anova(&blocks).unwrap(),
            crate::unit_effect(&effects).unwrap(),
        );
        let effect = anova.effect(0, 1);
        assert_eq!(effect.df, paired.df);
        for (ours, theirs) in [
            (effect.p, paired.p),
            (anova.p, paired.p),
            (effect.sd, paired.sd),
        ] {
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{ours} {theirs}");
        }
    }

    #[test]
    fn systems_that_move_in_step_are_refused() {
        let blocks: Vec<Vec<f64>> = (0..4)
            .map(|b| vec![f64::from(b), f64::from(b) + 1.0])
            .collect();
        assert_eq!(block_anova(&blocks), Err(Refusal::NoSpread { n: 4 }));
    }
}
