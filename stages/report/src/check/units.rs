//! A unit written by hand beside a traced number: it must be the unit of the number's column.

use std::ops::Range;

/// Units as they are written after a number, each with the unit that a column gives for it. `min` and `B` are left out:
/// they also mean a minimum and a side.
const WRITTEN: &[(&str, &str)] = &[
    ("ns", "ns"),
    ("us", "us"),
    ("µs", "us"),
    ("μs", "us"),
    ("ms", "ms"),
    ("s", "s"),
    ("sec", "s"),
    ("secs", "s"),
    ("h", "h"),
    ("hrs", "h"),
    ("usec", "us"),
    ("msec", "ms"),
    ("msecs", "ms"),
    ("nanoseconds", "ns"),
    ("microseconds", "us"),
    ("milliseconds", "ms"),
    ("seconds", "s"),
    ("minute", "min"),
    ("minutes", "min"),
    ("mins", "min"),
    ("hour", "h"),
    ("hours", "h"),
    ("ms/tok", "ms/tok"),
    ("ms/token", "ms/tok"),
    ("milliseconds per token", "ms/tok"),
    ("s/tok", "s/tok"),
    ("seconds per token", "s/tok"),
    ("tok/s", "tok/s"),
    ("tokens/s", "tok/s"),
    ("tokens per second", "tok/s"),
    ("tok/min", "tok/min"),
    ("tokens/min", "tok/min"),
    ("tokens per minute", "tok/min"),
    ("tokens a minute", "tok/min"),
    ("tokens per hour", "tok/h"),
    ("tok/ms", "tok/ms"),
    ("ktok/s", "ktok/s"),
    ("req/s", "req/s"),
    ("requests/s", "req/s"),
    ("requests per second", "req/s"),
    ("req/min", "req/min"),
    ("requests/min", "req/min"),
    ("requests per minute", "req/min"),
    ("requests per hour", "req/h"),
    ("tok/J", "tok/J"),
    ("tokens per joule", "tok/J"),
    ("J", "J"),
    ("kJ", "kJ"),
    ("joules", "J"),
    ("W", "W"),
    ("kW", "kW"),
    ("watts", "W"),
    ("GiB", "GiB"),
    ("MiB", "MiB"),
];

/// Units of columns that are never written as one of [`WRITTEN`], but are other quantities.
const OTHERS: [&str; 7] = ["B", "min", "MHz", "tok", "requests", "1", "pp"];

/// Counted things that follow a number. They contradict a time, and no other unit: `341 tokens` may go on with *in each
/// second*.
const COUNTS: [&str; 4] = ["tok", "token", "tokens", "requests"];
/// Columns of times.
const TIMES: [&str; 8] = ["ns", "us", "ms", "s", "min", "h", "ms/tok", "s/tok"];

/// Returns the unit written at the start of a text, if a column's unit contradicts it.
pub(super) fn contradicts<'a>(text: &'a str, unit: &str) -> Option<&'a str> {
    let column = WRITTEN.iter().find(|(written, _)| *written == unit);
    let column = match column {
        Some((_, unit)) => *unit,
        None => *OTHERS.iter().find(|other| **other == unit)?,
    };
    let counts = COUNTS.iter().filter(|_| TIMES.contains(&column));
    let counts = counts.map(|count| (*count, "1"));
    let here = WRITTEN
        .iter()
        .copied()
        .chain(counts)
        .filter(|(written, _)| begins_with(text, written));
    let (written, meant) = here.max_by_key(|(written, _)| written.len())?;
    // A time per token is usually written as a time: a TPOT of 12 ms.
    let time = |unit: &'static str| unit.strip_suffix("/tok").unwrap_or(unit);
    (time(meant) != time(column)).then(|| &text[..written.len()])
}

/// Returns a unit that a heading or a label has in brackets at its end, if the unit of the column contradicts it.
pub(crate) fn contradicts_label<'a>(label: &'a str, unit: Option<&str>) -> Option<&'a str> {
    let (_, last) = label.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    let whole = contradicts(last, unit?)?;
    (whole == last).then_some(whole)
}

