//! Compares the numbers of two reports.

use std::collections::BTreeMap;
use std::path::Path;

use contract::TraceSource;
use serde::Serialize;
use why::{Document, Number};

use crate::side::{CompareError, Side};

/// A number that both reports show with different values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NumberChange {
    /// Its place in the newer report, `LINE:COLUMN`.
    pub place: String,
    /// Its table or document.
    pub source: String,
    /// The row.
    pub row: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The number as the older report shows it.
    pub a: String,
    /// The number as the newer report shows it.
    pub b: String,
    /// The relative change of the values in full precision, if both are numbers and the older one is not 0.
    pub change: Option<f64>,
}

/// Returns the numbers whose rendering differs, and the number of numbers that both reports have.
pub(crate) fn changes(
    a: &Side<'_>,
    b: &Side<'_>,
) -> Result<(Vec<NumberChange>, usize), CompareError> {
    let (before, after) = (numbers(a)?, numbers(b)?);
    let mut changes: Vec<NumberChange> = Vec::new();
    let mut compared = 0;
    for (key, newer) in after {
        let Some(older) = before.get(&key) else {
            continue;
        };
        compared += 1;
        if older.text == newer.text {
            continue;
        }
        let value = |n: &Number| n.value.as_ref()?.parse::<f64>().ok();
        let change = value(older)
            .zip(value(&newer))
            .filter(|(a, _)| *a != 0.0)
            .map(|(a, b)| b / a - 1.0);
        changes.push(NumberChange {
            place: newer.place(),
            source: key.source,
            row: newer.row_key.as_ref().map(ToString::to_string),
            column: newer.column.clone(),
            a: older.text.clone(),
            b: newer.text,
            change,
        });
    }
    changes.sort_by_key(|n| {
        let mut parts = n.place.split(':').map(|p| p.parse::<usize>().unwrap_or(0));
        (parts.next(), parts.next())
    });
    Ok((changes, compared))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: String,
    cell: Option<String>,
    row: Option<String>,
    column: Option<String>,
    format: String,
}

/// Returns the numbers of a side's reports by what they are. If a number has several places, the first one counts.
fn numbers(side: &Side<'_>) -> Result<BTreeMap<Key, Number>, CompareError> {
    let mut numbers = BTreeMap::new();
    for cell in side
        .cells
        .iter()
        .filter(|c| c.record.outputs.contains_key("report"))
    {
        let (Some(report), Some(trace)) = (
            cell.record.outputs.get("report"),
            cell.record.outputs.get("trace"),
        ) else {
            continue;
        };
        let name = cell.name();
        let (report, trace) = (
            side.bytes(&name, &report.digest)?,
            side.bytes(&name, &trace.digest)?,
        );
        let document = Document::of(Path::new("report.md"), &report, &trace)
            .map_err(|e| CompareError::Study(format!("{}: the trace of {name}: {e}", side.name)))?;
        for number in document.numbers {
            // The trail differs between any two studies, and a report's own numbering is meaningless here.
            if matches!(
                number.source,
                TraceSource::Trail | TraceSource::Structure | TraceSource::Literal
            ) {
                continue;
            }
            let source = match (&number.stage, &number.output) {
                (Some(stage), Some(output)) => format!("{stage}.{output}"),
                _ => number.source.to_string(),
            };
            let row = number.row_key.as_ref().map(ToString::to_string);
            let (cell, column) = (number.coordinates.clone(), number.column.clone());
            numbers
                .entry(Key {
                    source,
                    cell: cell.map(|c| c.to_string()),
                    row,
                    column,
                    format: number.format.clone(),
                })
                .or_insert(number);
        }
    }
    Ok(numbers)
}
