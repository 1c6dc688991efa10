//! Columns that a template reads from rows: `row(…).show("COLUMN")`, and what it reads from a name that it gave to a row
//! or to rows of a table that is written out.

use std::ops::Range;

use crate::calls::{Argument, Asked, argument, asked, call_at, split};
use crate::template::{Kind, first_word};

/// The functions that return one row or several rows.
const ROWS: [&str; 4] = ["rows", "row", "lowest", "highest"];

/// A column that is read from a row.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    /// The table of the row, as `stage.output`.
    pub(crate) table: String,
    pub(crate) column: String,
    /// The bytes of the column in the template.
    pub(crate) part: Range<usize>,
}

/// The names that a part of a template gives, each with the table of its rows; `None` for everything else.
#[derive(Default)]
struct Names {
    given: Vec<(String, Option<String>)>,
    /// Whether names that it sets also hold behind its end.
    is_branch: bool,
}

/// Returns the columns that a template reads, except for those that it reads only if they exist.
pub(crate) fn reads(text: &str) -> Vec<Read> {
    let mut reads = Vec::new();
    let mut scopes = vec![Names::default()];
    for Asked {
        tag, if_defined, ..
    } in asked(text)
    {
        let word = match tag.kind {
            Kind::Block => first_word(tag.inner),
            _ => "",
        };
        match word {
            "if" | "for" | "macro" | "call" | "filter" | "block" | "with" | "autoescape" => {
                scopes.push(Names {
                    is_branch: word == "if",
                    ..Names::default()
                });
            }
            // The end of a block that has no beginning is reported as such.
            _ if scopes.len() > 1
                && word.starts_with("end")
                && !["endset", "endraw"].contains(&word) =>
            {
                scopes.pop();
            }
            _ => {}
        }
        if word == "for" {
            give(&mut scopes, tag.inner, word);
        }
        if !if_defined {
            of_tag(tag.inner, tag.start + 2, &scopes, &mut reads);
        }
        if word != "for" {
            give(&mut scopes, tag.inner, word);
        }
    }
    reads
}

/// Notes the names that a tag gives.
fn give(scopes: &mut [Names], inner: &str, word: &str) {
    let rest = inner.trim_matches(['-', '+']).trim();
    let rest = rest.strip_prefix(word).unwrap_or(rest).trim();
    let separator = match word {
        "for" => " in ",
        "set" | "with" => "=",
        "macro" | "call" => "(",
        _ => return,
    };
    let (names, value) = rest.split_once(separator).unwrap_or((rest, ""));
    let (names, table) = match word {
        "macro" | "call" => (value.split(')').next().unwrap_or_default(), None),
        _ => (names, table_of(value.trim(), scopes)),
    };
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let table = table.filter(|_| names.len() == 1);
    let last = scopes.len() - 1;
    let at = match word {
        "set" => scopes.iter().rposition(|scope| !scope.is_branch),
        _ => Some(last),
    };
    for name in names {
        let name = name.split('=').next().unwrap_or(name).trim().to_owned();
        if at != Some(last) {
            // Behind the branch, the name may be that of anything.
            scopes[last].given.push((name.clone(), table.clone()));
            scopes[at.unwrap_or_default()].given.push((name, None));
        } else {
            scopes[last].given.push((name, table.clone()));
        }
    }
}

/// Returns the table whose rows an expression is, if that is all.
fn table_of(expression: &str, scopes: &[Names]) -> Option<String> {
    let (table, rest) = match call_at(expression, 0, 0, false) {
        Some(call) if ROWS.contains(&call.function) => (
            first_text(&call.arguments)?,
            expression.get(call.end..)?.trim(),
        ),
        _ => {
            let end = expression.find(|c: char| !is_of_name(c));
            let (name, rest) = expression.split_at(end.unwrap_or(expression.len()));
            (table_named(name, scopes)?, rest.trim())
        }
    };
    let only_rows = rest.is_empty() || rest.starts_with("if ") || rest.starts_with("recursive");
    only_rows.then_some(table)
}

