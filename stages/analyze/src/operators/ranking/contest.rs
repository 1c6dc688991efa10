//! One contest: the values of its contenders in each unit of replication, and the tests between two of them.

use artifacts::Scalar;
use pipeline::Failure;
use statistics::{UnitEffect, indirect_effect, permutation_test_welch, unit_effect_rounded};

use super::Parameters;
use crate::clock_steps::UnlikeSteps;
use crate::frame::{Frame, SourceRows, spans};
use crate::lost_requests::LostRequests;
use crate::operators::family::Adjusted;
use crate::operators::looks::Looks;
use crate::operators::resemblance::{Doubt, Unit, doubt, doubt_of_effects, groupings, shared};
use crate::operators::units::{Scale, Units, averaged, mean};
use crate::operators::unpaired_comparison::groups::Groups;

/// The rows of one contest, by contender.
pub(super) struct Contest {
    pub(super) contenders: Vec<Entry>,
    pub(super) lineage: Vec<SourceRows>,
}

/// A contender and its values.
pub(super) struct Entry {
    pub(super) label: String,
    /// One of its rows, for the key.
    pub(super) row: usize,
    /// The rows with a value.
    pub(super) rows: Vec<usize>,
    /// The mean of each unit.
    pub(super) units: Vec<(Vec<Scalar>, f64)>,
    /// The units in the labels of each unit axis but the last, such as those of each day.
    groups: Vec<Groups>,
    pub(super) value: Option<f64>,
}

impl Contest {
    pub(super) fn new(
        from: &Frame,
        given: &Parameters,
        (among, unit): (usize, &[usize]),
        members: Vec<usize>,
    ) -> Self {
        let lineage = spans(&given.from, members.iter().copied());
        let label = |row: usize| from.rows[row].key[among].clone();
        let mut members = members;
        members.sort_by(|a, b| contract::compare(&label(*a), &label(*b)).then(a.cmp(b)));
        let entry = |rows: &[usize]| {
            let values = rows.iter().filter_map(|row| {
                Some((from.key_at(*row, unit), from.number(*row, &given.column)?))
            });
            let units = averaged(values);
            let plain: Vec<f64> = units.iter().map(|(_, v)| *v).collect();
            let valued = rows
                .iter()
                .filter(|row| from.number(**row, &given.column).is_some());
            Entry {
                rows: valued.copied().collect(),
                label: label(rows[0]).to_string(),
                row: rows[0],
                value: mean(&plain),
                units,
                groups: {
                    // The last unit axis numbers the units within the others.
                    let around = unit.split_last().map_or(&[][..], |(_, around)| around);
                    let groups = |axis: &usize| Groups::of(from, rows, *axis, unit);
                    around.iter().map(groups).collect()
                },
            }
        };
        Self {
            contenders: members
                .chunk_by(|a, b| label(*a) == label(*b))
                .map(entry)
                .collect(),
            lineage,
        }
    }

    /// Explains why two contenders are not apart if every request that they lost had been slow, or if their times were off
    /// by what the steps of their clocks allow; `None` if they still are.
    pub(super) fn not_apart_at_worst(
        &self,
        (i, j): (usize, usize),
        adjusted: &Adjusted,
        given: &Parameters,
        worst: impl FnOnce(Scale) -> Result<(Option<LostRequests>, Option<UnlikeSteps>), Failure>,
    ) -> Result<Option<String>, Failure> {
        let level = adjusted.decision.map_or(given.alpha, |d| d.alpha);
        let apart = |effect: &UnitEffect| given.looks.p(effect) <= level;
        let Some((scale, effect)) = self.paired(i, j).filter(|(_, effect)| apart(effect)) else {
            return Ok(None);
        };
        let holds = |shift: f64| {
            let moved = effect.shifted(shift);
            moved.mean * effect.mean > 0.0 && apart(&moved)
        };
        let (lost, steps) = worst(scale)?;
        if lost
            .and_then(|lost| lost.shift)
            .is_some_and(|shift| !holds(shift))
        {
            return Ok(Some(
                "requests were lost, and the order would not hold had each been as slow as the slowest answer of either side there"
                    .to_owned(),
            ));
        }
        let pair = [i, j].map(|at| self.contenders[at].label.as_str());
        let steps = steps.filter(|steps| !holds(steps.against(effect.mean)));
        Ok(steps.map(|steps| {
            format!(
                "{}: a clock or a file rounded them, and the order may come from that",
                steps.words(pair)
            )
        }))
    }

