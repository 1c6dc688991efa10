//! Tables for lookups: read once, and indexed by the columns in conditions.
//!
//! An index over a condition's columns answers it. The index is made for the first such condition, so that a report
//! with n lookups visits each row once per set of columns instead of n times.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use artifacts::{Digest, Ratio, Scalar, Table, lock};
use pipeline::place::{Condition, Coordinates, LabelKey};
use pipeline::suggest::remedy;

use crate::data::Miss;
use crate::statement::Share;
use crate::trace::TraceSource;

/// An output of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Part<T> {
    /// The cell.
    pub coordinates: Coordinates,
    /// The artifact.
    pub digest: Digest,
    /// The contents of the artifact.
    pub content: Arc<T>,
}

/// A row: the position of its part, and its row within the part.
type Place = (usize, usize);

/// The rows with given values in given columns, ascending.
type Index = HashMap<Vec<LabelKey>, Vec<Place>>;

/// An output of a stage: the tables of its cells in sequence, with the cells' coordinates as additional columns.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Whether the rows come from a table or from the ledger.
    pub source: TraceSource,
    /// The stage's name.
    pub stage: String,
    /// The output's name.
    pub output: String,
    /// The cells' tables.
    pub parts: Vec<Part<Table>>,
    /// The columns, coordinates first.
    pub columns: Vec<String>,
    /// The columns that distinguish rows, in order.
    keys: Vec<String>,
    /// Whether the table itself declares them.
    says_keys: bool,
    /// Whether the parts are artifacts of cells of a needed stage.
    of_cells: bool,
    indexes: Mutex<BTreeMap<Vec<String>, Arc<Index>>>,
    visited: AtomicU64,
}

impl Opened {
    /// Opens the tables of a stage's cells. `axes` distinguish the rows of a table whose note `keys` does not declare
    /// columns for that.
    pub(crate) fn new(
        source: TraceSource,
        (stage, output): (&str, &str),
        parts: Vec<Part<Table>>,
        axes: &[String],
    ) -> Self {
        let (mut columns, mut keys, mut says_keys) = (Vec::new(), Vec::new(), false);
        if let Some(first) = parts.first() {
            columns.extend(first.coordinates.axes());
            columns.retain(|c| !first.content.has(c));
            keys.clone_from(&columns);
            columns.extend(first.content.names());
            if let Some(note) = first.content.metadata("keys") {
                says_keys = true;
                keys.extend(note.split(',').map(|k| k.trim().to_owned()));
            } else {
                keys.splice(0..0, axes.iter().cloned());
            }
            let mut seen = BTreeSet::new();
            keys.retain(|k| columns.contains(k) && seen.insert(k.clone()));
        }
        Self {
            source,
            stage: stage.to_owned(),
            output: output.to_owned(),
            parts,
            columns,
            keys,
            says_keys,
            of_cells: false,
            indexes: Mutex::default(),
            visited: AtomicU64::new(0),
        }
    }

    /// Marks the parts as artifacts of cells of a needed stage.
    #[must_use]
    pub(crate) fn of_cells(self) -> Self {
        Self {
            of_cells: true,
            ..self
        }
    }

    /// Returns the coordinates of a part's cell; `None` if the table is not an artifact of a stage, or is the report's
    /// own.
    pub(crate) fn cell(&self, part: usize) -> Option<Coordinates> {
        self.of_cells
            .then(|| self.parts.get(part).map(|p| p.coordinates.clone()))
            .flatten()
    }

    /// Returns the number of rows visited so far, to make indexes and to answer conditions.
    pub(crate) fn visited(&self) -> u64 {
        self.visited.load(Ordering::Relaxed)
    }

    /// Returns the rows that meet a condition.
    ///
    /// # Errors
    /// If the condition names a column that does not exist.
    pub(crate) fn choose(self: &Arc<Self>, condition: &Condition) -> Result<View, Miss> {
        for column in condition.columns() {
            self.require(column)?;
        }
        let rows = match condition.0.as_slice() {
            [] => self.places().collect(),
            _ => self.find(condition)?,
        };
        self.visited.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let mut keys = self.keys.clone();
        if !self.says_keys {
            let more = condition.columns().map(str::to_owned);
            keys.extend(more.filter(|c| !self.keys.contains(c)));
        }
        Ok(View {
            table: self.clone(),
            rows,
            condition: condition.clone(),
            keys,
            share: Share::default(),
        })
    }

