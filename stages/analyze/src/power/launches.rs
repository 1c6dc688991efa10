//! Whether the units of a comparison share launches.
//!
//! What varies between launches is the same for all cells of a launch. If it differs between the sides of a unit, and
//! another unit has the same difference, the units are not independent.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::design::BLOCK;

use super::{LoadCell, LoadStage, SharedLaunches};

/// The launches of each side of a unit.
type Sides = BTreeMap<String, BTreeSet<usize>>;

/// Returns the units of cells that share launches; `None` if each has its own, if the sides of every unit are measured on
/// the same launches, or if the cells lack an axis of the units. `sides` has an axis and the compared labels, which are all of
/// its labels if none is given.
pub(super) fn shared(
    load: &LoadStage,
    (axis, sides): (&str, &[&str]),
    unit: &[String],
) -> Option<SharedLaunches> {
    let mut units: BTreeMap<Vec<String>, Sides> = BTreeMap::new();
    for cell in &load.cells {
        // A query may have made the sides. Then each cell counts as one side.
        let side = label(cell, axis).unwrap_or_default();
        if !side.is_empty() && !sides.is_empty() && !sides.contains(&side.as_str()) {
            continue;
        }
        let labels = unit.iter().map(|axis| label(cell, axis));
        let of_unit = units.entry(labels.collect::<Option<_>>()?).or_default();
        of_unit.entry(side).or_default().insert(cell.launch);
    }
    let mut readers: BTreeMap<usize, Vec<&Vec<String>>> = BTreeMap::new();
    for (labels, sides) in &units {
        for launch in uncancelled(sides) {
            readers.entry(launch).or_default().push(labels);
        }
    }
    let differ = |at: &usize| {
        let unlike = |units: &Vec<&Vec<String>>| units.iter().any(|u| u[*at] != units[0][*at]);
        readers.values().any(unlike)
    };
    let (within, apart): (Vec<usize>, Vec<usize>) = (0..unit.len()).partition(differ);
    let mut of_sides = Sides::new();
    for (side, launches) in units.values().flatten() {
        of_sides.entry(side.clone()).or_default().extend(launches);
    }
    let named =
        |at: Vec<usize>| -> Vec<String> { at.into_iter().map(|at| unit[at].clone()).collect() };
    let in_blocks = load.cells.iter().any(|cell| cell.at.get(BLOCK).is_some());
    (!within.is_empty()).then(|| SharedLaunches {
        unit: unit.to_vec(),
        within: named(within),
        instead: match apart.is_empty() && in_blocks {
            true => vec![BLOCK.to_owned()],
            false => named(apart),
        },
        units: units.len(),
        launches: of_sides.values().map(BTreeSet::len).min().unwrap_or(0),
    })
}

fn label(cell: &LoadCell, axis: &str) -> Option<String> {
    Some(cell.at.get(axis)?.to_string())
}

/// Returns the launches of a unit that not all of its sides have. What the others share cancels in a difference of sides.
fn uncancelled(sides: &Sides) -> BTreeSet<usize> {
    let all: BTreeSet<usize> = sides.values().flatten().copied().collect();
    let of_all = |launch: &usize| sides.len() > 1 && sides.values().all(|s| s.contains(launch));
    all.into_iter().filter(|launch| !of_all(launch)).collect()
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;
    use pipeline::Coordinates;

    use super::*;

    /// Returns what is shared by cells of two sides, three days and two repetitions, given the launch of each.
    fn of(launch: impl Fn(usize, usize, usize) -> usize, unit: &[&str]) -> Option<SharedLaunches> {
        let mut cells = Vec::new();
        for (side, day, rep) in (0..12).map(|i| (i / 6, i / 2 % 3, i % 2)) {
            let axes = [("side", side), ("day", day), ("rep", rep)];
            let label = |(axis, at): (&str, usize)| (axis.to_owned(), Scalar::Int(at as i64));
            cells.push(LoadCell {
                at: Coordinates(axes.into_iter().map(label).collect()),
                seat: None,
                launch: launch(side, day, rep),
                requests: None,
            });
        }
        let stage = "ladder".to_owned();
        let unit: Vec<String> = unit.iter().map(|axis| (*axis).to_owned()).collect();
        shared(&LoadStage { stage, cells }, ("side", &["0", "1"]), &unit)
    }

    #[test]
    fn units_share_launches_that_do_not_cancel() {
        let shared = |within: &[&str], units: usize, launches: usize| {
            let within: Vec<String> = within.iter().map(|axis| (*axis).to_owned()).collect();
            Some((within, units, launches))
        };
        let seen = |launch: fn(usize, usize, usize) -> usize, unit: &[&str]| {
            of(launch, unit).map(|s| (s.within, s.units, s.launches))
        };
        // One launch of each side.
        let once = |side, _, _| side;
        assert_eq!(seen(once, &["rep"]), shared(&["rep"], 2, 1));
        assert_eq!(seen(once, &["day", "rep"]), shared(&["day", "rep"], 6, 1));
        // Each day launches both sides.
        let daily = |side: usize, day: usize, _| 3 * side + day;
        assert_eq!(seen(daily, &["day"]), None);
        assert_eq!(seen(daily, &["day", "rep"]), shared(&["rep"], 6, 3));
        assert_eq!(seen(daily, &["rep"]), shared(&["rep"], 2, 3));
        // Each day launches one side, and the other was launched once.
        let one_baseline = |side: usize, day: usize, _| if side == 0 { day } else { 9 };
        assert_eq!(seen(one_baseline, &["day"]), shared(&["day"], 3, 1));
        // Both sides are loads of the same launch, so that its speed cancels.
        assert_eq!(seen(|_, _, _| 0, &["rep"]), None);
        assert_eq!(seen(|_, day, _| day, &["day", "rep"]), None);
        // Each cell is a launch, and an axis that a query made.
        let each = |side, day, rep| side * 6 + day * 2 + rep;
        assert_eq!(seen(each, &["day", "rep"]), None);
        assert_eq!(seen(once, &["night"]), None);
    }
}
