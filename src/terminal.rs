//! The only place that writes to standard output and standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Why standard output took less than it was given.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output; [`finish`] says whether all lines arrived.
pub(crate) fn say(text: &str) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
        // The first error is the one that is reported.
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
        Some(error) => Err(format!("standard output is incomplete: {error}")),
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

/// Returns how many columns of characters a line of standard output has; `None` where it is no
/// terminal, and lines may be of any length.
#[expect(
    clippy::disallowed_methods,
    reason = "the width of a terminal is a matter of the terminal"
)]
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let told = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col));
    let declared = || std::env::var("COLUMNS").ok()?.parse().ok();
    told.filter(|width| *width > 0).or_else(declared)
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
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
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
        format!(
            "{:.0} h {:02.0} min",
            (span / 3600.0).floor(),
            (span % 3600.0) / 60.0
        )
    }
}
