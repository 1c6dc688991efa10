//! From rows of a table, over the tables they were made of, to raw rows.

use std::collections::BTreeMap;

use artifacts::Digest;
use pipeline::cell::{cell_text, coordinates_text};
use serde::Serialize;

use crate::error::TrailError;
use crate::provenance::{Holder, Provenance};

/// Longer chains of tables than this are taken for a circle.
const DEEPEST: usize = 32;

/// Rows of a table, half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// The first row, from 0.
    pub start: usize,
    /// One past the last row.
    pub end: usize,
}

impl Span {
    fn holds(&self, row: usize) -> bool {
        (self.start..self.end).contains(&row)
    }
}

/// Returns how many rows spans have together.
pub(crate) fn count(spans: &[Span]) -> usize {
    spans.iter().map(|s| s.end - s.start).sum()
}

/// Rows of a table of a pure stage, and what they were made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRows {
    /// The cell that made the table.
    pub cell: String,
    /// The output's name.
    pub output: String,
    /// The table.
    pub artifact: Digest,
    /// The rows.
    pub spans: Vec<Span>,
    /// How many rows.
    pub rows: usize,
    /// What they were made of.
    pub sources: Vec<Source>,
}

/// What rows were made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// Rows of another table of a pure stage.
    Table(TableRows),
    /// Raw rows.
    Raw(RawRows),
    /// The trail ends here.
    Lost {
        /// What the lineage names.
        source: String,
        /// Why it cannot be followed.
        reason: String,
    },
}

/// Rows of an artifact of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawRows {
    /// The stage that measured.
    pub stage: String,
    /// The coordinates of its cell.
    pub coordinates: String,
    /// The output's name.
    pub output: String,
    /// The artifact.
    pub artifact: Digest,
    /// The rows.
    pub spans: Vec<Span>,
    /// How many rows.
    pub rows: usize,
}

impl RawRows {
    /// Returns the cell as messages write it.
    pub fn cell(&self) -> String {
        cell_text(&self.stage, &self.coordinates)
    }
}

impl TableRows {
    /// Returns every raw source below, those of the same artifact put together.
    pub fn raw(&self) -> Vec<RawRows> {
        let mut found: Vec<RawRows> = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut Vec<RawRows>) {
        for source in &self.sources {
            match source {
                Source::Table(table) => table.collect(found),
                Source::Raw(raw) => match found.iter_mut().find(|f| f.artifact == raw.artifact) {
                    Some(known) => {
                        known.spans = joined(known.spans.iter().chain(&raw.spans).copied());
                        known.rows = count(&known.spans);
                    }
                    None => found.push(raw.clone()),
                },
                Source::Lost { .. } => {}
            }
        }
    }

    /// Returns every place below where the trail ends early.
    pub fn lost(&self) -> Vec<String> {
        let mut found = Vec::new();
        for source in &self.sources {
            match source {
                Source::Table(table) => found.extend(table.lost()),
                Source::Lost { source, reason } => found.push(format!("{source}: {reason}")),
                Source::Raw(_) => {}
            }
        }
        found
    }
}

/// Follows rows of an output of a cell down to raw rows. `None` if there is no lineage beside
/// the output.
///
/// # Errors
/// If an artifact on the way is missing, damaged, or not what its record says.
pub(crate) fn follow(
    provenance: &Provenance<'_>,
    holder: &Holder,
    output: &str,
    spans: &[Span],
) -> Result<Option<TableRows>, TrailError> {
    follow_to(provenance, holder, output, spans, DEEPEST)
}

fn follow_to(
    provenance: &Provenance<'_>,
    holder: &Holder,
    output: &str,
    spans: &[Span],
    depth: usize,
) -> Result<Option<TableRows>, TrailError> {
    let outputs = &holder.record.outputs;
    let (Some(table), Some(lineage)) = (
        outputs.get(output),
        outputs.get(&format!("{output}.lineage")),
    ) else {
        return Ok(None);
    };
    let mut sources = Vec::new();
    for (source, from) in made_of(provenance, &lineage.digest, spans)? {
        sources.push(if depth == 0 {
            Source::Lost {
                source,
                reason: "the lineage goes in a circle".to_owned(),
            }
        } else {
            step(provenance, holder, &source, from, depth - 1)?
        });
    }
    Ok(Some(TableRows {
        cell: holder.cell(),
        output: output.to_owned(),
        artifact: table.digest,
        spans: spans.to_vec(),
        rows: count(spans),
        sources,
    }))
}

