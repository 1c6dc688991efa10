//! How far an effect differs among the coordinates that a comparison pools.

use artifacts::Scalar;
use pipeline::Coordinates;

use crate::operators::units::averaged;

/// The smallest and the largest mean effect at one coordinate, on the scale, each with its coordinate.
pub(crate) struct Extremes {
    pub(super) smallest: (f64, String),
    pub(super) largest: (f64, String),
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
        })
    }
}
