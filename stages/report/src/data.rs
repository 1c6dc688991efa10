//! What a report may look up: the outputs of its needed stages, and the study.
//!
//! A table is asked for as `stage.output`. If the stage has several cells, the table is the
//! rows of all its cells in order, and the cells' coordinates are columns. Artifacts are read
//! only when asked for: a lookup of one that is not in memory yet is remembered as wanted,
//! and the renderer fetches it and starts over, so that lookups need no store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::ledger;
use crate::trace::Source;
use artifacts::{Digest, Scalar, Store, Table};
use pipeline::stage::{CellStatus, Coordinates, Input, Json, Media, Study};

/// Everything lookups may see.
#[derive(Debug, Default)]
pub struct Data {
    stages: Vec<Input>,
    study: Option<Study>,
    tables: Mutex<BTreeMap<Digest, Arc<Table>>>,
    documents: Mutex<BTreeMap<Digest, Arc<Json>>>,
    wanted: Mutex<BTreeSet<Digest>>,
    /// The name of the report's stage: what the tables it derives itself are outputs of.
    own_stage: String,
    derived: Mutex<BTreeMap<String, (Digest, Arc<Table>)>>,
}

/// An output of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Part<T> {
    /// The cell.
    pub coordinates: Coordinates,
    /// The artifact.
    pub digest: Digest,
    /// The artifact read.
    pub content: Arc<T>,
}

/// Why a lookup has no answer; `None` as message means the artifact is not in memory yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Miss {
    /// The artifact must be fetched first.
    Unread,
    /// There is no such thing; says what there is.
    Wrong(String),
}

impl From<String> for Miss {
    fn from(message: String) -> Self {
        Self::Wrong(message)
    }
}

/// Rows of a table, chosen by a condition.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Whether the rows are those of a table or of the ledger.
    pub source: Source,
    /// The stage's name.
    pub stage: String,
    /// The output's name.
    pub output: String,
    /// The cells' tables.
    pub parts: Vec<Part<Table>>,
    /// The rows chosen: position in `parts`, row of that table.
    pub rows: Vec<(usize, usize)>,
    /// The condition, as text.
    pub condition: String,
    /// The columns that tell rows apart, in order.
    pub keys: Vec<String>,
}

/// A condition: columns, and the values of which a row must have one.
pub(crate) type Where = Vec<(String, Vec<Scalar>)>;

impl Data {
    /// Makes the data of a cell's inputs and study; nothing is read yet.
    pub fn new(inputs: &[Input], study: Option<&Study>) -> Self {
        Self { stages: inputs.to_vec(), study: study.cloned(), ..Self::default() }
    }

    /// Says which stage this is, so that the tables it derives can be traced to its outputs.
    #[must_use]
    pub fn of_stage(mut self, stage: &str) -> Self {
        stage.clone_into(&mut self.own_stage);
        self
    }

    /// Adds a table that the report derives itself and has as an output of its own.
    ///
    /// # Errors
    /// If the table cannot be written as Parquet.
    pub(crate) fn derive(&self, name: &str, table: Table) -> Result<(), String> {
        let digest = Digest::of(&table.to_parquet().map_err(|e| e.to_string())?);
        lock(&self.derived).insert(name.to_owned(), (digest, Arc::new(table)));
        Ok(())
    }

    /// Returns the tables derived so far, by name.
    pub(crate) fn derived(&self) -> Vec<(String, Arc<Table>)> {
        lock(&self.derived).iter().map(|(name, (_, table))| (name.clone(), table.clone())).collect()
    }

    /// Returns a document by its digest alone, for instance a record.
    pub(crate) fn by_digest(&self, digest: &Digest) -> Result<Arc<Json>, Miss> {
        if let Some(document) = lock(&self.documents).get(digest) {
            return Ok(document.clone());
        }
        lock(&self.wanted).insert(*digest);
        Err(Miss::Unread)
    }

    /// Returns the study.
    ///
    /// # Errors
    /// If the report was started without one.
    pub(crate) fn study(&self) -> Result<&Study, String> {
        self.study.as_ref().ok_or_else(|| "this report does not see the study".to_owned())
    }

