//! The table `NAME.lineage` beside a table of `analyze`: the source rows of each of its rows.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use artifacts::{Column, Digest, Table, TableError};
use pipeline::place::CellName;

use crate::format::{ReadError, TableFormat};

/// The format of lineage tables.
pub(crate) const LINEAGE: TableFormat = TableFormat {
    name: "lineage",
    version: 2,
};

/// The source of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineageSource {
    /// A table of the same cell, by its name.
    Table(Arc<str>),
    /// An output of a cell of an input.
    Artifact(Arc<SourceArtifact>),
}

/// An output of a cell, and its digest. Two cells may have outputs with equal bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceArtifact {
    /// The cell.
    pub cell: CellName,
    /// The output's name.
    pub output: String,
    /// The digest of its bytes.
    pub digest: Digest,
}

impl SourceArtifact {
    fn order(&self) -> (String, &str, &[u8]) {
        (
            self.cell.to_string(),
            &self.output,
            self.digest.as_bytes().as_slice(),
        )
    }
}

impl Eq for SourceArtifact {}

impl PartialOrd for SourceArtifact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SourceArtifact {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl From<&str> for LineageSource {
    fn from(table: &str) -> Self {
        Self::Table(table.into())
    }
}

impl From<&String> for LineageSource {
    fn from(table: &String) -> Self {
        Self::Table(table.as_str().into())
    }
}

impl From<&Self> for LineageSource {
    fn from(source: &Self) -> Self {
        source.clone()
    }
}

/// A source of one row: consecutive rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow<S> {
    /// The row of the table, from 0.
    pub row: usize,
    /// The source.
    pub source: S,
    /// The first row of the source, from 0.
    pub start: usize,
    /// One past the last row of the source.
    pub end: usize,
}

/// Makes a lineage table.
///
/// # Errors
/// Never for rows of a table; errors of the table type are passed on.
pub fn lineage_table<'a>(
    rows: impl Iterator<Item = LineageRow<&'a LineageSource>> + Clone,
) -> Result<Table, TableError> {
    let count = |n: usize| i64::try_from(n).ok();
    let artifact = |source: &'a LineageSource| match source {
        LineageSource::Table(_) => None,
        LineageSource::Artifact(artifact) => Some(artifact),
    };
    // Most rows have the same source as the row before.
    let mut last: Option<(&Arc<SourceArtifact>, String)> = None;
    let coordinates: Vec<Option<String>> = rows
        .clone()
        .map(|r| {
            let artifact = artifact(r.source)?;
            match &last {
                Some((earlier, text)) if Arc::ptr_eq(earlier, artifact) => Some(text.clone()),
                _ => {
                    let text = artifact.cell.coordinates.to_string();
                    last = Some((artifact, text.clone()));
                    Some(text)
                }
            }
        })
        .collect();
    let (format, version) = LINEAGE.note();
    Table::with_metadata(
        vec![
            Column::int("row", rows.clone().map(|r| count(r.row)))
                .describe("row of the table, from 0"),
            Column::text(
                "source_stage",
                rows.clone()
                    .map(|r| artifact(r.source).map(|a| a.cell.stage.as_str())),
            )
            .describe(
                "stage of the cell whose output the source is; null for a table of this cell",
            ),
            Column::text("source_coordinates", coordinates)
                .describe("coordinates of that cell; null for a table of this cell"),
            Column::text(
                "source_output",
                rows.clone().map(|r| {
                    Some(match r.source {
                        LineageSource::Table(name) => &**name,
                        LineageSource::Artifact(artifact) => &artifact.output,
                    })
                }),
            )
            .describe("name of the output, or of the table of this cell"),
            Column::text(
                "source_artifact",
                rows.clone()
                    .map(|r| artifact(r.source).map(|a| a.digest.to_string())),
            )
            .describe("digest of the output's bytes; null for a table of this cell"),
            Column::int("source_row_start", rows.clone().map(|r| count(r.start)))
                .describe("first row of the source, from 0"),
            Column::int("source_row_end", rows.map(|r| count(r.end)))
                .describe("one past the last row of the source"),
        ],
        &[("operator", "lineage"), ("keys", "row"), (format, &version)],
    )
}

/// A lineage table in memory: its sources, each once, and rows that refer to them by position.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// The sources in the order of their first row.
    pub sources: Vec<LineageSource>,
    /// The rows.
    pub rows: Vec<LineageRow<usize>>,
}

