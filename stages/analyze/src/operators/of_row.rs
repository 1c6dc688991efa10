//! Parameters with one value for all rows of a table, or with a value in each row.

use artifacts::Scalar;
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::Frame;
use crate::operator::{Draft, at};

/// A value for all rows, or the column of the table `from` that has the value of each row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OfRow<T> {
    /// The same for all rows.
    All(T),
    /// The value of a column: `{column: NAME}`.
    Column(InColumn),
}

/// The name of a column of the table `from`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InColumn {
    /// The column of `from` that has the value.
    column: String,
}

impl<T> OfRow<T> {
    /// Returns the value for all rows; `None` if a column has it.
    pub(crate) fn all(&self) -> Option<&T> {
        match self {
            Self::All(value) => Some(value),
            Self::Column(_) => None,
        }
    }

    /// Returns the column, if one has the values.
    pub(crate) fn column(&self) -> Option<&str> {
        match self {
            Self::All(_) => None,
            Self::Column(named) => Some(&named.column),
        }
    }

    /// Returns what is wrong with the column of the parameter `key`, which needs a number in each row of `from`.
    pub(crate) fn number_problems(&self, draft: &Draft<'_>, from: &str, key: &str) -> Vec<Problem> {
        let Some(column) = self.column() else {
            return Vec::new();
        };
        let (scope, settings) = (&draft.scope, draft.settings);
        let numbers = scope.numbers(settings, (&at("from"), from), &[(route(key), column)]);
        numbers.err().unwrap_or_default()
    }

    /// Returns what is wrong with the column of the parameter `key`, which needs a text in each row of `from`.
    pub(crate) fn text_problems(&self, draft: &Draft<'_>, from: &str, key: &str) -> Vec<Problem> {
        let Some(column) = self.column() else {
            return Vec::new();
        };
        let specs = match draft.scope.table(draft.settings, &at("from"), from) {
            Ok(Some(specs)) => specs,
            Ok(None) => return Vec::new(),
            Err(problem) => return vec![problem],
        };
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        if names.contains(&column) {
            return Vec::new();
        }
        let message = format!("the table `{from}` has no column `{column}`");
        let problem = draft.settings.problem(&route(key), message);
        vec![problem.hint(remedy(&contract::usual_name(column), "columns", &names))]
    }
}

impl<T: std::fmt::Display> OfRow<T> {
    /// Returns the value, or the name of its column, for a description.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::All(value) => value.to_string(),
            Self::Column(named) => format!("`{}`", named.column),
        }
    }
}

/// Returns the route to the name of the column that a parameter gives.
fn route(key: &str) -> Vec<Step> {
    [at(key), at("column")].concat()
}

/// Returns a number above 0 for a row; `None` where the column is null.
///
/// # Errors
/// If the column has a number that is not above 0.
pub(crate) fn above_zero(
    given: &OfRow<f64>,
    from: &Frame,
    row: usize,
    key: &str,
) -> Result<Option<f64>, Failure> {
    in_row(given.column(), given.all().copied(), (from, row), key)
}

/// Returns a count above 0 for a row; `None` where the column is null.
///
/// # Errors
/// If the column has a number that is not a count above 0.
pub(crate) fn counted(
    given: &OfRow<u32>,
    from: &Frame,
    row: usize,
    key: &str,
) -> Result<Option<u32>, Failure> {
    let all = given.all().copied().map(f64::from);
    let Some(value) = in_row(given.column(), all, (from, row), key)? else {
        return Ok(None);
    };
    if value.fract() != 0.0 || value > f64::from(u32::MAX) {
        let message = format!("`{key}` is {value} in row {}", place(from, row));
        return Err(Failure::failed(message).hint("it must be a whole number"));
    }
    Ok(Some(value as u32))
}

fn in_row(
    column: Option<&str>,
    all: Option<f64>,
    (from, row): (&Frame, usize),
    key: &str,
) -> Result<Option<f64>, Failure> {
    let Some(value) = all.or_else(|| from.number(row, column?)) else {
        return Ok(None);
    };
    if value > 0.0 {
        return Ok(Some(value));
    }
    let message = format!("`{key}` is {value} in row {}", place(from, row));
    Err(Failure::failed(message).hint("it must be above 0"))
}

/// Returns the text of a row; null where the column is null.
pub(crate) fn text_of(given: &OfRow<String>, from: &Frame, row: usize) -> Scalar {
    match given {
        OfRow::All(all) => Scalar::Text(all.clone()),
        OfRow::Column(named) => match from.value(row, &named.column) {
            None | Some(Scalar::Null) => Scalar::Null,
            Some(value) => Scalar::Text(value.to_string()),
        },
    }
}

/// Returns the key of a row, in words.
pub(crate) fn place(from: &Frame, row: usize) -> String {
    let keys = from.keys.iter().zip(&from.rows[row].key);
    let labels: Vec<String> = keys
        .map(|(axis, label)| format!("{axis}={label}"))
        .collect();
    match labels.is_empty() {
        true => (row + 1).to_string(),
        false => labels.join(","),
    }
}
