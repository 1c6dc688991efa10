//! Explains why a report prints a number: the number, its table, the rows it was made from, and the evidence behind
//! them.

use artifacts::{Digest, Scalar, counted};
use contract::TraceSource;
use pipeline::place::{Condition, cell_text};
use pipeline::stage::{Coordinates, MissingCell};
use serde::{Serialize, Serializer};

use crate::document::{Document, Number};
use crate::error::TrailError;
use crate::evidence::{self, Evidence, Gates, LoadCell, Server};
use crate::lineage::{self, RawRows, RowRange, TableRows};
use crate::provenance::{Holder, Provenance};

/// The source of a number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TablePlace {
    /// `stage.output`, with the cell's coordinates if it has any.
    pub name: String,
    /// The artifact.
    pub artifact: Digest,
    /// The record of the cell that made it; `None` if no known lock has it.
    pub record: Option<Digest>,
    /// The row, from 0.
    pub row: Option<usize>,
    /// The row's key columns; for counts, the condition.
    #[serde(serialize_with = "condition_text")]
    pub row_key: Option<Condition>,
    /// The column, or the path in a document.
    pub column: Option<String>,
    /// What the column means.
    pub description: Option<String>,
    /// The column's unit.
    pub unit: Option<String>,
    /// The operator that made the table.
    pub operator: Option<String>,
    /// The operator's parameters.
    pub parameters: Option<String>,
    /// What a row of the table stands for.
    pub level: Option<String>,
    /// The cells that the table itself declares as missing and that match the row's key.
    pub missing: Vec<MissingCell>,
}

/// The explanation of a number in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The report's file.
    pub report: String,
    /// The number.
    pub number: Number,
    /// Other requested places (`LINE:COLUMN`) with the same value.
    pub also_at: Vec<String>,
    /// The kind of the number, in a sentence.
    pub meaning: String,
    /// The artifact it was read from.
    pub place: Option<TablePlace>,
    /// The rows it was made from.
    pub lineage: Option<TableRows>,
    /// The raw rows at the end of the lineage.
    pub raw: Vec<RawRows>,
    /// The measured cells of these rows, and their gates.
    pub cells: Vec<LoadCell>,
    /// The outcomes of gates over whole stages.
    pub stage_gates: Gates,
    /// The servers that answered, and their hosts.
    pub servers: Vec<Server>,
    /// Commands that show the steps of the trail.
    pub see: Vec<String>,
    /// Reasons why the trail may have changed since the report was rendered.
    pub doubts: Vec<String>,
    /// The lock.
    pub lock: Option<String>,
}

/// Explains one number; `also` holds its other places.
///
/// # Errors
/// If an artifact on the trail is missing or damaged.
pub fn why(
    document: &Document,
    provenance: &Provenance<'_>,
    number: &Number,
    also: &[&Number],
) -> Result<Answer, TrailError> {
    let mut answer = Answer {
        report: document.path.display().to_string(),
        also_at: also
            .iter()
            .filter(|n| n.place() != number.place())
            .map(|n| n.place())
            .collect(),
        doubts: doubts(document, provenance),
        ..Answer::of(provenance, number)
    };
    if !is_at(document, number) {
        answer.doubts.push(format!(
            "the report no longer has `{}` at {}",
            number.text,
            number.place()
        ));
    }
    explain(provenance, number, answer)
}

