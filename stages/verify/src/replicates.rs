//! Cells that should be alike: repetitions of the same measurement.

use std::collections::BTreeMap;

use pipeline::design::BLOCK;

use crate::study::{Cell, Stage};

/// The axes whose labels count measurements and do not name a condition, outermost first.
const REPLICATES: [&str; 2] = [BLOCK, "rep"];

/// Returns the axes over which measurements of a stage repeat: the given one, or those of `block`
/// and `rep` that the stage has.
pub(crate) fn axes(stage: &Stage<'_>, given: Option<&str>) -> Vec<String> {
    match given {
        Some(axis) => vec![axis.to_owned()],
        None => REPLICATES
            .into_iter()
            .filter(|axis| stage.axes.iter().any(|a| a == axis))
            .map(str::to_owned)
            .collect(),
    }
}

/// Returns a cell's coordinates without the given axes, as text.
pub(crate) fn rest(cell: &Cell<'_>, axes: &[String]) -> String {
    let rest = cell.input.coordinates.0.iter();
    let rest = rest.filter(|(name, _)| !axes.contains(name)).cloned();
    pipeline::Coordinates(rest.collect()).to_string()
}

/// Returns the positions of the ok cells at each coordinate, with repetitions together.
pub(crate) fn groups(stage: &Stage<'_>, axes: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, cell) in stage.cells.iter().enumerate() {
        if cell.is_ok() {
            groups.entry(rest(cell, axes)).or_default().push(i);
        }
    }
    groups
}

/// Formats the names of axes for display.
pub(crate) fn named(axes: &[String]) -> String {
    if axes.is_empty() {
        "any axis".to_owned()
    } else {
        axes.join(" and ")
    }
}
