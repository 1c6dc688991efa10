//! The table `trace` beside a report: the artifact, row and column that each number came from.

use std::fmt;

use artifacts::{Column, Digest, Ratio, Table, TableError};
use pipeline::Coordinates;
use pipeline::place::Condition;
use serde::{Serialize, Serializer};

use crate::format::{ReadError, TableFormat};

/// The format of traces.
pub const TRACE: TableFormat = TableFormat {
    name: "trace",
    version: 2,
};

/// The kind of source of a traced text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceSource {
    /// A value of a table.
    Table,
    /// The name or unit of a table's column.
    Heading,
    /// The numerator and denominator of a table's ratio column.
    Sides,
    /// Cells that a table lacks, by the table's own note.
    Missing,
    /// The number of rows of a table that meet a condition.
    Count,
    /// A value of a JSON artifact.
    Json,
    /// A value of the experiment's canonical form.
    Spec,
    /// The ledger of planned cells.
    Ledger,
    /// The trail digest.
    Trail,
    /// A number that the report assigns to its own parts.
    Structure,
    /// A value from the evaluation of a statement.
    Statement,
    /// A number written by hand, declared with a reason.
    Literal,
}

impl TraceSource {
    /// Every source.
    pub const ALL: [Self; 12] = [
        Self::Table,
        Self::Heading,
        Self::Sides,
        Self::Missing,
        Self::Count,
        Self::Json,
        Self::Spec,
        Self::Ledger,
        Self::Trail,
        Self::Structure,
        Self::Statement,
        Self::Literal,
    ];

    /// Returns the word the trace uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Heading => "heading",
            Self::Sides => "sides",
            Self::Missing => "missing",
            Self::Count => "count",
            Self::Json => "json",
            Self::Spec => "spec",
            Self::Ledger => "ledger",
            Self::Trail => "trail",
            Self::Structure => "structure",
            Self::Statement => "statement",
            Self::Literal => "literal",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.word() == word)
    }
}

impl fmt::Display for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A traced number (or word) of a report: its place and its stated source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceRow {
    /// The line of the report, from 1.
    pub line: usize,
    /// The first character, from 1.
    pub column_start: usize,
    /// One past the last character.
    pub column_end: usize,
    /// The text as rendered.
    pub text: String,
    /// The kind of its source.
    pub source: TraceSource,
    /// The stage whose artifact it was read from.
    pub stage: Option<String>,
    /// The coordinates of the cell whose artifact it was read from; `None` if it was read from several
    /// cells, or from a table that the report itself made.
    #[serde(serialize_with = "as_text")]
    pub coordinates: Option<Coordinates>,
    /// The output's name in the stage.
    pub output: Option<String>,
    /// The artifact.
    pub artifact: Option<Digest>,
    /// The row of the artifact, from 0.
    pub row: Option<usize>,
    /// The key columns of the row; for counts the condition; for missing cells the list of them.
    #[serde(serialize_with = "as_text")]
    pub row_key: Option<Condition>,
    /// The column, or the path in a document; for literals, the reason.
    pub column: Option<String>,
    /// The value in full precision; `None` if null.
    pub value: Option<String>,
    /// The unit of the column.
    pub unit: Option<String>,
    /// The numerator and denominator, in columns of ratios.
    #[serde(skip)]
    pub ratio: Option<Ratio>,
    /// The requested format.
    pub format: String,
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn as_text<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

impl TraceRow {
    /// Returns `LINE:COLUMN`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.line, self.column_start)
    }

    /// Returns whether two texts render the same value.
    pub fn same_value(&self, other: &Self) -> bool {
        let identity = |n: &Self| {
            let cell = (n.stage.clone(), n.coordinates.clone(), n.output.clone());
            let row = (n.artifact, n.row, n.row_key.clone());
            (n.source, cell, row, n.column.clone(), n.value.clone())
        };
        identity(self) == identity(other)
    }
}

/// Builds a trace with one row for each traced text, in the order of the report.
///
/// # Errors
/// Never for rows of a report; errors of the table type are passed on.
pub fn trace_table(rows: &[TraceRow]) -> Result<Table, TableError> {
    let int = |pick: fn(&TraceRow) -> Option<usize>| {
        let pick = move |row| pick(row).and_then(|v| i64::try_from(v).ok());
        rows.iter().map(pick).collect::<Vec<_>>()
    };
    let text = |pick: fn(&TraceRow) -> Option<String>| rows.iter().map(pick).collect::<Vec<_>>();
    let (format, version) = TRACE.note();
    Table::with_metadata(
        vec![
            Column::int("line", int(|r| Some(r.line))).describe("line of the report, from 1"),
            Column::int("column_start", int(|r| Some(r.column_start)))
                .describe("first character of the line, from 1"),
            Column::int("column_end", int(|r| Some(r.column_end)))
                .describe("one past the last character"),
            Column::text("text", text(|r| Some(r.text.clone()))).describe("the text as rendered"),
            Column::text("source", text(|r| Some(r.source.to_string()))).describe(
                "table, heading, sides, missing, count, json, spec, ledger, trail, structure, statement or literal",
            ),
            Column::text("stage", text(|r| r.stage.clone())),
            Column::text(
                "coordinates",
                text(|r| r.coordinates.as_ref().map(ToString::to_string)),
            )
            .describe("coordinates of the cell whose artifact it is; null if it is not an artifact of one cell"),
            Column::text("output", text(|r| r.output.clone()))
                .describe("the output's name in the stage"),
            Column::text("artifact", text(|r| r.artifact.map(|d| d.to_string())))
                .describe("digest of the artifact the value was read from"),
            Column::int("row", int(|r| r.row))
                .describe("row of the artifact, from 0; null where it is not a table"),
            Column::text(
                "row_key",
                text(|r| r.row_key.as_ref().map(ToString::to_string)),
            )
            .describe("the row's key columns; for counts the condition; for missing cells which they are"),
            Column::text("column", text(|r| r.column.clone()))
                .describe("column of the table, or path in a document; for literals the reason"),
            Column::text("value", text(|r| r.value.clone()))
                .describe("the value in full precision; null if it is null"),
            Column::text("unit", text(|r| r.unit.clone())),
            Column::text(
                "numerator",
                text(|r| r.ratio.as_ref().map(|r| r.numerator.clone())),
            )
            .describe("what is divided, in columns of ratios"),
            Column::text(
                "denominator",
                text(|r| r.ratio.as_ref().map(|r| r.denominator.clone())),
            )
            .describe("the base, in columns of ratios"),
            Column::text("format", text(|r| Some(r.format.clone()))),
        ],
        &[(format, &version)],
    )
}