    /// Returns whether a stage is needed and its cells that are ok have this output.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Some((stage, output)) = name.split_once('.') else { return false };
        let cells = self.stages.iter().filter(|s| s.stage == stage).flat_map(|s| &s.cells);
        cells.into_iter().any(|c| c.outputs.contains_key(output))
    }

    /// Returns the names of the tables a needed stage has, without those of its lineage.
    pub(crate) fn tables_of(&self, stage: &str) -> Vec<String> {
        let cells = self.stages.iter().filter(|s| s.stage == stage).flat_map(|s| &s.cells);
        let mut names = BTreeSet::new();
        for (name, artifact) in cells.flat_map(|c| &c.outputs) {
            if artifact.media == Media::Parquet && !name.ends_with(".lineage") {
                names.insert(format!("{stage}.{name}"));
            }
        }
        names.into_iter().collect()
    }

    /// Returns the needed stages.
    pub(crate) fn stages(&self) -> &[Input] {
        &self.stages
    }

    /// Reads what lookups asked for in vain; returns whether there was anything.
    ///
    /// # Errors
    /// If an artifact is missing, damaged, or not what its record says.
    pub(crate) fn fetch(&self, store: &Store) -> Result<bool, String> {
        let wanted = std::mem::take(&mut *lock(&self.wanted));
        for digest in &wanted {
            let bytes = store.get(digest).map_err(|e| e.to_string())?;
            let media = self
                .stages
                .iter()
                .flat_map(|s| &s.cells)
                .flat_map(|c| c.outputs.values())
                .find(|a| a.digest == *digest)
                .map(|a| a.media);
            if media == Some(Media::Parquet) {
                let table = Table::from_parquet(bytes).map_err(|e| format!("{digest}: {e}"))?;
                lock(&self.tables).insert(*digest, Arc::new(table));
            } else {
                let json = serde_json::from_slice(&bytes).map_err(|e| format!("{digest}: {e}"))?;
                lock(&self.documents).insert(*digest, Arc::new(json));
            }
        }
        Ok(!wanted.is_empty())
    }

    /// Returns the rows of `stage.output` that meet a condition.
    ///
    /// # Errors
    /// If there is no such stage, output or column, or the table is not read yet.
    pub(crate) fn view(&self, name: &str, condition: &Where) -> Result<View, Miss> {
        let mut own = lock(&self.derived).get(name).cloned();
        if own.is_none()
            && let Some(table) = crate::derived::table(name, self)?
        {
            self.derive(name, table)?;
            own = lock(&self.derived).get(name).cloned();
        }
        let (source, stage, output, parts) = match (ledger::table(name, self.study.as_ref())?, own) {
            (Some(part), _) => (Source::Ledger, "", name, vec![part]),
            (None, Some((digest, content))) => {
                let part = Part { coordinates: Coordinates::default(), digest, content };
                (Source::Table, self.own_stage.as_str(), name, vec![part])
            }
            (None, None) => {
                let (stage, output) = split(name)?;
                let parts = self.parts(stage, output, Media::Parquet, &lock(&self.tables))?;
                (Source::Table, stage, output, parts)
            }
        };
        let keys = self.keys(&parts, condition);
        View::choose(source, (stage, output), parts, keys, condition)
    }

    /// Returns a value in a JSON output: the cell that meets the condition, the path by keys
    /// and indices joined by full stops.
    ///
    /// # Errors
    /// If no cell or several meet the condition, or the document has no such path.
    pub(crate) fn document(
        &self,
        stage: &str,
        output: &str,
        condition: &Where,
        path: &str,
    ) -> Result<(Part<Json>, Json), Miss> {
        let mut parts = self.parts(stage, output, Media::Json, &lock(&self.documents))?;
        parts.retain(|p| {
            condition.iter().all(|(axis, values)| {
                p.coordinates.get(axis).is_some_and(|actual| values.iter().any(|v| same(v, actual)))
            })
        });
        let text = condition_text(condition);
        match parts.len() {
            1 => {}
            0 => return Err(format!("no cell of `{stage}` matches {text}").into()),
            n => return Err(format!("{n} cells of `{stage}` match {{{text}}}; name one").into()),
        }
        let part = parts.remove(0);
        let value = at_path(&part.content, path).cloned().ok_or_else(|| {
            let known = part.content.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>().join(", "));
            format!("`{stage}.{output}` has no `{path}`; at its top: {}", known.unwrap_or_default())
        })?;
        Ok((part, value))
    }

    fn parts<T>(
        &self,
        stage: &str,
        output: &str,
        media: Media,
        read: &BTreeMap<Digest, Arc<T>>,
    ) -> Result<Vec<Part<T>>, Miss> {
        let input = self.stages.iter().find(|i| i.stage == stage).ok_or_else(|| {
            let names: Vec<_> = self.stages.iter().map(|i| i.stage.as_str()).collect();
            format!("this report does not need a stage `{stage}`; it needs: {}", names.join(", "))
        })?;
        let mut parts = Vec::new();
        let mut unread = false;
        for cell in input.cells.iter().filter(|c| c.status == CellStatus::Ok) {
            let Some(artifact) = cell.outputs.get(output) else {
                let names: Vec<_> = cell.outputs.keys().map(String::as_str).collect();
                return Err(format!(
                    "stage `{stage}` has no output `{output}`; it has: {}",
                    names.join(", ")
                )
                .into());
            };
            if artifact.media != media {
                return Err(format!("`{stage}.{output}` is not {media:?}").to_lowercase().into());
            }
            match read.get(&artifact.digest) {
                Some(content) => parts.push(Part {
                    coordinates: cell.coordinates.clone(),
                    digest: artifact.digest,
                    content: content.clone(),
                }),
                None => {
                    lock(&self.wanted).insert(artifact.digest);
                    unread = true;
                }
            }
        }
        if unread {
            return Err(Miss::Unread);
        }
        if parts.is_empty() {
            return Err(format!("no cell of stage `{stage}` is ok, so there is no `{output}`").into());
        }
        Ok(parts)
    }

    /// The columns that tell rows apart: what the table's `key` note says, else the axes of
    /// the experiment that are columns or coordinates, then those of the condition.
    fn keys(&self, parts: &[Part<Table>], condition: &Where) -> Vec<String> {
        let Some(first) = parts.first() else { return Vec::new() };
        if let Some(key) = first.content.metadata("key") {
            return key.split(',').map(|k| k.trim().to_owned()).collect();
        }
        let axes = self.study.as_ref().and_then(|s| s.spec.get("axes")).and_then(axis_names);
        let mut keys: Vec<String> = axes.unwrap_or_default();
        keys.extend(first.coordinates.0.iter().map(|(axis, _)| axis.clone()));
        keys.extend(condition.iter().map(|(column, _)| column.clone()));
        let mut seen = BTreeSet::new();
        keys.retain(|k| {
            (first.content.has(k) || first.coordinates.get(k).is_some()) && seen.insert(k.clone())
        });
        keys
    }
}

