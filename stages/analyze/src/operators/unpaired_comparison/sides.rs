//! The two sides of an unpaired comparison, averaged within units.

use artifacts::Scalar;
use statistics::{Sample, UnitEffect, indirect_effect};

use crate::frame::Frame;
use crate::operators::comparison::{AtCoordinate, Extremes};
use crate::operators::incomplete;
use crate::operators::looks::Looks;
use crate::operators::resemblance::{self, Doubt};
use crate::operators::units::{Scale, Units, averaged, by_coordinate};

/// The values of one side, one per unit; without units, one per row.
pub(super) struct Side {
    /// The rows that have a value, at coordinates that the other side also has.
    pub(super) rows: Vec<usize>,
    /// The units, in the order of their values.
    pub(super) labels: Vec<Vec<Scalar>>,
    /// The mean of each unit.
    pub(super) values: Vec<f64>,
    /// The same on the scale, with each row centred on the mean of its coordinate, so that a missing coordinate does
    /// not shift its unit; `None` if a value has no place on the scale.
    pub(super) inward: Option<Vec<f64>>,
    /// The spread that rounding alone gives to the value of a unit.
    pub(super) rounding: f64,
    /// The reason why a value has no place on the scale.
    pub(super) refusal: Option<String>,
}

/// The inputs of a side.
pub(super) struct SideData<'a> {
    pub(super) from: &'a Frame,
    pub(super) column: &'a str,
    pub(super) scale: Scale,
    /// The positions of the unit axes.
    pub(super) unit: &'a [usize],
    pub(super) units: &'a Units,
    /// The positions of the other pooled axes.
    pub(super) within: &'a [usize],
}