    /// Returns the values that a column holds in place of the one that a condition asks for: `; clients has 1, 2`.
    pub(crate) fn unmet(&self, condition: &Condition) -> String {
        /// The most values that are listed.
        const LISTED: usize = 8;
        for (column, wanted) in &condition.0 {
            let held = self
                .places()
                .filter_map(|place| self.at(place, column).ok());
            let values: BTreeMap<LabelKey, Scalar> = held
                .filter_map(|value| Some((LabelKey::of(&value)?, value)))
                .collect();
            let meets =
                |label: &Scalar| LabelKey::of(label).is_some_and(|key| values.contains_key(&key));
            if values.is_empty() || wanted.iter().any(meets) {
                continue;
            }
            let more = if values.len() > LISTED { ", …" } else { "" };
            let listed: Vec<String> = values
                .values()
                .take(LISTED)
                .map(ToString::to_string)
                .collect();
            return format!("; `{column}` holds {}{more}", listed.join(", "));
        }
        String::new()
    }

    /// Returns whether a row has a label in a column.
    ///
    /// # Errors
    /// If the column does not exist.
    pub(crate) fn holds(&self, column: &str, label: &Scalar) -> Result<bool, Miss> {
        let Some(wanted) = LabelKey::of(label) else {
            return Ok(false);
        };
        let index = self.index(vec![column.to_owned()])?;
        Ok(index.contains_key([wanted].as_slice()))
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let parts = self.parts.iter().enumerate();
        parts.flat_map(|(p, part)| (0..part.content.rows()).map(move |row| (p, row)))
    }

    /// Looks up each combination of the condition's values, or scans the index if there are more combinations than
    /// entries.
    fn find(&self, condition: &Condition) -> Result<Vec<Place>, Miss> {
        let index = self.index(condition.columns().map(str::to_owned).collect())?;
        let wanted: Vec<BTreeSet<LabelKey>> = condition
            .0
            .iter()
            .map(|(_, values)| values.iter().filter_map(LabelKey::of).collect())
            .collect();
        let combinations = wanted
            .iter()
            .try_fold(1usize, |n, values| n.checked_mul(values.len()));
        let mut rows = Vec::new();
        if combinations.is_some_and(|n| n <= index.len()) {
            let mut keys: Vec<Vec<LabelKey>> = vec![Vec::new()];
            for values in &wanted {
                let longer = |key: Vec<LabelKey>| {
                    values
                        .iter()
                        .map(move |v| [&key[..], std::slice::from_ref(v)].concat())
                };
                keys = keys.into_iter().flat_map(longer).collect();
            }
            rows.extend(keys.iter().filter_map(|key| index.get(key)).flatten());
        } else {
            let meets = |key: &[LabelKey]| {
                key.iter()
                    .zip(&wanted)
                    .all(|(value, wanted)| wanted.contains(value))
            };
            rows.extend(
                index
                    .iter()
                    .filter(|(key, _)| meets(key))
                    .flat_map(|(_, rows)| rows),
            );
        }
        rows.sort_unstable();
        Ok(rows)
    }

    fn index(&self, columns: Vec<String>) -> Result<Arc<Index>, Miss> {
        if let Some(index) = lock(&self.indexes).get(&columns) {
            return Ok(index.clone());
        }
        let mut index = Index::new();
        for place in self.places() {
            let values = columns
                .iter()
                .map(|column| Ok(LabelKey::of(&self.at(place, column)?)));
            if let Some(key) = values.collect::<Result<Option<Vec<LabelKey>>, Miss>>()? {
                index.entry(key).or_default().push(place);
            }
            self.visited.fetch_add(1, Ordering::Relaxed);
        }
        let index = Arc::new(index);
        lock(&self.indexes).insert(columns, index.clone());
        Ok(index)
    }