impl Lineage {
    /// Reads a lineage table.
    ///
    /// # Errors
    /// If it has another format, or a row is incomplete.
    pub fn read(table: &Table) -> Result<Self, ReadError> {
        LINEAGE.check(table)?;
        let int = |name: &str| table.int(name);
        let (rows, starts, ends) = (
            int("row")?,
            int("source_row_start")?,
            int("source_row_end")?,
        );
        let (stages, coordinates) = (
            table.text("source_stage")?,
            table.text("source_coordinates")?,
        );
        let (outputs, artifacts) = (table.text("source_output")?, table.text("source_artifact")?);
        let at = |value: Option<i64>| value.and_then(|v| usize::try_from(v).ok());
        let mut lineage = Self::default();
        let mut seen = HashMap::new();
        for i in 0..table.rows() {
            let wrong = |what: &str| ReadError::Row {
                row: i,
                what: what.to_owned(),
            };
            let (Some(row), Some(start), Some(end), Some(output)) =
                (at(rows[i]), at(starts[i]), at(ends[i]), outputs[i])
            else {
                return Err(wrong("it is incomplete"));
            };
            if end < start {
                return Err(wrong("it ends before it starts"));
            }
            let place = (stages[i], coordinates[i], output, artifacts[i]);
            let source = match seen.get(&place) {
                Some(source) => *source,
                None => {
                    lineage.sources.push(source(place).map_err(|e| wrong(&e))?);
                    seen.insert(place, lineage.sources.len() - 1);
                    lineage.sources.len() - 1
                }
            };
            lineage.rows.push(LineageRow {
                row,
                source,
                start,
                end,
            });
        }
        Ok(lineage)
    }
}

type PlaceText<'a> = (Option<&'a str>, Option<&'a str>, &'a str, Option<&'a str>);

fn source((stage, coordinates, output, artifact): PlaceText<'_>) -> Result<LineageSource, String> {
    Ok(match (stage, coordinates, artifact) {
        (None, None, None) => LineageSource::Table(output.into()),
        (Some(stage), Some(coordinates), Some(artifact)) => {
            let coordinates = coordinates
                .parse()
                .map_err(|e| format!("`{coordinates}` are not coordinates: {e}"))?;
            LineageSource::Artifact(Arc::new(SourceArtifact {
                cell: CellName {
                    stage: stage.to_owned(),
                    coordinates,
                },
                output: output.to_owned(),
                digest: artifact
                    .parse()
                    .map_err(|e: artifacts::DigestParseError| e.to_string())?,
            }))
        }
        _ => return Err("its source is named in part".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;
    use pipeline::Coordinates;

    use super::*;

    fn sources() -> [LineageSource; 3] {
        let artifact = |label: &str| {
            LineageSource::Artifact(Arc::new(SourceArtifact {
                cell: CellName {
                    stage: "ladder".to_owned(),
                    coordinates: Coordinates(vec![(
                        "model".to_owned(),
                        Scalar::Text(label.to_owned()),
                    )]),
                },
                output: "requests".to_owned(),
                digest: Digest::of(b"the same bytes"),
            }))
        };
        [artifact("a,b"), artifact("a"), "cells".into()]
    }

    fn table(sources: &[LineageSource]) -> Table {
        let rows = sources.iter().cycle().take(7).enumerate();
        lineage_table(rows.map(|(i, source)| LineageRow {
            row: i / 2,
            source,
            start: i,
            end: i + 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_lineage_reads_back_with_cells_of_equal_bytes_apart() {
        let sources = sources();
        let lineage = Lineage::read(&table(&sources)).unwrap();
        assert_eq!(lineage.sources, sources);
        assert_eq!(lineage.rows.len(), 7);
        assert_eq!(
            lineage.rows[4],
            LineageRow {
                row: 2,
                source: 1,
                start: 4,
                end: 6
            }
        );
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let table = table(&sources());
        let columns = vec![Column::int("row", table.int("row").unwrap())];
        let older = Table::with_metadata(columns.clone(), &[("format", "lineage 1")]).unwrap();
        assert_eq!(
            Lineage::read(&older).unwrap_err().to_string(),
            "its format is `lineage 1`, this benchtrail reads `lineage 2`"
        );
        let unnamed = Table::new(columns).unwrap();
        let error = Lineage::read(&unnamed).unwrap_err().to_string();
        assert!(error.contains("an older benchtrail wrote it"), "{error}");
    }
}
