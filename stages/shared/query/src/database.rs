//! Named tables, and the answer to one query.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use artifacts::{Column, ColumnData, Scalar, Table, lock};
use pipeline::suggest::nearest;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, ErrorCode, Statement};

use crate::error::QueryError;
use crate::functions;
use crate::limits::Limits;
use crate::sandbox::{self, Seen};
use crate::text::{
    as_written, calls, first_word, has_several_statements, mentioned, own_tables, place,
    says_order, with_real_division,
};

/// The number of instructions between two checks of the limits. One instruction can make a long text, which takes
/// milliseconds.
const STEP: i32 = 200;

/// Tables in memory for queries.
pub struct Database {
    connection: Connection,
    /// The tables by lower-case name, because SQL ignores case.
    tables: BTreeMap<String, Loaded>,
}

struct Loaded {
    name: String,
    /// The columns without values.
    columns: Vec<Column>,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The rows.
    pub table: Table,
    /// The names of the tables that the query reads, sorted.
    pub read: Vec<String>,
}

/// A result column before any row is known.
pub(crate) struct Heading {
    pub(crate) name: String,
    /// The column that it repeats unchanged, if any.
    pub(crate) origin: Option<Column>,
}

impl Database {
    /// Makes a database without tables.
    ///
    /// # Errors
    /// If SQLite cannot start.
    pub fn new() -> Result<Self, QueryError> {
        let connection = sandbox::connection().map_err(|e| internal(&e))?;
        functions::register(&connection).map_err(|e| internal(&e))?;
        crate::texts::register(&connection).map_err(|e| internal(&e))?;
        Ok(Self {
            connection,
            tables: BTreeMap::new(),
        })
    }

    /// Adds a table. Truth values are the integers 0 and 1 in SQL; NaN is null.
    ///
    /// # Errors
    /// If a table of this name exists already, or two columns differ only in case.
    pub fn add(&mut self, name: &str, table: &Table) -> Result<(), QueryError> {
        let columns: Vec<Column> = (table.names().iter().map(|n| table.column(n)))
            .collect::<Result<_, _>>()
            .map_err(|e| QueryError::Failed(format!("the table `{name}`: {e}")))?;
        self.add_columns(name, &columns)
    }

    /// Adds a table from columns of equal length.
    pub(crate) fn add_columns(&mut self, name: &str, columns: &[Column]) -> Result<(), QueryError> {
        let wrong = |e: Error| match is_out_of_memory(&e) {
            true => too_large(&format!("the table `{name}`")),
            false => QueryError::Failed(format!("the table `{name}`: {e}")),
        };
        let declared: Vec<String> = columns
            .iter()
            .map(|c| format!("{} {}", quoted(&c.name), sql_type(&c.data)))
            .collect();
        let create = format!("create table {} ({})", quoted(name), declared.join(", "));
        self.connection.execute(&create, []).map_err(wrong)?;
        let marks = vec!["?"; columns.len()].join(", ");
        let transaction = self.connection.unchecked_transaction().map_err(wrong)?;
        {
            let mut insert = transaction
                .prepare(&format!("insert into {} values ({marks})", quoted(name)))
                .map_err(wrong)?;
            for row in 0..columns.first().map_or(0, length) {
                let values = columns.iter().map(|c| sql_value(&c.data, row));
                insert
                    .execute(rusqlite::params_from_iter(values))
                    .map_err(wrong)?;
            }
        }
        transaction.commit().map_err(wrong)?;
        let columns = columns.iter().map(bare).collect();
        self.tables.insert(
            name.to_lowercase(),
            Loaded {
                name: name.to_owned(),
                columns,
            },
        );
        Ok(())
    }