impl View {
    /// Chooses the rows of a table that meet a condition.
    ///
    /// # Errors
    /// If the condition names a column that is not there.
    pub(crate) fn choose(
        source: Source,
        (stage, output): (&str, &str),
        parts: Vec<Part<Table>>,
        keys: Vec<String>,
        condition: &Where,
    ) -> Result<Self, Miss> {
        let mut view = Self {
            source,
            stage: stage.to_owned(),
            output: output.to_owned(),
            parts,
            rows: Vec::new(),
            condition: condition_text(condition),
            keys,
        };
        for (column, _) in condition {
            view.require(column)?;
        }
        for (p, part) in view.parts.iter().enumerate() {
            for row in 0..part.content.rows() {
                let mut holds = true;
                for (column, values) in condition {
                    let actual = view.at(p, row, column)?;
                    holds = values.iter().any(|v| same(v, &actual));
                    if !holds {
                        break;
                    }
                }
                if holds {
                    view.rows.push((p, row));
                }
            }
        }
        Ok(view)
    }

    /// Returns a value of the chosen row `index`.
    ///
    /// # Errors
    /// If there is no such column.
    pub(crate) fn get(&self, index: usize, column: &str) -> Result<Scalar, Miss> {
        let (part, row) = self.rows[index];
        self.at(part, row, column)
    }

    fn at(&self, part: usize, row: usize, column: &str) -> Result<Scalar, Miss> {
        let part = &self.parts[part];
        if part.content.has(column) {
            return Ok(part.content.value(column, row).map_err(|e| e.to_string())?);
        }
        self.require(column)?;
        Ok(part.coordinates.get(column).cloned().unwrap_or(Scalar::Null))
    }

