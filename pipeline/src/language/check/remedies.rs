//! What to do about a value that does not fit.

use super::super::diagnostics::Mistake;
use super::super::tree::{Node, Value};
use super::view::View;

/// Returns the remedy for a word of another tool, from the phrase that says what it is here.
pub(super) fn instead(ours: &str) -> String {
    if ours.starts_with('`') {
        format!("write {ours}")
    } else {
        format!("it is {ours}")
    }
}

pub(super) fn wrong_type(mistake: Mistake, view: &View, node: &Node) -> Mistake {
    let types = view.types();
    let wants = |t: &str| types.contains(&t);
    let hint = match &node.value {
        Value::Text(text) if view.other_word(text).is_some() => {
            view.other_word(text).map(instead).unwrap_or_default()
        }
        Value::Text(text) if foreign_placeholder(text).is_some() => {
            let name = foreign_placeholder(text).unwrap_or_default();
            format!("a placeholder is written `\"${{{name}}}\"`")
        }
        Value::Text(text) if text.contains("${") => {
            "placeholders are not resolved here; write the value itself".to_owned()
        }
        Value::Text(text)
            if wants("boolean") && matches!(text.as_str(), "yes" | "on" | "Yes" | "On") =>
        {
            "write `true`".to_owned()
        }
        Value::Text(text)
            if wants("boolean") && matches!(text.as_str(), "no" | "off" | "No" | "Off") =>
        {
            "write `false`".to_owned()
        }
        Value::Text(text)
            if (wants("integer") || wants("number"))
                && text.trim().parse::<f64>().is_ok_and(|n| !n.is_finite()) =>
        {
            "use a finite number, or omit the key if there is no limit".to_owned()
        }
        Value::Text(text) if wants("object") && (text.contains(":[") || text.contains(":{")) => {
            "put a space after the colon".to_owned()
        }
        Value::Text(text)
            if (wants("integer") || wants("number")) && text.trim().parse::<f64>().is_ok() =>
        {
            format!("write {} without quotes", text.trim())
        }
        Value::Text(text)
            if (wants("integer") || wants("number")) && leading_number(text).is_some() =>
        {
            let number = leading_number(text).unwrap_or_default();
            format!("write the number alone: {number}")
        }
        Value::Float(value) if wants("integer") && value.fract() == 0.0 => format!("write {value}"),
        Value::Int(value) if view.is_duration() => {
            format!("add the unit: `{value} s`")
        }
        Value::Int(_) | Value::Float(_) if view.format() == Some("percent") => {
            "write the share in percent, with the sign: `3 %`".to_owned()
        }
        Value::Int(_) | Value::Float(_) | Value::Bool(_) if wants("string") => {
            "put it in quotes if it is text".to_owned()
        }
        Value::Null => "give a value, or remove the key".to_owned(),
        _ if wants("array") && !matches!(node.value, Value::Map(_)) => {
            "write it as `[…]`".to_owned()
        }
        _ => match view.description() {
            Some(text) => format!("what belongs here: {}", first_sentence(text)),
            None => format!("give {}", view.expected()),
        },
    };
    mistake.hint(hint)
}

/// Whether the text is a number and a unit of time.
pub(super) fn is_span(text: &str) -> bool {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let known = ["h", "min", "s", "ms", "us", "ns"].contains(&unit);
    known
        && number
            .trim()
            .parse::<f64>()
            .is_ok_and(|n| n.is_finite() && n >= 0.0)
}

/// Returns the name in a placeholder as shells (`$name`) and templates (`{{name}}`) write it.
fn foreign_placeholder(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = match text.strip_prefix("{{") {
        Some(rest) => rest.strip_suffix("}}")?.trim(),
        None => text.strip_prefix('$')?,
    };
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    named.then_some(name)
}

/// Returns the number that a text begins with, where only a word follows: `16` of `16 requests`, `1.5` of `1.5x`.
fn leading_number(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, rest) = text.split_at(end);
    let word = rest.trim();
    let is_word = word.chars().all(|c| c.is_alphabetic() || "/%".contains(c));
    (is_word && number.parse::<f64>().is_ok()).then_some(number)
}

/// Describes a value without the word for its type.
pub(super) fn bare(node: &Node) -> String {
    match node.text() {
        Some(text) => format!("`{text}`"),
        None => node.describe(),
    }
}

pub(super) fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}
