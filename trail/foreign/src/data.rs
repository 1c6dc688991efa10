//! Data tables: CSV, TSV, JSON lines, Parquet.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use artifacts::Scalar;

use crate::table::{Cell, Row, Table};

/// Files with more rows than this are read only up to here, and the audit reports it.
const MOST_ROWS: usize = 2_000_000;

/// Reads tables from files, and from all files of a known format below folders, sorted by name.
///
/// # Errors
/// If a path does not exist, or a file given by name has an unknown format.
pub fn read_tables(paths: &[PathBuf]) -> Result<(Vec<Table>, Vec<Unread>), Unread> {
    let (mut tables, mut unread) = (Vec::new(), Vec::new());
    for path in paths {
        let at = |reason: std::io::Error| Unread {
            file: path.display().to_string(),
            line: None,
            reason: reason.to_string(),
        };
        let named = fs::metadata(path).map_err(at)?.is_file();
        let files = if named {
            vec![path.clone()]
        } else {
            below(path).map_err(at)?
        };
        for file in files {
            let name = file.display().to_string();
            let Some(read) = read(&file) else {
                if named {
                    let reason =
                        "not a table; CSV, TSV, JSON lines (.jsonl) and Parquet files are read"
                            .to_owned();
                    return Err(Unread {
                        file: name,
                        line: None,
                        reason,
                    });
                }
                continue;
            };
            match read {
                Ok(mut table) => {
                    if table.rows.len() >= MOST_ROWS {
                        let reason = format!("rows after the first {MOST_ROWS} were not read");
                        unread.push(Unread {
                            file: name.clone(),
                            line: None,
                            reason,
                        });
                    }
                    table.title = file
                        .file_stem()
                        .map(|stem| stem.to_string_lossy().into_owned())
                        .unwrap_or_default();
                    table.file = name;
                    tables.push(table);
                }
                Err((line, reason)) => unread.push(Unread {
                    file: name,
                    line,
                    reason,
                }),
            }
        }
    }
    Ok((tables, unread))
}

/// The files below a folder, sorted by name.
fn below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file of a known format; `None` for other formats.
fn read(path: &Path) -> Option<Result<Table, Reason>> {
    let extension = path.extension()?.to_string_lossy().to_lowercase();
    Some(match extension.as_str() {
        "csv" => delimited(path, b','),
        "tsv" => delimited(path, b'\t'),
        "jsonl" | "ndjson" => json_lines(path),
        "parquet" => parquet(path),
        _ => return None,
    })
}

/// A data file that could not be read, or only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The file.
    pub file: String,
    /// The line at fault.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

/// Why a file cannot be read, with the line if one is at fault.
type Reason = (Option<usize>, String);

fn whole(reason: impl fmt::Display) -> Reason {
    (None, reason.to_string())
}

fn at_line(line: usize, reason: impl fmt::Display) -> Reason {
    (Some(line), reason.to_string())
}

/// The text of a file, without a byte order mark.
fn text(path: &Path) -> Result<String, Reason> {
    let bytes = artifacts::regular::read(path).map_err(whole)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        at_line(line, "not UTF-8 text; convert it, for example with iconv")
    })?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map(str::to_owned)
        .unwrap_or(text))
}

fn delimited(path: &Path, delimiter: u8) -> Result<Table, Reason> {
    let text = text(path)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(text.as_bytes());
    let columns: Vec<String> = reader
        .headers()
        .map_err(whole)?
        .iter()
        .map(|name| name.trim().to_owned())
        .collect();
    if columns.is_empty() {
        return Err(at_line(1, "no header: the first line names the columns"));
    }
    let mut rows = Vec::new();
    for record in reader.records().take(MOST_ROWS) {
        let record = record.map_err(whole)?;
        let line = record
            .position()
            .map_or(0, |place| usize::try_from(place.line()).unwrap_or(0));
        if record.len() != columns.len() {
            let reason = format!("{} cells under a header of {}", record.len(), columns.len());
            return Err(at_line(line, reason));
        }
        rows.push(Row {
            line,
            cells: record.iter().map(|text| Cell::new(text, 1)).collect(),
        });
    }
    Ok(Table {
        columns,
        rows,
        ..Table::default()
    })
}

fn json_lines(path: &Path) -> Result<Table, Reason> {
    let text = text(path)?;
    let mut columns: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .take(MOST_ROWS)
    {
        let value: serde_json::Value =
            serde_json::from_str(line).map_err(|error| at_line(index + 1, error))?;
        let Some(object) = value.as_object() else {
            return Err(at_line(index + 1, "not an object; every line is one `{…}`"));
        };
        let mut cells = vec![Cell::default(); columns.len()];
        for (name, value) in object {
            let text = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Null
                | serde_json::Value::Array(_)
                | serde_json::Value::Object(_) => String::new(),
                other => other.to_string(),
            };
            match columns.iter().position(|column| column == name) {
                Some(at) => cells[at] = Cell::new(&text, 1),
                None => {
                    columns.push(name.clone());
                    cells.push(Cell::new(&text, 1));
                }
            }
        }
        rows.push(Row {
            line: index + 1,
            cells,
        });
    }
    if rows.is_empty() {
        return Err(at_line(1, "no rows"));
    }
    Ok(Table {
        columns,
        rows,
        ..Table::default()
    })
}

fn parquet(path: &Path) -> Result<Table, Reason> {
    let bytes = artifacts::regular::read(path).map_err(whole)?;
    let table = artifacts::Table::from_parquet(bytes).map_err(whole)?;
    let columns = table.names();
    let mut rows: Vec<Row> = (0..table.rows().min(MOST_ROWS))
        .map(|row| Row {
            line: row + 1,
            cells: Vec::new(),
        })
        .collect();
    for name in &columns {
        for (at, row) in rows.iter_mut().enumerate() {
            let value = table.value(name, at).map_err(whole)?;
            row.cells.push(Cell::new(&scalar(&value), 1));
        }
    }
    Ok(Table {
        columns,
        rows,
        ..Table::default()
    })
}

fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Null => String::new(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => value.to_string(),
        Scalar::Text(value) => value.clone(),
    }
}
