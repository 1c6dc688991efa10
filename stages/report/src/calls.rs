//! Calls in a template that look up values, as far as their arguments are written out.

use std::ops::Range;

use artifacts::Scalar;

use crate::template::{Kind, Tag, first_word, tags};

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
    /// The byte of the tag's inner text behind its closing bracket.
    pub(crate) end: usize,
}

/// An argument of a call.
pub(crate) enum Argument {
    /// A text, with its bytes in the template.
    Text(String, Range<usize>),
    /// A mapping.
    Mapping(Vec<Entry>),
    /// A list behind a name and `=`: the texts in it, with their bytes.
    Named(String, Vec<(String, Range<usize>)>),
    /// Anything else, such as a variable.
    Other,
}

/// An entry of a mapping.
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The bytes of the key in the template.
    pub(crate) part: Range<usize>,
    /// The values that are written out, with their bytes: one, or those of a list.
    pub(crate) values: Vec<(Scalar, Range<usize>)>,
}

/// A tag other than a comment.
pub(crate) struct Asked<'a> {
    pub(crate) tag: Tag<'a>,
    /// Whether it depends on a question about what exists.
    pub(crate) guarded: bool,
    /// Whether it depends on the question if a value is defined.
    pub(crate) if_defined: bool,
}

/// Returns the tags of a template, each with what is asked around it.
pub(crate) fn asked(text: &str) -> impl Iterator<Item = Asked<'_>> {
    let mut questions: Vec<(bool, bool)> = Vec::new();
    tags(text)
        .filter(|tag| tag.kind != Kind::Comment)
        .map(move |tag| {
            let word = match tag.kind {
                Kind::Block => first_word(tag.inner),
                _ => "",
            };
            let asks = QUESTIONS
                .iter()
                .any(|question| tag.inner.contains(question));
            let defined = ["defined", "default"]
                .iter()
                .any(|word| tag.inner.contains(word));
            match word {
                "if" => questions.push((asks, defined)),
                "elif" => {
                    if let Some(last) = questions.last_mut() {
                        last.0 |= asks;
                        last.1 |= defined;
                    }
                }
                "endif" => {
                    questions.pop();
                }
                _ => {}
            }
            Asked {
                guarded: asks || questions.iter().any(|(asks, _)| *asks),
                if_defined: defined || questions.iter().any(|(_, defined)| *defined),
                tag,
            }
        })
}

/// Returns the calls in a template.
pub(crate) fn calls(text: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    for Asked { tag, guarded, .. } in asked(text) {
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
pub(crate) fn call_at(inner: &str, at: usize, begin: usize, guarded: bool) -> Option<Call<'_>> {
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
    let (mut arguments, parts) = (Vec::new(), split(inner, open));
    let end = parts.last().map_or(inner.len(), |last| last.end + 1);
    for part in parts {
        let written = &inner[part.clone()];
        let start = part.start + written.len() - written.trim_start().len();
        arguments.push(argument(written.trim(), begin + start));
    }
    Some(Call {
        function: &rest[..function.len()],
        arguments,
        guarded,
        end,
    })
}

/// Splits what begins behind an opening bracket at the commas outside inner brackets, up to its closing bracket.
pub(crate) fn split(text: &str, open: usize) -> Vec<Range<usize>> {
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
pub(crate) fn argument(written: &str, at: usize) -> Argument {
    if let Some(text) = literal(written) {
        return Argument::Text(text.to_owned(), at + 1..at + 1 + text.len());
    }
    if let Some((name, list)) = written.split_once('=')
        && name.trim().chars().all(|c| c.is_alphanumeric() || c == '_')
        && !list.starts_with('=')
    {
        let values = values(list.trim(), at + written.len() - list.trim_start().len());
        let texts = values.into_iter().filter_map(|(value, part)| match value {
            Scalar::Text(text) => Some((text, part)),
            _ => None,
        });
        return Argument::Named(name.trim().to_owned(), texts.collect());
    }
    if !written.starts_with('{') {
        return Argument::Other;
    }
    let entries = split(written, 1).into_iter();
    let entries = entries.filter_map(|entry| {
        let text = &written[entry.clone()];
        let start = entry.start + text.len() - text.trim_start().len();
        let text = text.trim_start();
        let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let key = &text[1..=text[1..].find(quote)?];
        let begin = at + start + 1;
        let rest = &text[key.len() + 2..];
        let value = rest.trim_start().strip_prefix(':').unwrap_or_default();
        let behind = begin - 1 + text.len() - value.trim_start().len();
        Some(Entry {
            key: key.to_owned(),
            part: begin..begin + key.len(),
            values: values(value.trim(), behind),
        })
    });
    Argument::Mapping(entries.collect())
}

/// Returns the values that are written out at a byte of the template: one, or those of a list.
fn values(written: &str, at: usize) -> Vec<(Scalar, Range<usize>)> {
    let value = |written: &str, at: usize| match literal(written) {
        Some(text) => Some((Scalar::Text(text.to_owned()), at + 1..at + 1 + text.len())),
        None => {
            let number = serde_json::from_str(written).ok()?;
            Some((Scalar::from_json(&number)?, at..at + written.len()))
        }
    };
    if !written.starts_with('[') {
        return value(written, at).into_iter().collect();
    }
    let items = split(written, 1).into_iter();
    let items = items.filter_map(|item| {
        let text = &written[item.clone()];
        let start = item.start + text.len() - text.trim_start().len();
        value(text.trim(), at + start)
    });
    items.collect()
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
                Argument::Mapping(entries) => {
                    let entries = entries.iter().map(|entry| {
                        assert_eq!(&text[entry.part.clone()], entry.key);
                        let values = entry.values.iter();
                        let values = values.map(|(value, part)| {
                            let written = text[part.clone()].to_owned();
                            assert_eq!(value.to_string(), written);
                            written
                        });
                        format!("{}={}", entry.key, values.collect::<Vec<_>>().join("|"))
                    });
                    entries.collect::<Vec<_>>().join(" ")
                }
                Argument::Named(name, texts) => {
                    let texts = texts.iter().map(|(name, part)| {
                        assert_eq!(&text[part.clone()], name);
                        name.as_str()
                    });
                    format!("{name}:{}", texts.collect::<Vec<_>>().join("|"))
                }
                Argument::Other => "-".to_owned(),
            })
            .collect();
        assert_eq!(shown, ["r.m", "x=1|b y=", "c", "t.u", "order:d"]);
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