    /// Returns the names of the tables, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.tables.values().map(|t| t.name.as_str()).collect()
    }

    /// Returns the names of all columns, each behind that of its table.
    pub fn columns_by_table(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tables.values().flat_map(|table| {
            let names = table.columns.iter().map(|c| c.name.as_str());
            names.map(|name| (table.name.as_str(), name))
        })
    }

    /// Answers one SELECT. A result column that repeats a column of a table keeps its unit,
    /// meaning and type.
    ///
    /// # Errors
    /// If the text is not a single SELECT over these tables, attempts a forbidden operation, or
    /// exceeds a limit; see [`QueryError`].
    pub fn select(&mut self, sql: &str, limits: &Limits) -> Result<Answer, QueryError> {
        let spent = Arc::new(AtomicU64::new(0));
        let (counter, own) = (Arc::clone(&spent), limits.clone());
        let watch = move || {
            let all = counter.fetch_add(STEP.unsigned_abs().into(), Ordering::Relaxed);
            all > own.instructions || own.is_over()
        };
        self.connection
            .progress_handler(STEP, Some(watch))
            .map_err(|e| internal(&e))?;
        sandbox::set_length(&self.connection, limits.value).map_err(|e| internal(&e))?;
        let answer = self.guarded(sql, |this, statement, headings, seen| {
            let failed = |e: &Error| match e {
                Error::SqliteFailure(code, _) if code.code == ErrorCode::OperationInterrupted => {
                    if limits.is_over() {
                        QueryError::Stopped
                    } else {
                        QueryError::Limit(format!(
                            "the query takes more than {} instructions",
                            limits.instructions
                        ))
                    }
                }
                e if is_out_of_memory(e) => too_large("the query"),
                Error::SqliteFailure(code, _) if code.code == ErrorCode::TypeMismatch => {
                    QueryError::Failed(
                        "`limit` and `offset` take whole numbers, and `/` gives a fraction: write \
                         `cast(… as integer)`"
                            .to_owned(),
                    )
                }
                Error::SqliteFailure(code, _) if code.code == ErrorCode::TooBig => {
                    QueryError::Limit(format!("a value has more than {} bytes", limits.value))
                }
                Error::SqliteFailure(_, Some(message)) if message == functions::TOO_MANY => {
                    QueryError::Limit(message.clone())
                }
                Error::SqliteFailure(_, Some(message)) if message == "integer overflow" => {
                    QueryError::Failed(overflow(sql))
                }
                Error::SqliteFailure(_, Some(message)) => QueryError::Failed(message.clone()),
                other => QueryError::Failed(other.to_string()),
            };
            let casts = mentioned(sql).contains("cast");
            let columns = collect(statement, (headings, casts), limits, &failed)?;
            let columns = if says_order(sql) {
                columns
            } else {
                sorted(&columns)
            };
            let table = Table::new(columns).map_err(|e| {
                QueryError::Failed(format!(
                    "{e}: give each result column its own name with `as`"
                ))
            })?;
            let names = lock(seen);
            let read = names
                .read
                .iter()
                .filter_map(|n| Some(this.get(n)?.name.clone()))
                .collect();
            Ok(Answer { table, read })
        });
        self.connection
            .progress_handler(0, None::<fn() -> bool>)
            .map_err(|e| internal(&e))?;
        sandbox::set_length(&self.connection, sandbox::LENGTH).map_err(|e| internal(&e))?;
        answer
    }

    /// Returns the result columns of a query without running it.
    pub(crate) fn headings(&mut self, sql: &str) -> Result<Vec<Heading>, QueryError> {
        self.guarded(sql, |_, _, headings, _| Ok(headings))
    }

    /// Prepares a query under the guard.
    fn guarded<T>(
        &mut self,
        sql: &str,
        then: impl FnOnce(
            &BTreeMap<String, Loaded>,
            &mut Statement<'_>,
            Vec<Heading>,
            &Mutex<Seen>,
        ) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        match first_word(sql).as_deref() {
            Some("select" | "with" | "values") => {}
            Some(word) => {
                let remedy = match nearest(word, ["select"]) {
                    Some(meant) => format!("; {meant}"),
                    None if sql.trim().ends_with(".sql") => {
                        ": give the text of the query, not its file".to_owned()
                    }
                    None => ": queries only read".to_owned(),
                };
                return Err(QueryError::Refused(format!(
                    "a query must begin with `select`, not `{word}`{remedy}"
                )));
            }
            None => return Err(QueryError::Refused("the query is empty".to_owned())),
        }
        if has_several_statements(sql) {
            // SQLite would first complain about what follows.
            let message = "a query must be a single statement";
            return Err(QueryError::Refused(message.to_owned()));
        }
        let names: BTreeSet<String> = self.tables.keys().cloned().collect();
        let seen = sandbox::guard(&mut self.connection, names, own_tables(sql))
            .map_err(|e| internal(&e))?;
        let real = with_real_division(sql);
        // An error is explained in the text as it was written.
        let as_written = |error| self.connection.prepare(sql).err().unwrap_or(error);
        let result = match self.connection.prepare(&real).map_err(as_written) {
            Err(error) => Err(explain(error, &seen)),
            Ok(statement) if statement.parameter_count() > 0 => Err(QueryError::Refused(
                "a query cannot take parameters; write the value itself".to_owned(),
            )),
            Ok(statement) if !statement.readonly() || statement.column_count() == 0 => Err(
                QueryError::Refused("a query may not change anything".to_owned()),
            ),
            Ok(mut statement) => {
                let mut headings = headings(&statement, &self.tables);
                if mentioned(sql).contains("union") {
                    // SQLite reports only the origin of the first part.
                    headings.iter_mut().for_each(|h| h.origin = None);
                }
                then(&self.tables, &mut statement, headings, &seen)
            }
        };
        let open = None::<fn(rusqlite::hooks::AuthContext<'_>) -> rusqlite::hooks::Authorization>;
        self.connection.authorizer(open).map_err(|e| internal(&e))?;
        result
    }
}

fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(code, _) if code.code == ErrorCode::OutOfMemory)
}

fn too_large(what: &str) -> QueryError {
    QueryError::Limit(format!(
        "{what} takes more than the {} MiB of memory that all queries share",
        sandbox::MEMORY >> 20
    ))
}

fn headings(statement: &Statement<'_>, tables: &BTreeMap<String, Loaded>) -> Vec<Heading> {
    let heading = |c: rusqlite::ColumnMetadata<'_>| {
        let table = c.table_name().and_then(|t| tables.get(&t.to_lowercase()));
        let same = |column: &&Column| {
            c.origin_name()
                .is_some_and(|o| o.eq_ignore_ascii_case(&column.name))
        };
        Heading {
            name: as_written(c.name()),
            origin: table.and_then(|t| t.columns.iter().find(same)).cloned(),
        }
    };
    statement.columns_with_metadata().map(heading).collect()
}

/// Explains that an integer became too large.
fn overflow(sql: &str) -> String {
    let calls: Vec<String> = calls(sql, &["sum", "abs"])
        .into_iter()
        .map(|call| format!("`{call}`"))
        .collect();
    let place = match calls.as_slice() {
        [] => "a sum".to_owned(),
        calls => calls.join(" or "),
    };
    format!(
        "the result of {place} does not fit into an integer of 64 bits: write `total(…)` for a sum as a double, or \
         `abs(1.0 * …)`"
    )
}

/// Explains that a number of a column is beyond the doubles.
fn too_great(column: &str) -> String {
    format!(
        "a number of the column `{column}` is beyond ±1.8e308, the range of a double: divide the values before you \
         combine them, or write `null` for such rows"
    )
}

/// Explains that `cast` cut off a number of a column.
fn cut_off(column: &str) -> String {
    format!(
        "a number of the column `{column}` is at the end of the integers of 64 bits, where `cast(… as integer)` cuts off: \
         leave the number a double, or divide it first"
    )
}

