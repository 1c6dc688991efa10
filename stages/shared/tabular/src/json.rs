//! JSON: one object per line, a list of objects, or a list nested under keys of an object.

use std::collections::HashMap;
use std::ops::Range;

use artifacts::json::{Distinct, OBJECT_BYTES, VALUE_BYTES, memory};
use serde_json::error::Category;
use serde_json::{Deserializer, Value};

use crate::field::{Field, Unreadable};
use crate::listed::there_are;
use crate::sheet::{Places, Sheet, check_fields};

/// A value of a list, with its lines in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The value.
    pub value: Value,
    /// Its lines, from 0, half-open.
    pub lines: Range<usize>,
}

/// Reads the records of a text: the values of JSON Lines, or the items of the list of a JSON document. If the document
/// is an object, `below` names the path to the list: keys joined by dots.
///
/// # Errors
/// If the text is neither, or is truncated; with line and column.
pub fn records(text: &str, below: Option<&str>) -> Result<Vec<Record>, Unreadable> {
    bounded(text.as_bytes())?;
    let mut cursor = Cursor::new(text);
    let mut keys = below.into_iter().flat_map(|path| path.split('.'));
    loop {
        match cursor.next() {
            Some(b'[') => {
                if let Some(key) = keys.next() {
                    let message = format!("there is a list where the key `{key}` was expected");
                    return Err(cursor.wrong(message, "correct the path to the rows"));
                }
                return cursor.list();
            }
            Some(b'{') => match keys.next() {
                Some(key) => cursor.enter(key)?,
                None if below.is_none() => return cursor.lines(),
                None => {
                    let message = "the path to the rows leads to an object, not to a list";
                    return Err(cursor.wrong(message, "name the key of the list"));
                }
            },
            _ => {
                let message = "it holds neither objects nor a list of objects";
                return Err(cursor.wrong(message, "write a list of objects, or an object a line"));
            }
        }
    }
}

/// The most memory in bytes that the values of a document may take.
const MOST_MEMORY: u64 = 4 << 30;

/// Refuses JSON whose values would take too much memory: two bytes of a file can be a value of a hundred.
///
/// # Errors
/// If the estimate is larger than 4 GiB.
pub fn bounded(bytes: &[u8]) -> Result<(), Unreadable> {
    affordable(memory(bytes))
}

/// Refuses rows that take too much memory as objects.
///
/// # Errors
/// If the estimate is larger than 4 GiB.
pub fn check_objects(rows: usize, columns: usize) -> Result<(), Unreadable> {
    let object = OBJECT_BYTES.saturating_add(VALUE_BYTES.saturating_mul(columns as u64));
    affordable(object.saturating_mul(rows as u64))
}

fn affordable(needed: u64) -> Result<(), Unreadable> {
    if needed <= MOST_MEMORY {
        return Ok(());
    }
    let message = format!(
        "its values would take about {} MiB of memory; the limit is {} MiB",
        needed >> 20,
        MOST_MEMORY >> 20
    );
    let hint =
        "leave out what is not needed, such as generated texts and the times of single tokens";
    Err(Unreadable::new(message, hint))
}

/// Reads records that are objects as a sheet. Every key becomes a column, in order of first use.
pub(crate) fn read(bytes: &[u8], below: Option<&str>) -> Result<Sheet, Unreadable> {
    sheet(bytes, below, false)
}

/// Reads records that are objects as a sheet, like [`crate::read`], but the keys of an object inside a record become
/// columns of their own: `outer.inner`.
///
/// # Errors
/// If the text is truncated, is neither JSON Lines nor a list of objects, or two values have the same name.
pub fn read_nested(bytes: &[u8], below: Option<&str>) -> Result<Sheet, Unreadable> {
    if let Some(kind) = crate::other_kind(bytes) {
        return Err(Unreadable::new(kind.what, kind.remedy));
    }
    sheet(bytes, below, true)
}

/// Replaces objects inside a record by their values, with the keys joined by dots.
fn flattened(before: &str, object: serde_json::Map<String, Value>, out: &mut Vec<(String, Value)>) {
    for (key, value) in object {
        let name = match before {
            "" => key,
            before => format!("{before}.{key}"),
        };
        match value {
            Value::Object(inner) if !inner.is_empty() => flattened(&name, inner, out),
            value => out.push((name, value)),
        }
    }
}

