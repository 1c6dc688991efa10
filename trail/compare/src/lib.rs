//! Compares two studies: what changed in recipe, environment, verdicts and results, and what the
//! units of replication of both show about a change of the results.
//!
//! A [`Side`] is a lock with the store that holds its records. [`compare`] reads both sides. It
//! executes nothing and writes nothing.

mod axes;
mod dependence;
mod documents;
mod gate;
mod hints;
mod launches;
mod numbers;
pub mod operating;
mod recipes;
mod requests;
mod results;
mod side;
mod surroundings;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod units;

use serde::Serialize;

pub use axes::AxisChange;
pub use documents::DocumentChange;
pub use gate::{GateResult, Outcome};
pub use numbers::NumberChange;
pub use recipes::{CellChange, RecipeChange};
pub use results::{ChangeVerdict, ResultChange, Rule, Test, USUAL};
pub use side::{CompareError, Side};
pub use tables::VerdictChange;

/// All differences between two studies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Axes of the measurements whose labels differ, apart from those that number repetitions.
    pub axes: Vec<AxisChange>,
    /// Fields of recipes that differ, with the number of cells.
    pub recipes: Vec<RecipeChange>,
    /// Cells that only one study has, or that ended differently.
    pub cells: Vec<CellChange>,
    /// Differences in the descriptors of machines and servers.
    pub environment: Vec<DocumentChange>,
    /// Verdicts and gate outcomes that differ.
    pub verdicts: Vec<VerdictChange>,
    /// Every measured result that both studies have, with the test of its change.
    pub results: Vec<ResultChange>,
    /// Every column with a known better direction, and every named one, over all coordinates: the input of a gate.
    pub gate: Vec<GateResult>,
    /// That the units share launches, and what helps; `None` if they do not.
    pub shared_launches: Option<String>,
    /// The number of tables of cells that both studies have.
    #[serde(skip)]
    pub(crate) tables: usize,
    /// Numbers of the reports that differ.
    pub numbers: Vec<NumberChange>,
    /// The number of numbers that both reports have.
    pub numbers_compared: usize,
}

/// Returns the names of all compared measuring conditions.
pub fn conditions() -> Vec<&'static str> {
    conditions::names()
}

impl Comparison {
    /// Returns the joint outcome of the gate over all columns.
    pub fn outcome(&self) -> Outcome {
        gate::outcome(&self.gate)
    }

    /// Returns the number of tables of cells that both studies have.
    pub fn tables_of_cells(&self) -> usize {
        self.tables
    }

    /// Returns how many results were tested, and share the level.
    pub fn tested(&self) -> usize {
        self.results.iter().filter(|r| r.p.is_some()).count()
    }

    /// Returns what helps against the undecidable columns of the gate, each remedy once.
    pub fn remedies(&self) -> Vec<&'static str> {
        let undecidable = self.gate.iter();
        let undecidable = undecidable.filter(|g| g.outcome == Outcome::Undecidable);
        let mut remedies: Vec<&'static str> = Vec::new();
        for hint in undecidable.filter_map(|g| g.hint) {
            if !remedies.contains(&hint) {
                remedies.push(hint);
            }
        }
        remedies
    }
}

/// Compares an older study with a newer one.
///
/// # Errors
/// If a record or an artifact cannot be read.
pub fn compare(a: &Side<'_>, b: &Side<'_>, rule: &Rule) -> Result<Comparison, CompareError> {
    let (numbers, numbers_compared) = numbers::changes(a, b)?;
    let changes = results::changes(a, b, rule)?;
    Ok(Comparison {
        axes: axes::changes(a, b),
        recipes: recipes::changes(a, b),
        cells: recipes::cells(a, b),
        environment: documents::changes(a, b)?,
        verdicts: tables::verdicts(a, b)?,
        gate: gate::judge(&changes.columns, rule),
        results: changes.results,
        shared_launches: changes.shared.map(|shared| shared.with_remedy()),
        tables: changes.tables,
        numbers,
        numbers_compared,
    })
}