/// Explains one value of a table, whether or not a report prints it. The answer has the same structure without a
/// report: `report` is empty and the number's place is 0:0.
///
/// # Errors
/// If the lock has no such cell, output, row or column, or an artifact on the trail is missing or damaged.
pub fn why_value(
    provenance: &Provenance<'_>,
    stage: &str,
    coordinates: &Coordinates,
    (output, row, column): (&str, usize, &str),
) -> Result<Answer, TrailError> {
    let cell = cell_text(stage, &coordinates.to_string());
    let nothing = |asked: String, hint: &str| TrailError::NoNumber {
        asked,
        hint: hint.to_owned(),
    };
    let holder = provenance
        .at(stage, &coordinates.to_string())?
        .ok_or_else(|| {
            nothing(
                format!("the lock has no record of {cell}"),
                "name an ok cell",
            )
        })?;
    let artifact = holder.record.outputs.get(output).ok_or_else(|| {
        nothing(
            format!("{cell} has no output `{output}`"),
            "`benchtrail ls` lists the outputs of a cell",
        )
    })?;
    let table = provenance.reader.table(&artifact.digest)?;
    if row >= table.rows() {
        return Err(nothing(
            format!("{cell}.{output} has no row {row}"),
            &format!("it has {}, from 0", counted(table.rows(), "row")),
        ));
    }
    let value = table
        .value(column, row)
        .map_err(|e| nothing(format!("{cell}.{output}"), &e.to_string()))?;
    let text = value.to_string();
    let number = Number {
        line: 0,
        column_start: 0,
        column_end: 0,
        value: (value != Scalar::Null).then(|| text.clone()),
        text,
        source: TraceSource::Table,
        stage: Some(stage.to_owned()),
        coordinates: Some(coordinates.clone()),
        output: Some(output.to_owned()),
        artifact: Some(artifact.digest),
        row: Some(row),
        row_key: None,
        column: Some(column.to_owned()),
        unit: table.unit(column),
        ratio: table.ratio(column),
        format: String::new(),
    };
    let answer = Answer::of(provenance, &number);
    explain(provenance, &number, answer)
}

impl Answer {
    /// Starts an answer with what the number itself states.
    fn of(provenance: &Provenance<'_>, number: &Number) -> Self {
        Self {
            report: String::new(),
            number: number.clone(),
            also_at: Vec::new(),
            meaning: meaning(number),
            place: None,
            lineage: None,
            raw: Vec::new(),
            cells: Vec::new(),
            stage_gates: Gates::default(),
            servers: Vec::new(),
            see: Vec::new(),
            doubts: provenance.doubts.clone(),
            lock: provenance.file.as_ref().map(|f| f.display().to_string()),
        }
    }
}

/// Follows a number from its artifact to the raw rows and the evidence behind them.
fn explain(
    provenance: &Provenance<'_>,
    number: &Number,
    mut answer: Answer,
) -> Result<Answer, TrailError> {
    let Some(artifact) = number.artifact else {
        return Ok(answer);
    };
    let holder = provenance.holder(number)?;
    if holder.is_none() && provenance.is_known() {
        let stage = number.stage.as_deref().unwrap_or_default();
        answer.doubts.push(format!(
            "the lock no longer has {} as an output of {stage}",
            artifact.short()
        ));
    }
    answer.place = Some(table_place(provenance, number, artifact, holder.as_ref())?);
    answer.see.push(match number.row {
        Some(row) => show(
            &artifact,
            &[RowRange {
                start: row,
                end: row + 1,
            }],
        ),
        None => show(&artifact, &[]),
    });
    if number.source != TraceSource::Json
        && let Some(holder) = &holder
    {
        descend(provenance, number, holder, &mut answer)?;
    }
    Ok(answer)
}

/// The sources of rows of a table and the evidence behind them. They are the same for every number of these rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descent {
    /// An addition to the meaning of a number without lineage.
    meaning: Option<String>,
    doubts: Vec<String>,
    lineage: Option<TableRows>,
    raw: Vec<RawRows>,
    cells: Vec<LoadCell>,
    stage_gates: Gates,
    servers: Vec<Server>,
    see: Vec<String>,
}

/// Follows the rows of a table number to the end of the trail.
fn descend(
    provenance: &Provenance<'_>,
    number: &Number,
    holder: &Holder,
    answer: &mut Answer,
) -> Result<(), TrailError> {
    let Some(output) = number.output.as_deref() else {
        return Ok(());
    };
    let rows = match number.row {
        Some(row) => vec![row],
        None if number.source == TraceSource::Count => {
            rows_of_count(provenance, number, holder, output)?
        }
        None => return Ok(()),
    };
    let spans = lineage::joined(rows.iter().map(|row| RowRange {
        start: *row,
        end: row + 1,
    }));
    let place = (holder.digest, output, &*spans);
    let descent = provenance.descent(place, || below(provenance, holder, output, &spans))?;
    let Descent {
        meaning,
        doubts,
        lineage,
        raw,
        cells,
        stage_gates,
        servers,
        see,
    } = Descent::clone(&descent);
    if let Some(meaning) = meaning {
        answer.meaning = format!("{}, {meaning}", answer.meaning);
    }
    answer.doubts.extend(doubts);
    answer.see.extend(see);
    let mut seen = std::collections::HashSet::new();
    answer.see.retain(|command| seen.insert(command.clone()));
    (answer.lineage, answer.raw, answer.cells) = (lineage, raw, cells);
    (answer.servers, answer.stage_gates) = (servers, stage_gates);
    Ok(())
}

