//! Calls in a template that look up values, as far as their arguments are written out.

use std::ops::Range;

use crate::template::{Kind, first_word, tags};

/// The functions whose first argument is a table.
const FUNCTIONS: [&str; 27] = [
    "value",
    "raw",
    "count",
    "rows",
    "row",
    "lowest",
    "highest",
    "sides",
    "whole_table",
    "every",
    "no_row",
    "holds",
    "at_least",
    "at_most",
    "exactly",
    "only_these",
    "largest",
    "smallest",
    "between",
    "within",
    "monotone",
    "steepest",
    "different",
    "equivalent",
    "no_evidence",
    "not_worse",
    "consistent",
];

/// What a template asks before it reads what may be missing.
const QUESTIONS: [&str; 6] = [
    "has(",
    "stage(",
    "stages(",
    "outputs(",
    "defined",
    "declared(",
];

/// A call.
pub(crate) struct Call<'a> {
    /// The name of the function.
    pub(crate) function: &'a str,
    /// The arguments in order.
    pub(crate) arguments: Vec<Argument>,
    /// Whether it depends on a question about what exists.
    pub(crate) guarded: bool,
}

/// An argument of a call.
pub(crate) enum Argument {
    /// A text, with its bytes in the template.
    Text(String, Range<usize>),
    /// A mapping: its keys, with their bytes.
    Keys(Vec<(String, Range<usize>)>),
    /// Anything else, such as a variable.
    Other,
}

/// Returns the calls in a template.
pub(crate) fn calls(text: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    let mut questions: Vec<bool> = Vec::new();
    for tag in tags(text).filter(|tag| tag.kind != Kind::Comment) {
        let word = match tag.kind {
            Kind::Block => first_word(tag.inner),
            _ => "",
        };
        let asks = QUESTIONS
            .iter()
            .any(|question| tag.inner.contains(question));
        match word {
            "if" => questions.push(asks),
            "elif" => {
                if let Some(last) = questions.last_mut() {
                    *last |= asks;
                }
            }
            "endif" => {
                questions.pop();
            }
            _ => {}
        }
        let guarded = asks || questions.contains(&true);
        let begin = tag.start + 2;
        let (mut at, mut quote) = (0, None);
        while let Some(c) = tag.inner[at..].chars().next() {
            match quote {
                Some(_) if c == '\\' => at += 1,
                Some(open) if c == open => quote = None,
                Some(_) => {}
                None if matches!(c, '"' | '\'') => quote = Some(c),
                None => calls.extend(call_at(tag.inner, at, begin, guarded)),
            }
            at += tag.inner[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    calls
}

/// Returns the call of one of our functions that begins at a byte of a tag.
fn call_at(inner: &str, at: usize, begin: usize, guarded: bool) -> Option<Call<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    if inner[..at].chars().next_back().is_some_and(is_word) {
        return None;
    }
    let rest = &inner[at..];
    let function = *FUNCTIONS.iter().find(|name| {
        let after = rest.strip_prefix(**name);
        after.is_some_and(|after| after.trim_start().starts_with('('))
    })?;
    let open = at + rest.find('(')? + 1;
    let mut arguments = Vec::new();
    for part in split(inner, open) {
        let written = &inner[part.clone()];
        let start = part.start + written.len() - written.trim_start().len();
        arguments.push(argument(written.trim(), begin + start));
    }
    Some(Call {
        function: &rest[..function.len()],
        arguments,
        guarded,
    })
}

/// Splits what begins behind an opening bracket at the commas outside inner brackets, up to its closing bracket.
fn split(text: &str, open: usize) -> Vec<Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), open);
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (i, c) in text[open..].char_indices() {
        let at = open + i;
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => {
                parts.push(start..at);
                return parts;
            }
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// Reads an argument that begins at a byte of the template.
fn argument(written: &str, at: usize) -> Argument {
    if let Some(text) = literal(written) {
        return Argument::Text(text.to_owned(), at + 1..at + 1 + text.len());
    }
    if !written.starts_with('{') {
        return Argument::Other;
    }
    let entries = split(written, 1).into_iter();
    let keys = entries.filter_map(|entry| {
        let text = &written[entry.clone()];
        let start = entry.start + text.len() - text.trim_start().len();
        let key = text.trim_start();
        let quote = key.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let name = &key[1..=key[1..].find(quote)?];
        let begin = at + start + 1;
        Some((name.to_owned(), begin..begin + name.len()))
    });
    Argument::Keys(keys.collect())
}

/// Returns the text between the quotes if that is all, without escapes.
fn literal(written: &str) -> Option<&str> {
    let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let text = written.get(1..written.len().checked_sub(1)?)?;
    (written.len() > 1 && written.ends_with(quote) && !text.contains([quote, '\\'])).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_its_texts_and_the_keys_of_its_mappings() {
        let text = "a {{ value(\"r.m\", {\"x\": [1, \"b\"], 'y': n}, 'c') }} {# value('z') #} {% for r in rows('t.u', order=['d']) %}";
        let all = calls(text);
        let shown: Vec<String> = all
            .iter()
            .flat_map(|call| &call.arguments)
            .map(|argument| match argument {
                Argument::Text(name, part) => {
                    assert_eq!(&text[part.clone()], name);
                    name.clone()
                }
                Argument::Keys(keys) => {
                    let keys = keys.iter().map(|(name, part)| {
                        assert_eq!(&text[part.clone()], name);
                        name.as_str()
                    });
                    keys.collect::<Vec<_>>().join(" ")
                }
                Argument::Other => "-".to_owned(),
            })
            .collect();
        assert_eq!(shown, ["r.m", "x y", "c", "t.u", "-"]);
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_call_behind_a_question_is_guarded() {
        let guarded = |text: &str| calls(text)[0].guarded;
        assert!(guarded("{% if has('a.b') %}{{ count('a.b') }}{% endif %}"));
        assert!(guarded("{% if count('a.b') if has('a.b') %}{% endif %}"));
        assert!(!guarded("{% if has('a.b') %}{% endif %}{{ count('a.b') }}"));
        assert!(!guarded("{% if 1 %}{{ count('a.b') }}{% endif %}"));
    }
}
