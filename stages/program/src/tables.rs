//! Reads tables that a program wrote and checks them against the study's declarations.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use artifacts::{Column, Scalar, Table};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::settings::{ColumnSettings, ColumnType, TableSettings};

/// Reads a table that the program left in its folder.
///
/// # Errors
/// If the table is missing, unreadable, or not as declared: the file, the line and the reason.
pub(crate) fn read(folder: &Path, declared: &TableSettings) -> Result<Table, String> {
    let bytes =
        contents(folder, &declared.file).map_err(|e| format!("`{}`: {e}", declared.file))?;
    let rows = match declared.file.ends_with(".csv") {
        true => csv_rows(&bytes, declared),
        false => json_rows(&bytes, declared),
    };
    let rows = rows.map_err(|(line, why)| format!("`{}`, line {line}: {why}", declared.file))?;
    table(declared, &rows)
}

/// Reads a file that the program left in its folder. A link could point anywhere, and a FIFO or a device has no end.
pub(crate) fn contents(folder: &Path, file: &str) -> io::Result<Vec<u8>> {
    let path = folder.join(file);
    match path.symlink_metadata()?.is_symlink() {
        true => Err(io::Error::other("it is a symbolic link")),
        false => artifacts::regular::read(&path),
    }
}

/// Makes a synthetic table of the same shape.
pub(crate) fn made_up(declared: &TableSettings, slowdown: f64) -> Result<Table, String> {
    let row = |number: i32| {
        let value = |column: &ColumnSettings| match column.kind {
            ColumnType::Integer => Scalar::Int(number.into()),
            ColumnType::Number => Scalar::Float(f64::from(number) * slowdown),
            ColumnType::Text => Scalar::Text(format!("made up {number}")),
            ColumnType::Boolean => Scalar::Bool(number == 1),
        };
        declared.columns.values().map(value).collect()
    };
    table(declared, &[row(1), row(2)])
}

/// A row: a value for each declared column.
type Row = Vec<Scalar>;

/// The largest number of fields (rows × columns) of a table. A field takes about 60 bytes of memory, and its text.
const MOST_FIELDS: usize = if cfg!(test) { 1 << 12 } else { 1 << 24 };

/// The most commas of a CSV file, within and between its texts.
const MOST_COMMAS: usize = if cfg!(test) { 1 << 16 } else { 1 << 27 };

/// A line and the problem in it.
type Wrong = (usize, String);

fn table(declared: &TableSettings, rows: &[Row]) -> Result<Table, String> {
    let column = |(at, (name, settings)): (usize, (&String, &ColumnSettings))| {
        let values = rows.iter().map(|row| row[at].clone());
        let column = match settings.kind {
            ColumnType::Integer => Column::int(
                name,
                values.map(|v| match v {
                    Scalar::Int(value) => Some(value),
                    _ => None,
                }),
            ),
            ColumnType::Number => Column::float(name, values.map(|v| v.as_f64())),
            ColumnType::Text => Column::text(name, values.map(|v| v.as_str().map(str::to_owned))),
            ColumnType::Boolean => Column::boolean(
                name,
                values.map(|v| match v {
                    Scalar::Bool(value) => Some(value),
                    _ => None,
                }),
            ),
        };
        let column = match &settings.unit {
            Some(unit) => column.unit(unit),
            None => column,
        };
        match &settings.description {
            Some(text) => column.describe(text),
            None => column,
        }
    };
    let columns = declared.columns.iter().enumerate().map(column).collect();
    let keys = declared.keys.join(",");
    let notes = [("keys", keys.as_str())];
    let notes = if keys.is_empty() { &[] } else { &notes[..] };
    if let Some(twice) = repeated(declared, rows) {
        return Err(format!(
            "`{}`: two rows have the same keys: {twice}",
            declared.file
        ));
    }
    Table::with_metadata(columns, notes).map_err(|e| e.to_string())
}

/// Returns the keys that two rows share.
fn repeated(declared: &TableSettings, rows: &[Row]) -> Option<String> {
    if declared.keys.is_empty() {
        return None;
    }
    let places: Vec<usize> = declared
        .keys
        .iter()
        .filter_map(|key| declared.columns.keys().position(|name| name == key))
        .collect();
    let mut seen = BTreeSet::new();
    rows.iter()
        .map(|row| {
            places
                .iter()
                .map(|at| row[*at].to_string())
                .collect::<Vec<_>>()
        })
        .find(|key| !seen.insert(key.clone()))
        .map(|key| key.join(", "))
}