    /// Returns a value of a row.
    ///
    /// # Errors
    /// If the column does not exist.
    pub(crate) fn at(&self, (part, row): Place, column: &str) -> Result<Scalar, Miss> {
        let part = &self.parts[part];
        if part.content.has(column) {
            return Ok(part.content.value(column, row).map_err(|e| e.to_string())?);
        }
        self.require(column)?;
        Ok(part
            .coordinates
            .get(column)
            .cloned()
            .unwrap_or(Scalar::Null))
    }

    /// Checks that a column (or coordinate) of this name exists.
    ///
    /// # Errors
    /// If it does not; the error names similar ones.
    pub(crate) fn require(&self, column: &str) -> Result<(), Miss> {
        if self.has_column(column) {
            return Ok(());
        }
        let (stage, output) = (&self.stage, &self.output);
        let hint = remedy(&contract::usual_name(column), "columns", &self.columns);
        Err(format!("`{stage}.{output}` has no column `{column}`; {hint}").into())
    }

    /// Whether a column (or coordinate) of this name exists.
    pub(crate) fn has_column(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c == column)
    }

    /// Whether all of these columns (or coordinates) exist.
    pub(crate) fn has(&self, columns: &[String]) -> bool {
        columns.iter().all(|c| self.columns.contains(c))
    }

    /// Returns the columns that distinguish rows, in order.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns the unit of a column.
    pub(crate) fn unit(&self, column: &str) -> Option<String> {
        self.parts.first().and_then(|p| p.content.unit(column))
    }

    /// Returns the sides of the ratio, for a ratio column.
    pub(crate) fn ratio(&self, column: &str) -> Option<Ratio> {
        self.parts.first().and_then(|p| p.content.ratio(column))
    }
}

/// Rows of a table, selected by a condition.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The table.
    pub table: Arc<Opened>,
    /// The selected rows.
    pub rows: Vec<Place>,
    /// The condition.
    pub condition: Condition,
    /// The columns that distinguish rows, in order.
    pub keys: Vec<String>,
    /// The part of their level at which the findings of the rows count.
    pub share: Share,
}

impl View {
    /// Returns a value of the selected row `index`. A finding that is not shown at the share of its level reads as one
    /// that was not shown.
    ///
    /// # Errors
    /// If the column does not exist.
    pub(crate) fn get(&self, index: usize, column: &str) -> Result<Scalar, Miss> {
        let value = self.table.at(self.rows[index], column)?;
        Ok(self.share.at(self, index, column, value))
    }

    /// Returns the value of a column that the table may lack, without the search for similar names that an error costs.
    pub(crate) fn value(&self, index: usize, column: &str) -> Option<Scalar> {
        let exists = self.table.has_column(column);
        exists.then(|| self.get(index, column).ok()).flatten()
    }

    /// Returns the key columns of a selected row and their values.
    pub(crate) fn row_key(&self, index: usize) -> Condition {
        let pairs = self.keys.iter().map(|key| {
            let value = self.get(index, key);
            (key.clone(), vec![value.unwrap_or(Scalar::Null)])
        });
        Condition(pairs.collect())
    }

    /// Returns whether a column has labels: the keys of the table, and the sides of a comparison.
    pub(crate) fn is_label(&self, column: &str) -> bool {
        let compared = ["a", "b"].contains(&column) && self.table.has_column("metric");
        compared || self.keys.iter().any(|key| key == column)
    }

    /// Returns the condition that selects a row: its keys and, for a comparison, the metric and the sides.
    ///
    /// # Errors
    /// If a column cannot be read.
    pub(crate) fn only(&self, index: usize) -> Result<Vec<(String, Scalar)>, Miss> {
        let compared = ["metric", "a", "b"].into_iter().map(str::to_owned);
        let compared =
            compared.filter(|c| self.table.columns.contains(c) && !self.keys.contains(c));
        let columns = self.keys.iter().cloned().chain(compared);
        columns
            .map(|c| Ok((c.clone(), self.get(index, &c)?)))
            .collect()
    }

    /// Returns the key of a selected row, or its position if it has none.
    pub(crate) fn row_name(&self, index: usize) -> String {
        match self.row_key(index) {
            key if key.0.is_empty() => format!("row {}", self.rows[index].1),
            key => key.to_string(),
        }
    }

