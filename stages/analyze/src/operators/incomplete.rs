//! Units that each have only some of the coordinates, as where launches take turns over workloads.
//!
//! Each value is centred on the mean of its coordinate, half of it the mean of each side. If every unit has every
//! coordinate, all units lose the same number, and their spread stays. Otherwise each unit is centred on means in which
//! it takes part itself, and the units of a side seem more alike than they are.

use std::collections::BTreeMap;

use artifacts::Scalar;

/// The alternating fits of units and coordinates. If one unit alone links a level with the others, as in ten units of five levels,
/// a hundred reach ten digits.
const FITS: usize = 200;

/// The standard errors beyond which levels differ by more than noise.
const NOISE: f64 = 2.0;

/// Returns the factor by which centring hides the standard error of the difference between two sides, at least 1: the
/// square root of the true variance ÷ the expected estimate from the spread of the units. If the units or the cells have
/// equal variances, both follow from the design alone; the larger factor counts. `sides` has the side of each unit, 0 or
/// 1, and `cells` the unit and the coordinate of each value.
pub(crate) fn widening(sides: &[usize], cells: &[(usize, Vec<Scalar>)]) -> f64 {
    let mut at: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut places = Vec::with_capacity(cells.len());
    for (unit, coordinate) in cells {
        let next = at.len();
        places.push((*unit, *at.entry(names(coordinate)).or_insert(next)));
    }
    if places.is_empty() || places.len() == sides.len() * at.len() {
        return 1.0;
    }
    let of_units: Vec<usize> = places.iter().map(|(unit, _)| *unit).collect();
    let of_cells: Vec<usize> = (0..places.len()).collect();
    let ratio = |sources: &[usize]| ratio(sides, &places, at.len(), sources);
    ratio(&of_units).max(ratio(&of_cells)).max(1.0).sqrt()
}

/// Returns the true variance ÷ its expected estimate, if each cell has the value of its source and all sources have the
/// same variance.
fn ratio(sides: &[usize], cells: &[(usize, usize)], coordinates: usize, sources: &[usize]) -> f64 {
    let count = sources.iter().max().map_or(0, |last| last + 1);
    let mut sizes = vec![0.0; sides.len()];
    let mut present = vec![[0.0; 2]; coordinates];
    for (unit, coordinate) in cells {
        sizes[*unit] += 1.0;
        present[*coordinate][sides[*unit]] += 1.0;
    }
    // The centre of each coordinate, as a linear function of the sources.
    let mut centres = vec![vec![0.0; count]; coordinates];
    for ((unit, coordinate), source) in cells.iter().zip(sources) {
        centres[*coordinate][*source] += 0.5 / present[*coordinate][sides[*unit]];
    }
    // The value of each unit.
    let mut values = vec![vec![0.0; count]; sides.len()];
    for ((unit, coordinate), source) in cells.iter().zip(sources) {
        values[*unit][*source] += 1.0 / sizes[*unit];
        for (value, centre) in values[*unit].iter_mut().zip(&centres[*coordinate]) {
            *value -= centre / sizes[*unit];
        }
    }
    let mut difference = vec![0.0; count];
    let mut estimate = 0.0;
    for side in [0, 1] {
        let own = (0..sides.len()).filter(|unit| sides[*unit] == side);
        let own: Vec<&Vec<f64>> = own.map(|unit| &values[unit]).collect();
        let n = own.len() as f64;
        for (at, total) in difference.iter_mut().enumerate() {
            let mean = own.iter().map(|unit| unit[at]).sum::<f64>() / n;
            let squares = own.iter().map(|unit| (unit[at] - mean).powi(2));
            estimate += squares.sum::<f64>() / (n - 1.0) / n;
            *total += if side == 0 { mean } else { -mean };
        }
    }
    let variance: f64 = difference.iter().map(|d| d * d).sum();
    Some(variance / estimate)
        .filter(|r| r.is_finite())
        .unwrap_or(1.0)
}

/// The unit, the coordinate and the value of a cell.
pub(crate) type Cell = (Vec<Scalar>, Vec<Scalar>, f64);

/// Returns how far the mean over units of values, each averaged over the coordinates that its unit has, would move if each
/// coordinate had the same weight. It is 0 if noise alone explains the move.
///
/// The effects of the coordinates come from an additive fit of units and coordinates, so what all cells of a unit share does not
/// count. Where units do not link coordinates, as where each has a single one, the values do not separate the two, and the
/// coordinate counts for nothing.
pub(crate) fn reweighed(cells: &[Cell]) -> f64 {
    let layout = Layout::of(cells);
    if layout.is_complete() {
        return 0.0;
    }
    let effects = layout.effects(cells);
    let of_units = layout.by_unit(&|cell| effects[layout.coordinates[cell]]);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let shift = mean(&effects) - mean(&of_units);
    match layout.standard_error(cells, &effects) {
        Some(error) if shift.abs() > NOISE * error => shift,
        _ => 0.0,
    }
}

