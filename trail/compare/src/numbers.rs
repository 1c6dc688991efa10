//! Compares the numbers of two reports.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::Ratio;
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
    /// The relative change of the values in full precision, if both are numbers of the same unit and sides and the older
    /// one is not 0.
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
        changes.extend(change(older, &newer, key.source));
    }
    changes.sort_by_key(|n| {
        let mut parts = n.place.split(':').map(|p| p.parse::<usize>().unwrap_or(0));
        (parts.next(), parts.next())
    });
    Ok((changes, compared))
}

/// Returns how a number differs, or `None` if both reports show the same. Values with different units have no
/// relative change, and neither have ratios whose sides are turned.
fn change(older: &Number, newer: &Number, source: String) -> Option<NumberChange> {
    let units = older.unit.as_ref().zip(newer.unit.as_ref());
    let sides = older.ratio.as_ref().zip(newer.ratio.as_ref());
    let other_unit = units.is_some_and(|(a, b)| a != b);
    let turned =
        |a: &Ratio, b: &Ratio| a.numerator == b.denominator && a.denominator == b.numerator;
    let other_sides = sides.is_some_and(|(a, b)| turned(a, b));
    if older.text == newer.text && !other_unit && !other_sides {
        return None;
    }
    let shown = |number: &Number| {
        let mut text = number.text.clone();
        if let Some(unit) = number
            .unit
            .as_ref()
            .filter(|unit| other_unit && !text.ends_with(*unit))
        {
            text = format!("{text} {unit}");
        }
        match number.ratio.as_ref().filter(|_| other_sides) {
            // The sides that a heading names are a text themselves.
            Some(ratio) if text != ratio.to_string() => format!("{text} ({ratio})"),
            _ => text,
        }
    };
    let value = |number: &Number| number.value.as_ref()?.parse::<f64>().ok();
    let values = value(older).zip(value(newer));
    let values = values.filter(|(a, _)| *a != 0.0 && !other_unit && !other_sides);
    Some(NumberChange {
        place: newer.place(),
        source,
        row: newer.row_key.as_ref().map(ToString::to_string),
        column: newer.column.clone(),
        a: shown(older),
        b: shown(newer),
        change: values.map(|(a, b)| b / a - 1.0),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str, unit: Option<&str>, sides: Option<(&str, &str)>) -> Number {
        Number {
            line: 1,
            column_start: 1,
            column_end: 2,
            text: text.to_owned(),
            source: TraceSource::Table,
            stage: None,
            coordinates: None,
            output: None,
            artifact: None,
            row: None,
            row_key: None,
            column: None,
            value: Some(text.to_owned()),
            unit: unit.map(str::to_owned),
            ratio: sides.map(|(numerator, denominator)| Ratio {
                numerator: numerator.to_owned(),
                denominator: denominator.to_owned(),
            }),
            format: String::new(),
        }
    }

    #[test]
    fn numbers_of_other_units_or_sides_have_no_relative_change() {
        let changed = |older: &Number, newer: &Number| {
            change(older, newer, String::new()).map(|c| (c.a, c.b, c.change))
        };
        let text = |text: &str| text.to_owned();
        let ms = |text: &str| number(text, Some("ms"), None);
        let s = |text: &str| number(text, Some("s"), None);
        assert_eq!(changed(&ms("2"), &ms("2")), None);
        assert_eq!(
            changed(&ms("2"), &ms("3")),
            Some((text("2"), text("3"), Some(0.5)))
        );
        assert_eq!(
            changed(&ms("200"), &s("0.2")),
            Some((text("200 ms"), text("0.2 s"), None))
        );
        assert_eq!(
            changed(&ms("2"), &s("2")),
            Some((text("2 ms"), text("2 s"), None))
        );
        // An older version may not have written the unit.
        assert_eq!(changed(&number("2", None, None), &ms("2")), None);
        let gain = |text: &str, a: &str, b: &str| number(text, Some("1"), Some((a, b)));
        let turned = changed(&gain("2", "x", "y"), &gain("0.5", "y", "x"));
        let renamed = changed(&gain("2", "x", "y"), &gain("3", "x", "z"));
        assert_eq!(renamed, Some((text("2"), text("3"), Some(0.5))));
        assert_eq!(turned, Some((text("2 (x ÷ y)"), text("0.5 (y ÷ x)"), None)));
    }
}