    /// Sorts the selected rows by columns; a leading `-` means descending. Null comes last.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(crate) fn sort(&mut self, by: &[String]) -> Result<(), Miss> {
        for column in by.iter().rev() {
            let (descending, column) = column
                .strip_prefix('-')
                .map_or((false, column.as_str()), |rest| (true, rest));
            self.table.require(column)?;
            let mut keyed = Vec::with_capacity(self.rows.len());
            for index in 0..self.rows.len() {
                keyed.push((self.get(index, column)?, self.rows[index]));
            }
            keyed.sort_by(|(a, _), (b, _)| {
                let (order, null) = order(a, b);
                if descending && !null {
                    order.reverse()
                } else {
                    order
                }
            });
            self.rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        Ok(())
    }
}

fn order(a: &Scalar, b: &Scalar) -> (std::cmp::Ordering, bool) {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match (a, b) {
        (Scalar::Null, Scalar::Null) => (Equal, true),
        (Scalar::Null, _) => (Greater, true),
        (_, Scalar::Null) => (Less, true),
        (Scalar::Text(a), Scalar::Text(b)) => (a.cmp(b), false),
        (Scalar::Bool(a), Scalar::Bool(b)) => (a.cmp(b), false),
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a.total_cmp(&b), false),
            _ => (a.to_string().cmp(&b.to_string()), false),
        },
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Column;
    use pipeline::place::same_label;
    use proptest::prelude::*;

    use super::*;

    fn opened(values: &[Scalar], others: &[i64]) -> Arc<Opened> {
        let table = Table::new(vec![
            Column::from_scalars("a", values).unwrap(),
            Column::int("b", others.iter().map(|v| Some(*v))),
        ]);
        let part = |table| Part {
            coordinates: Coordinates(vec![("cell".to_owned(), Scalar::Int(7))]),
            digest: Digest::of(b""),
            content: Arc::new(table),
        };
        Arc::new(Opened::new(
            TraceSource::Table,
            ("s", "t"),
            vec![part(table.unwrap())],
            &[],
        ))
    }

    fn number() -> impl Strategy<Value = Scalar> {
        prop_oneof![
            Just(Scalar::Null),
            (-2i64..3).prop_map(Scalar::Int),
            (-2i32..3).prop_map(|v| Scalar::Float(f64::from(v) / 2.0)),
            Just(Scalar::Float(-0.0)),
            Just(Scalar::Float(f64::NAN)),
        ]
    }

    proptest! {
        #[test]
        fn an_index_finds_what_a_scan_finds(
            rows in prop::collection::vec((number(), 0i64..3), 1..40),
            wanted in prop::collection::vec(number(), 1..4),
            others in prop::collection::vec(0i64..4, 1..5),
        ) {
            let (values, more): (Vec<Scalar>, Vec<i64>) = rows.into_iter().unzip();
            let table = opened(&values, &more);
            let condition = Condition(vec![
                ("a".to_owned(), wanted.clone()),
                ("b".to_owned(), others.iter().map(|v| Scalar::Int(*v)).collect()),
                ("cell".to_owned(), vec![Scalar::Float(7.0)]),
            ]);
            let scanned: Vec<Place> = (0..values.len())
                .filter(|row| {
                    let actual = table.at((0, *row), "a").unwrap();
                    wanted.iter().any(|w| same_label(w, &actual)) && others.contains(&more[*row])
                })
                .map(|row| (0, row))
                .collect();
            prop_assert_eq!(table.choose(&condition).unwrap().rows, scanned);
        }
    }

    #[test]
    fn a_second_question_about_the_same_columns_visits_only_its_answers() {
        let values: Vec<Scalar> = (0..100).map(Scalar::Int).collect();
        let table = opened(&values, &[0; 100]);
        let ask = |n| {
            table
                .choose(&Condition(vec![("a".to_owned(), vec![Scalar::Int(n)])]))
                .unwrap()
                .rows
                .len()
        };
        assert_eq!((ask(3), table.visited()), (1, 101));
        assert_eq!((ask(4), table.visited()), (1, 102));
    }
}
