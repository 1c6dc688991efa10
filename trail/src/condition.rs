//! The conditions that a trace writes: `a=x|y,b=z`.

use std::collections::HashMap;

use artifacts::{Scalar, Table, TableError};

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
        Self(
            pairs
                .iter()
                .filter_map(|p| p.split_once('='))
                .map(|(c, v)| (c.to_owned(), values(v)))
                .collect(),
        )
    }

    /// Splits into the part about columns of a table and whether the rest holds of a cell's coordinates,
    /// which count as columns.
    pub(crate) fn of(&self, table: &Table, holder: Option<&Holder>) -> Option<Self> {
        let (own, others): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .cloned()
            .partition(|(column, _)| table.has(column));
        let holds = |(column, wanted): &(String, Vec<String>)| {
            let label = holder.and_then(|h| h.record.coordinates.get(column));
            label.is_some_and(|label| {
                wanted
                    .iter()
                    .any(|w| Value::written(w).contains(&Value::of(label)))
            })
        };
        others.iter().all(holds).then_some(Self(own))
    }

    /// Returns the columns it names.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.0.iter().map(|(column, _)| column.clone()).collect()
    }

    /// Whether a value of a column is one that it asks for, as far as it speaks of the column.
    pub(crate) fn allows(&self, column: &str, value: &Scalar) -> bool {
        let pair = self.0.iter().find(|(name, _)| name == column);
        pair.is_none_or(|(_, wanted)| {
            wanted
                .iter()
                .any(|w| Value::written(w).contains(&Value::of(value)))
        })
    }
}

/// The rows of a table by the values of some columns: an audit recounts from it without a look at
/// each row for each count.
#[derive(Debug)]
pub(crate) struct Index(HashMap<Vec<Value>, Vec<usize>>);

impl Index {
    /// Indexes a table.
    ///
    /// # Errors
    /// If a column is not there.
    pub(crate) fn new(table: &Table, columns: &[String]) -> Result<Self, TableError> {
        let mut rows: HashMap<Vec<Value>, Vec<usize>> = HashMap::new();
        for row in 0..table.rows() {
            let key = columns.iter().map(|c| Ok(Value::of(&table.value(c, row)?)));
            rows.entry(key.collect::<Result<_, TableError>>()?)
                .or_default()
                .push(row);
        }
        Ok(Self(rows))
    }

    /// Returns the rows that meet a condition over just these columns, ascending.
    pub(crate) fn rows(&self, condition: &Condition) -> Vec<usize> {
        let mut keys: Vec<Vec<Value>> = vec![Vec::new()];
        for (_, wanted) in &condition.0 {
            let mut values: Vec<Value> = wanted.iter().flat_map(|w| Value::written(w)).collect();
            values.sort();
            values.dedup();
            let longer = |key: Vec<Value>| {
                values
                    .iter()
                    .map(move |v| [&key[..], std::slice::from_ref(v)].concat())
            };
            keys = keys.into_iter().flat_map(longer).collect();
        }
        let mut rows: Vec<usize> = keys
            .iter()
            .filter_map(|key| self.0.get(key))
            .flatten()
            .copied()
            .collect();
        rows.sort_unstable();
        rows
    }
}

/// A value as a trace can name it: numbers by what they are, everything else by its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    /// The bits of a double; zero has no sign.
    Number(u64),
    Text(String),
}

impl Value {
    fn number(value: f64) -> Self {
        Self::Number(if value == 0.0 { 0 } else { value.to_bits() })
    }

    fn of(value: &Scalar) -> Self {
        value
            .as_f64()
            .map_or_else(|| Self::Text(value.to_string()), Self::number)
    }

    /// What a written value may be: a text, and a number if it reads as one.
    fn written(text: &str) -> Vec<Self> {
        let number = text.parse::<f64>().ok().map(Self::number);
        std::iter::once(Self::Text(text.to_owned()))
            .chain(number)
            .collect()
    }
}