/// One source of a lineage: a table of the same cell, or an artifact of an input.
fn step(
    provenance: &Provenance<'_>,
    holder: &Holder,
    source: &str,
    spans: Vec<Span>,
    depth: usize,
) -> Result<Source, TrailError> {
    let lost = |reason: &str| Source::Lost {
        source: source.to_owned(),
        reason: reason.to_owned(),
    };
    let Ok(artifact) = source.parse::<Digest>() else {
        let table = follow_to(provenance, holder, source, &spans, depth)?;
        return Ok(table.map_or_else(
            || lost("the stage has no such table with a lineage"),
            Source::Table,
        ));
    };
    let inputs = holder.record.recipe.inputs.iter();
    let cells = inputs.flat_map(|input| input.cells.iter().map(move |cell| (&input.stage, cell)));
    let mut outputs =
        cells.flat_map(|(stage, cell)| cell.outputs.iter().map(move |o| (stage, cell, o)));
    let Some((stage, cell, (output, _))) = outputs.find(|(_, _, (_, digest))| **digest == artifact)
    else {
        return Ok(lost("no input of the analysis has this artifact"));
    };
    let coordinates = coordinates_text(&cell.coordinates);
    // An analysis of an analysis: its tables have lineages of their own.
    if cell.outputs.contains_key(&format!("{output}.lineage"))
        && let Some(below) = provenance.at(stage, &coordinates)?
        && below
            .record
            .outputs
            .get(output)
            .is_some_and(|a| a.digest == artifact)
        && let Some(table) = follow_to(provenance, &below, output, &spans, depth)?
    {
        return Ok(Source::Table(table));
    }
    let rows = count(&spans);
    Ok(Source::Raw(RawRows {
        stage: stage.clone(),
        coordinates,
        output: output.clone(),
        artifact,
        spans,
        rows,
    }))
}

/// Reads from a lineage table what rows were made of: source and rows, in order of first use.
fn made_of(
    provenance: &Provenance<'_>,
    lineage: &Digest,
    spans: &[Span],
) -> Result<Vec<(String, Vec<Span>)>, TrailError> {
    let table = provenance.reader.table(lineage)?;
    let wrong = |e: artifacts::TableError| TrailError::Artifact(*lineage, e.to_string());
    let (rows, sources) = (
        table.int("row").map_err(wrong)?,
        table.text("source").map_err(wrong)?,
    );
    let starts = table.int("source_row_start").map_err(wrong)?;
    let ends = table.int("source_row_end").map_err(wrong)?;
    let at = |value: Option<i64>| value.and_then(|v| usize::try_from(v).ok());
    let mut found: BTreeMap<&str, (usize, Vec<Span>)> = BTreeMap::new();
    for i in 0..table.rows() {
        let of_ours = at(rows[i]).is_some_and(|row| spans.iter().any(|s| s.holds(row)));
        if !of_ours {
            continue;
        }
        let (Some(source), Some(start), Some(end)) = (sources[i], at(starts[i]), at(ends[i]))
        else {
            return Err(TrailError::Artifact(
                *lineage,
                format!("row {i} of the lineage is incomplete"),
            ));
        };
        if end < start {
            return Err(TrailError::Artifact(
                *lineage,
                format!("row {i} of the lineage ends before it starts"),
            ));
        }
        found
            .entry(source)
            .or_insert((i, Vec::new()))
            .1
            .push(Span { start, end });
    }
    let mut ordered: Vec<_> = found.into_iter().collect();
    ordered.sort_by_key(|(_, (first, _))| *first);
    Ok(ordered
        .into_iter()
        .map(|(source, (_, spans))| (source.to_owned(), joined(spans)))
        .collect())
}

/// Sorts spans and joins those that touch.
pub(crate) fn joined(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut sorted: Vec<Span> = spans.into_iter().filter(|s| s.end > s.start).collect();
    sorted.sort();
    let mut out: Vec<Span> = Vec::new();
    for span in sorted {
        match out.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => out.push(span),
        }
    }
    out
}
