//! Checks whether a query can work, from the columns alone.

use std::collections::BTreeSet;

use artifacts::{Column, ColumnData, Ratio};

use crate::database::{Database, Heading};
use crate::error::QueryError;
use crate::limits::Limits;

/// A table's shape before the table exists.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// The known columns; values are ignored.
    pub columns: Vec<Column>,
    /// Whether it may have more columns later (such as the axes of an experiment).
    pub open: bool,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers.
    Int,
    /// Doubles.
    Float,
    /// Text.
    Text,
    /// Truth values.
    Bool,
}

/// A result column, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its name.
    pub name: String,
    /// The unit of the column that it repeats.
    pub unit: Option<String>,
    /// The meaning of the column that it repeats.
    pub description: Option<String>,
    /// The numerator and denominator of the column that it repeats.
    pub ratio: Option<Ratio>,
    /// Its type; `None` if it depends on the rows.
    pub kind: Option<Kind>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The result columns known so far.
    pub columns: Vec<Expected>,
    /// Columns that the query reads and no table is known to have, in the order found. An open
    /// table must have them later.
    pub assumed: Vec<String>,
}

/// Checks a query: syntax, tables, columns, and forbidden operations. Then runs it over synthetic
/// rows to find the types of the result.
///
/// # Errors
/// If the query cannot work, whatever the rows.
pub fn check(sql: &str, shapes: &[Shape]) -> Result<Checked, QueryError> {
    const MOST: usize = 100;
    let mut shapes = shapes.to_vec();
    let declared: Vec<usize> = shapes.iter().map(|s| s.columns.len()).collect();
    let mut assumed = Vec::new();
    let headings = loop {
        let error = match database(&shapes)?.headings(sql) {
            Ok(headings) => break headings,
            Err(error) => error,
        };
        let (column, joins) = match &error {
            QueryError::NoColumn(name) => {
                (name.rsplit('.').next().unwrap_or(name).to_owned(), false)
            }
            QueryError::NoJoinColumn(name) => (name.clone(), true),
            _ => return Err(error),
        };
        let lacking: Vec<usize> = (0..shapes.len())
            .filter(|i| shapes[*i].open && !shapes[*i].columns.iter().any(|c| c.name == column))
            .collect();
        let extended = match joins {
            true => with_join_column(sql, &shapes, &lacking, &column, &error)?,
            false => with_column(sql, &shapes, &lacking, &column, &error)?,
        };
        let Some(extended) = extended.filter(|_| assumed.len() < MOST) else {
            return Err(error);
        };
        shapes = extended;
        if !assumed.contains(&column) {
            assumed.push(column);
        }
    };
    let limits = Limits {
        rows: 1_000,
        bytes: 1 << 20,
        instructions: 1_000_000,
        ..Limits::default()
    };
    // A query that fails on synthetic rows may work on real ones. The types are then unknown.
    let sample = database(&shapes)?.select(sql, &limits).ok();
    let guessed: BTreeSet<&str> = shapes
        .iter()
        .zip(&declared)
        .flat_map(|(s, declared)| s.columns[*declared..].iter().map(|c| c.name.as_str()))
        .collect();
    let expected = |heading: Heading| {
        let column = sample
            .as_ref()
            .and_then(|a| a.table.column(&heading.name).ok());
        let origin = heading
            .origin
            .filter(|o| !guessed.contains(o.name.as_str()));
        let repeats_a_guess = guessed.contains(heading.name.as_str());
        let kind = match (&origin, column) {
            (Some(origin), _) => Some(kind(&origin.data)),
            (None, Some(column)) if !repeats_a_guess && has_values(&column.data) => {
                Some(kind(&column.data))
            }
            _ => None,
        };
        let (unit, description, ratio) =
            origin.map_or((None, None, None), |o| (o.unit, o.description, o.ratio));
        Expected {
            name: heading.name,
            unit,
            description,
            ratio,
            kind,
        }
    };
    Ok(Checked {
        columns: headings.into_iter().map(expected).collect(),
        assumed,
    })
}

/// Returns the shapes with a column that some of them lack.
fn with(shapes: &[Shape], lacking: impl IntoIterator<Item = usize>, column: &str) -> Vec<Shape> {
    let mut shapes = shapes.to_vec();
    for i in lacking {
        let column = Column::new(column, ColumnData::Int(Vec::new()));
        shapes[i].columns.push(column);
    }
    shapes
}

