//! Units that resemble each other, and are therefore fewer than they seem.
//!
//! Launches of one day or on one host have something in common. An interval over launches then understates how far
//! launches of another day would lie, and a test over them finds too much. Which axis groups units follows from the keys;
//! whether it matters, from the values.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::in_order;
use statistics::{
    GROUPS_LEVEL, Group, LEAST_CLUSTERS, Refusal, Resemblance, Sample, UnitEffect, group_effect,
    group_resemblance, indirect_effect, neighbours, unit_effect,
};

use crate::operators::repeated::means_of_merged;
use crate::operators::units::{Units, averaged};

/// A unit: its label, whose last part is that of the last unit axis, the side that it belongs to (0 or 1), and its value.
pub(crate) struct Unit {
    pub(crate) label: Vec<Scalar>,
    pub(crate) side: usize,
    pub(crate) value: f64,
}

/// An axis that groups units: each unit has a single label of it.
#[derive(Debug)]
pub(crate) struct Grouping {
    axis: String,
    labels: BTreeMap<String, String>,
}

fn name(label: &[Scalar]) -> String {
    let parts: Vec<String> = label.iter().map(ToString::to_string).collect();
    parts.join(", ")
}

/// Returns the axes that group units, from the label of the unit and the keys of each row. An axis groups them if each
/// unit has a single label of it, and some labels, but not all units, have several.
pub(crate) fn groupings(keys: &[String], rows: &[(Vec<Scalar>, Vec<Scalar>)]) -> Vec<Grouping> {
    let labels_of = |(at, axis): (usize, &String)| {
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (unit, key) in rows {
            let label = key[at].to_string();
            let before = labels.insert(name(unit), label.clone());
            if before.is_some_and(|before| before != label) {
                return None;
            }
        }
        let mut distinct: Vec<&String> = labels.values().collect();
        distinct.sort();
        distinct.dedup();
        (distinct.len() > 1 && distinct.len() < labels.len()).then(|| Grouping {
            axis: axis.clone(),
            labels,
        })
    };
    keys.iter().enumerate().filter_map(labels_of).collect()
}

/// Explains that units lie within the labels of a pooled axis, such as launches within days. A difference between the
/// labels, which a comparison of two sides may cancel, is part of the error of a mean.
pub(crate) fn nested(groupings: &[Grouping]) -> Option<String> {
    let axis = &groupings.first()?.axis;
    Some(format!(
        "units lie within `{axis}`, and those with the same `{axis}` may resemble each other: declare `unit: [{axis}]`"
    ))
}

/// Units that are not independent, as far as their values show.
pub(crate) struct Doubt(How);

enum How {
    /// Units resemble each other within these groups.
    Grouped(Resemblance, Vec<Group>),
    /// Each unit resembles the one before it, on each side with this correlation.
    InOrder(Resemblance, [f64; 2]),
    /// Some units share a launch. The values of the launches: of pairs, or of each side.
    Shared(Vec<Vec<f64>>),
}

/// What shows that units share a launch.
const COPIES: &str =
    "units of one side have the same value to the last digit, as rows of one launch do";

/// Returns that units share launches, as their values to the last digit show. `values` has what is averaged over units, for
/// each side that is averaged by itself, and `sides` the values behind them.
pub(crate) fn shared(values: &[(Vec<f64>, Vec<Vec<f64>>)]) -> Option<Doubt> {
    let means = values
        .iter()
        .map(|(values, sides)| means_of_merged(values, sides));
    let means: Vec<Option<Vec<f64>>> = means.collect();
    means.iter().any(Option::is_some).then(|| {
        let launches = means.into_iter().zip(values);
        let launches = launches.map(|(means, (values, _))| means.unwrap_or_else(|| values.clone()));
        Doubt(How::Shared(launches.collect()))
    })
}

impl Doubt {
    /// Explains why units cannot be judged as they are.
    pub(crate) fn refusal(&self) -> String {
        match &self.0 {
            How::Grouped(alike, _) => {
                let axis = alike.axis();
                format!("{alike}, so they are not independent: declare `unit: [{axis}]`")
            }
            How::Shared(_) => format!(
                "{COPIES}, so they are not independent: measure each side again in each unit"
            ),
            How::InOrder(alike, _) => format!(
                "{alike}, so they are not independent: measure further apart in time, or declare longer units, such as days"
            ),
        }
    }

    /// Notes how the units were judged.
    pub(crate) fn note(&self) -> String {
        match &self.0 {
            How::Grouped(_, groups) if groups.len() < LEAST_CLUSTERS => self.refusal(),
            How::Grouped(alike, _) | How::InOrder(alike, _) => alike.note(),
            How::Shared(_) => format!("{COPIES}, so they count as one"),
        }
    }