fn csv_rows(bytes: &[u8], declared: &TableSettings) -> Result<Vec<Row>, Wrong> {
    // The headings alone could fill the memory, before there is a row to count.
    let commas = bytes.iter().filter(|byte| **byte == b',').count();
    if commas > MOST_COMMAS {
        return Err((1, format!("the file has more than {MOST_COMMAS} commas")));
    }
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let line = |position: Option<&csv::Position>| {
        position.map_or(1, |p| usize::try_from(p.line()).unwrap_or(usize::MAX))
    };
    let wrong = |e: csv::Error| (line(e.position()), e.to_string());
    let names: Vec<String> = reader
        .headers()
        .map_err(wrong)?
        .iter()
        .map(str::to_owned)
        .collect();
    undeclared(names.iter().map(String::as_str), declared).map_err(|why| (1, why))?;
    if let Some(missing) = declared.columns.keys().find(|name| !names.contains(*name)) {
        return Err((1, format!("the column `{missing}` is missing")));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let at = line(record.position());
        fits(&rows, declared).map_err(|why| (at, why))?;
        let mut row = Row::new();
        for (name, settings) in &declared.columns {
            let place = names.iter().position(|n| n == name).unwrap_or_default();
            let text = record.get(place).unwrap_or_default();
            row.push(
                settings
                    .kind
                    .parse(text)
                    .map_err(|why| (at, format!("`{name}`: {why}")))?,
            );
        }
        rows.push(row);
    }
    Ok(rows)
}

fn json_rows(bytes: &[u8], declared: &TableSettings) -> Result<Vec<Row>, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|e| (1, e.to_string()))?;
    let mut rows = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let at = number + 1;
        fits(&rows, declared).map_err(|why| (at, why))?;
        let Members(object) = serde_json::from_str(line).map_err(|e| (at, e.to_string()))?;
        let names = object.iter().map(|(name, _)| name.as_str());
        undeclared(names, declared).map_err(|why| (at, why))?;
        let mut row = Row::new();
        for (name, settings) in &declared.columns {
            let member = object.iter().find(|(member, _)| member == name);
            let value = member.map_or(&Value::Null, |(_, value)| value);
            row.push(
                settings
                    .kind
                    .take(value)
                    .map_err(|why| (at, format!("`{name}`: {why}")))?,
            );
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Checks that another row fits into a table.
fn fits(rows: &[Row], declared: &TableSettings) -> Result<(), String> {
    match (rows.len() + 1).saturating_mul(declared.columns.len()) <= MOST_FIELDS {
        true => Ok(()),
        false => Err(format!(
            "the table has more than {MOST_FIELDS} fields (rows × columns)"
        )),
    }
}

/// Checks that names are declared, and that none is there twice.
fn undeclared<'a>(
    names: impl Iterator<Item = &'a str>,
    declared: &TableSettings,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !declared.columns.contains_key(name) {
            return Err(format!("the column `{name}` is not declared"));
        }
        if !seen.insert(name) {
            return Err(format!("the column `{name}` is there twice"));
        }
    }
    Ok(())
}

