//! The effects at the coordinates that a paired comparison pools.

use artifacts::Scalar;
use statistics::UnitEffect;

use super::Place;
use crate::operators::comparison::{AtCoordinate, Extremes, Terms};
use crate::operators::incomplete;
use crate::operators::pairs::Pair;
use crate::operators::resemblance::{self, Doubt};
use crate::operators::units::{Scale, averaged};

impl Place<'_> {
    /// Returns the smallest and the largest mean effect at one coordinate, without the keys in `by`, and whether both directions
    /// are shown.
    pub(super) fn extremes(
        &self,
        terms: &Terms,
        complete: &[(&Pair, f64, f64)],
        doubt: Option<&Doubt>,
    ) -> Option<Extremes> {
        let scale = terms.scale;
        let pooled: Vec<usize> = (0..self.keys.len())
            .filter(|p| !self.unit.contains(p) && !terms.by.contains(&self.keys[*p]))
            .collect();
        let names: Vec<String> = pooled.iter().map(|p| self.keys[*p].clone()).collect();
        let at = |pair: &Pair| -> Vec<Scalar> {
            let labels = pooled.iter().map(|p| pair.key[*p].clone());
            labels.collect()
        };
        let effects = complete.iter();
        let effects = effects.map(|(pair, a, b)| Some((at(pair), scale.effect(*a, *b)?)));
        let extremes = Extremes::of(&names, effects.collect::<Option<Vec<_>>>()?)?;
        let mut rows: Vec<_> = complete.iter().map(|row| (at(row.0), row)).collect();
        rows.sort_by(|a, b| contract::compare_all(&a.0, &b.0));
        let coordinates = rows.chunk_by(|a, b| a.0 == b.0).map(|rows| {
            let effect = self.effect_at(scale, rows.iter().map(|(_, row)| *row), doubt);
            (rows[0].0.clone(), effect)
        });
        let coordinates: Vec<AtCoordinate> = coordinates.collect();
        Some(extremes.tested(&names, &coordinates, (terms.looks, terms.alpha)))
    }

    /// Returns how far the mean effect would move if each coordinate had the same weight.
    pub(super) fn reweighed(&self, complete: &[(&Pair, f64, f64)], scale: Scale) -> f64 {
        let cell = |(pair, a, b): &(&Pair, f64, f64)| {
            let effect = scale.effect(*a, *b)?;
            Some((self.label(pair), self.coordinate(pair), effect))
        };
        let cells: Option<Vec<_>> = complete.iter().map(cell).collect();
        let replicated = cells.filter(|_| !self.units.is_none());
        replicated.map_or(0.0, |cells| incomplete::reweighed(&cells))
    }

    /// Returns the effect over units of the pairs at one coordinate; `None` if it cannot be judged. `doubt` is that of all pairs:
    /// where units resemble each other, those of a single coordinate must show it, too.
    fn effect_at<'p>(
        &self,
        scale: Scale,
        pairs: impl Iterator<Item = &'p (&'p Pair, f64, f64)> + Clone,
        doubt: Option<&Doubt>,
    ) -> Option<UnitEffect> {
        if self.units.is_none() {
            return None;
        }
        let labelled = |value: &dyn Fn(f64, f64) -> Option<f64>| {
            let values = pairs.clone();
            let values = values.map(|(pair, a, b)| Some((self.label(pair), value(*a, *b)?)));
            Some(averaged(values.collect::<Option<Vec<_>>>()?))
        };
        let values = |labelled: Vec<(Vec<Scalar>, f64)>| -> Vec<f64> {
            labelled.into_iter().map(|(_, value)| value).collect()
        };
        let effects = labelled(&|a, b| scale.effect(a, b))?;
        let sides = vec![
            values(labelled(&|a, _| Some(a))?),
            values(labelled(&|_, b| Some(b))?),
        ];
        let own = resemblance::shared(&[(values(effects.clone()), sides)]);
        let own = own.or_else(|| resemblance::doubt_of_effects(self.units, effects.clone()));
        let rounding = scale.rounding(&[pairs.map(|(_, a, b)| (*a, *b)).collect()]);
        let effect = self.units.effect(&values(effects), rounding).ok()?;
        match (own, doubt) {
            (Some(own), _) => own.effect(&[effect]).ok(),
            (None, Some(_)) => None,
            (None, None) => Some(effect),
        }
    }
}
