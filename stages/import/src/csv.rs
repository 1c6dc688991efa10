//! CSV with a heading.

use crate::columns::{Field, Sheet};
use crate::json::ImportError;

/// Reads a CSV file: the heading names the columns, every field is text, an empty one is null.
pub(crate) fn read(bytes: &[u8]) -> Result<Sheet, ImportError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader = ::csv::ReaderBuilder::new()
        .trim(::csv::Trim::All)
        .from_reader(bytes);
    let wrong = |e: &::csv::Error| {
        let place = e
            .position()
            .map(|p| format!("line {}", p.line()))
            .unwrap_or_default();
        let message = match e.kind() {
            ::csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                format!("{len} fields, but {expected_len} headings")
            }
            ::csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
            _ => e.to_string(),
        };
        ImportError::at(
            place,
            message,
            "write a CSV file with a heading and commas, and quote text that contains commas",
        )
    };
    let names: Vec<String> = reader
        .headers()
        .map_err(|e| wrong(&e))?
        .iter()
        .map(str::to_owned)
        .collect();
    let mut sheet = Sheet {
        units: vec![None; names.len()],
        columns: vec![Vec::new(); names.len()],
        names,
        places: Vec::new(),
    };
    for record in reader.records() {
        let record = record.map_err(|e| wrong(&e))?;
        sheet.places.push(format!(
            "line {}",
            record.position().map_or(0, ::csv::Position::line)
        ));
        for (column, field) in sheet.columns.iter_mut().zip(&record) {
            column.push(if field.is_empty() {
                Field::Null
            } else {
                Field::Text(field.to_owned())
            });
        }
    }
    Ok(sheet)
}
