//! `sql`: queries the tables of an experiment.

use artifacts::{Column, Store, Table, counted};
use explore::{Catalogue, CatalogueError, csv};
use pipeline::lock::LockClass;
use pipeline::suggest::column_remedy;
use pipeline::{CellStatus, Coordinates};
use query::{Limits, QueryError};
use serde_json::json;

use crate::args::{Global, SqlArgs};
use crate::columns::columns;
use crate::exit::Stop;
use crate::project::shown;
use crate::study::Study;
use crate::table_view::View;
use crate::terminal::{bytes, complain, continued, say};
use crate::whole_file;

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
    if crate::folder::is_loose(&arguments.experiment) {
        return loose(arguments, rows, global);
    }
    let Study { lock, store, .. } = &Study::open(&arguments.experiment, profile, global)?;
    let catalogue = Catalogue::read(lock, store)?;
    let Some(query) = &arguments.query else {
        return list(&catalogue, store, arguments.csv, global);
    };
    let (answer, notes) = catalogue.ask(query, store, &Limits::default())?;
    for note in notes {
        complain(&format!("note: {}", continued(&note)));
    }
    print(arguments, rows, &answer, global)
}

/// Queries the tables of a folder that `load --out` wrote, or one Parquet file by its name.
fn loose(arguments: &SqlArgs, rows: Option<(usize, usize)>, global: &Global) -> Result<(), Stop> {
    let path = &arguments.experiment;
    let names = if path.is_dir() {
        crate::folder::tables(path)?
    } else {
        vec![
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        ]
    };
    let read = |name: &str| -> Result<Table, Stop> {
        let file = crate::folder::table_file(path, path.is_dir().then_some(name))?;
        let bytes =
            artifacts::regular::read(&file).map_err(|e| Stop::refused_at(file.display(), &e))?;
        Table::from_parquet(bytes)
            .map_err(|e| crate::folder::damaged(&file.display().to_string(), &e))
    };
    let Some(query) = &arguments.query else {
        let (mut lines, mut objects) = (Vec::new(), Vec::new());
        for name in &names {
            let table = read(name)?;
            objects.push(json!({"table": name, "rows": table.rows(), "columns": table.names()}));
            lines.push(vec![
                name.clone(),
                table.rows().to_string(),
                table.names().join(", "),
            ]);
        }
        if global.json {
            say(&serde_json::Value::Array(objects).to_string());
        } else if arguments.csv {
            say(&list_as_csv(&["table", "rows", "columns"], &lines)?);
        } else {
            say(&columns(&["table", "rows", "columns"], &lines, &[1]));
        }
        return Ok(());
    };
    let mentioned = query::mentioned(query);
    let mut database = query::Database::new().map_err(|e| Stop::failed(&e))?;
    for name in names
        .iter()
        .filter(|name| mentioned.contains(&name.to_lowercase()))
    {
        database
            .add(name, &read(name)?)
            .map_err(|e| Stop::failed(&e))?;
    }
    let answer = database.select(query, &Limits::default());
    let answer = answer.map_err(|error| match &error {
        QueryError::NoTable(name) => {
            Stop::nothing(&error).hint(crate::folder::other_table(name, &names))
        }
        _ => match query::hint(query, &error).or_else(|| other_column(&error, &database)) {
            Some(hint) => Stop::usage(&error).hint(hint),
            None => Stop::usage(&error),
        },
    })?;
    print(arguments, rows, &answer.table, global)
}

/// Returns the remedy for a column that does not exist.
fn other_column(error: &QueryError, database: &query::Database) -> Option<String> {
    match error {
        QueryError::NoColumn(name) => Some(column_remedy(name, database.columns_by_table())),
        _ => None,
    }
}

/// Prints an answer in the requested format.
fn print(
    arguments: &SqlArgs,
    rows: Option<(usize, usize)>,
    answer: &Table,
    global: &Global,
) -> Result<(), Stop> {
    if let Some(file) = &arguments.parquet {
        let content = answer.to_parquet()?;
        whole_file::write(file, &content).map_err(|e| Stop::refused_at(file.display(), &e))?;
        let size = bytes(content.len() as u64);
        if global.json {
            say(&json!({"file": file, "rows": answer.rows(), "bytes": content.len()}).to_string());
        } else {
            let rows = counted(answer.rows(), "row");
            say(&format!("{}: {rows}, {size}", shown(file)));
        }
    } else if arguments.csv {
        say(csv(answer)?.trim_end_matches('\n'));
    } else {
        let all_columns = "name the columns you want in the query, or print all with `--csv`";
        let view = View {
            rows,
            columns: Vec::new(),
            all_columns,
        };
        say(&if global.json {
            view.json(answer)?.to_string()
        } else {
            view.text(answer)?
        });
    }
    Ok(())
}

/// Lists the tables with their columns.
fn list(
    catalogue: &Catalogue<'_>,
    store: &Store,
    as_csv: bool,
    global: &Global,
) -> Result<(), Stop> {
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
        let own = table.names();
        // The column of an analysis that has the name of an axis is that axis.
        let apart = axes
            .iter()
            .filter(|axis| entry.stage.class != LockClass::Pure || !own.contains(*axis));
        let apart = apart.map(|axis| contract::column_of_axis(axis, &axes, &own));
        let names: Vec<String> = apart.chain(own.iter().cloned()).collect();
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
    } else if as_csv {
        // A name without the quotes that SQL requires.
        for line in &mut lines {
            line[0] = line[0].trim_matches('"').to_owned();
        }
        say(&list_as_csv(
            &["table", "also", "cells", "columns"],
            &lines,
        )?);
    } else {
        say(&columns(
            &["table", "also", "cells", "columns"],
            &lines,
            &[2],
        ));
    }
    Ok(())
}

/// Returns a list as CSV, quoted like the answers to queries.
fn list_as_csv(heading: &[&str], lines: &[Vec<String>]) -> Result<String, Stop> {
    let column = |i: usize| lines.iter().map(move |line| Some(line[i].as_str()));
    let all = heading.iter().enumerate();
    let table = Table::new(
        all.map(|(i, name)| Column::text(*name, column(i)))
            .collect(),
    )?;
    Ok(csv(&table)?.trim_end_matches('\n').to_owned())
}

/// Returns the names of the axes in coordinates as text.
fn axes_of(coordinates: &str) -> Vec<String> {
    let coordinates: Coordinates = coordinates.parse().unwrap_or_default();
    coordinates.axes()
}

impl From<CatalogueError> for Stop {
    fn from(error: CatalogueError) -> Self {
        match error {
            CatalogueError::Store(error) => error.into(),
            CatalogueError::Damaged(what) => Self::damaged(what),
            CatalogueError::Table(error) => error.into(),
            CatalogueError::Query(error, hint) => match &error {
                QueryError::NoTable(_) => Self::nothing(&error).hint(hint),
                QueryError::NoColumn(_) => Self::usage(&error).hint(hint),
                QueryError::Failed(_) | QueryError::Limit(_) | QueryError::Stopped => {
                    Self::failed(&error)
                }
                _ if !hint.is_empty() => Self::usage(&error).hint(hint),
                QueryError::Sql(..) | QueryError::NoJoinColumn(_) | QueryError::Refused(_) => {
                    Self::usage(&error)
                }
            },
        }
    }
}
