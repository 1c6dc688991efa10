//! A rendered report and the trace beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use artifacts::{Digest, Table, TableError};
use serde::Serialize;

use crate::error::TrailError;

/// One traced number (or word) of a report: its place, and where it says it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    /// The line of the report, from 1.
    pub line: usize,
    /// The first character, from 1.
    pub column_start: usize,
    /// One past the last character.
    pub column_end: usize,
    /// The text as rendered.
    pub text: String,
    /// `table`, `count`, `json`, `spec`, `ledger`, `trail`, `structure` or `literal`.
    pub source: String,
    /// The stage whose artifact it was read from.
    pub stage: Option<String>,
    /// The output's name in the stage.
    pub output: Option<String>,
    /// The artifact.
    pub artifact: Option<Digest>,
    /// The row of the artifact, from 0.
    pub row: Option<usize>,
    /// The row's key columns; for counts the condition.
    pub row_key: Option<String>,
    /// The column, or the path in a document; for literals the reason.
    pub column: Option<String>,
    /// The value in full precision; `None` if it is null.
    pub value: Option<String>,
    /// The unit of the column.
    pub unit: Option<String>,
    /// The format asked for.
    pub format: String,
}

impl Number {
    /// Returns `LINE:COLUMN`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.line, self.column_start)
    }

    /// Returns whether two texts were made of the same value.
    pub fn same_value(&self, other: &Self) -> bool {
        let of = |n: &Self| {
            let place = (
                n.stage.clone(),
                n.output.clone(),
                n.artifact,
                n.row,
                n.row_key.clone(),
            );
            (n.source.clone(), place, n.column.clone(), n.value.clone())
        };
        of(self) == of(other)
    }
}

/// A rendered report with its trace.
#[derive(Clone, Debug)]
pub struct Document {
    /// The report's file.
    pub path: PathBuf,
    /// The report's text.
    pub markdown: String,
    /// The digest of the report's bytes.
    pub report: Digest,
    /// The digest of the trace's bytes.
    pub trace: Digest,
    /// The numbers in the order of the text.
    pub numbers: Vec<Number>,
}

impl Document {
    /// Reads a report and its trace.
    ///
    /// # Errors
    /// If one of them is not there or not readable.
    pub fn open(report: &Path, trace: &Path) -> Result<Self, TrailError> {
        let read = |path: &Path, missing: fn(PathBuf) -> TrailError| {
            fs::read(path).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => missing(path.to_owned()),
                _ => TrailError::Io(path.to_owned(), e),
            })
        };
        let markdown = read(report, TrailError::NoReport)?;
        let table = read(trace, TrailError::NoTrace)?;
        Self::of(report, &markdown, &table).map_err(|e| TrailError::Trace(trace.to_owned(), e))
    }

    /// Makes a document of the bytes of a report and its trace.
    ///
    /// # Errors
    /// If the trace's bytes are no trace.
    pub fn of(path: &Path, report: &[u8], trace: &[u8]) -> Result<Self, TableError> {
        Ok(Self {
            path: path.to_owned(),
            markdown: String::from_utf8_lossy(report).into_owned(),
            report: Digest::of(report),
            trace: Digest::of(trace),
            numbers: numbers(&Table::from_parquet(trace.to_vec())?)?,
        })
    }
}

fn numbers(table: &Table) -> Result<Vec<Number>, TableError> {
    let place = |name: &str| -> Result<Vec<usize>, TableError> {
        let at = |v: Option<i64>| v.and_then(|v| usize::try_from(v).ok()).unwrap_or(0);
        Ok(table.int(name)?.into_iter().map(at).collect())
    };
    let (lines, starts, ends) = (place("line")?, place("column_start")?, place("column_end")?);
    let (texts, sources) = (table.text("text")?, table.text("source")?);
    let (stages, outputs) = (table.text("stage")?, table.text("output")?);
    let (artifacts, rows) = (table.text("artifact")?, table.int("row")?);
    let (keys, columns) = (table.text("row_key")?, table.text("column")?);
    let (values, units, formats) = (
        table.text("value")?,
        table.text("unit")?,
        table.text("format")?,
    );
    let owned = |value: Option<&str>| value.map(str::to_owned);
    let number = |i: usize| Number {
        line: lines[i],
        column_start: starts[i],
        column_end: ends[i],
        text: texts[i].unwrap_or_default().to_owned(),
        source: sources[i].unwrap_or_default().to_owned(),
        stage: owned(stages[i]),
        output: owned(outputs[i]),
        artifact: artifacts[i].and_then(|a| a.parse().ok()),
        row: rows[i].and_then(|r| usize::try_from(r).ok()),
        row_key: owned(keys[i]),
        column: owned(columns[i]),
        value: owned(values[i]),
        unit: owned(units[i]),
        format: formats[i].unwrap_or_default().to_owned(),
    };
    Ok((0..table.rows()).map(number).collect())
}
