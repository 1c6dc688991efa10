//! Reads one number of a report again: at its place, from its artifact, with its rendering.

use std::collections::BTreeMap;

use artifacts::{Digest, Scalar, at_path, counted};
use contract::TraceSource;
use pipeline::Json;
use pipeline::stage::MissingCell;

use crate::document::Number;
use crate::error::TrailError;
use crate::explain::{allows_letters, is_in};
use crate::ledger;
use crate::provenance::{Holder, Provenance};

/// Renders a value: value, unit, format.
pub type Format<'a> = &'a dyn Fn(&Scalar, Option<&str>, &str) -> Result<String, String>;

/// Checks one number. The error describes the problem.
pub(crate) fn check(
    provenance: &Provenance<'_>,
    lines: &[&str],
    number: &Number,
    format: Format<'_>,
    statements: &BTreeMap<String, String>,
) -> Result<(), String> {
    let line = number
        .line
        .checked_sub(1)
        .and_then(|i| lines.get(i))
        .copied()
        .unwrap_or_default();
    if !is_in(line, number) {
        let length = number.column_end.saturating_sub(number.column_start);
        let there: String = line
            .chars()
            .skip(number.column_start.saturating_sub(1))
            .take(length)
            .collect();
        return Err(format!("the report has `{there}` at that place"));
    }
    let unit = number.unit.as_deref();
    match number.source {
        TraceSource::Heading | TraceSource::Sides | TraceSource::Missing => {
            note(provenance, number)
        }
        TraceSource::Table => {
            let value = table_value(provenance, number)?;
            same_value(number, &value)?;
            same_text(number, &value, unit, format)
        }
        TraceSource::Count => match recount(provenance, number)? {
            Some(count) => {
                same_value(number, &count)?;
                same_text(number, &count, unit, format)
            }
            None => rendered(number, format),
        },
        TraceSource::Json => json_value(provenance, number, format),
        TraceSource::Trail => {
            let trail = provenance.lock.trail().to_string();
            let matches = number.value.as_deref() == Some(&trail) && number.text == trail;
            if matches || !provenance.is_known() {
                Ok(())
            } else {
                Err(format!("the lock's trail digest is {trail}"))
            }
        }
        TraceSource::Ledger => match ledger::value(&provenance.lock, number) {
            Some(value) if provenance.is_known() => {
                same_value(number, &value)?;
                same_text(number, &value, unit, format)
            }
            _ => rendered(number, format),
        },
        TraceSource::Statement => {
            let name = number.column.as_deref().unwrap_or_default();
            match statements.get(name) {
                Some(value)
                    if Some(value.as_str()) == number.value.as_deref()
                        || same_number(value, number) =>
                {
                    rendered(number, format)
                }
                Some(value) => Err(format!(
                    "the trace has {}, but its statement gives {value}",
                    number.value.as_deref().unwrap_or("null")
                )),
                None => Err(format!("the report has no statement value `{name}`")),
            }
        }
        TraceSource::Spec | TraceSource::Structure | TraceSource::Literal => {
            rendered(number, format)
        }
    }
}

/// Returns whether a JSON value is the number in the trace: `1.0` and `1` are equal.
fn same_number(value: &str, number: &Number) -> bool {
    let there = number.value.as_deref().and_then(|v| v.parse::<f64>().ok());
    there.is_some() && there == value.parse::<f64>().ok()
}

/// Renders the trace's own value again, if no artifact holds it.
fn rendered(number: &Number, format: Format<'_>) -> Result<(), String> {
    let Some(value) = &number.value else {
        return Ok(());
    };
    if value == &number.text
        || matches!(number.source, TraceSource::Literal | TraceSource::Structure)
    {
        return Ok(());
    }
    if let Ok(Json::Array(items)) = serde_json::from_str(value) {
        return list(number, &items, format);
    }
    let whole = value.parse::<i64>().map(Scalar::Int).ok();
    let value = whole.or_else(|| value.parse::<f64>().ok().map(Scalar::Float));
    let value = value.unwrap_or_else(|| match number.value.as_deref() {
        Some("true") => Scalar::Bool(true),
        Some("false") => Scalar::Bool(false),
        text => Scalar::Text(text.unwrap_or_default().to_owned()),
    });
    same_text(number, &value, number.unit.as_deref(), format)
}

fn artifact(number: &Number) -> Result<(Digest, &str), String> {
    let artifact = number
        .artifact
        .ok_or("the trace does not name an artifact")?;
    let column = number
        .column
        .as_deref()
        .ok_or("the trace does not name a column")?;
    Ok((artifact, column))
}