/// The members of a JSON object in their order. A map would keep the last of two members with the same name.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl ColumnType {
    fn word(self) -> &'static str {
        match self {
            Self::Integer => "a whole number",
            Self::Number => "a finite number",
            Self::Text => "a text",
            Self::Boolean => "`true` or `false`",
        }
    }

    fn parse(self, text: &str) -> Result<Scalar, String> {
        if text.is_empty() {
            return Ok(Scalar::Null);
        }
        let read = match self {
            Self::Integer => text.parse().ok().map(Scalar::Int),
            Self::Number => text
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite())
                .map(Scalar::Float),
            Self::Text => Some(Scalar::Text(text.to_owned())),
            Self::Boolean => match text {
                "true" | "True" => Some(Scalar::Bool(true)),
                "false" | "False" => Some(Scalar::Bool(false)),
                _ => None,
            },
        };
        read.ok_or_else(|| format!("`{text}` is not {}", self.word()))
    }

    fn take(self, value: &Value) -> Result<Scalar, String> {
        let read = match (self, value) {
            (_, Value::Null) => Some(Scalar::Null),
            (Self::Integer, value) => value.as_i64().map(Scalar::Int),
            (Self::Number, value) => value.as_f64().map(Scalar::Float),
            (Self::Text, Value::String(text)) => Some(Scalar::Text(text.clone())),
            (Self::Boolean, Value::Bool(is)) => Some(Scalar::Bool(*is)),
            _ => None,
        };
        read.ok_or_else(|| format!("`{value}` is not {}", self.word()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn declared(file: &str) -> TableSettings {
        serde_json::from_value(serde_json::json!({
            "file": file, "keys": ["id"],
            "columns": {
                "id": {"type": "text"}, "n": {"type": "integer"}, "ms": {"type": "number", "unit": "ms"},
                "right": {"type": "boolean"},
            },
        }))
        .expect("settings")
    }

    fn read_text(file: &str, text: &str) -> Result<Table, String> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(file), text).expect("a file");
        read(folder.path(), &declared(file))
    }

    #[test]
    fn both_formats_give_the_same_table() {
        let csv = read_text("t.csv", "n,id,ms,right\n1,a,2.5,true\n,b,,False\n").expect("a table");
        let lines = "{\"id\": \"a\", \"n\": 1, \"ms\": 2.5, \"right\": true}\n\n{\"id\": \"b\", \"right\": false}\n";
        let json = read_text("t.jsonl", lines).expect("a table");
        assert_eq!(
            csv.to_parquet().expect("bytes"),
            json.to_parquet().expect("bytes")
        );
        assert_eq!(csv.unit("ms").as_deref(), Some("ms"));
        assert_eq!(csv.int("n").expect("a column"), [Some(1), None]);
    }

    #[test]
    fn rows_that_differ_from_the_declaration_are_reported_with_their_lines() {
        for (text, message) in [
            (
                "id,n,ms,right\na,x,1,true\n",
                "line 2: `n`: `x` is not a whole number",
            ),
            (
                "id,n,ms,right\na,1,NaN,true\n",
                "line 2: `ms`: `NaN` is not a finite number",
            ),
            ("id,n,ms\na,1,1\n", "line 1: the column `right` is missing"),
            (
                "id,n,n,ms,right\na,1,2,1,true\n",
                "line 1: the column `n` is there twice",
            ),
            (
                "id,n,ms,right,more\n",
                "line 1: the column `more` is not declared",
            ),
            (
                "id,n,ms,right\na,1,1,true\na,2,1,true\n",
                "two rows have the same keys: a",
            ),
        ] {
            let why = read_text("t.csv", text).expect_err("it is wrong");
            assert!(why.contains(message), "{why}");
        }
        let why = read_text("t.jsonl", "{\"id\": 3}\n").expect_err("it is wrong");
        assert!(why.contains("line 1: `id`: `3` is not a text"), "{why}");
        let why = read_text("t.jsonl", "{\"n\": 1, \"n\": 2}\n").expect_err("it is wrong");
        assert!(
            why.contains("line 1: the column `n` is there twice"),
            "{why}"
        );
    }

    #[test]
    fn what_is_no_regular_file_or_too_large_is_no_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let why = || read(folder.path(), &declared("t.csv")).expect_err("it is no table");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo starts").success());
        assert!(why().contains("FIFO"), "{}", why());
        fs::remove_file(&path).expect("removable");
        for target in ["/dev/zero", "/etc/passwd"] {
            std::os::unix::fs::symlink(target, &path).expect("a link");
            assert!(why().contains("it is a symbolic link"), "{}", why());
            fs::remove_file(&path).expect("removable");
        }
        fs::create_dir(&path).expect("a folder");
        assert!(why().contains("directory"), "{}", why());
        let rows = "1,a,1,true\n".repeat(MOST_FIELDS / 4 + 1);
        let why = read_text("t.csv", &format!("n,id,ms,right\n{rows}")).expect_err("too large");
        assert!(why.contains("more than 4096 fields"), "{why}");
        let headings = ",".repeat(MOST_COMMAS + 1);
        let why = read_text("t.csv", &headings).expect_err("too large");
        assert!(why.contains("more than 65536 commas"), "{why}");
        let rows = "{\"n\": 1}\n".repeat(MOST_FIELDS / 4 + 1);
        let why = read_text("t.jsonl", &rows).expect_err("too large");
        assert!(why.contains("more than 4096 fields"), "{why}");
    }
}
