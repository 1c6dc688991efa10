//! Templates: the templates that make up a report, and the marks that record where text came from.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior};

use crate::flaws::flaws;
use crate::held::{BYTES, Look, MOST_TEXT};
use crate::trace::origin_mark;

/// A template and its text, as in the parameters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Template {
    /// The name under which others include it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// A template, and bytes of it.
type PartOfTemplate = (Template, Range<usize>);

/// An error in a template.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The template, and the bytes of it that are wrong; `None` if it is the one that the settings name.
    pub(crate) place: Option<PartOfTemplate>,
    /// The name of the missing template, if that is the reason.
    pub(crate) missing: Option<String>,
}

impl Wrong {
    fn at(template: &Template, part: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            place: Some((template.clone(), part)),
            missing: None,
        }
    }
}

/// Returns the template and everything that it includes, imports or extends, without duplicates, in the order of first
/// mention.
///
/// # Errors
/// Everything that is wrong: a template that is missing, does not parse, includes a name that is not a literal, or
/// contains a character that the renderer reserves.
pub(crate) fn closure(
    name: &str,
    find: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Template>, Vec<Wrong>> {
    let (mut templates, mut seen, mut problems) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut waiting: Vec<(String, Option<PartOfTemplate>)> = vec![(name.to_owned(), None)];
    while let Some((name, from)) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(text) = find(&name) else {
            problems.push(Wrong {
                message: format!("no template `{name}`"),
                hint: None,
                place: from,
                missing: Some(name),
            });
            continue;
        };
        let template = Template { name, text };
        if template.text.len() > MOST_TEXT {
            let most = MOST_TEXT >> 20;
            let message = format!("the template has more than {most} MiB");
            problems.push(Wrong::at(&template, 0..0, message));
            continue;
        }
        let flaws = flaws(&template.text);
        if !flaws.is_empty() {
            problems.extend(flaws.into_iter().map(|flaw| Wrong {
                hint: flaw.hint,
                ..Wrong::at(&template, flaw.part, flaw.message)
            }));
            continue;
        }
        let mut next = Vec::new();
        for tag in tags(&template.text).filter(|t| t.kind == Kind::Block) {
            let inner = tag.inner.trim_matches(['-', '+']).trim();
            let mut words = inner.splitn(2, char::is_whitespace);
            if !matches!(
                words.next(),
                Some("include" | "import" | "from" | "extends")
            ) {
                continue;
            }
            match quoted(words.next().unwrap_or("")) {
                Some(other) => {
                    let at = tag.inner.find(other).unwrap_or_default() + tag.start + 2;
                    let place = (template.clone(), at..at + other.len());
                    next.push((other.to_owned(), Some(place)));
                }
                None => {
                    let message = "the name of an included template must be written out in quotes";
                    problems.push(Wrong::at(&template, tag.start..tag.end, message));
                }
            }
        }
        next.reverse();
        waiting.extend(next);
        templates.push(template);
    }
    if problems.is_empty() {
        Ok(templates)
    } else {
        Err(problems)
    }
}

/// The maximum number of instructions of one rendering: about 10⁷ take a second.
const FUEL: u64 = 100_000_000;

/// Returns an environment with our syntax and strictness, but no functions.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .expect("the default delimiters are valid"),
    );
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_debug(true);
    environment
}

/// Returns the text with a mark before the first visible character of every run of plain text on every line.
/// Whitespace, tags and line counts are unchanged, so the rendering is the same apart from the marks.
pub(crate) fn instrument(template: usize, text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut place = Place { line: 1, column: 1 };
    let mut at = 0;
    let (mut bodies, mut printed) = (Vec::new(), 0);
    for tag in tags(text) {
        let before = out.len();
        mark_plain(&mut out, template, &text[at..tag.start], &mut place);
        printed += out.len() - before;
        fill(&mut out, &mut bodies, printed, &tag);
        let whole = &text[tag.start..tag.end];
        match ends_inline(text, &tag) {
            // The line break after a statement belongs to the surrounding prose.
            true => out.push_str(&format!("{}+%}}", &whole[..whole.len() - 2])),
            false => out.push_str(whole),
        }
        if tag.kind == Kind::Block {
            let close = match tag.inner.as_bytes().last() {
                Some(b'-') => "-%}",
                Some(b'+') => "+%}",
                _ => "%}",
            };
            match crate::held::look(tag.inner, close) {
                Some(Look::Whole(call)) => out.push_str(&call),
                Some(Look::Body(call, bytes)) => {
                    bodies.push(Body {
                        word: first_word(tag.inner).to_owned(),
                        at: out.len() + bytes,
                        before: printed,
                    });
                    out.push_str(&call);
                }
                None => {}
            }
        }
        whole.chars().for_each(|c| place.pass(c));
        at = tag.end;
    }
    mark_plain(&mut out, template, &text[at..], &mut place);
    out
}

/// A body whose end has not been reached.
struct Body {
    /// The keyword of its opening tag.
    word: String,
    /// The position where its size is written.
    at: usize,
    /// The number of bytes of plain text before it.
    before: usize,
}

