//! How far an effect differs among the coordinates that a comparison pools.

use artifacts::Scalar;
use pipeline::Coordinates;
use statistics::{UnitEffect, opposite_directions};

use crate::operators::comparison::Terms;
use crate::operators::looks::Looks;
use crate::operators::units::averaged;

/// The effect over units at a pooled coordinate; `None` if it cannot be judged.
pub(crate) type AtCoordinate = (Vec<Scalar>, Option<UnitEffect>);

/// The smallest and the largest mean effect at one coordinate, on the scale, each with its coordinate.
pub(crate) struct Extremes {
    pub(super) smallest: (f64, String),
    pub(super) largest: (f64, String),
    /// Whether the effect is shown to have both directions; `None` if that cannot be tested.
    pub(super) direction_changes: Option<bool>,
    /// A coordinate at which a is shown to be lower and one at which it is shown to be higher, each with the effect there.
    opposite: Option<[(f64, String); 2]>,
}

impl Extremes {
    /// Averages the effects at each coordinate, which is labels of the axes `names`; `None` with fewer than two coordinates.
    pub(crate) fn of(
        names: &[String],
        effects: impl IntoIterator<Item = (Vec<Scalar>, f64)>,
    ) -> Option<Self> {
        let means = averaged(effects);
        let by_size = |(_, a): &&(Vec<Scalar>, f64), (_, b): &&(Vec<Scalar>, f64)| a.total_cmp(b);
        let named = |(labels, effect): &(Vec<Scalar>, f64)| {
            let at = names.iter().cloned().zip(labels.iter().cloned());
            (*effect, Coordinates(at.collect()).to_string())
        };
        let smallest = means.iter().min_by(by_size)?;
        let largest = means.iter().max_by(by_size)?;
        (means.len() > 1).then(|| Self {
            smallest: named(smallest),
            largest: named(largest),
            direction_changes: None,
            opposite: None,
        })
    }

    /// Tests whether the direction of the effect changes with the coordinate.
    pub(crate) fn tested(
        self,
        names: &[String],
        effects: &[AtCoordinate],
        (looks, alpha): (Looks, f64),
    ) -> Self {
        let levels = effects
            .iter()
            .map(|(_, effect)| effect.map(|effect| (effect, looks.p(&effect))));
        let levels: Vec<Option<(UnitEffect, f64)>> = levels.collect();
        let shown = opposite_directions(&levels, alpha);
        let opposite = shown.and_then(|[low, high]| {
            let named = |at: usize| {
                let (labels, effect) = &effects[at];
                let at = names.iter().cloned().zip(labels.iter().cloned());
                Some((effect.as_ref()?.mean, Coordinates(at.collect()).to_string()))
            };
            Some([named(low)?, named(high)?])
        });
        let testable = levels.iter().flatten().count() > 1;
        Self {
            direction_changes: testable.then_some(opposite.is_some()),
            opposite,
            ..self
        }
    }

    /// Says that the direction of the effect changes with the coordinate, if that is shown.
    pub(crate) fn note(&self, terms: &Terms) -> Option<String> {
        let [low, high] = self.opposite.as_ref()?;
        let (a, _) = terms.pair.labels();
        let shown = |(effect, at): &(f64, String)| {
            let effect = terms.scale.show_effect(*effect);
            format!("at {at} ({effect})")
        };
        Some(format!(
            "the direction changes with the level: {a} is lower {} and higher {}, so what holds on average does not hold at \
             each level",
            shown(low),
            shown(high)
        ))
    }
}
