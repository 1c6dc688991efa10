//! Data tables: CSV, TSV, JSON lines, Parquet.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use tabular::{Field, Format};

use crate::table::{Cell, Row, Table};

/// Reads tables from files, and from all files of a known format below folders, sorted by name.
///
/// # Errors
/// If a path does not exist, or a file given by name has an unknown format.
pub fn read_tables(paths: &[PathBuf]) -> Result<(Vec<Table>, Vec<Unread>), Unread> {
    let (mut tables, mut unread) = (Vec::new(), Vec::new());
    let mut left = MOST_VALUES;
    for path in paths {
        let lost = |error: std::io::Error| Unread::new(path, error.to_string());
        let named = fs::metadata(path).map_err(lost)?.is_file();
        let files = if named {
            vec![path.clone()]
        } else {
            below(path).map_err(lost)?
        };
        for file in files {
            // A JSON document may be anything; one with an object on each line is a table.
            let json = file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("json"));
            match Format::of(&file.to_string_lossy()) {
                Ok(format) if !json => match read(&file, format, &mut left) {
                    Ok(table) => tables.push(table),
                    Err(error) => unread.push(error),
                },
                _ if named => {
                    let reason =
                        "not a table; CSV, TSV, JSON lines (.jsonl) and Parquet files are read";
                    return Err(Unread::new(&file, reason.to_owned()));
                }
                _ => {}
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

/// The largest data file, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The most values of all data files together: rows × columns. Each takes some hundred bytes.
const MOST_VALUES: usize = 16 << 20;

/// Reads a file. `left` is the number of values that may still be read.
fn read(path: &Path, format: Format, left: &mut usize) -> Result<Table, Unread> {
    let bytes = artifacts::regular::read_at_most(path, MOST_BYTES)
        .map_err(|e| Unread::new(path, e.to_string()))?;
    let sheet = tabular::read(format, &bytes, None).map_err(|error| Unread {
        line: error.line,
        ..Unread::new(path, format!("{}; {}", error.message, error.hint))
    })?;
    if sheet.rows() == 0 {
        return Err(Unread::new(path, "it has no rows".to_owned()));
    }
    let values = sheet.rows().saturating_mul(sheet.columns.len());
    *left = left.checked_sub(values).ok_or_else(|| {
        let reason = format!(
            "with its {values} values (rows × columns), the data has more than {MOST_VALUES}; leave out rows and columns \
             that the report does not use"
        );
        Unread::new(path, reason)
    })?;
    let cell = |field: &Field| match field {
        Field::Null | Field::Other(_) => Cell::default(),
        field => Cell::new(&field.to_string(), 1),
    };
    let rows = (0..sheet.rows()).map(|row| Row {
        line: sheet.places.of(row).start + 1,
        cells: sheet
            .columns
            .iter()
            .map(|column| cell(&column[row]))
            .collect(),
    });
    let title = path.file_stem();
    Ok(Table {
        title: title.map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
        file: path.display().to_string(),
        rows: rows.collect(),
        columns: sheet.names,
        ..Table::default()
    })
}

/// A data file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The file.
    pub file: String,
    /// The line at fault.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl Unread {
    fn new(path: &Path, reason: String) -> Self {
        Self {
            file: path.display().to_string(),
            line: None,
            reason,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}