/// Returns the cell whose output is the number's artifact, if the lock is known.
fn holder(
    provenance: &Provenance<'_>,
    number: &Number,
    artifact: &Digest,
) -> Result<Option<Holder>, String> {
    if !provenance.is_known() {
        return Ok(None);
    }
    let stage = number.stage.as_deref().unwrap_or_default();
    let holder = provenance.holder(number).map_err(text)?;
    let output = number.output.as_deref().unwrap_or_default();
    match holder {
        Some(holder)
            if holder
                .record
                .outputs
                .get(output)
                .is_some_and(|a| a.digest == *artifact) =>
        {
            Ok(Some(holder))
        }
        _ => Err(format!(
            "the lock has no output {stage}.{output} with the digest {}",
            artifact.short()
        )),
    }
}

fn table_value(provenance: &Provenance<'_>, number: &Number) -> Result<Scalar, String> {
    let (artifact, column) = artifact(number)?;
    let holder = holder(provenance, number, &artifact)?;
    let row = number.row.ok_or("the trace does not name a row")?;
    let table = provenance.reader.table(&artifact).map_err(text)?;
    if row >= table.rows() {
        return Err(format!(
            "{} has {} and no row {row}",
            artifact.short(),
            counted(table.rows(), "row")
        ));
    }
    // A cell's coordinates count as columns of its tables.
    let label = holder
        .filter(|_| !table.has(column))
        .and_then(|h| h.record.coordinates.get(column).cloned());
    match label {
        Some(label) => Ok(label),
        None => table
            .value(column, row)
            .map_err(|e| format!("{}: {e}", artifact.short())),
    }
}

/// Checks what a table states about itself: a column's name in a heading, the sides of its ratios, the cells it lacks.
fn note(provenance: &Provenance<'_>, number: &Number) -> Result<(), String> {
    let (artifact, column) = artifact(number)?;
    let table = provenance.reader.table(&artifact).map_err(text)?;
    let (short, printed) = (
        artifact.short(),
        number.value.as_deref().unwrap_or_default(),
    );
    match number.source {
        TraceSource::Sides => match table.ratio(column) {
            Some(ratio)
                if ratio.to_string() == printed && is_printed(&number.text, &one_line(printed)) =>
            {
                Ok(())
            }
            Some(ratio) => Err(format!("{short} says that `{column}` is {ratio}")),
            None => Err(format!("{short} does not name the sides of `{column}`")),
        },
        TraceSource::Missing => {
            let missing: Vec<MissingCell> =
                serde_json::from_str(&table.metadata("missing").unwrap_or_default())
                    .map_err(|e| format!("the note `missing` of {short} cannot be read: {e}"))?;
            let cells = number.row_key.clone().unwrap_or_default();
            let there = missing
                .iter()
                .filter(|m| m.is_given_as(printed) && allows_letters(&cells, m));
            let texts = [cells.to_string(), one_line(&format!("{cells} ({printed})"))];
            let is_shown = |text: &String| is_printed(&number.text, text);
            if Some(there.count()) != cells.combinations() || !texts.iter().any(is_shown) {
                return Err(format!("the note `missing` of {short} does not say that"));
            }
            Ok(())
        }
        _ if table.has(column) => Ok(()),
        _ => Err(format!("{short} has no column `{column}`")),
    }
}

/// Returns text as a report shows it, on one line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\t'], " ")
}

/// Counts the rows that meet a condition; `None` if they do not belong to an artifact.
fn recount(provenance: &Provenance<'_>, number: &Number) -> Result<Option<Scalar>, String> {
    let output = number.output.as_deref().unwrap_or_default();
    let condition = number.row_key.clone().unwrap_or_default();
    let Some(stage) = &number.stage else {
        return Ok(ledger::count(&provenance.lock, output, &condition));
    };
    let mut parts: Vec<(Digest, Option<Holder>)> = Vec::new();
    match number.artifact {
        Some(artifact) => parts.push((artifact, holder(provenance, number, &artifact)?)),
        None => {
            for cell in provenance.cells(stage).map_err(text)? {
                let digest = cell.record.outputs.get(output).map(|a| a.digest);
                parts.push((
                    digest.ok_or_else(|| format!("{} has no output {output}", cell.cell()))?,
                    Some(cell),
                ));
            }
        }
    }
    let mut count = 0;
    for (artifact, holder) in &parts {
        count += provenance
            .reader
            .rows(artifact, &condition, holder.as_ref())
            .map_err(text)?
            .len();
    }
    Ok(i64::try_from(count).ok().map(Scalar::Int))
}

