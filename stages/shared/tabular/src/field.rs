//! One value of a sheet, and the errors of reading a file.

use std::fmt;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Nothing: an empty field, JSON's `null`, an absent key.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number; finite.
    Float(f64),
    /// Text.
    Text(String),
    /// A value that a table cannot hold, described in words.
    Other(&'static str),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl Field {
    /// Reads text as people write numbers: `1,234.5`, `−0.02`, `+31.0`, or with its unit, `1637.6 tok/s` or `17.5%`.
    /// `None` for anything else.
    pub fn number(text: &str, unit: Option<&str>) -> Option<Self> {
        let mut text = text.trim();
        if let Some(unit) = unit.filter(|unit| !unit.is_empty() && *unit != "1") {
            text = text.strip_suffix(unit).unwrap_or(text).trim_end();
        }
        let (negative, digits) = match text.strip_prefix(['-', '\u{2212}']) {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = ungrouped(digits)?;
        let whole = digits.bytes().all(|b| b.is_ascii_digit());
        let sign = if negative { "-" } else { "" };
        let signed = format!("{sign}{digits}");
        match signed.parse::<i64>() {
            Ok(value) if whole => Some(Self::Int(value)),
            _ => {
                let value = signed.parse::<f64>().ok().filter(|v| v.is_finite())?;
                Some(Self::Float(value))
            }
        }
    }
}

/// Returns the digits without the commas between groups of three; `None` if the text is not a plain number.
fn ungrouped(digits: &str) -> Option<String> {
    let starts = |c: char| c.is_ascii_digit() || c == '.';
    let allowed = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-' | ',');
    if !digits.starts_with(starts)
        || !digits.chars().all(allowed)
        || !digits.contains(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    if !digits.contains(',') {
        return Some(digits.to_owned());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let first = groups.next().is_some_and(|g| (1..=3).contains(&g.len()));
    let others = groups.all(|g| g.len() == 3);
    let plain = !fraction.contains(',') && !whole.contains(['e', 'E', '+', '-']);
    (first && others && plain).then(|| digits.replace(',', ""))
}

/// The reason why a file cannot be read, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line from 1, or the row for Parquet.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: String,
    /// Whether the text is JSON all the same, and only has a key twice.
    pub repeats_a_key: bool,
}

impl Unreadable {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            message: message.into(),
            hint: hint.into(),
            repeats_a_key: false,
        }
    }

    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    pub(crate) fn at_column(mut self, column: usize) -> Self {
        self.column = Some(column);
        self
    }

    /// Returns the message with the file and the place in front: `FILE:LINE:COLUMN: …`.
    pub fn of(&self, file: &str) -> String {
        let mut place = file.to_owned();
        for number in [self.line, self.column].into_iter().flatten() {
            place.push_str(&format!(":{number}"));
        }
        format!("{place}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_print_them() {
        for (text, unit, expected) in [
            ("12", None, Field::Int(12)),
            (" -0.0349 ", None, Field::Float(-0.0349)),
            ("\u{2212}3", None, Field::Int(-3)),
            ("94,500", None, Field::Int(94_500)),
            ("1,234.5", None, Field::Float(1234.5)),
            ("1637.6 tok/s", Some("tok/s"), Field::Float(1637.6)),
            ("+31.0%", Some("%"), Field::Float(31.0)),
            ("10 users", Some("users"), Field::Int(10)),
            (".5", None, Field::Float(0.5)),
            ("1e3", None, Field::Float(1000.0)),
        ] {
            assert_eq!(Field::number(text, unit), Some(expected), "{text}");
        }
        for text in [
            "", "-", "1,23", "12,3456", "1.2.3", "12 ms", "0x10", "inf", "NaN", "1e999", "e5",
            "--1", "1-2",
        ] {
            assert_eq!(Field::number(text, Some("tok/s")), None, "{text}");
        }
    }
}
