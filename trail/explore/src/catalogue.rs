//! The tables of an executed experiment, by their names in queries, and queries over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use artifacts::{Column, ColumnData, Digest, Scalar, Store, StoreError, Table, TableError, lock};
use contract::column_of_axis;
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::place::cell_text;
use pipeline::record::{Record, RecordError};
use pipeline::suggest::{column_remedy, list, remedy};
use pipeline::{Artifact, CellStatus, OutputName};
use query::{Database, Limits, QueryError};

/// Why a table cannot be read or a query cannot be answered.
#[derive(Debug)]
pub enum CatalogueError {
    /// The store cannot supply an object.
    Store(StoreError),
    /// An invalid record.
    Damaged(String),
    /// An invalid table.
    Table(TableError),
    /// The error in the query, and the remedy.
    Query(QueryError, String),
}

impl From<StoreError> for CatalogueError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<TableError> for CatalogueError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Damaged(what) => f.write_str(what),
            Self::Table(error) => error.fmt(f),
            Self::Query(error, _) => error.fmt(f),
        }
    }
}

impl std::error::Error for CatalogueError {}

/// Reads the record of an executed cell; `None` if it was not executed.
///
/// # Errors
/// If the record is missing from the store, or damaged.
pub(crate) fn record_of(
    store: &Store,
    stage: &str,
    cell: &LockCell,
) -> Result<Option<Record>, CatalogueError> {
    read(store, stage, cell, Record::parse)
}

/// The outputs of an executed cell, by name.
type Outputs = BTreeMap<OutputName, Artifact>;

/// The outputs of the records read so far. The record of an analysis names every cell that it read, so reading it takes
/// long, and a record never changes.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<Digest, Arc<Outputs>>>);

impl Known {
    /// Returns the outputs of an executed cell; `None` if it was not executed.
    ///
    /// # Errors
    /// If the record is missing from the store, or damaged.
    pub(crate) fn outputs_of(
        &self,
        store: &Store,
        stage: &str,
        cell: &LockCell,
    ) -> Result<Option<Arc<Outputs>>, CatalogueError> {
        let Some(digest) = cell.record else {
            return Ok(None);
        };
        let kept = lock(&self.0).get(&digest).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        let read = read(store, stage, cell, Record::parse_outputs)?.map(Arc::new);
        if let Some(read) = &read {
            lock(&self.0).insert(digest, Arc::clone(read));
        }
        Ok(read)
    }
}

fn read<T>(
    store: &Store,
    stage: &str,
    cell: &LockCell,
    parse: impl FnOnce(&[u8]) -> Result<T, RecordError>,
) -> Result<Option<T>, CatalogueError> {
    let Some(digest) = cell.record else {
        return Ok(None);
    };
    let name = cell_text(stage, &cell.coordinates);
    let wrong = |e| CatalogueError::Damaged(format!("the record {digest} of {name}: {e}"));
    let missing = |e| CatalogueError::Damaged(format!("the record {digest} of {name}: {e}"));
    parse(&store.get_document(&digest).map_err(missing)?)
        .map(Some)
        .map_err(wrong)
}

/// An output that the cells of a stage have as a table.
#[derive(Debug)]
pub struct Entry<'lock> {
    /// The stage.
    pub stage: &'lock LockStage,
    /// The output's name.
    pub output: String,
    /// The artifact of the first ok cell.
    pub sample: Artifact,
}

/// The concatenated rows of all ok cells of a stage.
#[derive(Debug)]
pub(crate) struct Whole {
    /// The rows.
    pub(crate) table: Table,
    /// A sentence about what was left out; `None` if nothing was.
    pub(crate) note: Option<String>,
}

/// The tables of an experiment, by their names in queries. The outputs of a stage are those of its first ok cell.
#[derive(Debug)]
pub struct Catalogue<'lock> {
    /// By full name, `STAGE.OUTPUT`.
    pub tables: BTreeMap<String, Entry<'lock>>,
    /// The outputs that only one stage has, with their full name.
    pub short: BTreeMap<String, String>,
    /// The stages that have no ok cell, so that they have no tables.
    pub unfinished: Vec<&'lock str>,
}

