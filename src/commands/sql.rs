//! `sql`: a query over the tables of an experiment.

use std::collections::BTreeMap;

use artifacts::{Column, ColumnData, Scalar, Store, Table, TableError};
use pipeline::lock::{Lock, LockStage};
use pipeline::{Artifact, CellStatus, Coordinates};
use query::{Database, Limits, QueryError};
use serde_json::json;

use crate::args::{Global, SqlArgs};
use crate::cells::{read_lock, read_record};
use crate::columns::columns;
use crate::exit::Stop;
use crate::project::{Project, shown};
use crate::table_view::View;
use crate::terminal::{bytes, complain, say};

pub(super) fn sql(arguments: &SqlArgs, global: &Global) -> Result<(), Stop> {
    let rows = arguments
        .rows
        .as_deref()
        .map(View::parse_rows)
        .transpose()
        .map_err(Stop::usage)?;
    let profile = if arguments.smoke {
        Some("smoke")
    } else {
        arguments.profile.as_deref()
    };
    let lock = read_lock(&arguments.experiment, profile)?;
    let store =
        Project::of(Some(&arguments.experiment), global.store.as_deref())?.open_existing()?;
    let catalogue = Catalogue::read(&lock, &store)?;
    let Some(query) = &arguments.query else {
        return list(&catalogue, &store, global);
    };
    let answer = answer(query, &catalogue, &store)?;
    if let Some(file) = &arguments.parquet {
        let content = answer.to_parquet()?;
        std::fs::write(file, &content)
            .map_err(|e| Stop::machine(format!("{}: {e}", file.display())))?;
        let size = bytes(content.len() as u64);
        if global.json {
            say(&json!({"file": file, "rows": answer.rows(), "bytes": content.len()}).to_string());
        } else {
            say(&format!("{}: {} rows, {size}", shown(file), answer.rows()));
        }
    } else if arguments.csv {
        say(csv(&answer)?.trim_end_matches('\n'));
    } else {
        let all_columns = "name the columns you want in the query, or print all with `--csv`";
        let view = View {
            rows,
            columns: Vec::new(),
            all_columns,
        };
        say(&if global.json {
            view.json(&answer)?.to_string()
        } else {
            view.text(&answer)?
        });
    }
    Ok(())
}

/// One output that the cells of a stage have as a table.
struct Entry<'lock> {
    stage: &'lock LockStage,
    output: String,
    /// The first cell's.
    sample: Artifact,
}

/// The tables of an experiment by the names a query may use. The outputs of a stage are read
/// from its first ok cell.
struct Catalogue<'lock> {
    tables: BTreeMap<String, Entry<'lock>>,
    /// The outputs that one stage alone has, with their full name.
    short: BTreeMap<String, String>,
}

