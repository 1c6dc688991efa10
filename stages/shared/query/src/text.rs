//! What can be read from a query's text without parsing it: its names, and whether it has an
//! `order by`.

use std::collections::BTreeSet;

/// A piece of SQL.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A keyword or a bare name.
    Word(String),
    /// A quoted name.
    Name(String),
    /// Any single character.
    Sign(char),
}

/// Splits SQL into words, quoted names and signs. Comments, literal text and blanks are dropped.
fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '-' if rest.peek() == Some(&'-') => while rest.next().is_some_and(|c| c != '\n') {},
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut last = ' ';
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '\'' | '"' | '`' | '[' => {
                let end = if c == '[' { ']' } else { c };
                let mut text = String::new();
                while let Some(inner) = rest.next() {
                    // A doubled quote is an escaped quote.
                    if inner == end && (c == '[' || rest.next_if_eq(&end).is_none()) {
                        break;
                    }
                    text.push(inner);
                }
                if c != '\'' {
                    tokens.push(Token::Name(text));
                }
            }
            c if is_word(c) => {
                let mut text = String::from(c);
                while let Some(c) = rest.next_if(|c| is_word(*c)) {
                    text.push(c);
                }
                tokens.push(Token::Word(text));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Sign(c)),
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// Returns the names in a query, in lower case: tables and columns, and also keywords. A table that
/// is not in this set is not read.
pub fn mentioned(sql: &str) -> BTreeSet<String> {
    let name = |token: Token| match token {
        Token::Word(name) | Token::Name(name) => Some(name.to_lowercase()),
        Token::Sign(_) => None,
    };
    tokens(sql).into_iter().filter_map(name).collect()
}

/// Returns whether the query as a whole (not a part in parentheses) has an `order by`.
pub(crate) fn says_order(sql: &str) -> bool {
    let mut depth = 0_i64;
    let mut order = false;
    for token in tokens(sql) {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            Token::Word(word) if depth == 0 && order && word.eq_ignore_ascii_case("by") => {
                return true;
            }
            _ => {}
        }
        order = false;
        if let Token::Word(word) = &token {
            order = word.eq_ignore_ascii_case("order");
        }
    }
    false
}

/// Returns the names of tables that a query itself defines (`with NAME as (…)`), in lower case.
pub(crate) fn own_tables(sql: &str) -> BTreeSet<String> {
    let tokens = tokens(sql);
    let is = |at: usize, word: &str| matches!(tokens.get(at), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word));
    let sign = |at: usize, c: char| tokens.get(at) == Some(&Token::Sign(c));
    let mut names = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        let (Token::Word(name) | Token::Name(name)) = token else {
            continue;
        };
        let mut at = i + 1;
        if sign(at, '(') {
            // A list of columns.
            while at < tokens.len() && !sign(at, ')') {
                at += 1;
            }
            at += 1;
        }
        if !is(at, "as") {
            continue;
        }
        at += 1;
        at += usize::from(is(at, "not"));
        at += usize::from(is(at, "materialized"));
        if sign(at, '(') {
            names.insert(name.to_lowercase());
        }
    }
    names
}

/// Returns the first word in lower case.
pub(crate) fn first_word(sql: &str) -> Option<String> {
    tokens(sql).into_iter().find_map(|t| match t {
        Token::Word(word) => Some(word.to_lowercase()),
        _ => None,
    })
}

/// Returns the line and column (in characters, from 1) of a byte.
pub(crate) fn place(sql: &str, offset: usize) -> (usize, usize) {
    let before = sql.get(..offset).unwrap_or(sql);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_order_of_the_whole_query_counts() {
        for sql in [
            "select 1 order by 1",
            "SELECT a FROM b\nORDER\tBY a",
            "select 1 order/*x*/by 1",
        ] {
            assert!(says_order(sql), "{sql}");
        }
        for sql in [
            "select 1",
            "select * from (select a from b order by a)",
            "select row_number() over (order by a) from b",
            "select 'order by' from b -- order by a",
            "select \"order\" from b /* order by a */",
            "select [order by a] from b",
        ] {
            assert!(!says_order(sql), "{sql}");
        }
    }

    #[test]
    fn names_are_found_however_they_are_quoted() {
        let names = mentioned(
            "select a.\"b\"\"c\", 'text' from \"results.cells\" a -- other\n join [X y] on `z`",
        );
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "a",
                "b\"c",
                "from",
                "join",
                "on",
                "results.cells",
                "select",
                "x y",
                "z"
            ]
        );
    }

    #[test]
    fn tables_of_a_querys_own_are_found() {
        let own = own_tables(
            "with a as (select 1), \"B c\"(x, y) as not materialized (select 2) select q as r from a",
        );
        assert_eq!(own.into_iter().collect::<Vec<_>>(), ["a", "b c"]);
    }

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        assert_eq!(place("select 1", 0), (1, 1));
        assert_eq!(place("select 'é',\n  x", 15), (2, 3));
    }

    #[test]
    fn text_that_never_ends_does_not_hang() {
        for sql in ["'", "\"", "/*", "--", "[", "select 'a''"] {
            mentioned(sql);
            assert!(!says_order(sql));
        }
    }
}
