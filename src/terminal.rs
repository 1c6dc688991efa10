//! The only place that writes to standard output and standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Why standard output took less than it was given.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output; [`finish`] says whether all lines arrived.
pub(crate) fn say(text: &str) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
        // The first error is the one that is told.
        let _ = UNWRITTEN.set(error);
    }
}

/// Ends standard output. A closed pipe (`| head`) is the reader's wish and no error.
///
/// # Errors
/// If a part of what was said could not be written, for instance to a full disk.
pub(crate) fn finish() -> Result<(), String> {
    let flushed = io::stdout().lock().flush();
    let unwritten = UNWRITTEN.get().or(flushed.as_ref().err());
    match unwritten.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        Some(error) => Err(format!("standard output is not complete: {error}")),
        None => Ok(()),
    }
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn write_raw(bytes: &[u8]) -> io::Result<()> {
    io::stdout().lock().write_all(bytes)
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    let _closed_pipe = writeln!(err, "{text}");
}

/// Returns whether somebody watches standard error.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Returns `text` in aligned columns: one row a line, two spaces between columns; the columns
/// named in `right` are aligned to the right.
pub(crate) fn columns(heading: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (i, (text, width)) in cells.zip(&widths).enumerate() {
            let pad = " ".repeat(width - text.chars().count());
            let separator = if i == 0 { "" } else { "  " };
            let text = if right.contains(&i) { format!("{pad}{text}") } else { format!("{text}{pad}") };
            line.push_str(separator);
            line.push_str(&text);
        }
        line.trim_end().to_owned()
    };
    let mut lines = vec![line(&mut heading.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// Returns a count of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Returns a span of seconds for people.
pub(crate) fn seconds(span: f64) -> String {
    if span < 10.0 {
        format!("{span:.1} s")
    } else if span < 120.0 {
        format!("{span:.0} s")
    } else if span < 7200.0 {
        format!("{:.0} min {:02.0} s", (span / 60.0).floor(), span % 60.0)
    } else {
        format!("{:.0} h {:02.0} min", (span / 3600.0).floor(), (span % 3600.0) / 60.0)
    }
}