/// Which unit and which coordinate each cell has, as numbers.
struct Layout {
    units: Vec<usize>,
    coordinates: Vec<usize>,
    /// The number of cells of each unit.
    per_unit: Vec<usize>,
    /// The number of cells of each coordinate.
    per_coordinate: Vec<usize>,
}

impl Layout {
    fn of(cells: &[Cell]) -> Self {
        let (units, per_unit) = numbers(cells.iter().map(|(unit, _, _)| unit));
        let (coordinates, per_coordinate) = numbers(cells.iter().map(|(_, at, _)| at));
        Self {
            units,
            coordinates,
            per_unit,
            per_coordinate,
        }
    }

    /// Whether there is one coordinate, or each unit has each coordinate once.
    fn is_complete(&self) -> bool {
        let (units, coordinates) = (self.per_unit.len(), self.per_coordinate.len());
        coordinates < 2
            || self.per_unit.iter().all(|n| *n == coordinates)
                && self.per_coordinate.iter().all(|n| *n == units)
    }

    fn by_unit(&self, value: &dyn Fn(usize) -> f64) -> Vec<f64> {
        means(&self.units, &self.per_unit, value)
    }

    fn by_coordinate(&self, value: &dyn Fn(usize) -> f64) -> Vec<f64> {
        means(&self.coordinates, &self.per_coordinate, value)
    }

    /// Returns the effects of the coordinates in an additive fit.
    fn effects(&self, cells: &[Cell]) -> Vec<f64> {
        let mut effects = vec![0.0; self.per_coordinate.len()];
        for _ in 0..FITS {
            let bases = self.by_unit(&|cell| cells[cell].2 - effects[self.coordinates[cell]]);
            effects = self.by_coordinate(&|cell| cells[cell].2 - bases[self.units[cell]]);
        }
        effects
    }

    /// Returns the standard error of the shift, a contrast of the effects in a linear model; `None` without degrees of freedom,
    /// where nothing tells noise from effects.
    fn standard_error(&self, cells: &[Cell], effects: &[f64]) -> Option<f64> {
        let (units, coordinates) = (self.per_unit.len(), self.per_coordinate.len());
        let df = (cells.len() + 1).saturating_sub(units + coordinates);
        if df == 0 {
            return None;
        }
        let mut weights = vec![1.0 / coordinates as f64; coordinates];
        for (unit, coordinate) in self.units.iter().zip(&self.coordinates) {
            weights[*coordinate] -= 1.0 / (self.per_unit[*unit] * units) as f64;
        }
        let mut solved = vec![0.0; coordinates];
        for _ in 0..FITS {
            let bases = self.by_unit(&|cell| solved[self.coordinates[cell]]);
            let back = self.by_coordinate(&|cell| bases[self.units[cell]]);
            let step = |at: usize| back[at] + weights[at] / self.per_coordinate[at] as f64;
            solved = (0..coordinates).map(step).collect();
        }
        let fitted = |cell: usize| effects[self.coordinates[cell]];
        let bases = self.by_unit(&|cell| cells[cell].2 - fitted(cell));
        let rest = |cell: usize| cells[cell].2 - bases[self.units[cell]] - fitted(cell);
        let squares: f64 = (0..cells.len()).map(|cell| rest(cell).powi(2)).sum();
        let variance: f64 = weights.iter().zip(&solved).map(|(w, s)| w * s).sum();
        Some((variance.max(0.0) * squares / df as f64).sqrt())
    }
}

/// Returns a number for each label, in the order in which they come, and how often each number comes.
fn numbers<'a>(labels: impl Iterator<Item = &'a Vec<Scalar>>) -> (Vec<usize>, Vec<usize>) {
    let mut at: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut sizes = Vec::new();
    let mut places = Vec::new();
    for label in labels {
        let next = at.len();
        let place = *at.entry(names(label)).or_insert(next);
        sizes.resize(at.len(), 0);
        sizes[place] += 1;
        places.push(place);
    }
    (places, sizes)
}

/// Returns the mean value of the cells of each place.
fn means(places: &[usize], sizes: &[usize], value: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; sizes.len()];
    for (cell, place) in places.iter().enumerate() {
        sums[*place] += value(cell);
    }
    let mean = |(sum, n): (&f64, &usize)| sum / *n as f64;
    sums.iter().zip(sizes).map(mean).collect()
}