    /// Returns the effect of units that are paired, or otherwise those of both sides, with the dependence counted.
    ///
    /// # Errors
    /// If the groups are too few to be the units.
    pub(crate) fn effect(&self, sides: &[UnitEffect]) -> Result<UnitEffect, String> {
        match &self.0 {
            How::InOrder(_, rho) => {
                let sides: Vec<UnitEffect> = sides
                    .iter()
                    .zip(rho)
                    .map(|(side, rho)| side.dependent(*rho))
                    .collect();
                Ok(match sides.as_slice() {
                    [a, b] => indirect_effect(a, b),
                    _ => sides[0],
                })
            }
            How::Shared(launches) => {
                let few =
                    |refusal: Refusal| format!("{}; without copies, {refusal}", self.refusal());
                let effects = launches.iter().map(|values| unit_effect(values));
                let effects: Vec<UnitEffect> = effects.collect::<Result<_, _>>().map_err(few)?;
                Ok(match effects.as_slice() {
                    [a, b] => indirect_effect(a, b),
                    _ => effects[0],
                })
            }
            How::Grouped(_, groups) => group_effect(groups)
                .map_err(|refusal| format!("{}; there, {refusal}", self.refusal())),
        }
    }
}

/// As [`doubt`], where only the unit axes may group the units.
pub(crate) fn doubt_of_effects(
    units: &Units,
    effects: impl IntoIterator<Item = (Vec<Scalar>, f64)>,
) -> Option<Doubt> {
    let unit = |(label, value)| Unit {
        label,
        side: 0,
        value,
    };
    let effects: Vec<Unit> = effects.into_iter().map(unit).collect();
    let rows = effects.iter();
    let rows: Vec<_> = rows
        .map(|unit| (unit.label.clone(), unit.label.clone()))
        .collect();
    doubt(units, &groupings(units.axes(), &rows), &effects)
}

/// As [`doubt_of_effects`], for units with a value in each of several strata, such as the levels of a ladder. Every stratum has
/// the same weight.
pub(crate) fn doubt_of_strata(units: &Units, strata: &[Vec<(Vec<Scalar>, f64)>]) -> Option<Doubt> {
    let standard = |stratum: &Vec<(Vec<Scalar>, f64)>| {
        let sample = Sample::new(stratum.iter().map(|(_, value)| *value)).ok();
        let scale = sample.and_then(|s| Some((s.mean(), s.std().filter(|std| *std > 0.0)?)));
        let values = stratum.clone().into_iter();
        let standard = scale
            .map(|(mean, std)| values.map(move |(label, value)| (label, (value - mean) / std)));
        standard.into_iter().flatten()
    };
    doubt_of_effects(units, averaged(strata.iter().flat_map(standard)))
}

/// Returns why units are not independent, as far as their values show; `None` if nothing shows it.
pub(crate) fn doubt(units: &Units, groupings: &[Grouping], values: &[Unit]) -> Option<Doubt> {
    let level = GROUPS_LEVEL / groupings.len().max(1) as f64;
    let grouped = groupings.iter().find_map(|grouping| {
        let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
        for unit in values {
            let group = groups.entry(grouping.labels.get(&name(&unit.label))?);
            let (a, b) = group.or_default();
            match unit.side {
                0 => a.push(unit.value),
                _ => b.push(unit.value),
            }
        }
        let groups: Vec<Group> = groups.into_values().collect();
        let p = group_resemblance(&groups).filter(|p| *p <= level)?;
        let alike = Resemblance::Grouped(grouping.axis.clone(), p);
        Some(Doubt(How::Grouped(alike, groups)))
    });
    grouped.or_else(|| beside(units, values))
}

/// Returns the values of units in the order of their labels, where the labels have one.
fn ordered<'a>(units: impl Iterator<Item = &'a Unit>) -> Option<Vec<f64>> {
    let units: Vec<&Unit> = units.collect();
    let labels = units.iter().map(|unit| unit.label.last().cloned());
    let order = in_order(&labels.collect::<Option<Vec<Scalar>>>()?)?;
    Some(order.into_iter().map(|at| units[at].value).collect())
}

/// Returns that each unit resembles the one before it, where the labels have an order.
fn beside(units: &Units, values: &[Unit]) -> Option<Doubt> {
    let [axis] = units.axes() else {
        return None;
    };
    let side = |side: usize| ordered(values.iter().filter(|unit| unit.side == side));
    let (p, correlations) = neighbours([side(0), side(1)])?;
    let alike = Resemblance::InOrder(axis.clone(), p);
    Some(Doubt(How::InOrder(alike, correlations)))
}