impl<'lock> Catalogue<'lock> {
    fn read(lock: &'lock Lock, store: &Store) -> Result<Self, Stop> {
        let mut tables = BTreeMap::new();
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for stage in &lock.stages {
            let Some(cell) = stage.cells.iter().find(|c| c.status == CellStatus::Ok) else {
                continue;
            };
            for (output, sample) in read_record(store, &stage.name, cell)?.outputs {
                if sample.rows.is_some() {
                    let name = format!("{}.{output}", stage.name);
                    holders
                        .entry(output.to_string())
                        .or_default()
                        .push(name.clone());
                    tables.insert(
                        name,
                        Entry {
                            stage,
                            output: output.to_string(),
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
        Ok(Self {
            tables,
            short: holders.into_iter().filter_map(alone).collect(),
        })
    }

    /// Says what to do about a table that is not there.
    fn hint(&self, name: &str) -> String {
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
        let known = self
            .tables
            .keys()
            .chain(self.short.keys())
            .map(String::as_str)
            .filter(derived);
        contract::did_you_mean(name, &known.collect::<Vec<_>>())
    }
}

/// Loads the tables that a query mentions and asks it.
fn answer(query: &str, catalogue: &Catalogue<'_>, store: &Store) -> Result<Table, Stop> {
    let mentioned = query::mentioned(query);
    let mut database = Database::new().map_err(Stop::failed)?;
    let full = catalogue.tables.keys().map(|name| (name, name));
    for (name, full) in full
        .chain(&catalogue.short)
        .filter(|(name, _)| mentioned.contains(&name.to_lowercase()))
    {
        let entry = &catalogue.tables[full];
        database
            .add(name, &whole(entry, store)?)
            .map_err(Stop::failed)?;
    }
    let answer = database.select(query, &Limits::default());
    answer.map(|a| a.table).map_err(|error| match &error {
        QueryError::NoTable(name) => Stop::nothing(&error).hint(catalogue.hint(name)),
        QueryError::NoColumn(name) => {
            let tables = database.names();
            let columns = tables
                .iter()
                .flat_map(|t| database.columns(t).unwrap_or_default());
            let known: std::collections::BTreeSet<&str> =
                columns.map(|c| c.name.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            let bare = name.rsplit('.').next().unwrap_or(name);
            Stop::usage(&error).hint(contract::did_you_mean(bare, &known))
        }
        QueryError::Failed(_) | QueryError::Limit(_) | QueryError::Stopped => Stop::failed(&error),
        QueryError::Sql(..) | QueryError::NoJoinColumn(_) | QueryError::Refused(_) => {
            Stop::usage(&error)
        }
    })
}

/// Returns the rows of all ok cells of a stage, in the order of the lock, the coordinates before
/// them.
fn whole(entry: &Entry<'_>, store: &Store) -> Result<Table, Stop> {
    let mut parts = Vec::new();
    let mut absent = 0;
    for cell in &entry.stage.cells {
        if cell.status != CellStatus::Ok {
            absent += 1;
            continue;
        }
        let record = read_record(store, &entry.stage.name, cell)?;
        let Some(artifact) = record.outputs.get(&entry.output) else {
            continue;
        };
        parts.push((
            record.coordinates.0,
            Table::from_parquet(store.get(&artifact.digest)?)?,
        ));
    }
    if absent > 0 {
        let of = format!("{} of {} cells", absent, entry.stage.cells.len());
        complain(&format!(
            "note: {of} of {} are not ok; their rows are left out",
            entry.stage.name
        ));
    }
    let mut table = union(&parts)?;
    if parts.len() == 1 && parts[0].0.is_empty() {
        table = parts.remove(0).1;
    }
    Ok(table)
}

/// Puts tables under each other: columns by name, null where a table lacks one.
fn union(parts: &[(Vec<(String, Scalar)>, Table)]) -> Result<Table, TableError> {
    let mut names: Vec<String> = Vec::new();
    let axes = parts
        .iter()
        .flat_map(|(at, _)| at.iter().map(|(axis, _)| axis.clone()));
    for name in axes.chain(parts.iter().flat_map(|(_, t)| t.names())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut columns = Vec::new();
    for name in &names {
        let mut values = Vec::new();
        let (mut unit, mut description) = (None, None);
        for (at, table) in parts {
            // A table may itself have a column named as an axis: what it says stands.
            if table.has(name) {
                for row in 0..table.rows() {
                    values.push(table.value(name, row)?);
                }
                unit = unit.or_else(|| table.unit(name));
                description = description.or_else(|| table.description(name));
            } else {
                let label = at
                    .iter()
                    .find(|(axis, _)| axis == name)
                    .map_or(&Scalar::Null, |(_, label)| label);
                values.extend(std::iter::repeat_n(label.clone(), table.rows()));
            }
        }
        let mut column = Column::from_scalars(name, &values).unwrap_or_else(|_| {
            // Labels of one axis may be of different types.
            let text = values.iter().map(|v| {
                if *v == Scalar::Null {
                    None
                } else {
                    Some(v.to_string())
                }
            });
            Column::text(name, text)
        });
        if values.iter().all(|v| *v == Scalar::Null) {
            // No value tells the type; a table that has the column does.
            if let Some(of) = parts.iter().find_map(|(_, t)| t.column(name).ok()) {
                column.data = nulls(&of.data, values.len());
            }
        }
        column.unit = unit;
        column.description = description;
        columns.push(column);
    }
    Table::new(columns)
}

/// Returns so many nulls of a type.
fn nulls(of: &ColumnData, rows: usize) -> ColumnData {
    match of {
        ColumnData::Int(_) => ColumnData::Int(vec![None; rows]),
        ColumnData::Float(_) => ColumnData::Float(vec![None; rows]),
        ColumnData::Text(_) => ColumnData::Text(vec![None; rows]),
        ColumnData::Bool(_) => ColumnData::Bool(vec![None; rows]),
    }
}

/// Lists the tables with their columns.
fn list(catalogue: &Catalogue<'_>, store: &Store, global: &Global) -> Result<(), Stop> {
    let (mut lines, mut objects) = (Vec::new(), Vec::new());
    for (name, entry) in catalogue
        .tables
        .iter()
        .filter(|(name, _)| !name.ends_with(".lineage"))
    {
        let ok = entry
            .stage
            .cells
            .iter()
            .filter(|c| c.status == CellStatus::Ok);
        let (cells, axes) = ok.fold((0, None), |(n, first), c| {
            (n + 1, first.or(Some(&c.coordinates)))
        });
        let axes = axes.map(|at| axes_of(at)).unwrap_or_default();
        let table = Table::from_parquet(store.get(&entry.sample.digest)?)?;
        let names: Vec<String> = axes.into_iter().chain(table.names()).collect();
        let short = if catalogue.short.contains_key(&entry.output) {
            entry.output.as_str()
        } else {
            ""
        };
        lines.push(vec![
            format!("\"{name}\""),
            short.to_owned(),
            format!("{cells}"),
            names.join(", "),
        ]);
        objects.push(json!({"table": name, "cells": cells, "columns": names}));
    }
    if global.json {
        say(&serde_json::Value::Array(objects).to_string());
    } else {
        say(&columns(
            &["table", "also", "cells", "columns"],
            &lines,
            &[2],
        ));
    }
    Ok(())
}

/// Returns the names of the axes in coordinates as text.
fn axes_of(coordinates: &str) -> Vec<String> {
    let coordinates: Coordinates = coordinates.parse().unwrap_or_default();
    coordinates.0.into_iter().map(|(axis, _)| axis).collect()
}

/// Returns a table as CSV (RFC 4180, but lines end in a line feed): a heading, null as an empty
/// field, empty text as `""`, numbers so that they read back to the last bit.
fn csv(table: &Table) -> Result<String, TableError> {
    let field = |text: &str| {
        let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']);
        if plain {
            text.to_owned()
        } else {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
    };
    let names = table.names();
    let mut text = names.iter().map(|n| field(n)).collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in 0..table.rows() {
        let mut fields = Vec::new();
        for name in &names {
            fields.push(match table.value(name, row)? {
                Scalar::Null => String::new(),
                other => field(&other.to_string()),
            });
        }
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_tells_null_from_empty_text_and_quotes_what_needs_it() {
        let table = Table::new(vec![
            Column::text("status", [Some("ok"), None, Some(""), Some("a,\"b\"\nc")]),
            Column::float("x", [Some(0.1 + 0.2), None, Some(1e300), Some(2.0)]),
        ]);
        let expected = format!(
            "status,x\nok,0.30000000000000004\n,\n\"\",{}\n\"a,\"\"b\"\"\nc\",2\n",
            1e300
        );
        assert_eq!(csv(&table.unwrap()).unwrap(), expected);
    }

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
        let table = union(&[one, two]).unwrap();
        assert_eq!(table.names(), ["configuration", "rep", "n", "ok"]);
        assert_eq!(table.int("rep").unwrap(), [Some(1), Some(1), Some(2)]);
        assert_eq!(table.float("n").unwrap(), [Some(1.0), None, Some(1.5)]);
        assert_eq!(table.boolean("ok").unwrap(), [None, None, Some(true)]);
        assert_eq!(table.unit("n").as_deref(), Some("tok"));
    }
}