fn names(labels: &[Scalar]) -> Vec<String> {
    labels.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The factor where launches take turns over workloads, `each` at a time.
    fn turns(launches: usize, each: usize, workloads: usize) -> f64 {
        let sides: Vec<usize> = (0..2 * launches).map(|unit| unit / launches).collect();
        let cells = (0..2 * launches).flat_map(|unit| {
            let first = unit % launches * each;
            (0..each).map(move |j| (unit, vec![Scalar::Int(((first + j) % workloads) as i64)]))
        });
        widening(&sides, &cells.collect::<Vec<_>>())
    }

    #[test]
    fn only_units_without_some_coordinates_hide_spread() {
        assert_eq!(turns(6, 6, 6), 1.0);
        assert_eq!(turns(6, 1, 1), 1.0);
        let rotation = turns(6, 2, 6);
        assert!((1.05..1.4).contains(&rotation), "{rotation}");
        assert!(turns(12, 2, 6) < rotation);
    }

    /// The cells of ten units, of which those from `few` on have the last two of five levels. `level` gives the effect of a level;
    /// what the cells of a unit share does not count.
    fn cells(few: i64, level: fn(i64) -> f64) -> Vec<Cell> {
        let cells = (0..10).flat_map(|unit| (0..5).map(move |at| (unit, at)));
        let cells = cells.filter(|(unit, at)| *at < 3 || *unit >= few);
        let cell = |(unit, at): (i64, i64)| {
            let value = level(at) + 0.3 * unit as f64;
            (vec![Scalar::Int(unit)], vec![Scalar::Int(at)], value)
        };
        cells.map(cell).collect()
    }

    #[test]
    fn levels_that_most_units_lack_count_like_the_others() {
        let falls = |at: i64| if at < 3 { 0.06 } else { -0.2 };
        let near = |ours: f64, expected: f64| assert!((ours - expected).abs() < 1e-9, "{ours}");
        assert_eq!(reweighed(&cells(0, falls)), 0.0);
        // The plain mean is (9 · 0.06 − 0.044) ÷ 10, and that of levels −0.044.
        near(reweighed(&cells(9, falls)), -0.044 - 0.0496);
        near(reweighed(&cells(9, |_| 0.06)), 0.0);
        // Units with one coordinate each, or with their own seeds, share no levels.
        let alone = |unit: i64| {
            (
                vec![Scalar::Int(unit)],
                vec![Scalar::Int(unit % 3)],
                0.1 * unit as f64,
            )
        };
        near(reweighed(&(0..10).map(alone).collect::<Vec<_>>()), 0.0);
        let seed = |unit: i64, seed: i64| {
            let value = 0.1 * (unit * 7 + seed) as f64;
            (
                vec![Scalar::Int(unit)],
                vec![Scalar::Int(100 * unit + seed)],
                value,
            )
        };
        let seeds = (0..10).flat_map(|unit| (0..=unit).map(move |own| seed(unit, own)));
        near(reweighed(&seeds.collect::<Vec<_>>()), 0.0);
    }

    #[test]
    fn cells_that_differ_by_noise_alone_move_nothing() {
        // One unit of five has further repetitions, whose labels the others lack.
        let mut moved = 0;
        for study in 0..200_u64 {
            let mut state = study;
            let mut noise = || {
                let mut draw = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
                };
                (0..12).map(|_| draw()).sum::<f64>()
            };
            let mut cells = Vec::new();
            for unit in 0..5 {
                for level in 0..if unit == 0 { 8 } else { 3 } {
                    let value = 0.08 + 0.08 * noise();
                    cells.push((vec![Scalar::Int(unit)], vec![Scalar::Int(level)], value));
                }
            }
            moved += usize::from(reweighed(&cells) != 0.0);
        }
        // Two standard errors, with eight degrees of freedom: 8 %.
        assert!(moved <= 30, "{moved}");
        // Without degrees of freedom, nothing is known of the noise.
        let cell = |(unit, level): (i64, i64)| {
            let value = if level == 0 { 0.1 } else { -0.4 };
            (vec![Scalar::Int(unit)], vec![Scalar::Int(level)], value)
        };
        let first = (0..8).map(|level| (0, level));
        let cells: Vec<Cell> = first
            .chain((1..5).map(|unit| (unit, 0)))
            .map(cell)
            .collect();
        assert_eq!(reweighed(&cells), 0.0);
    }
}
