//! Flaws in the text of a template that reading it shows: syntax, comparisons of shown values, and texts that are too
//! deep or too many.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::comparisons::{bound, compared};
use crate::held::{MOST_BRANCHES, too_many_operators};
use crate::template::{Kind, Tag, environment, first_word, line_of, tags};
use crate::trace::is_mark;

/// The words that begin a block. `set` begins one only without `=`.
const BLOCKS: [&str; 9] = [
    "if",
    "for",
    "macro",
    "call",
    "filter",
    "block",
    "with",
    "autoescape",
    "set",
];

/// A flaw in a text.
#[derive(Debug)]
pub(crate) struct Flaw {
    /// The bytes that are wrong.
    pub(crate) part: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Flaw {
    fn at(part: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            part,
            message: message.into(),
            hint: None,
        }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// Returns the flaws of a template, or of a text that may hold template expressions.
pub(crate) fn flaws(text: &str) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    if let Some((at, c)) = text.char_indices().find(|(_, c)| is_mark(*c)) {
        let message = "a private-use character (U+E000 to U+E01F), which the report reserves";
        flaws.push(Flaw::at(at..at + c.len_utf8(), message).hint("remove it"));
    }
    let deep = too_deep(text);
    if !deep.is_empty() {
        // Parsing it or its inclusions could overflow the stack.
        flaws.extend(deep);
        return flaws;
    }
    match syntax(text) {
        // What else is wrong with it may follow from this.
        Some(flaw) => flaws.push(flaw),
        None => flaws.extend(comparisons_of_shown_values(text)),
    }
    flaws
}

/// Returns the bytes of a tag on its first line.
fn of_tag(text: &str, tag: &Tag<'_>) -> Range<usize> {
    let whole = &text[tag.start..tag.end];
    let line = whole.lines().next().unwrap_or_default().trim_end();
    tag.start..tag.start + line.len()
}

/// Returns the flaw that keeps a text from parsing.
fn syntax(text: &str) -> Option<Flaw> {
    let error = environment().template_from_str(text).err()?;
    if let Some(flaw) = open_tag(text) {
        return Some(flaw);
    }
    // The words are those of the template engine.
    let detail = error.detail().unwrap_or("it cannot be read").to_owned();
    let line = error.line().unwrap_or(1);
    let start: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let written = text[start..].lines().next().unwrap_or_default();
    let indented = written.len() - written.trim_start().len();
    let of_line = start + indented..start + written.trim_end().len().max(indented);
    let token = error.range().filter(|range| {
        text.get(range.clone())
            .is_some_and(|part| !part.trim().is_empty())
    });
    let message = format!("the template does not parse: {detail}");
    let open = open_blocks(text, of_line.end);
    if detail.starts_with("unexpected end of input")
        && let Some((word, part)) = open.last()
    {
        let message = format!("the block that `{word}` begins has no end");
        return Some(
            Flaw::at(part.clone(), message).hint(format!("write `{{% end{word} %}}` behind it")),
        );
    }
    let flaw = Flaw::at(token.unwrap_or(of_line), message);
    let hint = remedy(&detail, written, text, &open);
    Some(match hint {
        Some(hint) => flaw.hint(hint),
        None => flaw,
    })
}

/// Returns the flaw of a tag without an end.
fn open_tag(text: &str) -> Option<Flaw> {
    let tag = tags(text).last()?;
    let close = match tag.kind {
        Kind::Block => "%}",
        Kind::Expression => "}}",
        Kind::Comment => "#}",
    };
    let begin = &text[tag.start..tag.start + 2];
    let ends = tag.start + 2 + tag.inner.len() + 2 == tag.end && text[..tag.end].ends_with(close);
    (!ends).then(|| {
        let message = format!("`{begin}` has no `{close}`");
        let hint = match tag.inner.contains(['"', '\'']) {
            true => format!("write `{close}` at its end, and close its quotes"),
            false => format!("write `{close}` at its end"),
        };
        Flaw::at(of_tag(text, &tag), message).hint(hint)
    })
}

/// Returns the blocks that are open before a byte: the word of each, and its tag.
fn open_blocks(text: &str, before: usize) -> Vec<(&str, Range<usize>)> {
    let mut open: Vec<(&str, Range<usize>)> = Vec::new();
    let blocks = tags(text).filter(|tag| tag.kind == Kind::Block);
    for tag in blocks.take_while(|tag| tag.end <= before || tag.start < before) {
        let word = first_word(tag.inner);
        if word == "set" && tag.inner.contains('=') {
            continue;
        }
        if BLOCKS.contains(&word) {
            open.push((word, of_tag(text, &tag)));
        } else if let Some(ended) = word.strip_prefix("end")
            && open.last().is_some_and(|(word, _)| *word == ended)
        {
            open.pop();
        }
    }
    open
}

/// Returns the remedy for a template that does not parse.
fn remedy(detail: &str, line: &str, text: &str, open: &[(&str, Range<usize>)]) -> Option<String> {
    if let Some(word) = detail.strip_prefix("unknown statement ") {
        return match (word.strip_prefix("end"), open.last()) {
            (Some(_), Some((begun, part))) => Some(format!(
                "write `end{begun}`: the open block here begins with `{begun}` in line {}",
                line_of(text, part.start)
            )),
            (Some(ended), None) if BLOCKS.contains(&ended) => {
                Some(format!("remove it: no block of `{ended}` is open here"))
            }
            (Some(""), None) => Some(
                "write `endif`, `endfor` or `endcall`, after the word that begins the block"
                    .to_owned(),
            ),
            _ if matches!(word, "elseif" | "elsif") => Some("write `elif`".to_owned()),
            _ => None,
        };
    }
    let hint = match detail {
        _ if line.contains("else if") || line.contains("elseif") || line.contains("elsif") => {
            "write `elif`"
        }
        _ if detail.starts_with("unexpected end of input") => {
            "a block lacks its end, such as `{% endfor %}`, `{% endif %}` or `{% endcall %}`"
        }
        _ if detail.starts_with("unexpected end of block, expected as") => {
            "a template imports templates only: `{% from \"macros.md\" import result %}`"
        }
        _ if line.contains("&&") => "write `and` in place of `&&`",
        _ if line.contains("||") => "write `or` in place of `||`",
        "unexpected `}`, expected `,`" | "unexpected `}`" if line.contains('(') => {
            "is a closing bracket missing before it?"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns the parts that could overflow the stack, or make many texts at once.
fn too_deep(text: &str) -> Vec<Flaw> {
    let (mut branches, mut flaws) = (0, Vec::new());
    for tag in tags(text).filter(|tag| tag.kind != Kind::Comment) {
        if tag.kind == Kind::Block && first_word(tag.inner) == "elif" {
            branches += 1;
            if branches == MOST_BRANCHES + 1 {
                let message = format!("more than {MOST_BRANCHES} `elif`");
                flaws.push(
                    Flaw::at(of_tag(text, &tag), message).hint("look the text up in a table"),
                );
            }
        }
        if let Some(wrong) = too_many_operators(tag.inner) {
            flaws.push(Flaw::at(of_tag(text, &tag), wrong));
        }
    }
    flaws
}

/// Finds shown values in comparisons, which the engine would compare by kind, without an error.
fn comparisons_of_shown_values(text: &str) -> Vec<Flaw> {
    let mut names = BTreeSet::new();
    let mut flaws = Vec::new();
    for tag in tags(text).filter(|t| t.kind != Kind::Comment) {
        if let Some(shown) = compared(tag.inner, &names) {
            let part = match tag.inner.find(&shown) {
                Some(at) => tag.start + 2 + at..tag.start + 2 + at + shown.len(),
                None => of_tag(text, &tag),
            };
            let message = format!("`{shown}` is a shown value, which cannot be compared");
            let hint = "compare a plain one: `raw(…)`, `row.column`, `rows(…)|length`, `plan(…)`";
            flaws.push(Flaw::at(part, message).hint(hint));
        }
        names.extend(bound(tag.inner, &names));
    }
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that each flaw marks, its message and its remedy.
    fn shown(text: &str) -> Vec<(&str, String, String)> {
        let shown = |flaw: Flaw| {
            (
                &text[flaw.part],
                flaw.message,
                flaw.hint.unwrap_or_default(),
            )
        };
        flaws(text).into_iter().map(shown).collect()
    }

    #[test]
    fn a_text_that_does_not_parse_has_one_flaw_with_its_part_and_remedy() {
        for (text, part, hint) in [
            (
                "a\n{% for r in rows(\"t\") %}\nb\n",
                "{% for r in rows(\"t\") %}",
                "write `{% endfor %}` behind it",
            ),
            (
                "a {% if x %}{% for r in t %}{% endfor %}\n",
                "{% if x %}",
                "write `{% endif %}` behind it",
            ),
            (
                "a\n{{ value(\"t\" }} b",
                "}",
                "is a closing bracket missing before it?",
            ),
            (
                "a\n{% endif %}\n",
                "endif",
                "remove it: no block of `if` is open here",
            ),
            (
                "{% if x %}\n{% endfor %}\n",
                "endfor",
                "write `endif`: the open block here begins with `if` in line 1",
            ),
            (
                "{% if x %}\n{% end %}\n",
                "end",
                "write `endif`: the open block here begins with `if` in line 1",
            ),
            (
                "b {{ value(\"t }}\nmore\n",
                "{{ value(\"t }}",
                "write `}}` at its end, and close its quotes",
            ),
            ("b {# never\n", "{# never", "write `#}` at its end"),
            (
                "{% if a && b %}{% endif %}",
                "&",
                "write `and` in place of `&&`",
            ),
            ("{% if a %}{% else if b %}{% endif %}", "if", "write `elif`"),
        ] {
            let all = shown(text);
            assert_eq!(all.len(), 1, "{text}: {all:?}");
            assert_eq!(
                (all[0].0, all[0].2.as_str()),
                (part, hint),
                "{text}: {all:?}"
            );
        }
        assert!(shown("a {{ b }} {% if c %}{{ d.e('}}') }}{% endif %} {# f #}").is_empty());
    }
}