    /// The values of two contenders in the units that have both.
    fn both(&self, i: usize, j: usize) -> Vec<(f64, f64)> {
        let (a, b) = (&self.contenders[i], &self.contenders[j]);
        let other = |(unit, value): &(Vec<Scalar>, f64)| {
            let other = b.units.iter().find(|(other, _)| other == unit)?;
            Some((*value, other.1))
        };
        a.units.iter().filter_map(other).collect()
    }

    /// The effect of two contenders over the units that have both.
    fn paired(&self, i: usize, j: usize) -> Option<(Scale, UnitEffect)> {
        let both = self.both(i, j);
        let scale = scale(both.iter().flat_map(|(a, b)| [*a, *b]));
        let effects = both.iter().filter_map(|(a, b)| scale.effect(*a, *b));
        let effects: Vec<f64> = effects.collect();
        let effect = unit_effect_rounded(&effects, scale.rounding(&[both])).ok()?;
        Some((scale, effect))
    }

    /// Returns why the effects of two contenders are not independent, as far as they show it.
    fn doubt(&self, (i, j): (usize, usize), scale: Scale, units: &Units) -> Option<Doubt> {
        let (a, b) = (&self.contenders[i], &self.contenders[j]);
        let effects = a.units.iter().filter_map(|(unit, value)| {
            let (_, other) = b.units.iter().find(|(other, _)| other == unit)?;
            Some((unit.clone(), scale.effect(*value, *other)?))
        });
        let effects: Vec<(Vec<Scalar>, f64)> = effects.collect();
        let both = self.both(i, j);
        let sides = [|v: &(f64, f64)| v.0, |v: &(f64, f64)| v.1];
        let sides = sides.map(|side| both.iter().map(side).collect::<Vec<f64>>());
        let values: Vec<f64> = effects.iter().map(|(_, v)| *v).collect();
        let copied = (values.len() == both.len()).then(|| shared(&[(values, sides.to_vec())]));
        copied
            .flatten()
            .or_else(|| doubt_of_effects(units, effects))
    }

    /// The p value of two contenders over the units that have both. If no unit has both, the units count as
    /// independent.
    pub(super) fn p(&self, (i, j): (usize, usize), looks: Looks, units: &Units) -> Option<f64> {
        let (a, b) = (&self.contenders[i], &self.contenders[j]);
        if self.both(i, j).is_empty() {
            // Independent units have no test that holds at every look.
            return match looks {
                Looks::Once => independent([a, b], units),
                Looks::AfterEachBlock => None,
            };
        }
        let (scale, effect) = self.paired(i, j)?;
        let effect = match self.doubt((i, j), scale, units) {
            Some(doubt) => doubt.effect(&[effect]).ok()?,
            None => effect,
        };
        Some(looks.p(&effect))
    }

    /// Explains why units are not independent, as far as any two contenders show it. Global tests take them for independent.
    pub(super) fn dependence(&self, units: &Units) -> Option<String> {
        let n = self.contenders.len();
        let contest = |i: usize, j: usize| {
            let pair = [i, j].map(|at| &self.contenders[at]);
            let values = pair.iter().flat_map(|e| e.units.iter().map(|(_, v)| *v));
            let scale = scale(values);
            if !self.both(i, j).is_empty() {
                return self.doubt((i, j), scale, units).map(|doubt| doubt.note());
            }
            let sides = pair.map(|entry| entry.units.as_slice());
            let doubt = || doubt_of_sides(sides, scale, units).map(|doubt| doubt.note());
            on_unlike_groups(pair, units).or_else(doubt)
        };
        (0..n).find_map(|i| (i + 1..n).find_map(|j| contest(i, j)))
    }

    /// The values of each contender, if units exist and none has two contenders.
    pub(super) fn apart(&self) -> Option<Vec<Vec<f64>>> {
        let mut seen: Vec<&Vec<Scalar>> = Vec::new();
        for (unit, _) in self.contenders.iter().flat_map(|c| &c.units) {
            if seen.contains(&unit) {
                return None;
            }
            seen.push(unit);
        }
        let values = |entry: &Entry| entry.units.iter().map(|(_, v)| *v).collect();
        Some(self.contenders.iter().map(values).collect())
    }