/// Follows rows of an output to the end of the trail.
fn below(
    provenance: &Provenance<'_>,
    holder: &Holder,
    output: &str,
    spans: &[RowRange],
) -> Result<Descent, TrailError> {
    let mut descent = Descent {
        lineage: lineage::follow(provenance, holder, output, spans)?,
        ..Descent::default()
    };
    match &descent.lineage {
        Some(lineage) => {
            descent.raw = lineage.raw();
            let lost = lineage.lost().into_iter();
            descent.doubts = lost
                .map(|l| format!("the lineage ends early, at {l}"))
                .collect();
            let files = lineage.files().into_iter().take(6);
            descent.see = files.map(|file| show(&file.artifact, &[])).collect();
        }
        // A row of a measurement is itself a raw row.
        None if holder.record.outputs.contains_key("requests") => descent.raw.push(RawRows {
            stage: holder.record.stage.clone(),
            coordinates: holder.record.coordinates.to_string(),
            output: output.to_owned(),
            artifact: holder.record.outputs[output].digest,
            spans: spans.to_vec(),
            rows: lineage::count(spans),
        }),
        None => descent.meaning = Some(inputs(holder)),
    }
    let Evidence {
        cells,
        study,
        servers,
        ..
    } = evidence::behind(provenance, holder, &descent.raw)?;
    let raw = descent.raw.iter().take(6);
    descent
        .see
        .extend(raw.map(|raw| show(&raw.artifact, &raw.spans)));
    for server in &servers {
        descent.see.push(show(&server.artifact, &[]));
        let environments = server.environment.iter();
        descent.see.extend(environments.map(|e| show(e, &[])));
    }
    (descent.cells, descent.servers, descent.stage_gates) = (cells, servers, study);
    Ok(descent)
}

/// Returns the rows behind a count.
fn rows_of_count(
    provenance: &Provenance<'_>,
    number: &Number,
    holder: &Holder,
    output: &str,
) -> Result<Vec<usize>, TrailError> {
    let Some(artifact) = holder.record.outputs.get(output) else {
        return Ok(Vec::new());
    };
    let condition = number.row_key.clone().unwrap_or_default();
    provenance
        .reader
        .rows(&artifact.digest, &condition, Some(holder))
}

/// Describes the sources of a table without lineage: the cells that its stage read.
fn inputs(holder: &Holder) -> String {
    let read: Vec<String> = holder
        .record
        .recipe
        .inputs
        .iter()
        .map(|input| format!("{} of {}", counted(input.cells.len(), "cell"), input.stage))
        .collect();
    match read.is_empty() {
        true => "which reads no other stage".to_owned(),
        false => format!(
            "which has no lineage; its stage read {}",
            read.join(" and ")
        ),
    }
}

/// Returns the table or document that holds a number, with its notes.
fn table_place(
    provenance: &Provenance<'_>,
    number: &Number,
    artifact: Digest,
    holder: Option<&Holder>,
) -> Result<TablePlace, TrailError> {
    let cell = holder
        .map(Holder::cell)
        .or_else(|| number.stage.clone())
        .unwrap_or_default();
    let mut place = TablePlace {
        name: format!("{cell}.{}", number.output.as_deref().unwrap_or_default()),
        artifact,
        record: holder.map(|h| h.digest),
        row: number.row,
        row_key: number.row_key.clone(),
        column: number.column.clone(),
        description: None,
        unit: number.unit.clone(),
        operator: None,
        parameters: None,
        level: None,
        missing: Vec::new(),
    };
    if number.source == TraceSource::Json {
        provenance.reader.json(&artifact)?;
        return Ok(place);
    }
    let table = provenance.reader.table(&artifact)?;
    let note = |key: &str| table.metadata(key).filter(|n| !n.is_empty());
    if let Some(column) = &number.column {
        place.description = table.description(column);
        place.unit = table.unit(column).or(place.unit);
    }
    (place.operator, place.parameters) = (note("operator"), note("parameters"));
    place.level = note("level");
    let missing = provenance.reader.missing(&artifact)?;
    if !missing.is_empty() {
        let key = place.row_key.clone().unwrap_or_default();
        let agrees = |cell: &&MissingCell| allows_letters(&key, cell);
        place.missing = missing.iter().filter(agrees).cloned().collect();
    }
    Ok(place)
}