fn sheet(bytes: &[u8], below: Option<&str>, nested: bool) -> Result<Sheet, Unreadable> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        Unreadable::new("it is not UTF-8 text", "convert it, for example with iconv").at(line)
    })?;
    let records = records(text.strip_prefix('\u{feff}').unwrap_or(text), below)?;
    let mut names: Vec<String> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut columns: Vec<Vec<Field>> = Vec::new();
    let mut places = Vec::new();
    for (row, record) in records.into_iter().enumerate() {
        let Value::Object(object) = record.value else {
            let message = "a row is not an object";
            let hint = "every row is `{…}`, with the names of columns as keys";
            return Err(Unreadable::new(message, hint).at(record.lines.start + 1));
        };
        let mut values = Vec::new();
        match nested {
            true => flattened("", object, &mut values),
            false => values.extend(object),
        }
        for (name, value) in values {
            let at = *positions.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() - 1
            });
            // Each row may bring columns that no other row has, so the fields are counted before they exist.
            check_fields(row + 1, names.len()).map_err(|e| e.at(record.lines.start + 1))?;
            columns.resize_with(names.len(), || vec![Field::Null; row]);
            if columns[at].len() > row {
                let message = format!("two values are named `{}`", names[at]);
                let hint = "rename a key: a dot stands for an object inside an object";
                return Err(Unreadable::new(message, hint).at(record.lines.start + 1));
            }
            columns[at].push(field(value));
        }
        for column in &mut columns {
            column.resize(row + 1, Field::Null);
        }
        places.push(record.lines);
    }
    Ok(Sheet {
        units: vec![None; names.len()],
        names,
        columns,
        places: Places::Lines(places),
        remarks: Vec::new(),
    })
}

fn field(value: Value) -> Field {
    match value {
        Value::Null => Field::Null,
        Value::Bool(value) => Field::Bool(value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Field::Int(value),
            (None, Some(value)) if value.is_finite() => Field::Float(value),
            _ => Field::Other("a number that no double holds"),
        },
        Value::String(text) => Field::Text(text),
        Value::Array(_) => Field::Other("a list"),
        Value::Object(_) => Field::Other("an object"),
    }
}

/// Scans a text without keeping what it passes.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// An offset with a known line, so that lines are counted once.
    counted: (usize, usize),
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            counted: (0, 0),
        }
    }

    /// Skips space and returns the next byte.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the line of an offset, from 0. The offset must not precede the last one requested.
    fn line(&mut self, at: usize) -> usize {
        let (from, line) = self.counted;
        let more = self.text.as_bytes()[from..at]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        self.counted = (at, line + more);
        line + more
    }

    fn wrong(&self, message: impl Into<String>, hint: &str) -> Unreadable {
        self.wrong_at(self.at, message, hint)
    }

    fn wrong_at(&self, at: usize, message: impl Into<String>, hint: &str) -> Unreadable {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        Unreadable::new(message, hint).at(line).at_column(column)
    }

    /// Reads one value.
    fn value(&mut self) -> Result<Value, Unreadable> {
        let rest = &self.text[self.at..];
        let mut values = Deserializer::from_str(rest).into_iter::<Distinct>();
        match values.next() {
            Some(Ok(Distinct(value))) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => {
                let line = rest.lines().nth(error.line().saturating_sub(1));
                let start =
                    line.map_or(rest.len(), |l| l.as_ptr() as usize - rest.as_ptr() as usize);
                // A value without an end is reported where it begins, because the end of the file is no help.
                let at = match error.is_eof() {
                    true => self.at,
                    false => self.at + start + error.column().saturating_sub(1),
                };
                let text = error.to_string();
                let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
                let repeats_a_key = error.classify() == Category::Data;
                let hint = match repeats_a_key {
                    true => "programs read the first or the last; remove one",
                    false => "correct the JSON; it may be cut off",
                };
                Err(Unreadable {
                    repeats_a_key,
                    ..self.wrong_at(at, message, hint)
                })
            }
            None => Err(self.wrong("it ends early", "it may be cut off")),
        }
    }

    fn record(&mut self) -> Result<Record, Unreadable> {
        let start = self.at;
        let value = self.value()?;
        let first = self.line(start);
        let last = self.line(self.at.max(1) - usize::from(self.at > start));
        Ok(Record {
            value,
            lines: first..last + 1,
        })
    }

    /// Reads consecutive values.
    fn lines(&mut self) -> Result<Vec<Record>, Unreadable> {
        let mut records = Vec::new();
        while self.next().is_some() {
            records.push(self.record()?);
        }
        Ok(records)
    }

    /// Reads the items of a list. The cursor is at its bracket.
    fn list(&mut self) -> Result<Vec<Record>, Unreadable> {
        self.at += 1;
        let mut records = Vec::new();
        if self.next() == Some(b']') {
            return Ok(records);
        }
        loop {
            if self.next().is_none() {
                return Err(self.wrong("the list does not end", "it may be cut off"));
            }
            records.push(self.record()?);
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b']') => return Ok(records),
                _ => return Err(self.wrong("expected `,` or `]`", "it may be cut off")),
            }
        }
    }

    /// Moves to the value of a key. The cursor is at the brace of its object.
    fn enter(&mut self, key: &str) -> Result<(), Unreadable> {
        let mut parsed = Vec::new();
        self.at += 1;
        while self.next() == Some(b'"') {
            let name = self.value()?;
            let name = name.as_str().unwrap_or_default().to_owned();
            if self.next() != Some(b':') {
                return Err(self.wrong("expected `:`", "correct the JSON"));
            }
            self.at += 1;
            self.next();
            if name == key {
                return Ok(());
            }
            self.value()?;
            parsed.push(name);
            if self.next() == Some(b',') {
                self.at += 1;
            }
        }
        let hint = there_are(parsed.iter().map(String::as_str));
        Err(self.wrong(format!("there is no key `{key}`"), &hint))
    }
}
