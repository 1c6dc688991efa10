//! Does the direction of an effect change with the level?

use crate::unit::UnitEffect;

/// Returns the positions of the levels at which an effect is shown to be negative and to be positive, if it is shown to be both;
/// of several, those with the smallest p values. Such an interaction is called qualitative (Gail & Simon, Biometrics 41, 1985).
///
/// Each direction has a one-sided test at each level at `alpha` ÷ the number of levels, so "nowhere negative" and "nowhere
/// positive" are each rejected wrongly in at most `alpha` of studies (Bonferroni), whatever the levels share. Both must be
/// rejected, so the pair has the same level (an intersection–union test: Berger, Technometrics 24, 1982). `levels` has the
/// effect at each level and its two-sided p value; `None` for a level that cannot be tested, which counts.
pub fn opposite_directions(levels: &[Option<(UnitEffect, f64)>], alpha: f64) -> Option<[usize; 2]> {
    let level = 2.0 * alpha / levels.len().max(1) as f64;
    let surest = |sign: f64| {
        let tested = levels.iter().enumerate();
        let tested = tested.filter_map(|(at, level)| Some((at, level.as_ref()?)));
        let shown = tested.filter(|(_, (effect, p))| sign * effect.mean > 0.0 && *p <= level);
        let surest = shown.min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        surest.map(|(at, _)| at)
    };
    Some([surest(-1.0)?, surest(1.0)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_effect;

    fn level(effects: &[f64]) -> Option<(UnitEffect, f64)> {
        let effect = unit_effect(effects).ok()?;
        Some((effect, effect.p))
    }

    #[test]
    fn both_directions_must_be_shown() {
        let (up, down) = (level(&[1.0, 1.1, 0.9]), level(&[-1.0, -1.2, -0.9]));
        let (unclear, none) = (level(&[-1.0, 1.2, 0.3]), None);
        assert_eq!(opposite_directions(&[up, down], 0.05), Some([1, 0]));
        assert_eq!(opposite_directions(&[up, up, unclear, none], 0.05), None);
        assert_eq!(opposite_directions(&[down, unclear], 0.05), None);
        assert_eq!(opposite_directions(&[], 0.05), None);
        // The surest of several.
        let surer = level(&[1.0, 1.01, 0.99]);
        let levels = [up, surer, none, down];
        assert_eq!(opposite_directions(&levels, 0.05), Some([3, 1]));
    }

    #[test]
    fn levels_that_cannot_be_tested_count() {
        let (up, down) = (level(&[1.0, 1.3, 0.8]), level(&[-1.0, -1.3, -0.8]));
        let p = up.map_or(1.0, |(_, p)| p);
        let alpha = 1.001 * p;
        assert_eq!(opposite_directions(&[up, down], alpha), Some([1, 0]));
        assert_eq!(opposite_directions(&[up, down, None], alpha), None);
    }
}