/// Compares report and trace with the lock and returns doubts.
fn doubts(document: &Document, provenance: &Provenance<'_>) -> Vec<String> {
    let mut doubts = provenance.doubts.clone();
    match &provenance.seal {
        None if provenance.is_known() => doubts.push(
            "neither the report nor its trace matches the lock; both were edited, or the \
             experiment has run again since"
                .to_owned(),
        ),
        None => doubts.push(format!(
            "no lock of this project lists the report {} or an artifact of its trace; only the \
             trace is shown",
            document.report.short()
        )),
        Some(seal) if !seal.report_intact => doubts.push(format!(
            "the report was edited after rendering: it is {}, but the lock has {}",
            document.report.short(),
            seal.report.short()
        )),
        Some(seal) if !seal.trace_intact => {
            doubts.push(
                "the trace was edited after it was written; it differs from the \
                lock's"
                    .to_owned(),
            );
        }
        Some(_) => {}
    }
    doubts
}

/// Returns whether the number's text appears at its place.
pub(crate) fn is_at(document: &Document, number: &Number) -> bool {
    let Some(line) = number
        .line
        .checked_sub(1)
        .and_then(|i| document.markdown.split('\n').nth(i))
    else {
        return false;
    };
    is_in(line, number)
}

/// Returns whether the number's text appears at its columns of a line.
pub(crate) fn is_in(line: &str, number: &Number) -> bool {
    let (Some(before), Some(length)) = (
        number.column_start.checked_sub(1),
        number.column_end.checked_sub(number.column_start),
    ) else {
        return false;
    };
    line.chars()
        .skip(before)
        .take(length)
        .eq(number.text.chars())
}

fn show(artifact: &Digest, spans: &[RowRange]) -> String {
    let mut command = format!("benchtrail show {}", artifact.short());
    if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
        command.push_str(&format!(" --rows {}..{}", first.start, last.end));
    }
    command
}

/// Describes the kind of a number.
fn meaning(number: &Number) -> String {
    let column = number.column.as_deref().unwrap_or_default();
    let of_ledger = || {
        let table = number.output.as_deref().unwrap_or_default();
        let row = number.row_key.as_ref().map(ToString::to_string);
        let place = format!("{table} {}", row.unwrap_or_default());
        place.trim().to_owned()
    };
    match number.source {
        TraceSource::Table => "a value of a table".to_owned(),
        TraceSource::Heading => "part of a heading, made from a column's name and unit".to_owned(),
        TraceSource::Sides => "the sides of a column of ratios, as its table names them".to_owned(),
        TraceSource::Missing => {
            "cells missing from the table, according to its note `missing`".to_owned()
        }
        TraceSource::Count => match &number.row_key {
            Some(condition) => format!("the number of rows of a table with {condition}"),
            None => "the number of rows of a table".to_owned(),
        },
        TraceSource::Json => format!("the value at `{column}` of a document"),
        TraceSource::Spec => format!("declared in the experiment at `{column}`"),
        TraceSource::Ledger => format!(
            "`{column}` of the ledger of planned cells ({}); the lock has the status of every cell",
            of_ledger()
        ),
        TraceSource::Trail => "the trail digest: one hash over every cell of the study".to_owned(),
        TraceSource::Structure => format!("the report's own numbering: `{column}`"),
        TraceSource::Statement => format!("found by the statement {column}"),
        TraceSource::Literal => {
            format!("written by hand in the template; the declared reason: {column}")
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn condition_text<S: Serializer>(
    condition: &Option<Condition>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match condition {
        Some(condition) => serializer.collect_str(condition),
        None => serializer.serialize_none(),
    }
}

/// Returns whether a condition covers a missing cell. A table's column may hold as text labels that are numbers in the
/// experiment, so labels also match by their spelling.
pub(crate) fn allows_letters(condition: &Condition, cell: &MissingCell) -> bool {
    cell.coordinates.0.iter().all(|(axis, label)| {
        let letters = |wanted: &Scalar| wanted.to_string() == label.to_string();
        condition.allows(axis, label)
            || condition
                .labels(axis)
                .is_some_and(|labels| labels.iter().any(letters))
    })
}
