//! Follows rows of a table through the tables they were made from to raw rows.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use artifacts::Digest;
use contract::{Lineage, LineageSource, SourceArtifact};
use pipeline::place::cell_text;
use pipeline::{Json, Media};
use serde::Serialize;

use crate::error::TrailError;
use crate::provenance::{Holder, Provenance};

/// A longer chain of tables counts as a cycle.
const DEEPEST: usize = 32;

/// The most steps from the rows of one number to their sources: one for each source, and [`OF_A_TABLE`] more for each
/// table. Tables that are made from each other would otherwise double the steps at each level.
const MOST_STEPS: usize = 5_000_000;

/// The steps that a table counts for, because it takes more memory than a source.
const OF_A_TABLE: usize = 100;

/// Rows of a table, half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RowRange {
    /// The first row, from 0.
    pub start: usize,
    /// One past the last row.
    pub end: usize,
}

/// Returns the total number of rows in spans.
pub(crate) fn count(spans: &[RowRange]) -> usize {
    spans.iter().map(|s| s.end - s.start).sum()
}

/// Rows of a table of a pure stage, and their sources.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRows {
    /// The cell that made the table.
    pub cell: String,
    /// The output's name.
    pub output: String,
    /// The table.
    pub artifact: Digest,
    /// The rows.
    pub spans: Vec<RowRange>,
    /// The number of rows.
    pub rows: usize,
    /// The sources of the rows.
    pub sources: Vec<MadeOf>,
}

/// A source of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MadeOf {
    /// Rows of another table of a pure stage.
    Table(TableRows),
    /// Raw rows.
    Raw(RawRows),
    /// Lines of a published file.
    File(FileRows),
    /// The trail ends here.
    Lost {
        /// The source in the lineage.
        source: String,
        /// The reason why it cannot be followed.
        reason: String,
    },
}

/// Lines, or rows, of a file that a table was read from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileRows {
    /// The file's name.
    pub file: String,
    /// The place of publication, if the experiment states it.
    pub origin: Option<String>,
    /// The output that holds it.
    pub output: String,
    /// The digest of its bytes.
    pub artifact: Digest,
    /// `line`, or `row` of a Parquet file.
    pub counted: &'static str,
    /// The lines or rows, from 0.
    pub spans: Vec<RowRange>,
    /// The header line of a text file, if it has one.
    pub heading: Option<String>,
    /// The text of the first lines; empty for a Parquet file.
    pub text: Vec<String>,
}

/// Rows of an artifact of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawRows {
    /// The stage that measured the rows.
    pub stage: String,
    /// The coordinates of its cell.
    pub coordinates: String,
    /// The output's name.
    pub output: String,
    /// The artifact.
    pub artifact: Digest,
    /// The rows.
    pub spans: Vec<RowRange>,
    /// The number of rows.
    pub rows: usize,
}

impl RawRows {
    /// Returns the cell's name, as in messages.
    pub fn cell(&self) -> String {
        cell_text(&self.stage, &self.coordinates)
    }
}

/// Raw sources in the order of first use, with each output of a cell once.
#[derive(Default)]
struct Merged<'a> {
    raw: Vec<RawRows>,
    places: HashMap<(&'a str, &'a str, &'a str, Digest), usize>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, raw: &'a RawRows) {
        let output = (&*raw.stage, &*raw.coordinates, &*raw.output, raw.artifact);
        match self.places.get(&output) {
            Some(index) => self.raw[*index].spans.extend(&raw.spans),
            None => {
                self.places.insert(output, self.raw.len());
                self.raw.push(raw.clone());
            }
        }
    }
}

impl TableRows {
    /// Returns every raw source below, merged by output.
    pub fn raw(&self) -> Vec<RawRows> {
        let mut collected = Merged::default();
        self.collect(&mut collected);
        for raw in &mut collected.raw {
            raw.spans = joined(raw.spans.iter().copied());
            raw.rows = count(&raw.spans);
        }
        collected.raw
    }