/// Returns the place of a unit that is written behind a number and contradicts the unit of its column.
pub(super) fn beside(text: &str, number: &Range<usize>, unit: &str) -> Option<Range<usize>> {
    let rest = &text[number.end..];
    let after = rest.trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
    let inner = after.strip_prefix(['(', '[']);
    let after = inner.unwrap_or(after);
    let written = contradicts(after, unit)?;
    // `(s)` is a unit, and `(s = 3)` is not.
    if inner.is_some() && !after[written.len()..].starts_with([')', ']']) {
        return None;
    }
    let end = text.len() - after.len() + written.len();
    Some(number.start..end)
}

/// Whether a text begins with a unit, and the unit ends there. Units in words may have any case.
fn begins_with(text: &str, written: &str) -> bool {
    let Some(start) = text.get(..written.len()) else {
        return false;
    };
    let is_symbol = written.len() < 3 || written.contains('/');
    let same = start == written || (!is_symbol && start.eq_ignore_ascii_case(written));
    let mut rest = text[written.len()..].chars();
    let ends = match rest.next() {
        // Part of a longer unit or a longer word.
        Some('/' | '·' | '-' | '²') => false,
        Some(c) => !c.is_alphanumeric(),
        None => true,
    };
    same && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_unit_contradicts_and_the_same_in_other_words_does_not() {
        for (text, unit, wrong) in [
            ("s of waiting", "ms", Some("s")),
            ("seconds", "ms", Some("seconds")),
            ("tokens per second", "ms/tok", Some("tokens per second")),
            ("Tokens per second", "ms", Some("Tokens per second")),
            ("tok/s.", "tok", Some("tok/s")),
            ("req/s", "tok/s", Some("req/s")),
            ("s", "ms/tok", Some("s")),
            ("ms", "ms/tok", None),
            ("ms/tok", "ms", None),
            ("GiB", "MiB", Some("GiB")),
            ("tokens per second", "tok/s", None),
            ("ms", "ms", None),
            ("milliseconds", "ms", None),
            ("µs", "us", None),
            ("so", "ms", None),
            ("s-shaped", "ms", None),
            ("tokens in each second", "tok/s", None),
            ("requests", "tok", None),
            ("min", "ms", None),
            ("clients", "ms", None),
            // A column whose unit is not known here may have any name.
            ("ms", "milliseconds of waiting", None),
            ("s", "", None),
            ("tokens per minute", "tok/s", Some("tokens per minute")),
            ("secs", "ms", Some("secs")),
            ("msec", "ms", None),
            ("tokens", "ms", Some("tokens")),
            ("tokens", "tok/s", None),
            ("requests", "ms/tok", Some("requests")),
        ] {
            assert_eq!(contradicts(text, unit), wrong, "{text} {unit}");
        }
    }

    #[test]
    fn a_unit_follows_in_brackets_and_behind_any_space() {
        for (text, is_wrong) in [
            ("7 (s)", true),
            ("7\u{2009}s", true),
            ("7  [s]", true),
            ("7 (ms)", false),
            ("7 (s = 3)", false),
            ("7 (short)", false),
            ("7\ns", false),
        ] {
            assert_eq!(beside(text, &(0..1), "ms").is_some(), is_wrong, "{text}");
        }
    }

    #[test]
    fn a_label_ends_with_its_unit() {
        for (label, unit, wrong) in [
            ("TTFT (s)", "ms", Some("s")),
            ("TTFT p50 (ms)", "ms", None),
            ("Request(s)", "ms", None),
            ("TTFT (shared prefix)", "ms", None),
            ("Rate (req/s)", "req/s", None),
            ("Rate (tok/s)", "req/s", Some("tok/s")),
            ("clients (N)", "clients", None),
            ("Latency (min)", "ms", None),
        ] {
            assert_eq!(contradicts_label(label, Some(unit)), wrong, "{label}");
        }
        assert_eq!(contradicts_label("TTFT (s)", None), None);
    }
}
