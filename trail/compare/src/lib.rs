//! Two studies side by side: what changed in recipe, environment, verdicts and results, and
//! what the units of replication of both say of a change of the results.
//!
//! A [`Side`] is a lock with the store its records lie in. [`compare`] reads both; nothing is
//! executed and nothing is written.

mod documents;
mod gate;
mod numbers;
pub mod operating;
mod recipes;
mod results;
mod side;
mod surroundings;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod units;

use serde::Serialize;

pub use documents::DocumentChange;
pub use gate::{GateResult, Outcome};
pub use numbers::NumberChange;
pub use recipes::{CellChange, RecipeChange};
pub use results::{ChangeVerdict, Direction, ResultChange, Rule, Test};
pub use side::{CompareError, Side};
pub use tables::VerdictChange;

/// Everything in which two studies differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Fields of recipes that differ, with how many cells.
    pub recipes: Vec<RecipeChange>,
    /// Cells that only one of them has, or that ended otherwise.
    pub cells: Vec<CellChange>,
    /// What differs in the descriptors of machines and servers.
    pub environment: Vec<DocumentChange>,
    /// Verdicts in words, and gates, that differ.
    pub verdicts: Vec<VerdictChange>,
    /// Every measured result that both have, with the test of its change.
    pub results: Vec<ResultChange>,
    /// Every column whose better way is known, over all coordinates: what a gate is made of.
    pub gate: Vec<GateResult>,
    /// Numbers of the reports that differ.
    pub numbers: Vec<NumberChange>,
    /// How many numbers the reports have in common.
    pub numbers_compared: usize,
}

/// Returns the names of all conditions of measuring that are compared.
pub fn conditions() -> Vec<&'static str> {
    conditions::names()
}

impl Comparison {
    /// Returns what a gate says of all columns together.
    pub fn outcome(&self) -> Outcome {
        gate::outcome(&self.gate)
    }
}

/// Compares an older study with a newer one.
///
/// # Errors
/// If a record or an artifact cannot be read.
pub fn compare(a: &Side<'_>, b: &Side<'_>, rule: &Rule) -> Result<Comparison, CompareError> {
    let (numbers, numbers_compared) = numbers::changes(a, b)?;
    let (results, columns) = results::changes(a, b, rule)?;
    Ok(Comparison {
        recipes: recipes::changes(a, b),
        cells: recipes::cells(a, b),
        environment: documents::changes(a, b)?,
        verdicts: tables::verdicts(a, b)?,
        results,
        gate: gate::judge(&columns, rule),
        numbers,
        numbers_compared,
    })
}