/// If this tag ends a body, writes the size of the body's plain text into the call at its beginning.
fn fill(out: &mut String, bodies: &mut Vec<Body>, printed: usize, tag: &Tag<'_>) {
    let ends = |body: &Body| first_word(tag.inner).strip_prefix("end") == Some(&body.word);
    if tag.kind == Kind::Block
        && bodies.last().is_some_and(ends)
        && let Some(body) = bodies.pop()
    {
        let bytes = format!("{:BYTES$} ", printed - body.before);
        out.replace_range(body.at..body.at + bytes.len(), &bytes);
    }
}

pub(crate) fn first_word(inner: &str) -> &str {
    let inner = inner.trim_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_ascii_alphabetic());
    &inner[..end.unwrap_or(inner.len())]
}

/// A place in a template, from 1.
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn pass(&mut self, c: char) {
        if c == '\n' {
            *self = Self {
                line: self.line + 1,
                column: 1,
            };
        } else {
            self.column += 1;
        }
    }
}

/// Whether a tag ends a statement at the end of a line of prose.
fn ends_inline(text: &str, tag: &Tag<'_>) -> bool {
    let line = text[..tag.start].rfind('\n').map_or(0, |i| i + 1);
    tag.kind == Kind::Block
        && tag.inner.trim() == "endcall"
        && text[tag.end..].starts_with('\n')
        && !text[line..tag.start].trim().is_empty()
}

fn mark_plain(out: &mut String, template: usize, plain: &str, place: &mut Place) {
    let mut blank = true;
    for c in plain.chars() {
        if c == '\n' {
            blank = true;
        } else if blank && !c.is_whitespace() {
            out.push_str(&origin_mark(template, place.line, place.column));
            blank = false;
        }
        place.pass(c);
        out.push(c);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Block,
    Expression,
    Comment,
}

pub(crate) struct Tag<'a> {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) inner: &'a str,
}

/// Finds the tags of a template: `{% … %}`, `{{ … }}`, `{# … #}`. Skips strings inside tags, and everything inside
/// `{% raw %}` up to its end.
pub(crate) fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut at = 0;
    let mut raw = false;
    std::iter::from_fn(move || {
        loop {
            // A single search for all three: three searches would each scan to the end of the text for every tag.
            let opens = |pair: &[u8]| pair[0] == b'{' && matches!(pair[1], b'%' | b'{' | b'#');
            let start = at + text.as_bytes()[at..].windows(2).position(opens)?;
            let (kind, close) = match &text[start..start + 2] {
                "{%" => (Kind::Block, "%}"),
                "{{" => (Kind::Expression, "}}"),
                _ => (Kind::Comment, "#}"),
            };
            let inner_start = start + 2;
            let length = if kind == Kind::Comment {
                text[inner_start..].find(close)
            } else {
                find_close(&text[inner_start..], close)
            };
            let inner_end = length.map_or(text.len(), |l| inner_start + l);
            let inner = &text[inner_start..inner_end];
            let word = inner.trim_matches(['-', '+']).trim();
            at = (inner_end + 2).min(text.len());
            if raw && !(kind == Kind::Block && word == "endraw") {
                at = inner_start;
                continue;
            }
            raw = kind == Kind::Block && word == "raw";
            return Some(Tag {
                kind,
                start,
                end: at,
                inner,
            });
        }
    })
}

fn find_close(text: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[i..].starts_with(close) => return Some(i),
            None => {}
        }
    }
    None
}

fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| *c == '"' || *c == '\'')?;
    text[1..].split_once(quote).map(|(inside, _)| inside)
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str) -> Option<String> {
        let text = match name {
            "a.md" => "{% include \"b.md\" %}\n{% from 'c.md' import x %}",
            "b.md" => "{% include 'c.md' %}",
            "c.md" => "{% macro x() %}{% endmacro %}",
            "bad.md" => "one\ntwo {% if %}",
            "loose.md" => "{% include missing %}{% include 'nowhere.md' %}",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn the_closure_holds_each_partial_once() {
        let names: Vec<_> = closure("a.md", &library)
            .unwrap()
            .into_iter()
            .map(|t| t.name)
            .collect();
        assert_eq!(names, ["a.md", "b.md", "c.md"]);
    }

    #[test]
    fn a_syntax_error_names_template_and_line() {
        let problems = closure("bad.md", &library).unwrap_err();
        let (template, part) = problems[0].place.clone().unwrap();
        assert_eq!(template.name, "bad.md", "{problems:?}");
        assert_eq!(line_of(&template.text, part.start), 2, "{problems:?}");
    }

    #[test]
    fn a_missing_or_computed_partial_is_a_problem() {
        let problems = closure("loose.md", &library).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn marks_change_nothing_but_themselves() {
        let text = "# T\n  {%- if true -%}\n  a {{ 'x }} y' }} b\n{%- endif %}\n{% raw %}{{ no }}{% endraw %}\n{# c\n #}end";
        let render = |text: &str| environment().render_str(text, ()).unwrap();
        assert_eq!(
            crate::trace::unmarked(&render(&instrument(0, text))),
            render(text)
        );
    }
}