/// Runs a query and returns its columns. If the query `casts`, an integer can have been cut off.
fn collect(
    statement: &mut Statement<'_>,
    (headings, casts): (Vec<Heading>, bool),
    limits: &Limits,
    failed: &dyn Fn(&Error) -> QueryError,
) -> Result<Vec<Column>, QueryError> {
    let mut values: Vec<Vec<Scalar>> = headings.iter().map(|_| Vec::new()).collect();
    let mut bytes = 0;
    let mut rows = statement.query([]).map_err(|e| failed(&e))?;
    while let Some(row) = rows.next().map_err(|e| failed(&e))? {
        for (i, column) in values.iter_mut().enumerate() {
            let value = match row.get_ref(i).map_err(|e| failed(&e))? {
                ValueRef::Null => Scalar::Null,
                ValueRef::Integer(i64::MIN | i64::MAX) if casts && headings[i].origin.is_none() => {
                    return Err(QueryError::Failed(cut_off(&headings[i].name)));
                }
                ValueRef::Integer(value) => Scalar::Int(value),
                ValueRef::Real(value) if value.is_finite() => Scalar::Float(value),
                // A column of a table may have such numbers; they are undefined, so they become null.
                ValueRef::Real(_) if headings[i].origin.is_some() => Scalar::Null,
                ValueRef::Real(_) => return Err(QueryError::Failed(too_great(&headings[i].name))),
                ValueRef::Text(text) => {
                    bytes += text.len();
                    let text = std::str::from_utf8(text).map_err(|_| {
                        QueryError::Failed(format!("column `{}` is not text", headings[i].name))
                    })?;
                    Scalar::Text(text.to_owned())
                }
                ValueRef::Blob(_) => {
                    return Err(QueryError::Failed(format!(
                        "column `{}` holds raw bytes",
                        headings[i].name
                    )));
                }
            };
            bytes += size_of::<Scalar>();
            column.push(value);
        }
        if values[0].len() > limits.rows {
            return Err(QueryError::Limit(format!(
                "the answer has more than {} rows",
                limits.rows
            )));
        }
        if bytes > limits.bytes {
            return Err(QueryError::Limit(format!(
                "the answer has more than {} bytes",
                limits.bytes
            )));
        }
    }
    headings
        .into_iter()
        .zip(values)
        .map(|(heading, values)| column(heading, &values))
        .collect()
}

/// Makes a column of its origin's type, or of the type of its values.
fn column(heading: Heading, values: &[Scalar]) -> Result<Column, QueryError> {
    let Heading { name, origin } = heading;
    let mixed = |e: artifacts::TableError| QueryError::Failed(e.to_string());
    let Some(origin) = origin else {
        return Column::from_scalars(name, values).map_err(mixed);
    };
    let all = |fits: fn(&Scalar) -> bool| values.iter().all(|v| *v == Scalar::Null || fits(v));
    let data = match origin.data {
        ColumnData::Bool(_) if all(|v| matches!(v, Scalar::Int(0 | 1))) => ColumnData::Bool(
            values
                .iter()
                .map(|v| {
                    if let Scalar::Int(i) = v {
                        Some(*i != 0)
                    } else {
                        None
                    }
                })
                .collect(),
        ),
        ColumnData::Float(_) if all(|v| v.as_f64().is_some()) => {
            ColumnData::Float(values.iter().map(Scalar::as_f64).collect())
        }
        ColumnData::Int(_) if all(|_| false) => ColumnData::Int(vec![None; values.len()]),
        _ => {
            Column::from_scalars(name.as_str(), values)
                .map_err(mixed)?
                .data
        }
    };
    Ok(Column {
        name,
        data,
        ..origin
    })
}

