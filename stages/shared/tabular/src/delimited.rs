//! CSV and TSV with a header line.

use artifacts::counted;

use crate::field::{Field, Unreadable};
use crate::sheet::{Places, Sheet, check_fields};

const HINT: &str = "the first line names the columns; quote text that contains the separator";

/// Reads text with a separator. Lines that begin with `#` are remarks. The first other line names the columns. Every
/// field is text, and an empty field is null. Spaces at the ends of a field are removed if `trim` says so.
pub(crate) fn read(bytes: &[u8], separator: u8, trim: csv::Trim) -> Result<Sheet, Unreadable> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // The headings alone could fill the memory, before there is a row to count.
    check_fields(1, headings(bytes, separator))?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .comment(Some(b'#'))
        .trim(trim)
        .from_reader(bytes);
    let names: Vec<String> = reader
        .headers()
        .map_err(|e| wrong(&e, bytes))?
        .iter()
        .map(str::to_owned)
        .collect();
    if bytes.trim_ascii().is_empty() {
        let hint = "give a file with a line of headings and a line for each row";
        return Err(Unreadable::new("the file is empty", hint));
    }
    let heading = heading(bytes);
    if names.iter().all(String::is_empty) {
        return Err(Unreadable::new("it has no heading", HINT).at(heading + 1));
    }
    if let Some(wrong) = other_separator(bytes, heading, separator) {
        return Err(wrong.at(heading + 1));
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

/// Returns the number of headings. As for the reader, a quote opens at the start of a heading only, and two quotes within
/// it are one sign.
fn headings(bytes: &[u8], separator: u8) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let skipped = |line: &&[u8]| line.starts_with(b"#") || matches!(*line, b"\n" | b"\r\n");
    let before: usize = lines.take_while(skipped).map(<[u8]>::len).sum();
    let (mut number, mut starts, mut quoted) = (1, true, false);
    for byte in &bytes[before..] {
        match *byte {
            // The second of two quotes opens again what the first one closed.
            b'"' if quoted || starts => (quoted, starts) = (!quoted, quoted),
            _ if quoted => starts = false,
            b'\r' | b'\n' => break,
            one if one == separator => (number, starts) = (number + 1, true),
            _ => starts = false,
        }
    }
    number
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

/// Returns the line of the headings, from 0: the first that is neither empty nor a remark.
fn heading(bytes: &[u8]) -> usize {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let named = |line: &[u8]| !line.starts_with(b"#") && !line.trim_ascii().is_empty();
    lines.position(named).unwrap_or_default()
}

/// What separates fields elsewhere, in words, and how to save the file otherwise.
const SEPARATORS: [(u8, &str, &str); 4] = [
    (
        b';',
        "semicolons",
        "save it with commas between fields and points in numbers",
    ),
    (b'\t', "tabs", "save it with commas between fields"),
    (b'|', "`|`", "save it with commas between fields"),
    (b',', "commas", "give its name the ending `.csv`"),
];

/// Reports a file whose headings and first row are separated by something else.
fn other_separator(bytes: &[u8], heading: usize, separator: u8) -> Option<Unreadable> {
    let mut lines = bytes.split(|byte| *byte == b'\n').skip(heading);
    let names = lines.next()?;
    if names.to_ascii_lowercase().starts_with(b"sep=") {
        let message = "this line sets the separator for a spreadsheet";
        return Some(Unreadable::new(message, "remove the line"));
    }
    if names.contains(&separator) {
        return None;
    }
    let row = lines.find(|line| !line.trim_ascii().is_empty());
    let within = |other: u8| names.contains(&other) && row.is_none_or(|row| row.contains(&other));
    let (_, words, hint) = SEPARATORS.iter().find(|(other, ..)| within(*other))?;
    let message = format!("the fields are separated by {words}");
    Some(Unreadable::new(message, *hint))
}

fn wrong(error: &csv::Error, bytes: &[u8]) -> Unreadable {
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let (fields, headings) = (counted(*len, "field"), counted(*expected_len, "heading"));
            format!("{fields}, but {headings}")
        }
        csv::ErrorKind::Utf8 { .. } => "the line is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    let line = error
        .position()
        .map(|p| breaks(&bytes[..start_of_record(bytes, p)]) + 1);
    let last = error
        .position()
        .is_some_and(|p| !bytes[start_of_record(bytes, p)..].contains(&b'\n'));
    let hint = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => {
            "save the file as UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`"
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } if last && len < expected_len => {
            "the file may be cut off: its last line has no end; copy it again, or remove the line"
        }
        _ => HINT,
    };
    Unreadable {
        line,
        ..Unreadable::new(message, hint)
    }
}
