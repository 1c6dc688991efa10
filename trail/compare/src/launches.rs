//! Units of a study that were measured on one launch, because the servers are not started again for each.
//!
//! What varies between launches is then the same for all of them, and looks like a change. Cells share a launch if they need
//! the same cell of a serve stage, if they have the same simulated server and block, or by their place in the design.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::design::{BLOCK, CONTROL};
use pipeline::lock::LockClass;
use pipeline::{Coordinates, Json};

use crate::side::{CompareError, Executed, Side};
use crate::surroundings::cells;

/// What to do about units that share launches.
const REMEDY: &str = "Launch the servers again for each unit: write `design: {blocks: 5}` and leave out `--unit`, or put the \
                      axis of the unit into the `over` of the serve stage";

/// What shared launches mean for the changes of a table, or of several: the axes along which units share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared(BTreeSet<String>);

impl Shared {
    /// Returns what shared launches mean for the changes of a table; `None` if no study's units share them.
    ///
    /// # Errors
    /// If the lineage of the table cannot be read.
    pub(crate) fn of(
        sides: [&Side<'_>; 2],
        table: &str,
        units: &[String],
    ) -> Result<Option<Self>, CompareError> {
        let mut axes = BTreeSet::new();
        for side in sides {
            axes.extend(shared(side, table, units)?);
        }
        Ok((!axes.is_empty()).then_some(Self(axes)))
    }

    /// Adds the shared launches of another table.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns the note on each column.
    pub(crate) fn note(&self) -> String {
        let axes: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let axes = axes.join(", ");
        format!(
            "the servers are not started again for each {axes}, so the units share launches, and this holds for these \
             launches only"
        )
    }

    /// Returns the note with the remedy.
    pub(crate) fn with_remedy(&self) -> String {
        format!("{}. {REMEDY}", self.note())
    }
}

/// Returns the axes of the units along which the loads behind a table share a launch.
fn shared(side: &Side<'_>, table: &str, units: &[String]) -> Result<Vec<String>, CompareError> {
    let behind: BTreeSet<String> = cells(side, table)?
        .into_iter()
        .map(|(_, cell)| cell)
        .collect();
    let resources = side.lock.stages.iter();
    let resources = resources.filter(|stage| stage.class == LockClass::Resource);
    let resources: BTreeSet<&str> = resources.map(|stage| stage.name.as_str()).collect();
    let mut first: BTreeMap<(String, &String), String> = BTreeMap::new();
    let mut axes = Vec::new();
    let loads = side.cells.iter();
    let loads = loads.filter(|cell| cell.record.recipe.kind == "load");
    for cell in loads.filter(|cell| behind.is_empty() || behind.contains(&cell.name())) {
        let Some(shared) = launch(cell, &resources) else {
            continue;
        };
        let at: Coordinates = cell.coordinates.parse().unwrap_or_default();
        for axis in units {
            let Some(label) = at.get(axis).map(ToString::to_string) else {
                continue;
            };
            let place = (format!("{} {shared}", cell.stage), axis);
            let other = first.entry(place).or_insert_with(|| label.clone());
            if *other != label && !axes.contains(axis) {
                axes.push(axis.clone());
            }
        }
    }
    Ok(axes)
}

/// Returns what identifies the launch that a load was measured on; `None` for a launch of its own.
fn launch(cell: &Executed, resources: &BTreeSet<&str>) -> Option<String> {
    let recipe = &cell.record.recipe;
    if let Some(simulated) = recipe.parameters.get("simulate") {
        let [server, name, slowdown] =
            ["server", "name", "slowdown"].map(|key| simulated.get(key).unwrap_or(&Json::Null));
        let replicate = recipe.replicate.0.iter();
        let of_launch = replicate.filter(|(axis, _)| axis == BLOCK || axis == CONTROL);
        let of_launch = Coordinates(of_launch.cloned().collect());
        return Some(format!("{server} {name} {slowdown} {of_launch}"));
    }
    if recipe.parameters.get("import").is_some() {
        return None;
    }
    let inputs = recipe.inputs.iter();
    let servers = inputs.filter(|input| resources.contains(input.stage.as_str()));
    let servers = servers.flat_map(|input| {
        let cells = input.cells.iter();
        cells.map(|server| format!("{}[{}]", input.stage, server.coordinates))
    });
    let servers: Vec<String> = servers.collect();
    match (servers.is_empty(), &cell.record.place) {
        (false, _) => Some(servers.join(" ")),
        (true, Some(place)) => Some(format!("block {} {}", place.block, place.launch)),
        (true, None) => None,
    }
}
