//! Replacements for SQLite's text functions that run as one instruction in quadratic time. Neither a count of
//! instructions nor a flag can stop those. These take linear time and give the same results.

use std::borrow::Cow;
use std::collections::HashSet;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error};

use crate::sandbox::LENGTH;

/// The most comparisons in a search over bytes that are not text.
const COMPARISONS: usize = 1 << 30;

/// Replaces SQLite's functions on a connection.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("instr", 2, flags, instr)?;
    connection.create_scalar_function("replace", 3, flags, replace)?;
    connection.create_scalar_function("unhex", 2, flags, unhex)?;
    for (name, left, right) in [
        ("trim", true, true),
        ("ltrim", true, false),
        ("rtrim", false, true),
    ] {
        connection.create_scalar_function(name, 2, flags, move |c| trimmed(c, left, right))?;
    }
    Ok(())
}

/// Returns an argument as the text that SQLite makes of it; `None` for null.
fn text<'a>(context: &'a Context<'_>, at: usize) -> rusqlite::Result<Option<Cow<'a, str>>> {
    Ok(Some(match context.get_raw(at) {
        ValueRef::Null => return Ok(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes),
        ValueRef::Integer(value) => value.to_string().into(),
        // Only SQLite formats numbers as SQLite does.
        ValueRef::Real(value) => Connection::open_in_memory()?
            .query_row("select cast(?1 as text)", [value], |row| {
                row.get::<_, Option<String>>(0)
            })?
            .unwrap_or_default()
            .into(),
    }))
}

/// Returns the position of the second text in the first, in characters from 1; 0 if it does not occur.
fn instr(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    if let (ValueRef::Blob(bytes), ValueRef::Blob(sought)) =
        (context.get_raw(0), context.get_raw(1))
    {
        if bytes.len().saturating_mul(sought.len()) > COMPARISONS {
            return Err(too_long("instr"));
        }
        let at = match sought.len() {
            0 => Some(0),
            length => bytes.windows(length).position(|window| window == sought),
        };
        return Ok(Some(at.map_or(0, position)));
    }
    let (Some(text), Some(sought)) = (text(context, 0)?, text(context, 1)?) else {
        return Ok(None);
    };
    let at = text.find(&*sought);
    Ok(Some(
        at.map_or(0, |at| position(text[..at].chars().count())),
    ))
}

fn position(before: usize) -> i64 {
    i64::try_from(before).unwrap_or(i64::MAX).saturating_add(1)
}

fn replace(context: &Context<'_>) -> rusqlite::Result<ToSqlOutput<'static>> {
    let null = || Ok(ToSqlOutput::Owned(Value::Null));
    let (Some(text_in), Some(from)) = (text(context, 0)?, text(context, 1)?) else {
        return null();
    };
    if from.is_empty() || from.starts_with('\0') {
        return Ok(ToSqlOutput::Owned(Value::Text(text_in.into_owned())));
    }
    let Some(to) = text(context, 2)? else {
        return null();
    };
    let more = to.len().saturating_sub(from.len());
    let length = text_in.matches(&*from).count().saturating_mul(more);
    if length.saturating_add(text_in.len()) > LENGTH {
        return Err(too_long("replace"));
    }
    Ok(ToSqlOutput::Owned(Value::Text(
        text_in.replace(&*from, &to),
    )))
}

fn trimmed(context: &Context<'_>, left: bool, right: bool) -> rusqlite::Result<Option<String>> {
    let (Some(text), Some(characters)) = (text(context, 0)?, text(context, 1)?) else {
        return Ok(None);
    };
    let trimmed: HashSet<char> = characters.chars().collect();
    let mut rest = &*text;
    if left {
        rest = rest.trim_start_matches(|c| trimmed.contains(&c));
    }
    if right {
        rest = rest.trim_end_matches(|c| trimmed.contains(&c));
    }
    Ok(Some(rest.to_owned()))
}

/// Returns the bytes of hexadecimal digits. Between the pairs, characters of the second text are allowed. Null if
/// anything else occurs.
fn unhex(context: &Context<'_>) -> rusqlite::Result<Option<Vec<u8>>> {
    let (Some(text), Some(between)) = (text(context, 0)?, text(context, 1)?) else {
        return Ok(None);
    };
    let between: HashSet<char> = between.chars().collect();
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut bytes, mut rest) = (Vec::new(), text.chars());
    while let Some(c) = rest.next() {
        match digit(c) {
            Some(high) => match rest.next().and_then(digit) {
                Some(low) => bytes.push(high << 4 | low),
                None => return Ok(None),
            },
            None if between.contains(&c) => {}
            None => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

fn too_long(function: &str) -> Error {
    Error::UserFunctionError(format!("{function}(): string or blob too big").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens two connections: one with SQLite's functions, one with ours.
    fn pair() -> [Connection; 2] {
        let [plain, ours] = [(); 2].map(|()| Connection::open_in_memory().unwrap());
        register(&ours).unwrap();
        [plain, ours]
    }

    #[test]
    fn our_functions_answer_as_those_of_sqlite() {
        let values = [
            "null",
            "''",
            "'a'",
            "'aba'",
            "'ab'",
            "'äöä'",
            "'ö'",
            "1",
            "-12",
            "1.5",
            "0.1",
            "1e20",
            "x'61'",
            "x'6162'",
            "x''",
            "'4142'",
            "'41 42'",
            "'4 1'",
            "' '",
            "'aabbaa'",
            "9223372036854775807",
        ];
        let [plain, ours] = pair();
        let same = |call: &str| {
            let ask = |connection: &Connection| -> (String, Option<String>) {
                let sql = format!("select typeof({call}), quote({call})");
                connection
                    .query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
                    .unwrap()
            };
            assert_eq!(ask(&ours), ask(&plain), "{call}");
        };
        for a in values {
            for b in values {
                for name in ["instr", "trim", "ltrim", "rtrim", "unhex"] {
                    same(&format!("{name}({a}, {b})"));
                }
                for c in ["''", "'xyz'", "7", "null"] {
                    same(&format!("replace({a}, {b}, {c})"));
                }
            }
        }
    }

    #[test]
    fn a_search_in_long_texts_takes_as_many_steps_as_they_have_bytes() {
        // In quadratic time, each of these would take hours.
        let long = "printf('%.8000000c', 'x')";
        let half = "printf('%.4000000c', 'x') || 'y'";
        let [_, ours] = pair();
        for (call, expected) in [
            (format!("instr({long}, {half})"), 0),
            (format!("length(replace({long}, {half}, ''))"), 8_000_000),
            (format!("length(trim({long}, 'z' || {half}))"), 0),
            (format!("length(unhex({long}, {half}))"), 0),
        ] {
            let answer = ours.query_row(&format!("select {call}"), [], |row| row.get::<_, i64>(0));
            assert_eq!(answer.unwrap(), expected, "{call}");
        }
        let greedy = format!("select replace({long}, 'x', {long})");
        let refused = ours.query_row(&greedy, [], |row| row.get::<_, String>(0));
        assert!(refused.unwrap_err().to_string().contains("too big"));
    }
}