impl<'lock> Catalogue<'lock> {
    /// Lists the tables.
    ///
    /// # Errors
    /// If a record is missing from the store, or damaged.
    pub fn read(lock: &'lock Lock, store: &Store) -> Result<Self, CatalogueError> {
        Self::knowing(lock, store, &Known::default())
    }

    /// Lists the tables, reading only the records that are not known yet.
    ///
    /// # Errors
    /// If a record is missing from the store, or damaged.
    pub(crate) fn knowing(
        lock: &'lock Lock,
        store: &Store,
        kept: &Known,
    ) -> Result<Self, CatalogueError> {
        let mut failed = Ok(());
        let catalogue = Self::listing(lock, store, kept, &mut |error| failed = Err(error));
        failed.map(|()| catalogue)
    }

    /// Lists the tables, and the reasons why those of other stages cannot be listed.
    pub(crate) fn readable(lock: &'lock Lock, store: &Store, kept: &Known) -> (Self, Vec<String>) {
        let mut unread = Vec::new();
        let mut hear = |error: CatalogueError| unread.push(error.to_string());
        let catalogue = Self::listing(lock, store, kept, &mut hear);
        (catalogue, unread)
    }

    fn listing(
        lock: &'lock Lock,
        store: &Store,
        kept: &Known,
        hear: &mut dyn FnMut(CatalogueError),
    ) -> Self {
        let mut tables = BTreeMap::new();
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut unfinished = Vec::new();
        for stage in &lock.stages {
            let Some(cell) = stage.cells.iter().find(|c| c.status == CellStatus::Ok) else {
                unfinished.push(stage.name.as_str());
                continue;
            };
            let outputs = match kept.outputs_of(store, &stage.name, cell) {
                Ok(Some(outputs)) => outputs,
                Ok(None) => continue,
                Err(error) => {
                    hear(error);
                    continue;
                }
            };
            for (output, sample) in outputs.iter() {
                if sample.rows.is_some() {
                    let sample = sample.clone();
                    let name = format!("{}.{output}", stage.name);
                    let output = output.to_string();
                    holders
                        .entry(output.clone())
                        .or_default()
                        .push(name.clone());
                    tables.insert(
                        name,
                        Entry {
                            stage,
                            output,
                            sample,
                        },
                    );
                }
            }
        }
        let alone = |(output, mut names): (String, Vec<String>)| match names.len() {
            1 => Some((output, names.remove(0))),
            _ => None,
        };
        Self {
            tables,
            short: holders.into_iter().filter_map(alone).collect(),
            unfinished,
        }
    }

    /// Returns the remedy for a table that does not exist.
    pub fn hint(&self, name: &str) -> String {
        if self.tables.contains_key(name) {
            return format!("put a name with a dot in double quotes: \"{name}\"");
        }
        let in_stages: Vec<String> = self
            .tables
            .iter()
            .filter(|(_, e)| e.output == name)
            .map(|(full, _)| format!("\"{full}\""))
            .collect();
        if !in_stages.is_empty() {
            return format!("several stages have it: {}", in_stages.join(", "));
        }
        let derived = |name: &&str| !name.ends_with(".lineage");
        let names = self
            .tables
            .keys()
            .chain(self.short.keys())
            .map(String::as_str)
            .filter(derived);
        let remedy = remedy(name, "tables", names);
        match self.unfinished.as_slice() {
            [] => remedy,
            stages => format!(
                "{remedy}; these stages have no tables, because none of their cells is ok: {}",
                list(stages.iter().copied())
            ),
        }
    }

    /// Returns the number of values, rows times columns, in the tables that a query mentions.
    ///
    /// # Errors
    /// If a record or a table is missing or damaged.
    pub(crate) fn values(&self, query: &str, store: &Store) -> Result<usize, CatalogueError> {
        let mentioned = query::mentioned(query);
        let mut values = 0_usize;
        for (name, full) in self.names() {
            if !mentioned.contains(&name.to_lowercase()) {
                continue;
            }
            let entry = &self.tables[full];
            let mut rows = 0;
            for cell in &entry.stage.cells {
                let record = record_of(store, &entry.stage.name, cell)?;
                let artifact = record.and_then(|mut r| r.outputs.remove(&entry.output[..]));
                rows += artifact.and_then(|a| a.rows).unwrap_or(0);
            }
            let (first, _) = Table::read_rows(store, &entry.sample.digest, 0..1)?;
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            values = values.saturating_add(rows.saturating_mul(first.names().len()));
        }
        Ok(values)
    }

