//! Units that each have only some of the coordinates, as where launches take turns over workloads.
//!
//! Each value is centred on the mean of its coordinate, half of it the mean of each side. If every unit has every
//! coordinate, all units lose the same number, and their spread stays. Otherwise each unit is centred on means in which
//! it takes part itself, and the units of a side seem more alike than they are.

use std::collections::BTreeMap;

use artifacts::Scalar;

/// Returns the factor by which centring hides the standard error of the difference between two sides, at least 1: the
/// square root of the true variance ÷ the expected estimate from the spread of the units. If the units or the cells have
/// equal variances, both follow from the design alone; the larger factor counts. `sides` has the side of each unit, 0 or
/// 1, and `cells` the unit and the coordinate of each value.
pub(crate) fn widening(sides: &[usize], cells: &[(usize, Vec<Scalar>)]) -> f64 {
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::with_capacity(cells.len());
    for (unit, coordinate) in cells {
        let name: Vec<String> = coordinate.iter().map(ToString::to_string).collect();
        let next = at.len();
        places.push((*unit, *at.entry(name.join(", ")).or_insert(next)));
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
}
