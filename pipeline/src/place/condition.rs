//! Conditions: which rows of a table, or which cells, are requested.

use std::fmt;
use std::str::FromStr;

use artifacts::Scalar;

use super::label::{push_label, push_name, same_label};
use super::{Coordinates, PlaceError, Reader};

/// Columns or axes, each with labels; one of them must match. An empty condition matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition(pub Vec<(String, Vec<Scalar>)>);

impl Condition {
    /// Returns the labels that a column must have; `None` if the condition does not name the column.
    pub fn labels(&self, column: &str) -> Option<&[Scalar]> {
        let pair = self.0.iter().find(|(name, _)| name == column);
        pair.map(|(_, labels)| labels.as_slice())
    }

    /// Returns the columns that the condition names.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(column, _)| column.as_str())
    }

    /// Returns whether a label matches in a column; true if the condition does not name the column.
    pub fn allows(&self, column: &str, label: &Scalar) -> bool {
        self.labels(column)
            .is_none_or(|wanted| wanted.iter().any(|w| same_label(w, label)))
    }

    /// Returns whether coordinates match; axes that the condition does not name always do.
    pub fn agrees(&self, coordinates: &Coordinates) -> bool {
        coordinates
            .0
            .iter()
            .all(|(axis, label)| self.allows(axis, label))
    }

    /// Returns the number of label combinations that match.
    pub fn combinations(&self) -> Option<usize> {
        self.0
            .iter()
            .try_fold(1usize, |n, (_, labels)| n.checked_mul(labels.len()))
    }
}

impl From<Coordinates> for Condition {
    fn from(coordinates: Coordinates) -> Self {
        let pairs = coordinates.0.into_iter();
        Self(pairs.map(|(axis, label)| (axis, vec![label])).collect())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (column, labels) in &self.0 {
            if !text.is_empty() {
                text.push_str(if f.alternate() { ", " } else { "," });
            }
            push_name(&mut text, column);
            text.push('=');
            if labels.is_empty() {
                text.push_str("()");
            }
            for (i, label) in labels.iter().enumerate() {
                if i > 0 {
                    text.push('|');
                }
                push_label(&mut text, label);
            }
        }
        f.write_str(&text)
    }
}

impl FromStr for Condition {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut reader = Reader::new(text);
        let condition = reader.condition()?;
        reader.end()?;
        Ok(condition)
    }
}

/// Returns a condition with a space after each comma between its parts, so that a long one can break across lines.
/// Returns other text unchanged.
pub fn spaced(text: &str) -> String {
    text.parse::<Condition>()
        .map_or_else(|_| text.to_owned(), |condition| format!("{condition:#}"))
}