/// Reads a trace.
///
/// # Errors
/// If it has another format, or a row is malformed.
pub fn read_trace(table: &Table) -> Result<Vec<TraceRow>, ReadError> {
    TRACE.check(table)?;
    let ints = |name: &str| -> Result<Vec<Option<usize>>, TableError> {
        let at = |v: Option<i64>| v.and_then(|v| usize::try_from(v).ok());
        Ok(table.int(name)?.into_iter().map(at).collect())
    };
    let texts = |name: &str| -> Result<Vec<Option<String>>, TableError> {
        let texts = table.text(name)?.into_iter();
        Ok(texts.map(|v| v.map(str::to_owned)).collect())
    };
    let (lines, starts, ends) = (ints("line")?, ints("column_start")?, ints("column_end")?);
    let (text, sources, stages) = (texts("text")?, table.text("source")?, texts("stage")?);
    let (coordinates, outputs) = (table.text("coordinates")?, texts("output")?);
    let (artifacts, rows, keys) = (
        table.text("artifact")?,
        ints("row")?,
        table.text("row_key")?,
    );
    let (columns, values, units) = (texts("column")?, texts("value")?, texts("unit")?);
    let (numerators, denominators) = (texts("numerator")?, texts("denominator")?);
    let formats = texts("format")?;
    let row = |i: usize| -> Result<TraceRow, String> {
        let (Some(line), Some(column_start), Some(column_end)) = (lines[i], starts[i], ends[i])
        else {
            return Err("it has no place in the report".to_owned());
        };
        let word = sources[i].unwrap_or_default();
        let ratio = numerators[i].clone().zip(denominators[i].clone());
        Ok(TraceRow {
            line,
            column_start,
            column_end,
            text: text[i].clone().unwrap_or_default(),
            source: TraceSource::parse(word).ok_or_else(|| format!("`{word}` is not a source"))?,
            stage: stages[i].clone(),
            coordinates: parsed(coordinates[i])?,
            output: outputs[i].clone(),
            artifact: parsed(artifacts[i])?,
            row: rows[i],
            row_key: parsed(keys[i])?,
            column: columns[i].clone(),
            value: values[i].clone(),
            unit: units[i].clone(),
            ratio: ratio.map(|(numerator, denominator)| Ratio {
                numerator,
                denominator,
            }),
            format: formats[i].clone().unwrap_or_default(),
        })
    };
    (0..table.rows())
        .map(|i| row(i).map_err(|what| ReadError::Row { row: i, what }))
        .collect()
}

fn parsed<T: std::str::FromStr<Err: fmt::Display>>(
    text: Option<&str>,
) -> Result<Option<T>, String> {
    text.map(|text| text.parse().map_err(|e| format!("`{text}`: {e}")))
        .transpose()
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;

    use super::*;

    #[test]
    fn a_trace_reads_back_whatever_its_labels_are() {
        let text = |value: &str| Scalar::Text(value.to_owned());
        let row = |source| TraceRow {
            line: 3,
            column_start: 1,
            column_end: 4,
            text: "1.5".to_owned(),
            source,
            stage: Some("results".to_owned()),
            coordinates: Some(Coordinates(vec![("part".to_owned(), text("a,b=\"c\""))])),
            output: Some("cells".to_owned()),
            artifact: Some(Digest::of(b"cells")),
            row: Some(7),
            row_key: Some(Condition(vec![
                ("model".to_owned(), vec![text("x|y"), text("")]),
                ("count(*)".to_owned(), vec![Scalar::Null, Scalar::Int(1)]),
            ])),
            column: Some("speedup".to_owned()),
            value: Some("1.5".to_owned()),
            unit: None,
            ratio: Some(Ratio {
                numerator: "a".to_owned(),
                denominator: "b".to_owned(),
            }),
            format: String::new(),
        };
        let mut rows: Vec<TraceRow> = TraceSource::ALL.into_iter().map(row).collect();
        rows.push(TraceRow {
            stage: None,
            coordinates: None,
            artifact: None,
            row_key: None,
            ratio: None,
            ..row(TraceSource::Literal)
        });
        let table = trace_table(&rows).unwrap();
        assert_eq!(read_trace(&table).unwrap(), rows);
    }

    #[test]
    fn a_table_of_another_format_is_no_trace() {
        let table = Table::new(vec![Column::int("line", [Some(1)])]).unwrap();
        let error = read_trace(&table).unwrap_err().to_string();
        assert!(
            error.starts_with("it does not say its format: it is not a trace"),
            "{error}"
        );
    }
}