/// Sorts rows by all columns, left to right, null first.
fn sorted(columns: &[Column]) -> Vec<Column> {
    let mut rows: Vec<usize> = (0..columns.first().map_or(0, length)).collect();
    rows.sort_by(|a, b| {
        let order = |c: &Column| match &c.data {
            ColumnData::Int(v) => v[*a].cmp(&v[*b]),
            ColumnData::Text(v) => v[*a].cmp(&v[*b]),
            ColumnData::Bool(v) => v[*a].cmp(&v[*b]),
            ColumnData::Float(v) => match (v[*a], v[*b]) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            },
        };
        columns
            .iter()
            .map(order)
            .find(|o| o.is_ne())
            .unwrap_or_else(|| a.cmp(b))
    });
    let data = |c: &Column| match &c.data {
        ColumnData::Int(v) => ColumnData::Int(rows.iter().map(|r| v[*r]).collect()),
        ColumnData::Float(v) => ColumnData::Float(rows.iter().map(|r| v[*r]).collect()),
        ColumnData::Text(v) => ColumnData::Text(rows.iter().map(|r| v[*r].clone()).collect()),
        ColumnData::Bool(v) => ColumnData::Bool(rows.iter().map(|r| v[*r]).collect()),
    };
    columns
        .iter()
        .map(|c| Column {
            data: data(c),
            ..bare(c)
        })
        .collect()
}

/// Explains why SQLite rejects a text.
fn explain(error: Error, seen: &Mutex<Seen>) -> QueryError {
    if let Some(why) = &lock(seen).refused {
        return QueryError::Refused(why.clone());
    }
    let (message, at) = match error {
        Error::SqlInputError {
            msg, sql, offset, ..
        } => (msg, usize::try_from(offset).ok().map(|o| place(&sql, o))),
        Error::SqliteFailure(_, Some(message)) => (message, None),
        other => (other.to_string(), None),
    };
    let name = |text: &str| {
        text.split(" - ")
            .next()
            .unwrap_or(text)
            .trim_matches('"')
            .to_owned()
    };
    if let Some(table) = message.strip_prefix("no such table: ") {
        QueryError::NoTable(table.to_owned())
    } else if let Some(column) = message.strip_prefix("no such column: ") {
        QueryError::NoColumn(name(column))
    } else if let Some(column) = message.strip_prefix("cannot join using column ") {
        QueryError::NoJoinColumn(name(column))
    } else {
        QueryError::Sql(message, at)
    }
}

fn internal(error: &Error) -> QueryError {
    QueryError::Failed(format!("SQLite: {error}"))
}

/// Writes the name of a table or a column for a query, in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn sql_type(data: &ColumnData) -> &'static str {
    match data {
        ColumnData::Int(_) => "integer",
        ColumnData::Float(_) => "real",
        ColumnData::Text(_) => "text",
        ColumnData::Bool(_) => "boolean",
    }
}

fn sql_value(data: &ColumnData, row: usize) -> ToSqlOutput<'_> {
    let owned = |value: Option<Value>| ToSqlOutput::Owned(value.unwrap_or(Value::Null));
    match data {
        ColumnData::Int(v) => owned(v[row].map(Value::Integer)),
        ColumnData::Float(v) => owned(v[row].map(Value::Real)),
        ColumnData::Bool(v) => owned(v[row].map(|b| Value::Integer(i64::from(b)))),
        ColumnData::Text(v) => {
            let text = v[row].as_deref().map(|t| ValueRef::Text(t.as_bytes()));
            ToSqlOutput::Borrowed(text.unwrap_or(ValueRef::Null))
        }
    }
}

fn length(column: &Column) -> usize {
    match &column.data {
        ColumnData::Int(v) => v.len(),
        ColumnData::Float(v) => v.len(),
        ColumnData::Text(v) => v.len(),
        ColumnData::Bool(v) => v.len(),
    }
}

/// Returns a column without its values.
fn bare(column: &Column) -> Column {
    let data = match &column.data {
        ColumnData::Int(_) => ColumnData::Int(Vec::new()),
        ColumnData::Float(_) => ColumnData::Float(Vec::new()),
        ColumnData::Text(_) => ColumnData::Text(Vec::new()),
        ColumnData::Bool(_) => ColumnData::Bool(Vec::new()),
    };
    Column {
        name: column.name.clone(),
        unit: column.unit.clone(),
        description: column.description.clone(),
        ratio: column.ratio.clone(),
        data,
    }
}