    /// Returns each name that a query may use, with the corresponding full name.
    fn names(&self) -> impl Iterator<Item = (&String, &String)> {
        let full = self.tables.keys().map(|name| (name, name));
        full.chain(&self.short)
    }

    /// Loads the tables that a query mentions and runs it; also returns notes on what was left out of them.
    ///
    /// # Errors
    /// If the query is invalid, names something that does not exist, or exceeds a limit; or if a table cannot be read.
    pub fn ask(
        &self,
        query: &str,
        store: &Store,
        limits: &Limits,
    ) -> Result<(Table, Vec<String>), CatalogueError> {
        let mentioned = query::mentioned(query);
        let plain = |e| CatalogueError::Query(e, String::new());
        let mut database = Database::new().map_err(plain)?;
        let mut notes = Vec::new();
        let wanted = |(name, _): &(&String, &String)| mentioned.contains(&name.to_lowercase());
        for (name, full) in self.names().filter(wanted) {
            let whole = whole(&self.tables[full], store)?;
            notes.extend(whole.note);
            database.add(name, &whole.table).map_err(plain)?;
        }
        match database.select(query, limits) {
            Ok(answer) => Ok((answer.table, notes)),
            Err(error) => {
                let hint = self.hint_for(query, &error, &database);
                Err(CatalogueError::Query(error, hint))
            }
        }
    }

    fn hint_for(&self, sql: &str, error: &QueryError, database: &Database) -> String {
        query::hint(sql, error).unwrap_or_else(|| match error {
            QueryError::NoTable(name) => self.hint(name),
            QueryError::NoColumn(name) => column_remedy(name, database.columns_by_table()),
            _ => String::new(),
        })
    }
}

/// Returns the rows of all ok cells of a stage, in the order of the lock, preceded by their coordinates.
///
/// # Errors
/// If a record or a table is missing or damaged.
pub(crate) fn whole(entry: &Entry<'_>, store: &Store) -> Result<Whole, CatalogueError> {
    let mut parts = Vec::new();
    let mut absent = 0;
    for cell in &entry.stage.cells {
        if cell.status != CellStatus::Ok {
            absent += 1;
            continue;
        }
        let Some(record) = record_of(store, &entry.stage.name, cell)? else {
            continue;
        };
        let Some(artifact) = record.outputs.get(&entry.output) else {
            continue;
        };
        parts.push((
            record.coordinates.0,
            Table::from_parquet(store.get(&artifact.digest)?)?,
        ));
    }
    let note = (absent > 0).then(|| not_ok(absent, entry.stage));
    let table = match parts.as_slice() {
        [(at, _)] if at.is_empty() => parts.remove(0).1,
        _ => union(&parts, entry.stage.class)?,
    };
    Ok(Whole { table, note })
}

/// Says that cells of a stage have no rows in a table over its cells.
pub(crate) fn not_ok(absent: usize, stage: &LockStage) -> String {
    let (all, name) = (stage.cells.len(), &stage.name);
    format!("{absent} of {all} cells of {name} are not ok; their rows are left out")
}

/// The cells of a stage, each with its coordinates.
type Parts = [(Vec<(String, Scalar)>, Table)];