    /// The values of every contender in each unit that has all of them.
    pub(super) fn blocks(&self) -> Vec<Vec<f64>> {
        let Some(first) = self.contenders.first() else {
            return Vec::new();
        };
        let block = |unit: &Vec<Scalar>| {
            let values = |entry: &Entry| {
                entry
                    .units
                    .iter()
                    .find(|(other, _)| other == unit)
                    .map(|(_, value)| *value)
            };
            self.contenders
                .iter()
                .map(values)
                .collect::<Option<Vec<f64>>>()
        };
        first
            .units
            .iter()
            .filter_map(|(unit, _)| block(unit))
            .collect()
    }
}

/// The scale of the comparison: ratios if all values are above 0, differences otherwise.
fn scale(mut values: impl Iterator<Item = f64>) -> Scale {
    match values.all(|v| v > 0.0) {
        true => Scale::Ratio,
        false => Scale::Difference,
    }
}

/// The number of random assignments of units to contenders with unlike numbers of them, and their seed.
const ASSIGNMENTS: usize = 1_999;
const SEED: u64 = 1;

/// Explains that the units of two contenders lie in different groups, such as on different days.
fn on_unlike_groups([a, b]: [&Entry; 2], units: &Units) -> Option<String> {
    let names = [a.label.as_str(), b.label.as_str()];
    let groups = a.groups.iter().zip(&b.groups).zip(units.axes());
    groups
        .into_iter()
        .find_map(|((a, b), axis)| Groups::refusal([a, b], names, axis))
}

/// Explains why the units of two contenders with no unit in common are not independent, as far as they show it.
fn doubt_of_sides(sides: [&[(Vec<Scalar>, f64)]; 2], scale: Scale, units: &Units) -> Option<Doubt> {
    let of_side = |side: usize, label: &[Scalar]| {
        let side = std::iter::once(Scalar::Int(side as i64));
        side.chain(label.iter().cloned()).collect::<Vec<Scalar>>()
    };
    let plain = sides.map(|side| side.iter().map(|(_, v)| *v).collect::<Vec<f64>>());
    let inward = |values: &Vec<f64>| values.iter().filter_map(|v| scale.inward(*v)).collect();
    let copied = plain
        .each_ref()
        .map(|values| (inward(values), vec![values.clone()]));
    if let Some(doubt) = shared(&copied) {
        return Some(doubt);
    }
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for (side, side_values) in sides.into_iter().enumerate() {
        for (label, value) in side_values {
            rows.push((of_side(side, label), label.clone()));
            values.push(Unit {
                label: of_side(side, label),
                side,
                value: scale.inward(*value)?,
            });
        }
    }
    doubt(units, &groupings(units.axes(), &rows), &values)
}

/// The p value of two contenders with no units in common. Welch's t finds too much if few skewed launches are compared with
/// many. If one contender has at least twice as many units, the p value is therefore at least that of exchanging labels.
fn independent(contenders: [&Entry; 2], units: &Units) -> Option<f64> {
    if on_unlike_groups(contenders, units).is_some() {
        return None;
    }
    let [a, b] = contenders.map(|entry| entry.units.as_slice());
    let scale = scale(a.iter().chain(b).map(|(_, v)| *v));
    let side = |units: &[(Vec<Scalar>, f64)]| {
        let values: Vec<f64> = units.iter().map(|(_, v)| *v).collect();
        let inward: Vec<f64> = values.iter().filter_map(|v| scale.inward(*v)).collect();
        let effect = unit_effect_rounded(&inward, scale.rounding_of(&[values])).ok()?;
        Some((inward, effect))
    };
    let ((first, one), (second, other)) = (side(a)?, side(b)?);
    let p = match doubt_of_sides([a, b], scale, units) {
        Some(doubt) => doubt.effect(&[one, other]).ok()?.p,
        None => indirect_effect(&one, &other).p,
    };
    let unlike = a.len().max(b.len()) >= 2 * a.len().min(b.len());
    let exchanged = unlike
        .then(|| permutation_test_welch(&first, &second, ASSIGNMENTS, SEED))
        .flatten();
    Some(exchanged.map_or(p, |exchanged| p.max(exchanged)))
}