    fn collect<'a>(&'a self, collected: &mut Merged<'a>) {
        for source in &self.sources {
            match source {
                MadeOf::Table(table) => table.collect(collected),
                MadeOf::Raw(raw) => collected.add(raw),
                MadeOf::File(_) | MadeOf::Lost { .. } => {}
            }
        }
    }

    /// Returns every file below, without duplicates.
    pub fn files(&self) -> Vec<&FileRows> {
        let mut files: Vec<&FileRows> = Vec::new();
        for source in &self.sources {
            let below = match source {
                MadeOf::Table(table) => table.files(),
                MadeOf::File(file) => vec![file],
                MadeOf::Raw(_) | MadeOf::Lost { .. } => Vec::new(),
            };
            let is_new = |file: &&FileRows| files.iter().all(|f| f.artifact != file.artifact);
            let below: Vec<&FileRows> = below.into_iter().filter(is_new).collect();
            files.extend(below);
        }
        files
    }

    /// Returns every place below where the trail ends early.
    pub fn lost(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for source in &self.sources {
            match source {
                MadeOf::Table(table) => lost.extend(table.lost()),
                MadeOf::Lost { source, reason } => lost.push(format!("{source}: {reason}")),
                MadeOf::Raw(_) | MadeOf::File(_) => {}
            }
        }
        lost
    }
}

/// Follows rows of an output of a cell down to raw rows. Returns `None` if the output has no
/// lineage.
///
/// # Errors
/// If an artifact on the trail is missing, damaged, or does not match its record.
pub(crate) fn follow(
    provenance: &Provenance<'_>,
    holder: &Holder,
    output: &str,
    spans: &[RowRange],
) -> Result<Option<TableRows>, TrailError> {
    let steps = Cell::new(MOST_STEPS);
    follow_to(provenance, holder, output, spans, (DEEPEST, &steps))
}

/// Takes steps from those that are left.
fn take(steps: &Cell<usize>, count: usize, lineage: &Digest) -> Result<(), TrailError> {
    let left = steps.get().checked_sub(count).ok_or_else(|| {
        let what = format!("the sources of the rows lead through more than {MOST_STEPS} steps");
        TrailError::Artifact(*lineage, what)
    })?;
    steps.set(left);
    Ok(())
}