impl SideData<'_> {
    /// Returns both sides, restricted to the coordinates that both have.
    pub(super) fn sides(&self, rows: &[Vec<usize>; 2]) -> [Side; 2] {
        let coordinate = |row: usize| self.from.key_at(row, self.within);
        let valued = rows.each_ref().map(|rows| {
            let number = |row: &usize| Some((*row, self.from.number(*row, self.column)?));
            rows.iter().filter_map(number).collect::<Vec<_>>()
        });
        if self.units.is_none() {
            return valued.map(|side| self.side(&side, &[]));
        }
        let mut grouped: Vec<(Vec<Scalar>, usize, f64)> = Vec::new();
        for (number, side) in valued.iter().enumerate() {
            grouped.extend(side.iter().map(|(row, v)| (coordinate(*row), number, *v)));
        }
        grouped.sort_by(|a, b| contract::compare_all(&a.0, &b.0).then(a.1.cmp(&b.1)));
        let centre = |group: &[(Vec<Scalar>, usize, f64)]| {
            let values_of = |side: usize| {
                let values = group.iter().filter(|(_, number, _)| *number == side);
                let values: Vec<f64> = values.map(|(_, _, v)| *v).collect();
                let inward = values.iter().filter_map(|v| self.scale.inward(*v));
                let inward = Sample::new(inward).ok().map_or(0.0, |s| s.mean());
                (!values.is_empty()).then_some(inward)
            };
            Some((
                group[0].0.clone(),
                f64::midpoint(values_of(0)?, values_of(1)?),
            ))
        };
        let centres: Vec<(Vec<Scalar>, f64)> = grouped
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(centre)
            .collect();
        valued.map(|side| {
            let shared = side.into_iter();
            let shared = shared.filter(|(row, _)| at(&centres, &coordinate(*row)).is_some());
            self.side(&shared.collect::<Vec<_>>(), &centres)
        })
    }

    /// Returns the smallest and the largest difference between the sides' means at one coordinate, on the scale, and whether both
    /// directions are shown. Units that resemble each other, and unlike numbers of them, show no direction.
    pub(super) fn extremes(
        &self,
        sides: &[Side; 2],
        (doubted, looks, alpha): (bool, Looks, f64),
    ) -> Option<Extremes> {
        let means = sides.each_ref().map(|side| {
            let values = side.rows.iter().map(|row| {
                let value = self.from.number(*row, self.column)?;
                Some((
                    self.from.key_at(*row, self.within),
                    self.scale.inward(value)?,
                ))
            });
            Some(averaged(values.collect::<Option<Vec<_>>>()?))
        });
        let [Some(a), Some(b)] = means else {
            return None;
        };
        let names = self.within.iter().map(|at| self.from.keys[*at].clone());
        let names: Vec<String> = names.collect();
        let effects = a.into_iter().filter_map(|(coordinate, of_a)| {
            let of_b = at(&b, &coordinate)?;
            Some((coordinate, of_a - of_b))
        });
        let effects: Vec<(Vec<Scalar>, f64)> = effects.collect();
        let coordinates = effects.iter().map(|(coordinate, _)| {
            let effect = self.effect_at(sides, coordinate).filter(|_| !doubted);
            (coordinate.clone(), effect)
        });
        let coordinates: Vec<AtCoordinate> = coordinates.collect();
        let extremes = Extremes::of(&names, effects)?;
        Some(extremes.tested(&names, &coordinates, (looks, alpha)))
    }

    /// Returns the effect at one coordinate; `None` if it cannot be judged.
    fn effect_at(&self, sides: &[Side; 2], coordinate: &[Scalar]) -> Option<UnitEffect> {
        if self.units.is_none() {
            return None;
        }
        let [a, b] = sides.each_ref().map(|side| {
            let rows = side.rows.iter();
            let rows = rows.filter(|row| self.from.key_at(**row, self.within) == coordinate);
            let values = rows.map(|row| {
                let value = self.from.number(*row, self.column)?;
                Some((self.from.key_at(*row, self.unit), value))
            });
            let values: Vec<(Vec<Scalar>, f64)> = values.collect::<Option<_>>()?;
            let raw = values.iter().map(|(_, value)| *value).collect();
            let inward = values
                .into_iter()
                .map(|(unit, value)| Some((unit, self.scale.inward(value)?)));
            let inward = averaged(inward.collect::<Option<Vec<_>>>()?);
            let inward: Vec<f64> = inward.into_iter().map(|(_, value)| value).collect();
            let rounding = self.scale.rounding_of(&[raw]);
            self.units.effect(&inward, rounding).ok()
        });
        let (a, b) = (a?, b?);
        let unlike = a.n.max(b.n) >= 2 * a.n.min(b.n);
        (!unlike).then(|| indirect_effect(&a, &b))
    }

    /// Returns the factor by which centring each row on the mean of its coordinate hides the spread of the units, where
    /// each unit has only some of the coordinates.
    pub(super) fn widening(&self, sides: &[Side; 2]) -> f64 {
        if self.units.is_none() {
            return 1.0;
        }
        let mut units: Vec<(usize, Vec<Scalar>)> = Vec::new();
        let mut cells = Vec::new();
        for (number, side) in sides.iter().enumerate() {
            for row in &side.rows {
                let unit = (number, self.from.key_at(*row, self.unit));
                let at = units.iter().position(|other| *other == unit);
                let at = at.unwrap_or_else(|| {
                    units.push(unit);
                    units.len() - 1
                });
                cells.push((at, self.from.key_at(*row, self.within)));
            }
        }
        let sides: Vec<usize> = units.iter().map(|(side, _)| *side).collect();
        incomplete::widening(&sides, &cells)
    }

    /// Returns how far the difference between the sides would move if each coordinate had the same weight.
    pub(super) fn reweighed(&self, sides: &[Side; 2]) -> f64 {
        if self.units.is_none() {
            return 0.0;
        }
        let of_side = |side: &Side| {
            let cell = |row: &usize| {
                let value = self.scale.inward(self.from.number(*row, self.column)?)?;
                let unit = self.from.key_at(*row, self.unit);
                Some((unit, self.from.key_at(*row, self.within), value))
            };
            let cells: Option<Vec<incomplete::Cell>> = side.rows.iter().map(cell).collect();
            let cells = cells.unwrap_or_default();
            let means = averaged(cells.iter().map(|(_, c, value)| (c.clone(), *value)));
            (cells, means)
        };
        let [a, b] = sides.each_ref().map(of_side);
        // Each row counts by its distance from the centre of its coordinate, as in the effect.
        let centred = |cells: &[incomplete::Cell]| {
            let cell = |(unit, coordinate, value): &incomplete::Cell| {
                let centre = f64::midpoint(at(&a.1, coordinate)?, at(&b.1, coordinate)?);
                Some((unit.clone(), coordinate.clone(), value - centre))
            };
            cells.iter().map(cell).collect::<Option<Vec<_>>>()
        };
        match centred(&a.0).zip(centred(&b.0)) {
            Some((a, b)) => incomplete::reweighed(&a) - incomplete::reweighed(&b),
            None => 0.0,
        }
    }

    /// Explains why the units are not independent, as far as they show it. `nested` has the axes within which they lie.
    pub(super) fn doubt(&self, sides: &[Side; 2], nested: &[usize]) -> Option<Doubt> {
        if self.units.is_none() {
            return None;
        }
        let inward = |side: &Side| side.inward.clone().unwrap_or_default();
        let of_sides = sides
            .each_ref()
            .map(|side| (inward(side), vec![side.values.clone()]));
        if let Some(doubt) = resemblance::shared(&of_sides) {
            return Some(doubt);
        }
        let of_side = |side: usize, label: Vec<Scalar>| {
            let side = std::iter::once(Scalar::Int(side as i64));
            side.chain(label).collect::<Vec<Scalar>>()
        };
        let axes: Vec<usize> = nested.iter().chain(self.unit).copied().collect();
        let names: Vec<String> = axes.iter().map(|at| self.from.keys[*at].clone()).collect();
        let (mut rows, mut units) = (Vec::new(), Vec::new());
        for (number, side) in sides.iter().enumerate() {
            rows.extend(side.rows.iter().map(|row| {
                let unit = of_side(number, self.from.key_at(*row, self.unit));
                (unit, self.from.key_at(*row, &axes))
            }));
            let values = side
                .labels
                .iter()
                .cloned()
                .zip(side.inward.iter().flatten());
            units.extend(values.map(|(label, value)| resemblance::Unit {
                label: of_side(number, label),
                side: number,
                value: *value,
            }));
        }
        resemblance::doubt(self.units, &resemblance::groupings(&names, &rows), &units)
    }

    fn side(&self, valued: &[(usize, f64)], centres: &[(Vec<Scalar>, f64)]) -> Side {
        let label = |row: usize| match self.units.is_none() {
            true => self.from.rows[row].key.clone(),
            false => self.from.key_at(row, self.unit),
        };
        let means = |values: Vec<(Vec<Scalar>, f64)>| -> (Vec<Vec<Scalar>>, Vec<f64>) {
            averaged(values).into_iter().unzip()
        };
        let whole = Sample::new(centres.iter().map(|(_, c)| *c)).ok();
        let whole = whole.map_or(0.0, |s| s.mean());
        let inward = valued.iter().map(|(row, value)| {
            let centre = at(centres, &self.from.key_at(*row, self.within)).unwrap_or(0.0);
            Some((label(*row), self.scale.inward(*value)? - centre + whole))
        });
        let values: Vec<f64> = valued.iter().map(|(_, v)| *v).collect();
        let (labels, means_of_units) =
            means(valued.iter().map(|(row, v)| (label(*row), *v)).collect());
        let strata = valued
            .iter()
            .map(|(row, value)| (self.from.key_at(*row, self.within), *value));
        Side {
            rows: valued.iter().map(|(row, _)| *row).collect(),
            inward: inward.collect::<Option<Vec<_>>>().map(|v| means(v).1),
            rounding: self.scale.rounding_of(&by_coordinate(strata)),
            labels,
            values: means_of_units,
            refusal: (values.iter().any(|v| self.scale.inward(*v).is_none()))
                .then(|| self.scale.refusal(self.column, &values)),
        }
    }
}

fn at(centres: &[(Vec<Scalar>, f64)], coordinate: &[Scalar]) -> Option<f64> {
    let place = centres.binary_search_by(|(other, _)| contract::compare_all(other, coordinate));
    place.ok().map(|i| centres[i].1)
}

impl Side {
    pub(super) fn sample(&self) -> Option<Sample> {
        Sample::new(self.values.iter().copied()).ok()
    }
}