/// Concatenates tables of the cells of a stage, matching columns by name, with null where a table lacks one. The axes
/// come first.
pub(crate) fn union(parts: &Parts, class: LockClass) -> Result<Table, TableError> {
    let axes = distinct(
        parts
            .iter()
            .flat_map(|(at, _)| at.iter().map(|(axis, _)| axis.clone())),
    );
    let own = distinct(parts.iter().flat_map(|(_, t)| t.names()));
    let mut columns = Vec::with_capacity(axes.len() + own.len());
    // The column of an analysis that has the name of an axis is that axis.
    let is_own = |axis: &&String| class == LockClass::Pure && own.contains(*axis);
    for axis in axes.iter().filter(|axis| !is_own(axis)) {
        columns.push(labels(axis, &column_of_axis(axis, &axes, &own), parts));
    }
    for name in &own {
        columns.push(stacked(name, parts)?);
    }
    Table::new(columns)
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// Returns the labels of an axis, one for each row.
fn labels(axis: &str, name: &str, parts: &Parts) -> Column {
    let mut values = Vec::new();
    for (at, table) in parts {
        let label = at.iter().find(|(other, _)| other == axis);
        let label = label.map_or(&Scalar::Null, |(_, label)| label);
        values.extend(std::iter::repeat_n(label.clone(), table.rows()));
    }
    let column = Column::from_scalars(name, &values);
    column.unwrap_or_else(|_| as_text(name, &values))
}

/// Returns values of different types as text.
fn as_text(name: &str, values: &[Scalar]) -> Column {
    let words = |v: &Scalar| (*v != Scalar::Null).then(|| v.to_string());
    Column::text(name, values.iter().map(words))
}

/// Returns the concatenated values of a column of several tables.
fn stacked(name: &str, parts: &Parts) -> Result<Column, TableError> {
    let mut values = Vec::new();
    let (mut unit, mut description) = (None, None);
    for (_, table) in parts {
        if table.has(name) {
            for row in 0..table.rows() {
                values.push(table.value(name, row)?);
            }
            unit = unit.or_else(|| table.unit(name));
            description = description.or_else(|| table.description(name));
        } else {
            values.extend(std::iter::repeat_n(Scalar::Null, table.rows()));
        }
    }
    let column = Column::from_scalars(name, &values);
    let mut column = column.unwrap_or_else(|_| as_text(name, &values));
    if values.iter().all(|v| *v == Scalar::Null) {
        // No value shows the type, but a table with the column does.
        if let Some(typed) = parts.iter().find_map(|(_, t)| t.column(name).ok()) {
            column.data = nulls(&typed.data, values.len());
        }
    }
    column.unit = unit;
    column.description = description;
    Ok(column)
}

/// Returns `rows` nulls of a type.
fn nulls(like: &ColumnData, rows: usize) -> ColumnData {
    match like {
        ColumnData::Int(_) => ColumnData::Int(vec![None; rows]),
        ColumnData::Float(_) => ColumnData::Float(vec![None; rows]),
        ColumnData::Text(_) => ColumnData::Text(vec![None; rows]),
        ColumnData::Bool(_) => ColumnData::Bool(vec![None; rows]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_with_their_coordinates() {
        let part = |rep: i64, columns: Vec<Column>| {
            let at = vec![
                ("configuration".to_owned(), Scalar::Text("a".into())),
                ("rep".to_owned(), Scalar::Int(rep)),
            ];
            (at, Table::new(columns).unwrap())
        };
        let one = part(1, vec![Column::int("n", [Some(1), None]).unit("tok")]);
        let two = part(
            2,
            vec![
                Column::float("n", [Some(1.5)]),
                Column::boolean("ok", [Some(true)]),
            ],
        );
        let table = union(&[one, two], LockClass::Measurement).unwrap();
        assert_eq!(table.names(), ["configuration", "rep", "n", "ok"]);
        assert_eq!(table.int("rep").unwrap(), [Some(1), Some(1), Some(2)]);
        assert_eq!(table.float("n").unwrap(), [Some(1.0), None, Some(1.5)]);
        assert_eq!(table.boolean("ok").unwrap(), [None, None, Some(true)]);
        assert_eq!(table.unit("n").as_deref(), Some("tok"));
    }

    #[test]
    fn an_axis_named_like_a_column_has_a_second_name() {
        let part = |label: &str| {
            let at = vec![("phase".to_owned(), Scalar::Text(label.into()))];
            let own = Column::text("phase", [Some("warm-up"), Some("measured")]);
            (at, Table::new(vec![own]).unwrap())
        };
        let parts = [part("one"), part("two")];
        let table = union(&parts, LockClass::Measurement).unwrap();
        assert_eq!(table.names(), ["axis_phase", "phase"]);
        let labels: Vec<_> = table
            .text("axis_phase")
            .unwrap()
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(labels, ["one", "one", "two", "two"]);
        assert_eq!(table.text("phase").unwrap()[3], Some("measured"));
        let derived = union(&parts, LockClass::Pure).unwrap();
        assert_eq!(derived.names(), ["phase"]);
    }
}
