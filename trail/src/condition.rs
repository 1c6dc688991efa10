//! The conditions that a trace writes: `a=x|y,b=z`.

use artifacts::{Scalar, Table};

use crate::provenance::Holder;

/// Columns, and the values of which a row must have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition(pub(crate) Vec<(String, Vec<String>)>);

impl Condition {
    /// Reads a condition; a comma without an equals sign after it is part of the value.
    pub(crate) fn parse(text: &str) -> Self {
        let mut pairs: Vec<String> = Vec::new();
        for piece in text.split(',').filter(|p| !p.is_empty()) {
            match pairs.last_mut() {
                Some(last) if !piece.contains('=') => last.push_str(&format!(",{piece}")),
                _ => pairs.push(piece.to_owned()),
            }
        }
        let values = |text: &str| text.split('|').map(str::to_owned).collect();
        Self(pairs.iter().filter_map(|p| p.split_once('=')).map(|(c, v)| (c.to_owned(), values(v))).collect())
    }

    /// Returns the rows of a cell's table that meet it; the cell's coordinates count as columns.
    pub(crate) fn rows(&self, table: &Table, holder: Option<&Holder>) -> Vec<usize> {
        let value = |row: usize, column: &str| match table.has(column) {
            true => table.value(column, row).ok(),
            false => holder.and_then(|h| h.record.coordinates.get(column).cloned()),
        };
        let meets = |row: &usize| {
            self.0.iter().all(|(column, wanted)| {
                value(*row, column).is_some_and(|v| wanted.iter().any(|w| is_value(&v, w)))
            })
        };
        (0..table.rows()).filter(meets).collect()
    }
}

/// Whether a value is what the trace wrote in full precision.
fn is_value(value: &Scalar, written: &str) -> bool {
    match (value.as_f64(), written.parse::<f64>()) {
        (Some(value), Ok(written)) => value == written,
        _ => value.to_string() == written,
    }
}