fn same_value(number: &Number, value: &Scalar) -> Result<(), String> {
    let holds = match (value, &number.value) {
        (Scalar::Null, written) => written.is_none(),
        (_, None) => false,
        (value, Some(written)) => value.to_string() == *written,
    };
    let (written, place) = (number.value.as_deref().unwrap_or("null"), read_from(number));
    if holds {
        Ok(())
    } else {
        Err(format!("the trace has {written}, but {place} has {value}"))
    }
}

fn same_text(
    number: &Number,
    value: &Scalar,
    unit: Option<&str>,
    format: Format<'_>,
) -> Result<(), String> {
    // The template chooses the word for null, and the trace does not hold it.
    if *value == Scalar::Null {
        return Ok(());
    }
    is_text(number, &format(value, unit, &number.format)?)
}

/// Returns whether a report prints a text like this. A report puts a backslash before characters that would be markup,
/// and replaces spaces that would indent and backticks that would end code.
fn is_printed(printed: &str, text: &str) -> bool {
    if printed == text {
        return true;
    }
    let plain = |text: &str| text.replace('\u{a0}', " ").replace('\u{2cb}', "`");
    let mut shown = String::with_capacity(printed.len());
    let mut rest = printed.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = rest.next_if(|next| c == '\\' && next.is_ascii_punctuation());
        shown.push(escaped.unwrap_or(c));
    }
    plain(&shown) == plain(text)
}

fn is_text(number: &Number, rendered: &str) -> Result<(), String> {
    if is_printed(&number.text, rendered) {
        return Ok(());
    }
    Err(format!(
        "the value of {} renders as `{rendered}`",
        read_from(number)
    ))
}

/// Names what the trace says that a number was read from.
fn read_from(number: &Number) -> String {
    let (stage, output) = (
        number.stage.as_deref().unwrap_or_default(),
        number.output.as_deref(),
    );
    let row = number
        .row
        .map(|row| format!(" row {row}"))
        .unwrap_or_default();
    match output {
        Some(output) => format!(
            "{stage}.{output}{row} {}",
            number.column.as_deref().unwrap_or_default()
        ),
        None => "the trace".to_owned(),
    }
}

fn json_value(
    provenance: &Provenance<'_>,
    number: &Number,
    format: Format<'_>,
) -> Result<(), String> {
    let (artifact, path) = artifact(number)?;
    holder(provenance, number, &artifact)?;
    let json = provenance.reader.json(&artifact).map_err(text)?;
    let value =
        at_path(&json, path).ok_or_else(|| format!("{} has no `{path}`", artifact.short()))?;
    if let Json::Array(items) = value {
        if number.value.as_deref() != Some(&value.to_string()) {
            return Err(format!(
                "the trace has {}, but {} has {value}",
                number.value.as_deref().unwrap_or("null"),
                read_from(number)
            ));
        }
        return list(number, items, format);
    }
    let value = Scalar::from_json(value).ok_or_else(|| format!("`{path}` is an object"))?;
    same_value(number, &value)?;
    same_text(number, &value, None, format)
}

fn list(number: &Number, items: &[Json], format: Format<'_>) -> Result<(), String> {
    let mut texts = Vec::new();
    for item in items {
        match Scalar::from_json(item) {
            Some(Scalar::Null) => return Ok(()),
            Some(value) => texts.push(format(&value, None, &number.format)?),
            None => return Err("a list of lists or objects".to_owned()),
        }
    }
    is_text(number, &texts.join(", "))
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
pub(crate) fn text(error: TrailError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::is_printed;

    #[test]
    fn escapes_of_markup_are_no_part_of_a_value() {
        for (printed, text) in [
            ("a|b", "a|b"),
            (r"a\|b", "a|b"),
            (r"\<b>", "<b>"),
            (r"\*p50\*", "*p50*"),
            (r"\__init_\_", "__init__"),
            (r"\[x\](y)", "[x](y)"),
            (r"\&lt;", "&lt;"),
            (r"a \\", r"a \"),
            (r"\# x", "# x"),
            (r"a\b", r"a\b"),
            ("\u{a0}x", " x"),
            ("<b> and \u{2cb}x\u{2cb}", "<b> and `x`"),
        ] {
            assert!(is_printed(printed, text), "{printed}");
        }
        for (printed, text) in [
            ("11.5", "10.5"),
            (r"1\a5", "1a5"),
            (r"\*p50\*", "*p99*"),
            (r"\\*a", "*a"),
            ("-5", "5"),
        ] {
            assert!(!is_printed(printed, text), "{printed}");
        }
    }
}