/// Returns the shapes with a column that a query reads, in the first table that then resolves it. Each part of a union
/// may read the column from its own table. `None` if no table resolves it.
fn with_column(
    sql: &str,
    shapes: &[Shape],
    lacking: &[usize],
    column: &str,
    error: &QueryError,
) -> Result<Option<Vec<Shape>>, QueryError> {
    for i in lacking.iter().copied() {
        let extended = with(shapes, [i], column);
        if database(&extended)?.headings(sql).err().as_ref() != Some(error) {
            return Ok(Some(extended));
        }
    }
    if lacking.len() < 2 {
        return Ok(None);
    }
    let all = with(shapes, lacking.iter().copied(), column);
    let remaining = database(&all)?.headings(sql).err();
    let of_column =
        |e: &QueryError| matches!(e, QueryError::NoColumn(_) | QueryError::NoJoinColumn(_));
    let resolved = remaining.as_ref() != Some(error) && remaining.as_ref().is_none_or(of_column);
    Ok(resolved.then_some(all))
}

/// Returns the shapes with a column of `using`, in the fewest tables that resolve it without making another column
/// ambiguous. `None` if all tables have it already.
fn with_join_column(
    sql: &str,
    shapes: &[Shape],
    lacking: &[usize],
    column: &str,
    error: &QueryError,
) -> Result<Option<Vec<Shape>>, QueryError> {
    /// More tables than a query joins in practice. Each one doubles the number of tries.
    const MOST_JOINED: usize = 6;
    if lacking.is_empty() {
        return Ok(None);
    }
    let mut sets: Vec<u32> = match lacking.len() {
        n if n <= MOST_JOINED => (1..1 << n).collect(),
        _ => Vec::new(),
    };
    sets.sort_by_key(|set| set.count_ones());
    for set in sets {
        let members = lacking.iter().enumerate();
        let members = members.filter(|(bit, _)| set & (1 << bit) != 0);
        let extended = with(shapes, members.map(|(_, i)| *i), column);
        let remaining = database(&extended)?.headings(sql).err();
        let ambiguous =
            matches!(&remaining, Some(QueryError::Sql(text, _)) if text.contains("ambiguous"));
        if !ambiguous && remaining.as_ref() != Some(error) {
            return Ok(Some(extended));
        }
    }
    Ok(Some(with(shapes, lacking.iter().copied(), column)))
}

/// Returns the names of all known columns, each behind that of its table.
pub fn columns(shapes: &[Shape]) -> impl Iterator<Item = (&str, &str)> {
    shapes.iter().flat_map(|shape| {
        let names = shape.columns.iter().map(|c| c.name.as_str());
        names.map(|name| (shape.name.as_str(), name))
    })
}

/// Fills tables with a few synthetic rows.
fn database(shapes: &[Shape]) -> Result<Database, QueryError> {
    let mut database = Database::new()?;
    for shape in shapes {
        let columns: Vec<Column> = shape.columns.iter().map(made_up).collect();
        database.add_columns(&shape.name, &columns)?;
    }
    Ok(database)
}

fn made_up(column: &Column) -> Column {
    let data = match &column.data {
        ColumnData::Int(_) => ColumnData::Int(vec![Some(1), Some(2), Some(3)]),
        ColumnData::Float(_) => ColumnData::Float(vec![Some(1.5), Some(2.5), Some(4.5)]),
        ColumnData::Text(_) => {
            ColumnData::Text(["a", "b", "c"].map(|t| Some(t.to_owned())).to_vec())
        }
        ColumnData::Bool(_) => ColumnData::Bool(vec![Some(true), Some(false), Some(true)]),
    };
    Column {
        data,
        ..column.clone()
    }
}

fn kind(data: &ColumnData) -> Kind {
    match data {
        ColumnData::Int(_) => Kind::Int,
        ColumnData::Float(_) => Kind::Float,
        ColumnData::Text(_) => Kind::Text,
        ColumnData::Bool(_) => Kind::Bool,
    }
}

fn has_values(data: &ColumnData) -> bool {
    match data {
        ColumnData::Int(v) => v.iter().any(Option::is_some),
        ColumnData::Float(v) => v.iter().any(Option::is_some),
        ColumnData::Text(v) => v.iter().any(Option::is_some),
        ColumnData::Bool(v) => v.iter().any(Option::is_some),
    }
}