    /// Checks that there is a column (or coordinate) of this name.
    ///
    /// # Errors
    /// If there is none; says which there are.
    pub(crate) fn require(&self, column: &str) -> Result<(), Miss> {
        let known = self.columns();
        if known.iter().any(|c| c == column) {
            return Ok(());
        }
        let (stage, output) = (&self.stage, &self.output);
        Err(format!("`{stage}.{output}` has no column `{column}`; it has: {}", known.join(", ")).into())
    }

    /// Returns the columns, coordinates first.
    pub(crate) fn columns(&self) -> Vec<String> {
        let Some(first) = self.parts.first() else { return Vec::new() };
        let mut columns: Vec<_> = first.coordinates.0.iter().map(|(axis, _)| axis.clone()).collect();
        columns.retain(|c| !first.content.has(c));
        columns.extend(first.content.names());
        columns
    }

    /// Returns the unit of a column.
    pub(crate) fn unit(&self, column: &str) -> Option<String> {
        self.parts.first().and_then(|p| p.content.unit(column))
    }

    /// Returns the key columns of a chosen row and their values, `a=x,b=y`.
    pub(crate) fn row_key(&self, index: usize) -> String {
        let pairs = self.keys.iter().map(|k| match self.get(index, k) {
            Ok(value) => format!("{k}={value}"),
            Err(_) => k.clone(),
        });
        pairs.collect::<Vec<_>>().join(",")
    }

    /// Returns the key of a chosen row, or its position if it has none.
    pub(crate) fn row_name(&self, index: usize) -> String {
        let key = self.row_key(index);
        if key.is_empty() { format!("row {}", self.rows[index].1) } else { key }
    }

    /// Sorts the chosen rows by columns; a leading `-` means descending. Null comes last.
    ///
    /// # Errors
    /// If there is no such column.
    pub(crate) fn sort(&mut self, by: &[String]) -> Result<(), Miss> {
        for column in by.iter().rev() {
            let (descending, column) =
                column.strip_prefix('-').map_or((false, column.as_str()), |rest| (true, rest));
            self.require(column)?;
            let mut keyed = Vec::with_capacity(self.rows.len());
            for index in 0..self.rows.len() {
                keyed.push((self.get(index, column)?, self.rows[index]));
            }
            keyed.sort_by(|(a, _), (b, _)| {
                let (order, null) = order(a, b);
                if descending && !null { order.reverse() } else { order }
            });
            self.rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}

/// Splits `stage.output`.
///
/// # Errors
/// If there is no full stop in it.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Miss> {
    name.split_once('.').ok_or_else(|| format!("`{name}` names no output: write it as `stage.output`").into())
}

/// Returns the value at a path of keys and indices joined by full stops. A key may itself
/// hold full stops if no shorter one matches.
pub(crate) fn at_path<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    if path.is_empty() {
        return Some(json);
    }
    let ends = path.match_indices('.').map(|(i, _)| i).chain([path.len()]);
    for end in ends {
        let (key, rest) = (&path[..end], path.get(end + 1..).unwrap_or(""));
        let child = match json {
            Json::Object(map) => map.get(key),
            Json::Array(items) => key.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => None,
        };
        if let Some(found) = child.and_then(|child| at_path(child, rest)) {
            return Some(found);
        }
    }
    None
}

/// Returns a JSON value as a scalar; `None` for arrays and objects.
pub(crate) fn scalar(json: &Json) -> Option<Scalar> {
    Some(match json {
        Json::Null => Scalar::Null,
        Json::Bool(value) => Scalar::Bool(*value),
        Json::Number(value) => match value.as_i64() {
            Some(int) => Scalar::Int(int),
            None => Scalar::Float(value.as_f64()?),
        },
        Json::String(text) => Scalar::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

fn axis_names(axes: &Json) -> Option<Vec<String>> {
    match axes {
        Json::Object(map) => Some(map.keys().cloned().collect()),
        Json::Array(items) => {
            Some(items.iter().filter_map(|a| a.get("name")?.as_str().map(str::to_owned)).collect())
        }
        _ => None,
    }
}

/// Whether two scalars are the same value; integers and doubles compare as numbers.
pub(crate) fn same(a: &Scalar, b: &Scalar) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
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

/// Writes a condition as text: `a=x|y,b=z`.
pub(crate) fn condition_text(condition: &Where) -> String {
    let pairs = condition.iter().map(|(column, values)| {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        format!("{column}={}", values.join("|"))
    });
    pairs.collect::<Vec<_>>().join(",")
}
