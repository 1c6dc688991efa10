//! An index of a table's rows by the values of some columns, for the conditions of an audit.

use std::collections::{BTreeSet, HashMap};

use artifacts::{Table, TableError};
use pipeline::place::{Condition, LabelKey};

use crate::provenance::Holder;

/// Splits off the part of a condition about columns of a table. Returns `None` if the rest does not hold for the cell's
/// coordinates, which count as columns.
pub(crate) fn of_table(
    condition: &Condition,
    table: &Table,
    holder: Option<&Holder>,
) -> Option<Condition> {
    let pairs = condition.0.iter().cloned();
    let (own, others): (Vec<_>, Vec<_>) = pairs.partition(|(column, _)| table.has(column));
    let others = Condition(others);
    let holds = |column: &str| {
        let label = holder.and_then(|h| h.record.coordinates.get(column));
        label.is_some_and(|label| others.allows(column, label))
    };
    others.columns().all(holds).then_some(Condition(own))
}

/// The rows of a table by the values of some columns. An audit counts with it, without scanning all rows for each
/// count.
#[derive(Debug)]
pub(crate) struct Index(HashMap<Vec<LabelKey>, Vec<usize>>);

impl Index {
    /// Indexes a table.
    ///
    /// # Errors
    /// If a column is missing.
    pub(crate) fn new(table: &Table, columns: &[String]) -> Result<Self, TableError> {
        let mut rows: HashMap<Vec<LabelKey>, Vec<usize>> = HashMap::new();
        for row in 0..table.rows() {
            let key = columns
                .iter()
                .map(|c| Ok(LabelKey::of(&table.value(c, row)?)));
            // A value that does not equal itself meets no condition.
            if let Some(key) = key.collect::<Result<Option<_>, TableError>>()? {
                rows.entry(key).or_default().push(row);
            }
        }
        Ok(Self(rows))
    }

    /// Returns the rows that meet a condition over exactly these columns, ascending.
    pub(crate) fn rows(&self, condition: &Condition) -> Vec<usize> {
        let labels = condition.0.iter().map(|(_, labels)| labels);
        let wanted: Vec<BTreeSet<LabelKey>> = labels
            .map(|labels| labels.iter().filter_map(LabelKey::of).collect())
            .collect();
        let meets = |key: &[LabelKey]| key.iter().zip(&wanted).all(|(k, w)| w.contains(k));
        let combinations = wanted
            .iter()
            .try_fold(1usize, |n, w| n.checked_mul(w.len()));
        let mut rows: Vec<usize> = if combinations.is_some_and(|n| n <= self.0.len()) {
            let mut keys: Vec<Vec<LabelKey>> = vec![Vec::new()];
            for labels in &wanted {
                let longer = |key: Vec<LabelKey>| {
                    let with = move |l| [&key[..], std::slice::from_ref(l)].concat();
                    labels.iter().map(with)
                };
                keys = keys.into_iter().flat_map(longer).collect();
            }
            let rows = keys.iter().filter_map(|key| self.0.get(key));
            rows.flatten().copied().collect()
        } else {
            let rows = self.0.iter().filter(|(key, _)| meets(key));
            rows.flat_map(|(_, rows)| rows).copied().collect()
        };
        rows.sort_unstable();
        rows
    }
}
