//! The result of evaluating a rule, and the words for the rows it rests on.

use artifacts::Scalar;
use pipeline::place::same_label;

use super::predicate::Truth;
use super::rule::Only;
use crate::data::Miss;
use crate::language::declared;
use crate::view::View;

/// The result of evaluating a rule.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// Whether it holds.
    pub(crate) truth: Truth,
    /// The examined rows; `None` for rules made of rules.
    pub(crate) view: Option<View>,
    /// The number of those rows that meet the predicate.
    pub(crate) count: Option<usize>,
    /// The rows that contradict it, by position in the view.
    pub(crate) against: Vec<usize>,
    /// Rows with a name: `row`, `lowest`, `highest`, `from`, `to`.
    pub(crate) named: Vec<(&'static str, usize)>,
    /// Computed values that no row contains: name, value, unit.
    pub(crate) values: Vec<(&'static str, Scalar, Option<String>)>,
    /// Why it does not hold, or what was found.
    pub(crate) reason: String,
}

impl Judgement {
    pub(super) fn new(view: &View, truth: Truth, against: Vec<usize>, reason: String) -> Self {
        let n = Scalar::Int(i64::try_from(view.rows.len()).unwrap_or(i64::MAX));
        Self {
            truth,
            view: Some(view.clone()),
            count: None,
            against,
            named: Vec::new(),
            values: vec![("n", n, None)],
            reason,
        }
    }

    pub(super) fn counted(mut self, count: usize) -> Self {
        self.count = Some(count);
        self.values.push((
            "count",
            Scalar::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            None,
        ));
        self
    }

    /// Returns the number of rows examined.
    pub(crate) fn n(&self) -> Option<usize> {
        self.view.as_ref().map(|v| v.rows.len())
    }
}

/// Writes rows with the values of some columns: `workload=a: x = 3, y = null`.
pub(super) fn rows_text(view: &View, rows: &[usize], columns: &[&str]) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> = rows
        .iter()
        .take(SHOWN)
        .map(|row| {
            let values = columns.iter().map(|c| match view.get(*row, c) {
                Ok(Scalar::Null) | Err(_) => format!("{c} = null"),
                Ok(value) => format!("{c} = {value}"),
            });
            format!(
                "{}: {}",
                view.row_name(*row),
                values.collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    if rows.len() > SHOWN {
        parts.push(format!("and {} more", rows.len() - SHOWN));
    }
    parts.join("; ")
}

/// Whether a row has the values of a condition.
pub(super) fn is_one(view: &View, row: usize, only: &Only) -> Result<bool, Miss> {
    for (column, values) in declared(only).0 {
        let actual = view.get(row, &column)?;
        if !values.iter().any(|v| same_label(v, &actual)) {
            return Ok(false);
        }
    }
    Ok(true)
}