fn first_text(arguments: &[Argument]) -> Option<String> {
    match arguments.first() {
        Some(Argument::Text(text, _)) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the table of the rows that a name means now.
fn table_named(name: &str, scopes: &[Names]) -> Option<String> {
    let mut given = scopes
        .iter()
        .rev()
        .flat_map(|scope| scope.given.iter().rev());
    given.find(|(other, _)| other == name)?.1.clone()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds the columns that a tag reads, whose inner text begins at a byte of the template.
fn of_tag(inner: &str, begin: usize, scopes: &[Names], reads: &mut Vec<Read>) {
    let (mut at, mut quote, mut before) = (0, None, ' ');
    while let Some(c) = inner[at..].chars().next() {
        let mut next = at + c.len_utf8();
        match quote {
            Some(_) if c == '\\' => {
                next += inner[next..].chars().next().map_or(0, char::len_utf8);
            }
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if is_of_name(c) && !is_of_name(before) => {
                let end = inner[at..].find(|c: char| !is_of_name(c));
                let end = end.map_or(inner.len(), |end| at + end);
                let call = call_at(inner, at, begin, false);
                let call = call.filter(|call| ROWS.contains(&call.function));
                let row = match call {
                    // The rows of `rows(…)` are a list.
                    Some(call) if call.function != "rows" => {
                        first_text(&call.arguments).map(|table| (table, call.end))
                    }
                    Some(_) => None,
                    None if before != '.' => {
                        table_named(&inner[at..end], scopes).map(|table| (table, end))
                    }
                    None => None,
                };
                if let Some((table, end)) = row {
                    of_row(inner, end, begin, &table, reads);
                }
                next = end;
            }
            None => {}
        }
        before = inner[at..next].chars().next_back().unwrap_or(c);
        at = next;
    }
}

/// Adds the columns that are read from a row whose expression ends at a byte of a tag.
fn of_row(inner: &str, end: usize, begin: usize, table: &str, reads: &mut Vec<Read>) {
    let Some(rest) = inner.get(end..).and_then(|rest| rest.strip_prefix('.')) else {
        return;
    };
    let start = end + 1;
    let length = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(length);
    let mut read = |column: String, part: Range<usize>| {
        reads.push(Read {
            table: table.to_owned(),
            column,
            part,
        });
    };
    if !behind.trim_start().starts_with('(') {
        if !name.is_empty() {
            read(name.to_owned(), begin + start..begin + start + length);
        }
        return;
    }
    let columns = match name {
        "show" => 1,
        "interval" => 2,
        _ => return,
    };
    let open = start + length + behind.find('(').unwrap_or_default() + 1;
    for part in split(inner, open).into_iter().take(columns) {
        let written = &inner[part.clone()];
        let blanks = written.len() - written.trim_start().len();
        if let Argument::Text(column, part) = argument(written.trim(), begin + part.start + blanks)
        {
            read(column, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let reads = reads(text);
        let reads = reads.into_iter().map(|read| {
            assert_eq!(text[read.part], read.column);
            format!("{} {}", read.table, read.column)
        });
        reads.collect()
    }

    #[test]
    fn a_column_that_is_read_from_a_row_is_one_of_its_table() {
        for (text, columns) in [
            (
                r#"{{ row("a.b", {"x": 1}).show("c", "0.0") }}"#,
                &["a.b c"][..],
            ),
            (
                r#"{% for r in rows("a.b", order=["x"]) if r.d %}{{ r.show("c") }}{{ r.e }}{% endfor %}"#,
                &["a.b d", "a.b c", "a.b e"],
            ),
            (
                r#"{% set r = row("a.b") %}{{ r.interval( "l", 'h', "0") }}"#,
                &["a.b l", "a.b h"],
            ),
            (
                r#"{% set all = rows("a.b") %}{% for r in all %}{{ r.show("c") }}{% endfor %}"#,
                &["a.b c"],
            ),
            (
                r#"{% set top = highest("a.b", none, "n").n %}{{ top.x }}"#,
                &["a.b n"],
            ),
        ] {
            assert_eq!(shown(text), columns, "{text}");
        }
    }

    #[test]
    fn a_name_that_means_something_else_has_no_columns() {
        for text in [
            r#"{% for r in rows("a.b") %}{% endfor %}{{ r.show("c") }}"#,
            r#"{% for r in rows(name) %}{{ r.show("c") }}{% endfor %}"#,
            r#"{% for r in rows("a.b") | groupby("x") %}{{ r.grouper }}{% endfor %}"#,
            r#"{% set r = row("a.b") %}{% set r = other %}{{ r.show("c") }}"#,
            r#"{% set r = row("a.b") %}{% if x %}{% set r = row("d.e") %}{% endif %}{{ r.c }}"#,
            r#"{% set r = row("a.b") %}{% macro f(r, s=1) %}{{ r.c }}{% endmacro %}"#,
            r#"{% set r = row("a.b") %}{{ x.r.c }}{{ "r.c" }}{{ r.only() }}"#,
            r#"{% for r in rows("a.b") %}{% if r.c is defined %}{{ r.c }}{% endif %}{{ r.c|default("") }}{% endfor %}"#,
        ] {
            assert_eq!(shown(text), [""; 0], "{text}");
        }
    }
}
