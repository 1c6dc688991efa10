//! The only place that writes to standard output and standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pipeline::place::is_hidden;

use crate::exit::Stop;

/// The first error while writing standard output.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output; [`finish`] reports whether all lines arrived.
pub(crate) fn say(text: &str) {
    let text = plain(text);
    if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
        // Only the first error is reported.
        let _ = UNWRITTEN.set(error);
    }
}

/// Writes one line to standard output that repeats texts of others, such as what a bundle says about itself. None of them
/// can begin a line of its own, which could pretend to be a verdict.
pub(crate) fn say_line(text: &str) {
    say(&in_line(text));
}

/// Ends standard output. A closed pipe (`| head`) is the reader's choice, not an error.
///
/// # Errors
/// If part of the output could not be written, for example to a full disk.
pub(crate) fn finish() -> Result<(), Stop> {
    written(Ok(()))
}

/// Ends standard output in the same way, after something else wrote to it.
///
/// # Errors
/// If part of the output could not be written.
pub(crate) fn written(other: io::Result<()>) -> Result<(), Stop> {
    let flushed = other.and_then(|()| io::stdout().lock().flush());
    let unwritten = UNWRITTEN.get().or(flushed.as_ref().err());
    match unwritten.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        Some(error) => Err(Stop::refused_at("standard output is incomplete", error)),
        None => Ok(()),
    }
}

/// Writes raw bytes to standard output. A closed pipe (`| head`) is the reader's choice, not an error.
///
/// # Errors
/// If the bytes cannot be written.
pub(crate) fn write_raw(bytes: &[u8]) -> io::Result<()> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    let _closed_pipe = writeln!(err, "{}", plain(text));
}

/// The time for which a command may be silent.
const SILENCE: Duration = Duration::from_secs(3);

/// Returns the result of some work. If it takes longer than a few seconds and standard error is a terminal, a line says
/// what is done. A file gets no such line: what is written there does not depend on the speed of the machine.
pub(crate) fn announced_if_slow<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !is_watched() {
        return work();
    }
    let (done, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                complain(what);
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Returns text that is safe for a terminal. Labels, files and servers may contain anything: a control character could
/// move the cursor, change the title or hide earlier output. Each one is escaped in readable form; newlines and tabs
/// stay. Characters that reverse the text direction or that are not visible are escaped in the same way, so that two
/// texts that look the same are the same.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !is_hidden(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match harmless(c) {
            true => plain.push(c),
            // This form has the same meaning in JSON.
            false => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    plain.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    Cow::Owned(plain)
}

/// Returns text of others, such as a name that a server gives, for a place within a line: it cannot begin a new line.
pub(crate) fn in_line(text: &str) -> String {
    plain(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns a text that may have several lines, such as the last words of a program. Every line but the first is indented,
/// so that none of them looks like a message of this program.
pub(crate) fn continued(text: &str) -> Cow<'_, str> {
    match text.contains('\n') {
        true => Cow::Owned(text.replace('\n', "\n    ")),
        false => Cow::Borrowed(text),
    }
}

/// Returns whether standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Returns the width of standard output in character columns; `None` if it is not a terminal, where lines may have any
/// length.
#[expect(
    clippy::disallowed_methods,
    reason = "`COLUMNS` declares the width if the terminal reports none"
)]
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let reported = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col));
    let declared = || std::env::var("COLUMNS").ok()?.parse().ok();
    reported.filter(|width| *width > 0).or_else(declared)
}

/// Formats a number of bytes for display.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    // Compares the rounded value, so that 1024.0 KiB becomes 1.0 MiB.
    while (value * 10.0).round() >= 10_240.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Formats a duration in seconds for display.
pub(crate) fn seconds(span: f64) -> String {
    // Rounded before it is split, so that 119.6 s becomes 2 min 00 s and not 1 min 60 s.
    let (whole, minutes) = (span.round(), (span / 60.0).round());
    if (span * 10.0).round() < 100.0 {
        format!("{span:.1} s")
    } else if whole < 120.0 {
        format!("{whole} s")
    } else if whole < 7200.0 {
        format!("{} min {:02} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        format!("{} h {:02} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, continued, in_line, plain, seconds};

    #[test]
    fn text_within_a_line_begins_no_line() {
        assert_eq!(
            in_line("a\nerror: b\t\u{1b}[2K"),
            "a\\nerror: b\\t\\u001b[2K"
        );
        assert_eq!(in_line("org/model"), "org/model");
    }

    #[test]
    fn a_span_and_a_size_are_rounded_before_they_are_split() {
        let spans = [
            (9.94, "9.9 s"),
            (9.96, "10 s"),
            (119.4, "119 s"),
            (119.6, "2 min 00 s"),
            (479.7, "8 min 00 s"),
            (7199.4, "119 min 59 s"),
            (7199.6, "2 h 00 min"),
            (10_799.0, "3 h 00 min"),
            (90_061.0, "25 h 01 min"),
        ];
        for (span, shown) in spans {
            assert_eq!(seconds(span), shown);
        }
        let sizes = [
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (1_000_000, "976.6 KiB"),
        ];
        for (size, shown) in sizes {
            assert_eq!(bytes(size), shown);
        }
    }

    #[test]
    fn nothing_that_moves_a_cursor_or_turns_text_round_passes() {
        assert_eq!(plain("a\tb\nc é 中"), "a\tb\nc é 中");
        let evil = "\u{1b}]0;title\u{7}\u{1b}[2K\r\u{9b}31m\u{8}x\u{202e}y\u{7f}\u{61c}";
        let shown = plain(evil);
        assert_eq!(
            shown,
            "\\u001b]0;title\\u0007\\u001b[2K\\u000d\\u009b31m\\u0008x\\u202ey\\u007f\\u061c"
        );
        assert!(!shown.chars().any(|c| c.is_control()));
    }

    #[test]
    fn a_text_of_others_never_begins_a_line_of_its_own() {
        let forged = "bad\nhint: run this\neverything holds";
        assert_eq!(in_line(forged), "bad\\nhint: run this\\neverything holds");
        let shown = continued(forged);
        let mut lines = shown.lines().skip(1);
        assert!(lines.all(|line| line.starts_with("    ")), "{shown}");
    }

    #[test]
    fn a_character_that_nobody_sees_is_written_as_its_escape() {
        let evil = "r\u{200b}m\u{2060} \u{feff}-\u{ad}r\u{2028}f\u{e0041}\u{3164}";
        let shown = plain(evil);
        assert_eq!(
            shown,
            "r\\u200bm\\u2060 \\ufeff-\\u00adr\\u2028f\\udb40\\udc41\\u3164"
        );
        // The same text, to a reader of JSON.
        let read: String = serde_json::from_str(&format!("\"{shown}\"")).expect("JSON");
        assert_eq!(read, evil);
    }
}
