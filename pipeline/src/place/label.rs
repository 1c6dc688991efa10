//! Labels and names: their canonical spelling, and when two labels are the same.

use std::fmt::Write as _;

use artifacts::Scalar;

/// Words that are values, so that text with the same letters is quoted.
const VALUES: [&str; 5] = ["null", "true", "false", "inf", "NaN"];

/// Appends a label in its canonical spelling.
pub(crate) fn push_label(text: &mut String, label: &Scalar) {
    let written = match label {
        Scalar::Text(value) if is_word(value) => {
            text.push_str(value);
            Ok(())
        }
        Scalar::Text(value) => {
            push_string(text, value);
            Ok(())
        }
        Scalar::Float(value) => write!(text, "{value:?}"),
        other => write!(text, "{other}"),
    };
    written.expect("writing to a string never fails");
}

/// Returns a label as a table holds it in the spelling of the axis: a whole number as an integer. A column of numbers has
/// doubles as soon as one of the axis' labels is not whole.
pub fn plain_label(label: Scalar) -> Scalar {
    match label {
        Scalar::Float(value) if value == value.trunc() && value.abs() < 1e15 => {
            Scalar::Int(value as i64)
        }
        other => other,
    }
}

/// Returns the text of a label of a table, for a reader: all of its digits and no more, without quotes. A label is exact,
/// and two labels that differ never look alike.
pub fn label_text(label: &Scalar) -> String {
    match plain_label(label.clone()) {
        Scalar::Text(text) => text,
        Scalar::Float(value) => format!("{value:?}"),
        other => other.to_string(),
    }
}

/// Appends the name of an axis, a column or a stage in its canonical spelling.
pub(crate) fn push_name(text: &mut String, name: &str) {
    if !name.is_empty() && name.chars().all(in_name) {
        text.push_str(name);
    } else {
        push_string(text, name);
    }
}

/// Returns whether a name may contain this character without quotes.
pub(super) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns whether a label may contain this character without quotes.
pub(super) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:+@".contains(c)
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(in_word)
        && !VALUES.contains(&text)
}

/// Reads an unquoted label; `None` if it must be quoted.
pub(super) fn unquoted(word: &str) -> Option<Scalar> {
    let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let is_whole = is_number && word[1..].chars().all(|c| c.is_ascii_digit());
    match word {
        "null" => Some(Scalar::Null),
        "true" => Some(Scalar::Bool(true)),
        "false" => Some(Scalar::Bool(false)),
        "inf" => Some(Scalar::Float(f64::INFINITY)),
        "-inf" => Some(Scalar::Float(f64::NEG_INFINITY)),
        "NaN" => Some(Scalar::Float(f64::NAN)),
        _ if is_word(word) => Some(Scalar::Text(word.to_owned())),
        _ if is_whole => word.parse().ok().map(Scalar::Int),
        _ if is_number => word.parse().ok().map(Scalar::Float),
        _ => None,
    }
}

/// Appends text quoted as in JSON. Escapes characters that a terminal or an editor does not show, and those that change
/// the display of others.
fn push_string(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if is_hidden(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(text, "\\u{unit:04x}").expect("writing to a string never fails");
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Returns whether a terminal or an editor does not show a character, or whether the character changes the display of
/// others.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}')
        // Soft hyphen, joiners and fillers of single scripts, which have no width.
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}')
        || c >= '\u{e0000}'
}

/// A label as a map key: equal exactly if the labels are the same value. Integers and doubles compare as numbers; text
/// never equals a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelKey {
    /// Absent.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(i64),
    /// The bits of a double that is not a whole number, or too large for one.
    Number(u64),
    /// Text.
    Text(String),
}

impl LabelKey {
    /// Returns the key of a label; `None` for a value that does not equal itself.
    pub fn of(label: &Scalar) -> Option<Self> {
        match label {
            Scalar::Null => Some(Self::Null),
            Scalar::Bool(value) => Some(Self::Bool(*value)),
            Scalar::Text(value) => Some(Self::Text(value.clone())),
            Scalar::Int(value) => Some(Self::Whole(*value)),
            Scalar::Float(value) if value.is_nan() => None,
            Scalar::Float(value) => Some(match whole(*value) {
                Some(whole) => Self::Whole(whole),
                None => Self::Number(value.to_bits()),
            }),
        }
    }
}

/// Returns a double as a whole number, if it is one.
fn whole(value: f64) -> Option<i64> {
    // Minus the least whole number is the first one above the range.
    let least = i64::MIN as f64;
    (value.fract() == 0.0 && (least..-least).contains(&value)).then_some(value as i64)
}

/// Returns whether two labels are the same value; integers and doubles compare as numbers, without rounding.
pub fn same_label(a: &Scalar, b: &Scalar) -> bool {
    match (a, b) {
        (Scalar::Int(whole_number), Scalar::Float(number))
        | (Scalar::Float(number), Scalar::Int(whole_number)) => {
            whole(*number) == Some(*whole_number)
        }
        _ => a == b,
    }
}