fn follow_to(
    provenance: &Provenance<'_>,
    holder: &Holder,
    output: &str,
    spans: &[RowRange],
    (depth, steps): (usize, &Cell<usize>),
) -> Result<Option<TableRows>, TrailError> {
    let outputs = &holder.record.outputs;
    let (Some(table), Some(lineage)) = (
        outputs.get(output),
        outputs.get(&format!("{output}.lineage")),
    ) else {
        return Ok(None);
    };
    let digest = lineage.digest;
    let lineage = provenance.reader.lineage(&digest)?;
    take(steps, OF_A_TABLE, &digest)?;
    let mut sources = Vec::new();
    for (source, from) in made_of(&lineage, spans) {
        take(steps, from.len().max(1), &digest)?;
        sources.push(match source {
            _ if depth == 0 => lost(source, "the lineage is circular"),
            LineageSource::Table(name)
                if outputs.contains_key(&**name)
                    && !outputs.contains_key(&format!("{name}.lineage")) =>
            {
                file(provenance, holder, (output, name), from)?
            }
            LineageSource::Table(name) => {
                let table = follow_to(provenance, holder, name, &from, (depth - 1, steps))?;
                let reason = "the stage has no such table with a lineage";
                table.map_or_else(|| lost(source, reason), MadeOf::Table)
            }
            LineageSource::Artifact(artifact) => {
                step(provenance, holder, artifact, from, (depth - 1, steps))?
            }
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

/// The number of a file's lines that are shown, and the number of characters per line.
const LINES: usize = 3;
const CHARACTERS: usize = 200;

/// Returns the file that a table was read from.
fn file(
    provenance: &Provenance<'_>,
    holder: &Holder,
    (table, output): (&str, &str),
    spans: Vec<RowRange>,
) -> Result<MadeOf, TrailError> {
    let outputs = &holder.record.outputs;
    let (made, kept) = (&outputs[table], &outputs[output]);
    let made = provenance.reader.table(&made.digest)?;
    let parameters: Option<Json> = made
        .metadata("parameters")
        .and_then(|text| serde_json::from_str(&text).ok());
    let said = |key: &str| Some(parameters.as_ref()?[key].as_str()?.to_owned());
    let shortened = |line: &str| match line.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    let is_rows = kept.media == Media::Binary;
    let (mut text, mut heading) = (Vec::new(), None);
    if !is_rows {
        let bytes = provenance.reader.bytes(&kept.digest)?;
        let whole = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = whole.lines().collect();
        let named = spans.iter().flat_map(|span| span.start..span.end);
        let shown = named.take(LINES).filter_map(|line| all.get(line));
        text = shown.map(|line| shortened(line)).collect();
        let first = all.iter().find(|line| !line.starts_with('#'));
        heading = first
            .filter(|line| kept.media == Media::Text && !line.starts_with('{'))
            .map(|line| shortened(line));
    }
    Ok(MadeOf::File(FileRows {
        file: said("file").unwrap_or_else(|| output.to_owned()),
        origin: said("origin"),
        output: output.to_owned(),
        artifact: kept.digest,
        counted: if is_rows { "row" } else { "line" },
        spans,
        heading,
        text,
    }))
}

fn lost(source: &LineageSource, reason: &str) -> MadeOf {
    let source = match source {
        LineageSource::Table(name) => name.to_string(),
        LineageSource::Artifact(artifact) => {
            let (cell, output) = (&artifact.cell, &artifact.output);
            format!("{cell}.{output} ({})", artifact.digest.short())
        }
    };
    MadeOf::Lost {
        source,
        reason: reason.to_owned(),
    }
}

/// Returns an output of an input cell: raw rows, or a table of another analysis.
fn step(
    provenance: &Provenance<'_>,
    holder: &Holder,
    artifact: &Arc<SourceArtifact>,
    spans: Vec<RowRange>,
    left: (usize, &Cell<usize>),
) -> Result<MadeOf, TrailError> {
    let SourceArtifact {
        cell,
        output,
        digest,
    } = &**artifact;
    let coordinates = cell.coordinates.to_string();
    let inputs = provenance.reader.inputs(holder);
    let place = (cell.stage.clone(), coordinates.clone());
    let mut read = inputs.get(&place).into_iter().flatten().map(|(i, j)| {
        let input = &holder.record.recipe.inputs[*i];
        &input.cells[*j]
    });
    let outputs = read
        .find(|input| {
            input.coordinates == cell.coordinates && input.outputs.get(output) == Some(digest)
        })
        .map(|input| &input.outputs);
    let Some(outputs) = outputs else {
        let source = LineageSource::Artifact(artifact.clone());
        return Ok(lost(&source, "no input of the analysis has this artifact"));
    };
    // In an analysis of an analysis, the input tables have their own lineages.
    if outputs.contains_key(&format!("{output}.lineage"))
        && let Some(below) = provenance.at(&cell.stage, &coordinates)?
        && below
            .record
            .outputs
            .get(output)
            .is_some_and(|a| a.digest == *digest)
        && let Some(table) = follow_to(provenance, &below, output, &spans, left)?
    {
        return Ok(MadeOf::Table(table));
    }
    let rows = count(&spans);
    Ok(MadeOf::Raw(RawRows {
        stage: cell.stage.clone(),
        coordinates,
        output: output.clone(),
        artifact: *digest,
        spans,
        rows,
    }))
}

/// A lineage, with the positions of the lines for each row of its table.
#[derive(Debug)]
pub(crate) struct Lines {
    lineage: Lineage,
    /// Positions of lines, sorted by row and then by their order.
    by_row: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(lineage: Lineage) -> Self {
        let mut by_row: Vec<usize> = (0..lineage.rows.len()).collect();
        by_row.sort_by_key(|line| lineage.rows[*line].row);
        Self { lineage, by_row }
    }

    /// Returns the positions of the lines of rows, ascending.
    fn of(&self, spans: &[RowRange]) -> Vec<usize> {
        let before = |row: usize| {
            let is_before = |line: &usize| self.lineage.rows[*line].row < row;
            self.by_row.partition_point(is_before)
        };
        let part = |span: &RowRange| &self.by_row[before(span.start)..before(span.end)];
        let mut lines: Vec<usize> = spans.iter().flat_map(part).copied().collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

/// Returns the sources of rows: source and rows, in order of first use.
fn made_of<'a>(lines: &'a Lines, spans: &[RowRange]) -> Vec<(&'a LineageSource, Vec<RowRange>)> {
    let lineage = &lines.lineage;
    let mut used: BTreeMap<usize, (usize, Vec<RowRange>)> = BTreeMap::new();
    for i in lines.of(spans) {
        let line = &lineage.rows[i];
        let (_, rows) = used.entry(line.source).or_insert((i, Vec::new()));
        rows.push(RowRange {
            start: line.start,
            end: line.end,
        });
    }
    let mut ordered: Vec<_> = used.into_iter().collect();
    ordered.sort_by_key(|(_, (first, _))| *first);
    ordered
        .into_iter()
        .map(|(source, (_, spans))| (&lineage.sources[source], joined(spans)))
        .collect()
}

/// Sorts spans and merges those that touch.
pub(crate) fn joined(spans: impl IntoIterator<Item = RowRange>) -> Vec<RowRange> {
    let mut sorted: Vec<RowRange> = spans.into_iter().filter(|s| s.end > s.start).collect();
    sorted.sort();
    let mut out: Vec<RowRange> = Vec::new();
    for span in sorted {
        match out.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => out.push(span),
        }
    }
    out
}
