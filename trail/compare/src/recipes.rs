//! Compares what decided the results: recipes field by field, and cells that only one side has.

use std::collections::BTreeMap;

use pipeline::Coordinates;
use pipeline::place::cell_text;
use serde::Serialize;

use crate::side::{Executed, Side};

/// A field that differs in the recipes of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecipeChange {
    /// The stage.
    pub stage: String,
    /// The field, with both values.
    pub what: String,
    /// The number of cells in which it differs.
    pub cells: usize,
    /// The number of cells that both studies have.
    #[serde(rename = "of")]
    pub common: usize,
}

/// A cell that only one side has, or that ended differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellChange {
    /// The cell.
    pub cell: String,
    /// Its status in the older study; `None` if it is absent.
    pub a: Option<String>,
    /// Its status in the newer study; `None` if it is absent.
    pub b: Option<String>,
}

/// Returns the fields in which recipes differ. Inputs of pure stages are left out, because their
/// differences follow from those reported for the stages above them.
pub(crate) fn changes(a: &Side<'_>, b: &Side<'_>) -> Vec<RecipeChange> {
    let place = |c: &Executed| (c.stage.clone(), Coordinates::canonical_text(&c.coordinates));
    let counterparts: BTreeMap<(String, String), &Executed> =
        a.cells.iter().map(|c| (place(c), c)).collect();
    let mut changes: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut common: BTreeMap<String, usize> = BTreeMap::new();
    for newer in &b.cells {
        let Some(older) = counterparts.get(&place(newer)) else {
            continue;
        };
        *common.entry(newer.stage.clone()).or_default() += 1;
        if older.record.key == newer.record.key {
            continue;
        }
        let differences = newer
            .record
            .recipe
            .differences(&older.record.recipe, &|digest| {
                a.peek(digest).or_else(|| b.peek(digest))
            });
        // The tables of an imported load differ because its rows do.
        let rows_differ = differences.iter().any(|d| d.path == "import.digest");
        for difference in differences {
            if rows_differ && difference.path.starts_with("import.tables.") {
                continue;
            }
            if difference.input.is_none()
                && difference.path != "study"
                && !difference.path.starts_with("study.")
            {
                *changes
                    .entry((newer.stage.clone(), difference.to_string()))
                    .or_default() += 1;
            }
        }
    }
    changes
        .into_iter()
        .map(|((stage, what), cells)| RecipeChange {
            common: common[&stage],
            stage,
            what,
            cells,
        })
        .collect()
}

/// Returns the cells that only one side has or that ended differently.
pub(crate) fn cells(a: &Side<'_>, b: &Side<'_>) -> Vec<CellChange> {
    let mut changes: BTreeMap<(&str, String), CellChange> = BTreeMap::new();
    for (side, is_newer) in [(a, false), (b, true)] {
        for stage in &side.lock.stages {
            for cell in &stage.cells {
                let place = (
                    stage.name.as_str(),
                    Coordinates::canonical_text(&cell.coordinates),
                );
                let change = changes.entry(place).or_insert_with(|| CellChange {
                    cell: String::new(),
                    a: None,
                    b: None,
                });
                // The newer study's spelling comes last, and stays.
                change.cell = cell_text(&stage.name, &cell.coordinates);
                let status = Some(cell.status.word().to_owned());
                *(if is_newer {
                    &mut change.b
                } else {
                    &mut change.a
                }) = status;
            }
        }
    }
    let mut changes: Vec<CellChange> = changes.into_values().filter(|c| c.a != c.b).collect();
    changes.sort_by(|a, b| a.cell.cmp(&b.cell));
    changes
}
