//! The result of evaluating a rule, and the words for the rows it rests on.

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::place::same_label;
use statistics::significant_without_zeros;

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
///
/// Numbers are rounded to six digits. If two of them differ but would read the same, all are written in full.
pub(super) fn rows_text(view: &View, rows: &[usize], columns: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = &rows[..rows.len().min(SHOWN)];
    let value = |row: usize, column: &str| view.value(row, column).unwrap_or(Scalar::Null);
    let values = shown
        .iter()
        .map(|row| columns.iter().map(|c| value(*row, c)).collect());
    let values: Vec<Vec<Scalar>> = values.collect();
    let text = texts(&values);
    let row_text = |(row, texts): (&usize, &Vec<String>)| {
        let pairs = columns.iter().zip(texts);
        let pairs: Vec<String> = pairs.map(|(c, text)| format!("{c} = {text}")).collect();
        format!("{}: {}", view.row_name(*row), pairs.join(", "))
    };
    let mut parts: Vec<String> = shown.iter().zip(&text).map(row_text).collect();
    if rows.len() > SHOWN {
        parts.push(format!("and {} more", rows.len() - SHOWN));
    }
    parts.join("; ")
}

/// Returns the text of each value.
fn texts(values: &[Vec<Scalar>]) -> Vec<Vec<String>> {
    let rounded = |value: &Scalar| match value {
        Scalar::Float(number) => significant_without_zeros(*number, 6),
        other => other.to_string(),
    };
    let mut numbers = BTreeMap::new();
    let floats = values.iter().flatten().filter_map(|value| match value {
        Scalar::Float(number) => Some((rounded(value), number.to_bits())),
        _ => None,
    });
    let ambiguous = floats
        .into_iter()
        .any(|(text, bits)| *numbers.entry(text).or_insert(bits) != bits);
    let text = |value: &Scalar| match (value, ambiguous) {
        (Scalar::Null, _) => "null".to_owned(),
        (_, true) => value.to_string(),
        (_, false) => rounded(value),
    };
    values
        .iter()
        .map(|row| row.iter().map(text).collect())
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_unless_two_would_then_read_the_same() {
        let row = |numbers: [f64; 2]| numbers.map(Scalar::Float).to_vec();
        let written = |rows: &[[f64; 2]]| texts(&rows.iter().map(|r| row(*r)).collect::<Vec<_>>());
        assert_eq!(
            written(&[[0.464_691_138_076_634_54, 3.0]]),
            [["0.464691", "3"]]
        );
        assert_eq!(
            written(&[[0.1, 0.1], [12_345_678.9, 1e-9]]),
            [["0.1", "0.1"], ["12345679", "1.00000e-9"]]
        );
        assert_eq!(
            written(&[[0.3, 0.1 + 0.2]]),
            [["0.3", "0.30000000000000004"]]
        );
        let others = [
            Scalar::Null,
            Scalar::Int(1_234_567),
            Scalar::Text("0.464691138".to_owned()),
        ];
        assert_eq!(
            texts(&[others.to_vec()]),
            [["null", "1234567", "0.464691138"]]
        );
    }
}
