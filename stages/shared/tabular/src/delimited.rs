//! CSV and TSV with a header line.

use artifacts::counted;

use crate::field::{Field, Unreadable};
use crate::sheet::{Places, Sheet, check_fields};

const HINT: &str = "the first line names the columns; quote text that contains the separator";

/// Reads text with a separator. Lines that begin with `#` are remarks. The first other line names the columns. Every
/// field is text, and an empty field is null.
pub(crate) fn read(bytes: &[u8], separator: u8) -> Result<Sheet, Unreadable> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let names: Vec<String> = reader
        .headers()
        .map_err(|e| wrong(&e, bytes))?
        .iter()
        .map(str::to_owned)
        .collect();
    if names.iter().all(String::is_empty) {
        return Err(Unreadable::new("it has no heading", HINT).at(1));
    }
    let mut columns = vec![Vec::new(); names.len()];
    let mut lines = Vec::new();
    let mut record = csv::StringRecord::new();
    let (mut first, mut counted) = (0, 0);
    while reader
        .read_record(&mut record)
        .map_err(|e| wrong(&e, bytes))?
    {
        let start = record.position().map_or(0, |p| start_of_record(bytes, p));
        first += breaks(&bytes[counted..start]);
        counted = start;
        let within: usize = record.iter().map(|field| breaks(field.as_bytes())).sum();
        lines.push(first..first + within + 1);
        check_fields(lines.len(), names.len()).map_err(|e| e.at(first + 1))?;
        for (column, field) in columns.iter_mut().zip(&record) {
            column.push(match field {
                "" => Field::Null,
                text => Field::Text(text.to_owned()),
            });
        }
    }
    // An open quote takes all further lines into its field, which is then the last field.
    let quotes = bytes.iter().filter(|byte| **byte == b'"').count();
    if let Some(last) = lines
        .last()
        .filter(|last| last.len() > 1 && quotes % 2 == 1)
    {
        let message = "a quote opens here and is never closed";
        return Err(
            Unreadable::new(message, "close it; a quote within a text is written twice")
                .at(last.start + 1),
        );
    }
    Ok(Sheet {
        units: vec![None; names.len()],
        names,
        columns,
        places: Places::Lines(lines),
        remarks: remarks(bytes),
    })
}

/// Returns the byte at which a record starts. The reader's position is right behind the previous record: its end of line,
/// empty lines and remarks may still follow.
fn start_of_record(bytes: &[u8], position: &csv::Position) -> usize {
    let mut at = usize::try_from(position.byte())
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'\n' | b'\r' => 1,
            b'#' => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n');
                end.unwrap_or(bytes.len() - at)
            }
            _ => break,
        };
    }
    at
}

fn breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Returns the remarks before the header line, without the `#`.
fn remarks(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let before = text.lines().take_while(|line| line.starts_with('#'));
    before
        .map(|line| line.trim_start_matches('#').trim().to_owned())
        .collect()
}

/// Returns whether the header line separates its fields by semicolons, as spreadsheets of some languages do.
fn semicolons(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let header = text.lines().find(|line| !line.starts_with('#'));
    header.is_some_and(|line| line.contains(';') && !line.contains(','))
}

fn wrong(error: &csv::Error, bytes: &[u8]) -> Unreadable {
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let (fields, headings) = (counted(*len, "field"), counted(*expected_len, "heading"));
            match semicolons(bytes) {
                true => format!(
                    "{fields}, but {headings}: the file separates its fields by `;`. Save it with commas between fields and \
                     points in numbers"
                ),
                false => format!("{fields}, but {headings}"),
            }
        }
        csv::ErrorKind::Utf8 { .. } => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    let line = error
        .position()
        .map(|p| breaks(&bytes[..start_of_record(bytes, p)]) + 1);
    Unreadable {
        line,
        ..Unreadable::new(message, HINT)
    }
}
