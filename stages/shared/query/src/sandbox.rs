//! What a query may do: select, read the given tables, and call the listed functions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, Authorization};
use rusqlite::limits::Limit;

use crate::functions::{AGGREGATES, SCALARS};

/// The SQLite functions that a query may call. All others are refused, above all those that read a clock, random
/// numbers, the state of the connection or a file.
#[rustfmt::skip]
pub const ALLOWED: &[&str] = &[
    // Aggregates.
    "avg", "count", "group_concat", "max", "min", "string_agg", "sum", "total",
    // Windows.
    "cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank",
    "rank", "row_number",
    // Values.
    "abs", "coalesce", "if", "ifnull", "iif", "likelihood", "likely", "nullif", "round", "sign", "typeof", "unlikely",
    // Text.
    "char", "concat", "concat_ws", "format", "glob", "hex", "instr", "length", "like", "lower", "ltrim",
    "octet_length", "printf", "quote", "replace", "rtrim", "substr", "substring", "trim", "unhex", "unicode",
    "unistr", "upper",
    // JSON.
    "->", "->>", "json", "json_array", "json_array_length", "json_extract", "json_object", "json_type", "json_valid",
];

/// What the authorizer saw during the preparation of a query.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The first refused operation, in words.
    pub(crate) refused: Option<String>,
    /// The tables read, in lower case.
    pub(crate) read: BTreeSet<String>,
}

/// The most bytes of memory of all connections of this process together. SQLite has no limit per connection. An index
/// takes a few megabytes, so the rest is for queries.
pub(crate) const MEMORY: i64 = 2 << 30;

/// The most bytes of one value.
pub(crate) const LENGTH: usize = 64 << 20;

/// The most bytes of a pattern of `like` and `glob`, which are compared in one instruction.
const PATTERN: i32 = 1000;

/// Opens a connection that cannot reach anything outside itself.
pub(crate) fn connection() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    // Sorting never spills into a file, and a name in double quotes is never read as text.
    connection.execute_batch(
        "pragma temp_store = memory; pragma journal_mode = off; pragma synchronous = off;",
    )?;
    // A lower limit that was set earlier remains.
    connection.pragma_update(None, "hard_heap_limit", MEMORY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20)?;
    set_length(&connection, LENGTH)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN)?;
    Ok(connection)
}

/// Sets the most bytes of one value.
pub(crate) fn set_length(connection: &Connection, bytes: usize) -> rusqlite::Result<()> {
    let bytes = i32::try_from(bytes.min(LENGTH)).unwrap_or(i32::MAX);
    connection
        .set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)
        .map(drop)
}

/// Installs the guard on a connection and returns what it sees. `own` holds the tables that the query itself defines.
pub(crate) fn guard(
    connection: &mut Connection,
    tables: BTreeSet<String>,
    own: BTreeSet<String>,
) -> rusqlite::Result<Arc<Mutex<Seen>>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let noted = Arc::clone(&seen);
    connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
        let mut seen = artifacts::lock(&noted);
        if let AuthAction::Read {
            table_name,
            column_name: "",
        } = context.action
            && context.database_name.is_none()
            && own.contains(&table_name.to_lowercase())
            && !tables.contains(&table_name.to_lowercase())
        {
            return Authorization::Allow;
        }
        match judge(context.action, &tables, &mut seen.read) {
            Ok(()) => Authorization::Allow,
            Err(why) => {
                seen.refused.get_or_insert(why);
                Authorization::Deny
            }
        }
    }))?;
    Ok(seen)
}

fn judge(
    action: AuthAction<'_>,
    tables: &BTreeSet<String>,
    read: &mut BTreeSet<String>,
) -> Result<(), String> {
    match action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_lowercase();
            if !tables.contains(&name) {
                return Err(format!(
                    "a query may read only the tables it is given, not `{table_name}`"
                ));
            }
            read.insert(name);
            Ok(())
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_lowercase();
            let allowed = [ALLOWED, AGGREGATES, SCALARS]
                .iter()
                .any(|list| list.contains(&name.as_str()));
            if allowed {
                Ok(())
            } else {
                Err(format!("a query may not call `{function_name}`"))
            }
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Err("a query may not attach a file".to_owned())
        }
        AuthAction::Pragma { pragma_name, .. } => {
            Err(format!("a query may not set or read `{pragma_name}`"))
        }
        _ => Err("a query may not change anything".to_owned()),
    }
}
